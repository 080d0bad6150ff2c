//! `posthouse signing-key` and `posthouse scheduler-secret`

use clap::Subcommand;
use serde_json::json;

use super::client::Client;
use super::paper::Paper;

#[derive(Subcommand)]
pub enum Keys {
    /// Lists the keys that agents check fire tokens with
    #[command(after_help = "Example:\n  posthouse signing-key list")]
    List,
    /// Makes a new key; it is published now and signs in ten minutes, when every agent knows it
    #[command(
        after_help = "Examples:\n  posthouse signing-key rotate\n  posthouse signing-key rotate --at-once"
    )]
    Rotate {
        /// ES256 or RS256; without it, as configured
        #[arg(long)]
        algorithm: Option<String>,
        /// Sign with it from now on: for a key that was lost
        #[arg(long)]
        at_once: bool,
    },
}

#[derive(Subcommand)]
pub enum Schedulers {
    /// Lists the secrets that outside schedulers sign with, without the secrets
    #[command(after_help = "Example:\n  posthouse scheduler-secret list")]
    List,
    /// Makes a new secret and prints it, this once; the old one stays good for a day
    #[command(after_help = "Example:\n  posthouse scheduler-secret rotate")]
    Rotate,
    /// Ends all of them: the relay route is shut
    #[command(after_help = "Example:\n  posthouse scheduler-secret revoke")]
    Revoke,
}

impl Keys {
    pub async fn act(self, paper: &Paper, client: &Client) -> anyhow::Result<()> {
        match self {
            Keys::List => {
                let columns = [
                    ("KEY", "kid"),
                    ("ALGORITHM", "algorithm"),
                    ("MADE", "created_at"),
                    ("SIGNS FROM", "signs_from"),
                    ("PUBLISHED UNTIL", "published_until"),
                ];
                paper.list(client.list(&["signing-keys"], &[]).await?, &columns, "there is no key")
            }
            Keys::Rotate { algorithm, at_once } => {
                let body = json!({ "algorithm": algorithm, "at_once": at_once });
                let key = client.post(&["signing-keys"], &[], &body).await?;
                let told = format!(
                    "{} signs from {}",
                    key["kid"].as_str().unwrap_or_default(),
                    key["signs_from"].as_str().unwrap_or_default()
                );
                paper.done(&key, &told)
            }
        }
    }
}

impl Schedulers {
    pub async fn act(self, paper: &Paper, client: &Client) -> anyhow::Result<()> {
        match self {
            Schedulers::List => {
                let columns = [("NAME", "name"), ("MADE", "created_at"), ("GOOD UNTIL", "good_until")];
                let none = "there is none: outside schedulers are refused";
                paper.list(client.list(&["scheduler-secrets"], &[]).await?, &columns, none)
            }
            Schedulers::Rotate => {
                let made = client.post(&["scheduler-secrets"], &[], &json!({})).await?;
                let secret = made["secret"].as_str().unwrap_or_default().to_owned();
                paper.done(&made, &secret)
            }
            Schedulers::Revoke => {
                let answer = client.delete(&["scheduler-secrets"], &[]).await?;
                paper.done(&answer, "outside schedulers are refused from now on")
            }
        }
    }
}
