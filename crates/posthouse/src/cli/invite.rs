//! `posthouse invite`: invitations to the chat page.

use clap::Subcommand;
use serde_json::json;

use super::admin_client::AdminClient;
use super::output::{Output, cell};

#[derive(Subcommand)]
pub enum Command {
    /// Invites one person to the chat page and prints a link that works once
    #[command(after_help = "Examples:\n  posthouse invite create Ann --tenant acme\n  \
                            posthouse invite create Ann --tenant acme --agent heron\n  \
                            posthouse invite create Ann --tenant acme --owner")]
    Create {
        /// The name under which they write
        person: String,
        /// The tenant whose agents they can talk to
        #[arg(long)]
        tenant: String,
        /// Only this agent of the tenant (can be repeated); without it, every agent
        #[arg(long = "agent", value_name = "NAME", conflicts_with = "owner")]
        agents: Vec<String>,
        /// Let them create agents of the tenant on the page
        #[arg(long)]
        owner: bool,
    },
    /// Lists invitations
    #[command(after_help = "Example:\n  posthouse invite list")]
    List,
    /// Prints a new link for an invitation, for another device or a lost session
    #[command(after_help = "Example:\n  posthouse invite link Ann")]
    Link {
        /// Id or person, as `posthouse invite list` shows them
        invite: String,
    },
    /// Removes an invitation: its pages are signed out at once
    #[command(after_help = "Example:\n  posthouse invite remove Ann", alias = "revoke")]
    Remove {
        /// Id or person, as `posthouse invite list` shows them
        invite: String,
    },
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::Create { person, tenant, agents, owner } => {
                let wanted = json!({ "person": person, "tenant": tenant, "agents": agents, "owner": owner });
                let link = client.post(&["invites"], &[], &wanted).await?;
                output.done(&link, &cell(&link["url"]))
            }
            Command::List => {
                let invites = client.list(&["invites"], &[]).await?;
                let columns = [
                    ("ID", "id"),
                    ("PERSON", "person"),
                    ("TENANT", "tenant"),
                    ("AGENTS", "agents"),
                    ("OWNER", "owner"),
                    ("CREATED", "created_at"),
                ];
                output.list(invites, &columns, "nobody is invited")
            }
            Command::Link { invite } => {
                let link = client.post(&["invites", &invite, "link"], &[], &json!({})).await?;
                output.done(&link, &cell(&link["url"]))
            }
            Command::Remove { invite } => {
                let withdrawn = client.delete(&["invites", &invite], &[]).await?;
                output.done(&withdrawn, &format!("{} is no longer invited", cell(&withdrawn["person"])))
            }
        }
    }
}
