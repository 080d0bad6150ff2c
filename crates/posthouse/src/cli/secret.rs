//! `posthouse secret`: secrets of the skills of a tenant.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::admin_client::AdminClient;
use super::output::Output;
use super::prompt;
use super::server_address::read_secret;

#[derive(Subcommand)]
pub enum Command {
    /// Stores a secret, sealed; skills use it as {{secret.NAME}}
    #[command(
        after_help = "Without --value-file it is asked for. Connectors use it as ${NAME}.\n\nExample:\n  \
        posthouse secret set WEATHER_KEY --tenant acme --value-file key.txt"
    )]
    Set {
        /// The name: letters, digits and `_`
        name: String,
        /// The tenant
        #[arg(long, value_name = "TENANT")]
        tenant: String,
        /// File with the value
        #[arg(long, value_name = "FILE")]
        value_file: Option<PathBuf>,
    },
    /// Lists the names of the secrets of a tenant
    #[command(after_help = "Example:\n  posthouse secret list --tenant acme")]
    List {
        /// The tenant
        #[arg(long, value_name = "TENANT")]
        tenant: String,
    },
    /// Deletes a secret
    #[command(after_help = "Example:\n  posthouse secret remove WEATHER_KEY --tenant acme")]
    Remove {
        /// The name
        name: String,
        /// The tenant
        #[arg(long, value_name = "TENANT")]
        tenant: String,
    },
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::Set { name, tenant, value_file } => {
                let value = match value_file {
                    Some(file) => read_secret(&file)?,
                    None => prompt::secret(&format!("value of {name}: "))?,
                };
                let body = json!({ "tenant": tenant, "name": name, "value": value.expose() });
                let stored = client.post(&["secrets"], &[], &body).await?;
                output.done(&stored, &format!("stored secret {name} of tenant {tenant}"))
            }
            Command::List { tenant } => {
                let secrets = client.get(&["secrets"], &[("tenant", Some(&tenant))]).await?;
                let secrets = secrets["items"].as_array().cloned().unwrap_or_default();
                output.list(secrets, &[("NAME", "name")], "there are no secrets")
            }
            Command::Remove { name, tenant } => {
                let removed = client.delete(&["secrets", &tenant, &name], &[]).await?;
                output.done(&removed, &format!("removed secret {name} of tenant {tenant}"))
            }
        }
    }
}
