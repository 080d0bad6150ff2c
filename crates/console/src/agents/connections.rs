//! Admin API: connections of an agent.

use ledger::Generation;
use posthouse_wire::GatewayId;
use relay::Connection;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct ShownConnection {
    gateway_id: GatewayId,
    /// `live`, `reserve` or `standby`.
    role: &'static str,
    since: String,
    /// What the hello of this socket proved: `unproven`, `newer` or `sdk`.
    generation: &'static str,
    /// The field of the hello that proved it.
    sign: Option<&'static str>,
    /// The generation that the operator pinned for its credential.
    pinned: &'static str,
    /// Whether the server waited `relay.settle` before the first message.
    settles: bool,
    /// The same as text.
    status: String,
}

impl From<Connection> for ShownConnection {
    fn from(connection: Connection) -> Self {
        let Connection { gateway, role, since, proof, pinned } = connection;
        let settles = proof.settles(pinned);
        let proved = match proof.sign() {
            Some(sign) => format!("{} (its hello carries {sign})", proof.generation()),
            None => "unproven".to_owned(),
        };
        let pin = match pinned {
            Generation::Auto => String::new(),
            pinned => format!(", pinned to {}", pinned.as_str()),
        };
        let waits = if settles { "first message after a pause" } else { "first message at once" };
        Self {
            gateway_id: gateway,
            role,
            since: since.to_string(),
            generation: proof.generation(),
            sign: proof.sign(),
            pinned: pinned.as_str(),
            settles,
            status: format!("{proved}{pin}, {waits}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use relay::Proof;

    use super::*;

    fn status(proof: Proof, pinned: Generation) -> String {
        let (gateway, since) = (GatewayId::new("gw-1"), posthouse_time::Moment::default());
        ShownConnection::from(Connection { gateway, role: "live", since, proof, pinned }).status
    }

    #[test]
    fn a_socket_is_shown_with_what_it_proved_and_by_which_sign() {
        assert_eq!(status(Proof::Unproven, Generation::Auto), "unproven, first message after a pause");
        assert_eq!(
            status(Proof::CommandManifest, Generation::Auto),
            "newer (its hello carries command_manifest), first message at once"
        );
        assert_eq!(
            status(Proof::Client, Generation::Auto),
            "sdk (its hello carries client), first message at once"
        );
        assert_eq!(
            status(Proof::Unproven, Generation::Newer),
            "unproven, pinned to newer, first message at once"
        );
    }
}
