//! `posthouse signing-key` and `posthouse scheduler-secret`: keys of fire tokens, secrets of external
//! schedulers.

use clap::Subcommand;
use serde_json::json;

use super::client::AdminClient;
use super::output::Output;

#[derive(Subcommand)]
pub enum SigningKeyCommand {
    /// Lists the keys with which agents verify fire tokens
    #[command(after_help = "Example:\n  posthouse signing-key list")]
    List,
    /// Creates a new key; it is published now and signs in ten minutes, when every agent knows it
    #[command(
        after_help = "Examples:\n  posthouse signing-key rotate\n  posthouse signing-key rotate --at-once"
    )]
    Rotate {
        /// ES256 or RS256; by default as configured
        #[arg(long)]
        algorithm: Option<String>,
        /// Sign with the new key from now on; use this if the old key was leaked or lost
        #[arg(long)]
        at_once: bool,
    },
}

#[derive(Subcommand)]
pub enum Schedulers {
    /// Lists the secrets of external schedulers by name, without the secrets themselves
    #[command(after_help = "Example:\n  posthouse scheduler-secret list")]
    List,
    /// Creates a new secret and prints it only once; the old one stays valid for a day
    #[command(after_help = "Example:\n  posthouse scheduler-secret rotate")]
    Rotate,
    /// Revokes all secrets: the HTTP route for external schedulers is closed
    #[command(after_help = "Example:\n  posthouse scheduler-secret revoke")]
    Revoke,
}

impl SigningKeyCommand {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            SigningKeyCommand::List => {
                let columns = [
                    ("KEY", "kid"),
                    ("ALGORITHM", "algorithm"),
                    ("MADE", "created_at"),
                    ("SIGNS FROM", "signs_from"),
                    ("PUBLISHED UNTIL", "published_until"),
                ];
                output.list(client.list(&["signing-keys"], &[]).await?, &columns, "there is no key")
            }
            SigningKeyCommand::Rotate { algorithm, at_once } => {
                let body = json!({ "algorithm": algorithm, "at_once": at_once });
                let key = client.post(&["signing-keys"], &[], &body).await?;
                let told = format!(
                    "{} signs from {}",
                    key["kid"].as_str().unwrap_or_default(),
                    key["signs_from"].as_str().unwrap_or_default()
                );
                output.done(&key, &told)
            }
        }
    }
}

impl Schedulers {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Schedulers::List => {
                let columns = [("NAME", "name"), ("MADE", "created_at"), ("GOOD UNTIL", "good_until")];
                let none = "there are no secrets: external schedulers are refused";
                output.list(client.list(&["scheduler-secrets"], &[]).await?, &columns, none)
            }
            Schedulers::Rotate => {
                let made = client.post(&["scheduler-secrets"], &[], &json!({})).await?;
                let secret = made["secret"].as_str().unwrap_or_default().to_owned();
                output.done(&made, &secret)
            }
            Schedulers::Revoke => {
                let answer = client.delete(&["scheduler-secrets"], &[]).await?;
                output.done(&answer, "external schedulers are refused from now on")
            }
        }
    }
}
