//! `posthouse signing-key`: keys that sign fire tokens.

use clap::Subcommand;
use serde_json::json;

use super::admin_client::AdminClient;
use super::output::Output;

#[derive(Subcommand)]
pub enum Command {
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

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::List => {
                let columns = [
                    ("KEY", "kid"),
                    ("ALGORITHM", "algorithm"),
                    ("MADE", "created_at"),
                    ("SIGNS FROM", "signs_from"),
                    ("PUBLISHED UNTIL", "published_until"),
                ];
                output.list(client.list(&["signing-keys"], &[]).await?, &columns, "there is no key")
            }
            Command::Rotate { algorithm, at_once } => {
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
