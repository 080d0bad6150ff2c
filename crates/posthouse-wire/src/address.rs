//! Addresses of a server: all URLs of the relay that follow from the one URL that an operator configures, and whether a
//! host is this machine.

use std::net::IpAddr;

/// Whether the host of a URL is this machine. No proxy can reach such a host for the caller.
pub fn is_this_machine(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The addresses below one configured relay URL (relay contract section 2). They are derived as text only: nothing is
/// resolved or checked, and a wrong URL fails when it is dialed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// URL of the socket, `ws` or `wss`.
    pub dial: String,
    pub provision: String,
    pub policy: String,
    pub enroll: String,
    root: String,
}

impl Addresses {
    /// Accepts `http`, `https`, `ws` and `wss`, with or without a trailing `/relay`. A base path is kept. A text
    /// without one of these schemes stays as it is before the path.
    pub fn of(configured: &str) -> Self {
        let base = configured.trim().trim_end_matches('/');
        let base = base.strip_suffix("/relay").unwrap_or(base);
        let root = rescheme(base, "ws://", "http://").or_else(|| rescheme(base, "wss://", "https://"));
        let root = root.unwrap_or_else(|| base.to_owned());
        let dial = rescheme(base, "http://", "ws://").or_else(|| rescheme(base, "https://", "wss://"));
        Self {
            dial: dial.unwrap_or_else(|| base.to_owned()) + "/relay",
            provision: format!("{root}/relay/provision"),
            policy: format!("{root}/relay/policy"),
            enroll: format!("{root}/relay/enroll"),
            root,
        }
    }

    /// HTTP URL of another path on the same server, such as `/manage/status`.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.root)
    }
}

fn rescheme(url: &str, from: &str, to: &str) -> Option<String> {
    url.strip_prefix(from).map(|rest| format!("{to}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_hosts_are_this_machine() {
        for host in ["localhost", "127.0.0.1", "127.8.8.8", "[::1]", "::1"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["", "post.example", "10.0.0.1", "[::2]", "localhost.example"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
