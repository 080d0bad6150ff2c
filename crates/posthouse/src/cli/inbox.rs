//! `posthouse inbox`: unread entries and dead letters.

use clap::Subcommand;
use serde_json::json;

use super::admin_client::{AdminClient, listed};
use super::filters::AgentFilter;
use super::output::Output;

#[derive(Subcommand)]
pub enum Command {
    /// Lists the number and size of unread entries per agent
    #[command(
        after_help = "Examples:\n  posthouse inbox list\n  posthouse inbox list --agent heron --tenant acme"
    )]
    List(AgentFilter),
    /// Lists dead letters: entries whose delivery was given up
    #[command(after_help = "Example:\n  posthouse inbox dead --tenant acme")]
    Dead(AgentFilter),
    /// Puts dead letters back into their inboxes, at their old places
    #[command(after_help = "Example:\n  posthouse inbox redrive ent_0193…")]
    Redrive {
        /// Ids of dead letters, as `posthouse inbox dead` shows them
        #[arg(required = true, value_name = "ENTRY")]
        entries: Vec<String>,
    },
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::List(whose) => {
                let sizes = client.list(&["inbox"], &whose.query()).await?;
                let columns = [
                    ("TENANT", "tenant"),
                    ("AGENT", "agent"),
                    ("ENTRIES", "entries"),
                    ("BYTES", "bytes"),
                    ("ID", "instance_id"),
                ];
                output.list(sizes, &columns, "all inboxes are empty")
            }
            Command::Dead(whose) => {
                let letters = client.list(&["dead-letters"], &whose.query()).await?;
                let columns = [
                    ("ENTRY", "entry"),
                    ("TENANT", "tenant"),
                    ("AGENT", "agent"),
                    ("PLATFORM", "platform"),
                    ("CHAT", "chat"),
                    ("ACCEPTED", "accepted_at"),
                    ("DIED", "died_at"),
                ];
                output.list(letters, &columns, "there are no dead letters")
            }
            Command::Redrive { entries } => {
                let mut redriven = Vec::new();
                for entry in &entries {
                    redriven.push(client.post(&["dead-letters", entry, "redrive"], &[], &json!({})).await?);
                }
                output.done(&listed(redriven), &format!("back in the inbox: {}", entries.join(" ")))
            }
        }
    }
}
