//! `posthouse client`: client credentials of programs, and logins of agents.

use clap::Subcommand;
use serde_json::{Value, json};

use super::admin_client::AdminClient;
use super::output::{Output, cell};

#[derive(Subcommand)]
pub enum Command {
    /// Creates a client for an agent or a tenant, or replaces its secret; the secret is shown only once
    #[command(after_help = "Examples:\n  posthouse client create --tenant acme\n  \
        posthouse client create --agent heron --tenant acme --json\n  \
        posthouse client create --agent heron --tenant acme --login --json | jq .auth > auth.json\n\n\
        A replaced secret stays valid for a day; a replaced login ends at once.")]
    Create {
        /// The tenant that the program acts for
        #[arg(long, value_name = "TENANT")]
        tenant: String,
        /// For this agent instead of the whole tenant
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// A login for a stock agent's auth.json instead of a client
        #[arg(long, requires = "agent")]
        login: bool,
    },
    /// Lists clients and logins
    #[command(
        after_help = "PLACES is in how many places a login is used, ADDRESSES is where they last called from. \
        More than one place means that its auth.json was copied.\n\n\
        Examples:\n  posthouse client list\n  posthouse client list --tenant acme --json"
    )]
    List {
        /// Only clients and logins of this tenant
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
    /// Revokes a client or a login at once, with every token issued for it
    #[command(
        after_help = "Examples:\n  posthouse client revoke tenant:ten_…\n  posthouse client revoke log_…"
    )]
    Revoke {
        /// The id that `posthouse client list` shows
        id: String,
    },
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::Create { tenant, agent, login } => {
                let body = json!({ "tenant": tenant, "agent": agent, "login": login });
                handed_out(output, &client.post(&["clients"], &[], &body).await?)
            }
            Command::List { tenant } => {
                let clients = client.list(&["clients"], &[("tenant", tenant.as_deref())]).await?;
                let columns = [
                    ("ID", "id"),
                    ("TENANT", "tenant"),
                    ("AGENT", "agent"),
                    ("CREATED", "created_at"),
                    ("REFRESHED", "refreshed_at"),
                    ("PLACES", "lines"),
                    ("ADDRESSES", "addresses"),
                    ("REVOKED", "revoked_at"),
                ];
                output.list(clients, &columns, "there are no clients")
            }
            Command::Revoke { id } => {
                let ended = client.delete(&["clients", &id], &[]).await?;
                output.done(&ended, &format!("{id} is revoked"))
            }
        }
    }
}

fn handed_out(output: &Output, made: &Value) -> anyhow::Result<()> {
    if output.json {
        return output.value(made);
    }
    if made["auth"].is_object() {
        let (agent, auth) = (cell(&made["agent"]), &made["auth"]);
        return output.text(&format!(
            "agent {agent} has a new login, for auth.json in its home; shown only once:\n\n{auth:#}\n"
        ));
    }
    let (client, secret, url) =
        (cell(&made["client_id"]), cell(&made["client_secret"]), cell(&made["token_url"]));
    output.text(&format!(
        "The credential, to be exchanged for access tokens at {url}; the secret is shown only once:\n\n\
         client_id={client}\nclient_secret={secret}\n"
    ))
}
