//! `posthouse inbox`

use clap::{Args, Subcommand};
use serde_json::json;

use super::client::{Client, listed};
use super::paper::Paper;

/// Whose inbox; everybody's when nobody is named.
#[derive(Args)]
pub struct Whose {
    /// An agent's name, or its id (inst_…)
    agent: Option<String>,
    /// Only this tenant's agents
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
}

#[derive(Subcommand)]
pub enum Command {
    /// Lists how much waits for agents
    #[command(after_help = "Examples:\n  posthouse inbox list\n  posthouse inbox list heron --tenant acme")]
    List(Whose),
    /// Lists dead letters: entries that were given up on
    #[command(after_help = "Example:\n  posthouse inbox dead --tenant acme")]
    Dead(Whose),
    /// Puts dead letters back in line, at their old places
    #[command(after_help = "Example:\n  posthouse inbox redrive ent_0193…")]
    Redrive {
        /// Dead letters, as `posthouse inbox dead` shows them
        #[arg(required = true, value_name = "ENTRY")]
        entries: Vec<String>,
    },
}

impl Command {
    pub async fn act(self, paper: &Paper, client: &Client) -> anyhow::Result<()> {
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
                paper.list(sizes, &columns, "nothing waits for anybody")
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
                paper.list(letters, &columns, "there are no dead letters")
            }
            Command::Redrive { entries } => {
                let mut redriven = Vec::new();
                for entry in &entries {
                    redriven.push(client.post(&["dead-letters", entry, "redrive"], &[], &json!({})).await?);
                }
                paper.done(&listed(redriven), &format!("back in line: {}", entries.join(" ")))
            }
        }
    }
}

impl Whose {
    fn query(&self) -> [(&'static str, Option<&str>); 2] {
        [("agent", self.agent.as_deref()), ("tenant", self.tenant.as_deref())]
    }
}
