//! `posthouse client`: what programs present, and agents' logins.

use clap::Subcommand;
use serde_json::{Value, json};

use super::client::Client;
use super::paper::{Paper, cell};

#[derive(Subcommand)]
pub enum Command {
    /// Makes a client for an agent or a tenant, or gives it a new secret; shown this once
    #[command(after_help = "Examples:\n  posthouse client create --tenant acme\n  \
        posthouse client create --agent heron --tenant acme --json\n  \
        posthouse client create --agent heron --tenant acme --login --json | jq .auth > auth.json\n\n\
        The secret before it stays good for a day; the login before it ends at once.")]
    Create {
        /// The tenant that the program writes for
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
        after_help = "Examples:\n  posthouse client list\n  posthouse client list --tenant acme --json"
    )]
    List {
        /// Only those of this tenant
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
    /// Ends a client or a login at once, with every token that it got
    #[command(
        after_help = "Examples:\n  posthouse client revoke tenant:ten_…\n  posthouse client revoke log_…"
    )]
    Revoke {
        /// As `posthouse client list` shows it
        id: String,
    },
}

impl Command {
    pub async fn act(self, paper: &Paper, client: &Client) -> anyhow::Result<()> {
        match self {
            Command::Create { tenant, agent, login } => {
                let body = json!({ "tenant": tenant, "agent": agent, "login": login });
                handed_out(paper, &client.post(&["clients"], &[], &body).await?)
            }
            Command::List { tenant } => {
                let clients = client.list(&["clients"], &[("tenant", tenant.as_deref())]).await?;
                let columns = [
                    ("ID", "id"),
                    ("TENANT", "tenant"),
                    ("AGENT", "agent"),
                    ("CREATED", "created_at"),
                    ("REFRESHED", "refreshed_at"),
                    ("REVOKED", "revoked_at"),
                ];
                paper.list(clients, &columns, "there are no clients")
            }
            Command::Revoke { id } => {
                let ended = client.delete(&["clients", &id], &[]).await?;
                paper.done(&ended, &format!("{id} is revoked"))
            }
        }
    }
}

fn handed_out(paper: &Paper, made: &Value) -> anyhow::Result<()> {
    if paper.json {
        return paper.value(made);
    }
    if made["auth"].is_object() {
        let (agent, auth) = (cell(&made["agent"]), &made["auth"]);
        return paper.text(&format!(
            "agent {agent} has a new login, for auth.json in its home; shown this once:\n\n{auth:#}\n"
        ));
    }
    let (client, secret, url) =
        (cell(&made["client_id"]), cell(&made["client_secret"]), cell(&made["token_url"]));
    paper.text(&format!(
        "The credential, to be exchanged for access tokens at {url}; the secret is shown this once:\n\n\
         client_id={client}\nclient_secret={secret}\n"
    ))
}
