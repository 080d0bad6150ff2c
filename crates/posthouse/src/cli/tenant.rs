//! `posthouse tenant`

use clap::Subcommand;
use serde_json::json;

use super::client::Client;
use super::paper::Paper;

#[derive(Subcommand)]
pub enum Command {
    /// Makes a tenant
    #[command(after_help = "Example:\n  posthouse tenant create acme")]
    Create { name: String },
    /// Lists tenants
    #[command(after_help = "Example:\n  posthouse tenant list --json")]
    List,
    /// Shows one tenant, by name or id
    #[command(after_help = "Example:\n  posthouse tenant show acme")]
    Show { tenant: String },
    /// Removes a tenant that has no agents left
    #[command(after_help = "Example:\n  posthouse tenant remove acme")]
    Remove { tenant: String },
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
                let parts =
                    [("name", "name"), ("id", "tenant_id"), ("agents", "agents"), ("created", "created_at")];
                paper.card(&shown, &parts)
            }
            Command::Remove { tenant } => {
                let removed = client.delete(&["tenants", &tenant], &[]).await?;
                paper.done(&removed, &format!("removed tenant {tenant}"))
            }
        }
    }
}
