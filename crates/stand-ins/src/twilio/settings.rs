//! Settings of the Twilio stand-in: accounts and their keys.

use std::{fmt, str::FromStr};

use crate::harness::HarnessSettings;

/// A key for signatures that is shared by several services.
#[derive(Clone)]
pub struct SharedKey {
    /// Its id.
    pub id: String,
    /// The key.
    pub secret: String,
}

/// An account.
#[derive(Clone)]
pub struct TwilioAccount {
    /// `AC...`
    pub sid: String,
    /// Password of the account, and key of signatures.
    pub auth_token: String,
    /// An API key: sid and secret.
    pub api_key: Option<(String, String)>,
    /// Its phone numbers, `+...`. Messages may come from these, and from `whatsapp:` with these.
    pub numbers: Vec<String>,
    /// Signs with this key and SHA-256 instead of the auth token and SHA-1.
    pub shared_key: Option<SharedKey>,
}

impl TwilioAccount {
    /// Whether these are credentials of the account.
    pub(super) fn accepts(&self, user: &str, password: &str) -> bool {
        (user == self.sid && password == self.auth_token)
            || self.api_key.as_ref().is_some_and(|(sid, secret)| user == sid && password == secret)
    }

    /// Whether the account may send from here.
    pub(super) fn owns(&self, from: &str) -> bool {
        self.numbers.iter().any(|number| number == from.trim_start_matches("whatsapp:"))
    }
}

/// `<account sid>:<auth token>:<number>`, as a command line names an account.
impl FromStr for TwilioAccount {
    type Err = String;
    fn from_str(text: &str) -> Result<TwilioAccount, String> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            [sid, auth_token, number]
                if sid.starts_with("AC") && !auth_token.is_empty() && number.starts_with('+') =>
            {
                Ok(TwilioAccount {
                    sid: sid.to_owned(),
                    auth_token: auth_token.to_owned(),
                    api_key: None,
                    numbers: vec![number.to_owned()],
                    shared_key: None,
                })
            }
            _ => Err("write an account as AC<sid>:<auth token>:+<number>".to_owned()),
        }
    }
}

impl fmt::Debug for TwilioAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TwilioAccount").field("sid", &self.sid).finish_non_exhaustive()
    }
}

/// Settings of the stand-in.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Address and sizes.
    pub harness: HarnessSettings,
    /// Accounts. Default: none, so every call is unauthenticated.
    pub accounts: Vec<TwilioAccount>,
    /// Messages a second of one account. Default none: no limit.
    pub messages_per_second: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_named_by_its_sid_and_its_token_is_not_printed() {
        let account: TwilioAccount = "AC1:canary:+15550100".parse().unwrap();
        assert!(account.owns("+15550100") && account.owns("whatsapp:+15550100") && !account.owns("+1"));
        assert!(account.accepts("AC1", "canary") && !account.accepts("AC1", "other"));
        assert!(!format!("{account:?}").contains("canary"));
        for wrong in ["", "AC1", "XX:a:+1", "AC1::+1", "AC1:a:1"] {
            assert!(wrong.parse::<TwilioAccount>().is_err(), "{wrong}");
        }
    }
}
