//! `posthouse tenant`

use clap::{Subcommand, ValueEnum};
use serde_json::json;

use super::client::Client;
use super::paper::Paper;

#[derive(Subcommand)]
pub enum Command {
    /// Makes a tenant
    #[command(after_help = "Example:\n  posthouse tenant create acme")]
    Create {
        /// Unique in this house
        name: String,
    },
    /// Lists tenants
    #[command(after_help = "Example:\n  posthouse tenant list --json")]
    List,
    /// Shows one tenant, by name or id
    #[command(after_help = "Example:\n  posthouse tenant show acme")]
    Show {
        /// Its name, or its id (ten_…)
        tenant: String,
    },
    /// Changes what the agents of a tenant may do
    #[command(after_help = "Example:\n  posthouse tenant set acme --peer-post none")]
    Set {
        /// Its name, or its id (ten_…)
        tenant: String,
        /// Whether an agent's own credential may write to the tenant's other agents
        #[arg(long, value_enum, value_name = "WHOM")]
        peer_post: PeerPost,
    },
    /// Removes a tenant that has no agents left
    #[command(after_help = "Example:\n  posthouse tenant remove acme")]
    Remove {
        /// Its name, or its id (ten_…)
        tenant: String,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub enum PeerPost {
    /// To all of them
    All,
    /// To none of them
    None,
}

impl PeerPost {
    fn word(self) -> &'static str {
        match self {
            PeerPost::All => "all",
            PeerPost::None => "none",
        }
    }
}

impl Command {
    pub async fn act(self, paper: &Paper, client: &Client) -> anyhow::Result<()> {
        match self {
            Command::Create { name } => {
                let made = client.post(&["tenants"], &[], &json!({ "name": name })).await?;
                paper.done(&made, &format!("made tenant {name}"))
            }
            Command::List => {
                let tenants = client.list(&["tenants"], &[]).await?;
                let columns = [("NAME", "name"), ("ID", "tenant_id"), ("CREATED", "created_at")];
                paper.list(tenants, &columns, "there are no tenants")
            }
            Command::Show { tenant } => {
                let shown = client.get(&["tenants", &tenant], &[]).await?;
                let parts = [
                    ("name", "name"),
                    ("id", "tenant_id"),
                    ("agents", "agents"),
                    ("peer post", "peer_post"),
                    ("created", "created_at"),
                ];
                paper.card(&shown, &parts)
            }
            Command::Set { tenant, peer_post } => {
                let word = peer_post.word();
                let changed = client.patch(&["tenants", &tenant], &[], &json!({ "peer_post": word })).await?;
                paper.done(&changed, &format!("agents of {tenant} may write to {word} of the others"))
            }
            Command::Remove { tenant } => {
                let removed = client.delete(&["tenants", &tenant], &[]).await?;
                paper.done(&removed, &format!("removed tenant {tenant}"))
            }
        }
    }
}
