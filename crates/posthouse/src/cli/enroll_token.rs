//! `posthouse enroll-token`: single-use tokens with which gateways get their credential.

use clap::Subcommand;
use posthouse_time::Span;
use serde_json::{Value, json};

use super::admin_client::AdminClient;
use super::output::{Output, cell};

#[derive(Subcommand)]
pub enum Command {
    /// Makes a token for an agent; it works once and is shown only once
    #[command(after_help = "Examples:\n  posthouse enroll-token create --tenant acme --agent heron\n  \
        posthouse enroll-token create --tenant acme --agent heron --ttl 1h --json\n  \
        posthouse enroll-token create --tenant acme --agent heron --bot telegram:7001 --wake-url https://laptop.example/wake\n\n\
        On the agent's machine, `hermes gateway enroll --token TOKEN --connector-url URL` redeems it. The machine also \
        needs a client credential of the tenant or of the agent (`posthouse client create`).")]
    Create {
        /// The tenant of the agent
        #[arg(long, value_name = "TENANT")]
        tenant: String,
        /// The agent whose credential the token gives out: its name, or its id (inst_…)
        #[arg(long, value_name = "AGENT", alias = "instance")]
        agent: String,
        /// Lifetime of the token, at most 30d
        #[arg(long, value_name = "TIME", default_value = "24h")]
        ttl: Span,
        /// A bot that the gateway may use; can be repeated; without it, every bot of the agent
        #[arg(long = "bot", value_name = "PLATFORM:ID")]
        bots: Vec<String>,
        /// URL to call when something waits for the agent while the gateway is not connected
        #[arg(long, value_name = "URL")]
        wake_url: Option<String>,
        /// A chat or scope of a shared bot that the gateway claims; can be repeated
        #[arg(long = "route-key", value_name = "KEY")]
        route_keys: Vec<String>,
    },
    /// Lists tokens with their state, but never the tokens themselves
    #[command(
        after_help = "Examples:\n  posthouse enroll-token list\n  posthouse enroll-token list --tenant acme --json"
    )]
    List {
        /// Only tokens of this tenant
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
    /// Revokes an unused token
    #[command(after_help = "Example:\n  posthouse enroll-token revoke enr_…")]
    Revoke {
        /// The id that `posthouse enroll-token list` shows
        id: String,
    },
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::Create { tenant, agent, ttl, bots, wake_url, route_keys } => {
                let body = json!({ "tenant": tenant, "agent": agent, "ttl_seconds": ttl.0.as_secs(),
                    "gateway_bots": bots, "wake_url": wake_url, "route_keys": route_keys });
                made(output, &client.post(&["enroll-tokens"], &[], &body).await?)
            }
            Command::List { tenant } => {
                let tokens = client.list(&["enroll-tokens"], &[("tenant", tenant.as_deref())]).await?;
                let columns = [
                    ("ID", "id"),
                    ("TENANT", "tenant"),
                    ("AGENT", "agent"),
                    ("STATE", "state"),
                    ("CREATED", "created_at"),
                    ("EXPIRES", "expires_at"),
                    ("USED", "used_at"),
                    ("GATEWAY", "gateway_id"),
                    ("ONLY BOTS", "gateway_bots"),
                    ("WAKE URL", "wake_url"),
                    ("ROUTE KEYS", "route_keys"),
                ];
                output.list(tokens, &columns, "there are no enrolment tokens")
            }
            Command::Revoke { id } => {
                let ended = client.delete(&["enroll-tokens", &id], &[]).await?;
                output.done(&ended, &format!("{id} is revoked"))
            }
        }
    }
}

fn made(output: &Output, made: &Value) -> anyhow::Result<()> {
    if output.json {
        return output.value(made);
    }
    let (id, token, expires) = (cell(&made["id"]), cell(&made["token"]), cell(&made["expires_at"]));
    let (tenant, agent) = (cell(&made["tenant"]), cell(&made["agent"]));
    output.text(&format!(
        "An enrolment token for agent {agent} of tenant {tenant}. It works once, until {expires}, and is shown only \
         once:\n\nid={id}\ntoken={token}\n"
    ))
}
