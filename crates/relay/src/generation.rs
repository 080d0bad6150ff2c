//! Gateway version (generation) that a socket has proved, and the evidence for it (relay contract section 26).
//!
//! The proof belongs to one socket and ends with it. Later requests prove nothing, and nothing is remembered for the
//! next socket: a credential may be restarted with another version, or be shared by two.

use ledger::Generation;
use posthouse_wire::frame::Hello;

/// What a socket's hellos proved about the program behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Proof {
    /// Every version of the stock gateway sends such a hello.
    #[default]
    Unproven,
    /// A hello carried `command_manifest`: a stock gateway of a version that keeps early events.
    CommandManifest,
    /// A hello carried `client`: an SDK agent.
    Client,
}

impl Proof {
    pub(crate) fn of(hello: &Hello) -> Self {
        match hello {
            _ if hello.client.is_some() => Proof::Client,
            _ if hello.command_manifest.is_some() => Proof::CommandManifest,
            _ => Proof::Unproven,
        }
    }

    /// Name of the hello field that proved it.
    pub fn sign(self) -> Option<&'static str> {
        match self {
            Proof::Unproven => None,
            Proof::CommandManifest => Some("command_manifest"),
            Proof::Client => Some("client"),
        }
    }

    /// Name of the proved generation.
    pub fn generation(self) -> &'static str {
        match self {
            Proof::Unproven => "unproven",
            Proof::CommandManifest => "newer",
            Proof::Client => "sdk",
        }
    }

    /// Whether a socket gets nothing for a while after its hello, because its process may drop messages while it
    /// starts. If in doubt, it waits: waiting costs seconds, not waiting costs messages.
    pub fn settles(self, pinned: Generation) -> bool {
        match (self, pinned) {
            (Proof::Client, _) | (_, Generation::Newer) => false,
            (_, Generation::Stock019) => true,
            (proof, Generation::Auto) => proof == Proof::Unproven,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_settles_unless_its_hello_or_a_pin_says_that_it_need_not() {
        use Generation::{Auto, Newer, Stock019};
        for (proof, pinned, settles) in [
            (Proof::Unproven, Auto, true),
            (Proof::Unproven, Stock019, true),
            (Proof::Unproven, Newer, false),
            (Proof::CommandManifest, Auto, false),
            (Proof::CommandManifest, Stock019, true),
            (Proof::Client, Auto, false),
            (Proof::Client, Stock019, false),
        ] {
            assert_eq!(proof.settles(pinned), settles, "{proof:?}, pinned to {pinned:?}");
        }
    }
}
