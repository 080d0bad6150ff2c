//! `posthouse alias`: other names for agents.

use clap::Subcommand;
use serde_json::json;

use super::admin_client::AdminClient;
use super::output::Output;

#[derive(Subcommand)]
pub enum Command {
    /// Gives an agent another name, for example if its own name contains an @
    #[command(after_help = "Example:\n  posthouse alias create perry perry@example.org --tenant acme")]
    Create {
        /// The new name, without an @
        name: String,
        /// The agent, by the name under which a connector lists it
        agent: String,
        /// The tenant of the alias
        #[arg(long, value_name = "TENANT")]
        tenant: String,
    },
    /// Lists aliases
    #[command(after_help = "Example:\n  posthouse alias list --tenant acme")]
    List {
        /// Only aliases of this tenant
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
    /// Removes an alias
    #[command(after_help = "Example:\n  posthouse alias remove perry --tenant acme")]
    Remove {
        /// The alias
        name: String,
        /// The tenant of the alias
        #[arg(long, value_name = "TENANT")]
        tenant: String,
    },
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::Create { name, agent, tenant } => {
                let body = json!({ "tenant": tenant, "name": name, "agent": agent });
                let made = client.post(&["aliases"], &[], &body).await?;
                output.done(&made, &format!("{name} now means {agent}"))
            }
            Command::List { tenant } => {
                let aliases = client.list(&["aliases"], &[("tenant", tenant.as_deref())]).await?;
                let columns = [("TENANT", "tenant"), ("NAME", "name"), ("MEANS", "agent")];
                output.list(aliases, &columns, "there are no aliases")
            }
            Command::Remove { name, tenant } => {
                let removed = client.delete(&["aliases", &tenant, &name], &[]).await?;
                output.done(&removed, &format!("removed alias {name}"))
            }
        }
    }
}
