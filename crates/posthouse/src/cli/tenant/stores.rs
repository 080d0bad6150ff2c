//! Options of `posthouse tenant change` for the stores of skills and data.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use crate::cli::prompt;
use crate::cli::server_address::read_secret;

/// Where skills and data are, with the secrets of stores at URLs.
#[derive(Args)]
pub struct StoreArgs {
    /// Where its skills are: `ledger`, a URL, `custom:NAME`, `filesystem:DIR` or `sqlite:FILE` (below a folder of
    /// `workshop.roots`)
    #[arg(long, value_name = "STORE", group = "what")]
    skill_store: Option<String>,
    /// File with the value of the Authorization header for the skill store at a URL
    #[arg(long, value_name = "FILE", group = "what")]
    skill_store_authorization_file: Option<PathBuf>,
    /// File with the secret that signs requests to the skill store at a URL
    #[arg(long, value_name = "FILE", group = "what")]
    skill_store_hmac_secret_file: Option<PathBuf>,
    /// Where its data is: `ledger`, a URL, `custom:NAME`, or `sqlite:FILE` below a folder of `workshop.roots`
    #[arg(long, value_name = "STORE", group = "what")]
    data_store: Option<String>,
    /// File with the value of the Authorization header for the data store at a URL
    #[arg(long, value_name = "FILE", group = "what")]
    data_store_authorization_file: Option<PathBuf>,
    /// File with the secret that signs requests to the data store at a URL
    #[arg(long, value_name = "FILE", group = "what")]
    data_store_hmac_secret_file: Option<PathBuf>,
}

impl StoreArgs {
    /// The members of the request. On a terminal, the secret of a new URL is asked for if no file has one.
    pub fn members(&self) -> anyhow::Result<Map<String, Value>> {
        let mut members = Map::new();
        for (kind, store, authorization, hmac_secret) in [
            (
                "skill_store",
                &self.skill_store,
                self.skill_store_authorization_file.as_deref(),
                self.skill_store_hmac_secret_file.as_deref(),
            ),
            (
                "data_store",
                &self.data_store,
                self.data_store_authorization_file.as_deref(),
                self.data_store_hmac_secret_file.as_deref(),
            ),
        ] {
            if let Some(store) = store {
                members.insert(kind.to_owned(), json!(store));
            }
            let is_url = store.as_ref().is_some_and(|store| store.starts_with("http"));
            let asks = is_url && authorization.is_none() && hmac_secret.is_none() && prompt::is_interactive();
            let mut put = |name: &str, secret: posthouse_wire::Secret| {
                members.insert(format!("{kind}_{name}"), secret.expose().into());
            };
            if asks {
                put("hmac_secret", prompt::secret("Secret that signs requests to the store")?);
            }
            let read = |file: Option<&Path>| file.map(read_secret).transpose();
            if let Some(secret) = read(authorization)? {
                put("authorization", secret);
            }
            if let Some(secret) = read(hmac_secret)? {
                put("hmac_secret", secret);
            }
        }
        Ok(members)
    }
}
