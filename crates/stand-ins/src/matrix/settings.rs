//! Settings of the Matrix stand-in: accounts, limits.

use std::{fmt, str::FromStr};

use crate::harness::HarnessSettings;

/// A user with a token of their own: the user of an application service if it has an `hs_token`.
#[derive(Clone)]
pub struct MatrixAccount {
    /// User id.
    pub user: String,
    /// Access token, or `as_token`.
    pub token: String,
    /// Token of transactions.
    pub hs_token: Option<String>,
}

/// `<user id>=<token>` or `<user id>=<as_token>=<hs_token>`, as a command line names an account.
impl FromStr for MatrixAccount {
    type Err = String;
    fn from_str(text: &str) -> Result<MatrixAccount, String> {
        let mut parts = text.splitn(3, '=').map(str::to_owned);
        let (user, token, hs_token) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let token = token.filter(|token| !token.is_empty());
        match token.filter(|_| user.starts_with('@') && user.contains(':')) {
            Some(token) if hs_token.as_deref() != Some("") => Ok(MatrixAccount { user, token, hs_token }),
            _ => Err("write an account as @NAME:SERVER=TOKEN or @NAME:SERVER=AS_TOKEN=HS_TOKEN".to_owned()),
        }
    }
}

impl MatrixAccount {
    /// The server that the user id names.
    pub(super) fn server(&self) -> &str {
        self.user.split_once(':').map_or("", |(_, server)| server)
    }
}

impl fmt::Debug for MatrixAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MatrixAccount").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Rate limits.
#[derive(Clone, Copy, Debug)]
pub struct MatrixLimits {
    /// Messages in ten seconds of one user. Default 10.
    pub messages_per_10_seconds: u32,
}

impl Default for MatrixLimits {
    fn default() -> MatrixLimits {
        MatrixLimits { messages_per_10_seconds: 10 }
    }
}

/// Settings of the stand-in.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Address and sizes.
    pub harness: HarnessSettings,
    /// Accounts. Default: none, so every call is unauthorized.
    pub accounts: Vec<MatrixAccount>,
    /// Default none: no limits.
    pub limits: Option<MatrixLimits>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_named_by_its_user_and_its_secrets_are_not_printed() {
        let account: MatrixAccount = "@posty:hs.test=canary-as=canary-hs".parse().unwrap();
        assert_eq!((&*account.user, account.server()), ("@posty:hs.test", "hs.test"));
        assert_eq!(account.hs_token.as_deref(), Some("canary-hs"));
        assert!(!format!("{account:?}").contains("canary"));
        assert!("@posty:hs.test=canary".parse::<MatrixAccount>().unwrap().hs_token.is_none());
        for wrong in ["", "posty=a", "@posty:hs.test", "@posty:hs.test=", "@posty:hs.test=a="] {
            assert!(wrong.parse::<MatrixAccount>().is_err(), "{wrong}");
        }
    }
}
