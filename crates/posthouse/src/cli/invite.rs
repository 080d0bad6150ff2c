//! `posthouse invite`

use clap::Subcommand;
use serde_json::json;

use super::client::Client;
use super::paper::{Paper, cell};

#[derive(Subcommand)]
pub enum Command {
    /// Makes a link that lets one person use the web chat; it is shown this once
    #[command(after_help = "Example:\n  posthouse invite create Ann")]
    Create {
        /// The name they speak under; an earlier link of the same name stops working
        person: String,
    },
    /// Lists who was invited
    #[command(after_help = "Example:\n  posthouse invite list")]
    List,
    /// Withdraws an invitation, at once
    #[command(after_help = "Example:\n  posthouse invite remove Ann")]
    Remove {
        /// As `posthouse invite list` shows them
        person: String,
    },
}

impl Command {
    pub async fn act(self, paper: &Paper, client: &Client) -> anyhow::Result<()> {
        match self {
            Command::Create { person } => {
                let link = client.post(&["invites"], &[], &json!({ "person": person })).await?;
                paper.done(&link, &cell(&link["url"]))
            }
            Command::List => {
                let invites = client.list(&["invites"], &[]).await?;
                paper.list(invites, &[("PERSON", "person"), ("CREATED", "created_at")], "nobody is invited")
            }
            Command::Remove { person } => {
                let withdrawn = client.delete(&["invites", &person], &[]).await?;
                paper.done(&withdrawn, &format!("{person} is no longer invited"))
            }
        }
    }
}
