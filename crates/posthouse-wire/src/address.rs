//! Where a connector is found: every address that follows from the one URL an operator configures.

/// The addresses below one configured relay URL (relay contract section 2). Pure text work: nothing is
/// resolved and nothing is checked, a URL that cannot be dialed fails when it is dialed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The socket, `ws` or `wss`.
    pub dial: String,
    pub provision: String,
    pub policy: String,
    pub enroll: String,
    root: String,
}

impl Addresses {
    /// Takes `http`, `https`, `ws` and `wss`, with or without a trailing `/relay`; a base path is kept.
    /// A text without one of these schemes keeps whatever stands before its path.
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

    /// The HTTP address of another path of the same house, such as `/manage/status`.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.root)
    }
}

fn rescheme(url: &str, from: &str, to: &str) -> Option<String> {
    url.strip_prefix(from).map(|rest| format!("{to}{rest}"))
}
