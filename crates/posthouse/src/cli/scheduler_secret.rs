//! `posthouse scheduler-secret`: secrets with which external schedulers sign their calls.

use clap::Subcommand;
use serde_json::json;

use super::admin_client::AdminClient;
use super::output::Output;

#[derive(Subcommand)]
pub enum Command {
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

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::List => {
                let columns = [("NAME", "name"), ("MADE", "created_at"), ("GOOD UNTIL", "good_until")];
                let none = "there are no secrets: external schedulers are refused";
                output.list(client.list(&["scheduler-secrets"], &[]).await?, &columns, none)
            }
            Command::Rotate => {
                let made = client.post(&["scheduler-secrets"], &[], &json!({})).await?;
                let secret = made["secret"].as_str().unwrap_or_default().to_owned();
                output.done(&made, &secret)
            }
            Command::Revoke => {
                let answer = client.delete(&["scheduler-secrets"], &[]).await?;
                output.done(&answer, "external schedulers are refused from now on")
            }
        }
    }
}
