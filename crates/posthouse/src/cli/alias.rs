//! `posthouse alias`

use clap::Subcommand;
use serde_json::json;

use super::client::Client;
use super::paper::Paper;

#[derive(Subcommand)]
pub enum Command {
    /// Gives an agent another name, such as for an identity that holds an @
    #[command(after_help = "Example:\n  posthouse alias create perry perry@example.org --tenant acme")]
    Create {
        /// The new name, without an @
        name: String,
        /// Whom it means, as a connector lists them
        agent: String,
        /// The tenant in which it is known
        #[arg(long, value_name = "TENANT")]
        tenant: String,
    },
    /// Lists aliases
    #[command(after_help = "Example:\n  posthouse alias list --tenant acme")]
    List {
        /// Only those of this tenant
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
    /// Takes an alias away
    #[command(after_help = "Example:\n  posthouse alias remove perry --tenant acme")]
    Remove {
        /// The alias
        name: String,
        /// The tenant in which it is known
        #[arg(long, value_name = "TENANT")]
        tenant: String,
    },
}

impl Command {
    pub async fn act(self, paper: &Paper, client: &Client) -> anyhow::Result<()> {
        match self {
            Command::Create { name, agent, tenant } => {
                let body = json!({ "tenant": tenant, "name": name, "agent": agent });
                let made = client.post(&["aliases"], &[], &body).await?;
                paper.done(&made, &format!("{name} now means {agent}"))
            }
            Command::List { tenant } => {
                let aliases = client.list(&["aliases"], &[("tenant", tenant.as_deref())]).await?;
                let columns = [("TENANT", "tenant"), ("NAME", "name"), ("MEANS", "agent")];
                paper.list(aliases, &columns, "there are no aliases")
            }
            Command::Remove { name, tenant } => {
                let removed = client.delete(&["aliases", &tenant, &name], &[]).await?;
                paper.done(&removed, &format!("removed alias {name}"))
            }
        }
    }
}
