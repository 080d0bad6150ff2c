//! `posthouse agent`

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::Client;
use super::paper::{Paper, cell};

/// One agent.
#[derive(Args)]
pub struct Which {
    /// Its name, or its id (inst_…)
    agent: String,
    /// The tenant a name is meant in; not needed while only one agent has the name
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
}

#[derive(Subcommand)]
pub enum Command {
    /// Makes an agent and prints what it needs to dial in; its secret is shown this once
    #[command(after_help = "Examples:\n  posthouse agent create heron --tenant acme --bot telegram:7001\n  \
        posthouse agent create heron --tenant acme --json | jq -r .secret")]
    Create {
        /// Letters, digits, dot, dash and underscore; unique in its tenant
        name: String,
        #[arg(long, value_name = "TENANT")]
        tenant: String,
        /// Called when something waits for the agent while it sleeps
        #[arg(long, value_name = "URL")]
        wake_url: Option<String>,
        /// An owned bot that shall belong to it; may be said several times
        #[arg(long = "bot", value_name = "PLATFORM:ID")]
        bots: Vec<String>,
    },
    /// Lists agents
    #[command(after_help = "Examples:\n  posthouse agent list\n  posthouse agent list --tenant acme --json")]
    List {
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
    /// Shows one agent: whether it is on the line, and what waits for it
    #[command(after_help = "Example:\n  posthouse agent show heron --tenant acme")]
    Show(Which),
    /// Changes what an agent is known by
    #[command(
        after_help = "Examples:\n  posthouse agent change heron --wake-url https://run.example/wake\n  \
        posthouse agent change heron --no-wake-url"
    )]
    Change {
        #[command(flatten)]
        which: Which,
        /// Called when something waits for the agent while it sleeps
        #[arg(
            long,
            value_name = "URL",
            required_unless_present = "no_wake_url",
            conflicts_with = "no_wake_url"
        )]
        wake_url: Option<String>,
        /// Do not call anybody when something waits
        #[arg(long)]
        no_wake_url: bool,
    },
    /// Removes an agent with everything it had: credentials, routes, inbox
    #[command(after_help = "Example:\n  posthouse agent remove heron --tenant acme")]
    Remove(Which),
    /// Gives an agent a new secret; the old one stays good for a day
    #[command(after_help = "Example:\n  posthouse agent rotate heron --tenant acme")]
    Rotate {
        #[command(flatten)]
        which: Which,
        /// Which of its credentials, when it has several
        #[arg(long, value_name = "ID")]
        gateway: Option<String>,
    },
    /// Ends a credential at once: its sockets close and further dials are refused
    #[command(after_help = "Example:\n  posthouse agent revoke heron --tenant acme")]
    Revoke {
        #[command(flatten)]
        which: Which,
        /// Which of its credentials, when it has several
        #[arg(long, value_name = "ID")]
        gateway: Option<String>,
    },
}

impl Command {
    pub async fn act(self, paper: &Paper, client: &Client) -> anyhow::Result<()> {
        match self {
            Command::Create { name, tenant, wake_url, bots } => {
                let body = json!({ "name": name, "tenant": tenant, "wake_url": wake_url, "bots": bots });
                handed_out(paper, &client.post(&["agents"], &[], &body).await?, "can dial in")
            }
            Command::List { tenant } => {
                let agents = client.list(&["agents"], &[("tenant", tenant.as_deref())]).await?;
                let columns = [
                    ("TENANT", "tenant"),
                    ("NAME", "name"),
                    ("CONNECTED", "connected"),
                    ("IDLE", "idle"),
                    ("UNREAD", "unread"),
                    ("BOTS", "bots"),
                    ("ID", "instance_id"),
                ];
                paper.list(agents, &columns, "there are no agents")
            }
            Command::Show(which) => {
                let shown = client.get(&["agents", &which.agent], &which.query()).await?;
                show(paper, &shown)
            }
            Command::Change { which, wake_url, .. } => {
                let body = json!({ "wake_url": wake_url });
                let changed = client.patch(&["agents", &which.agent], &which.query(), &body).await?;
                paper.done(&changed, &format!("changed agent {}", which.agent))
            }
            Command::Remove(which) => {
                let removed = client.delete(&["agents", &which.agent], &which.query()).await?;
                paper.done(&removed, &format!("removed agent {}", which.agent))
            }
            Command::Rotate { which, gateway } => {
                let body = json!({ "gateway_id": gateway });
                let rotated = client.post(&["agents", &which.agent, "rotate"], &which.query(), &body).await?;
                handed_out(paper, &rotated, "has a new secret; one that it replaces stays good for a day")
            }
            Command::Revoke { which, gateway } => {
                let body = json!({ "gateway_id": gateway });
                let revoked = client.post(&["agents", &which.agent, "revoke"], &which.query(), &body).await?;
                let sentence = format!(
                    "credential {} of agent {} is revoked",
                    cell(&revoked["gateway_id"]),
                    which.agent
                );
                paper.done(&revoked, &sentence)
            }
        }
    }
}

impl Which {
    fn query(&self) -> [(&'static str, Option<&str>); 1] {
        [("tenant", self.tenant.as_deref())]
    }
}

fn show(paper: &Paper, agent: &Value) -> anyhow::Result<()> {
    let parts = [
        ("name", "name"),
        ("tenant", "tenant"),
        ("id", "instance_id"),
        ("connected", "connected"),
        ("since", "since"),
        ("idle", "idle"),
        ("unread", "unread"),
        ("bots", "bots"),
        ("gateways", "gateways"),
        ("wake url", "wake_url"),
        ("generation", "generation"),
        ("created", "created_at"),
    ];
    paper.card(agent, &parts)
}

/// A credential, with the environment for a stock agent.
fn handed_out(paper: &Paper, made: &Value, what: &str) -> anyhow::Result<()> {
    if paper.json {
        return paper.value(made);
    }
    let (name, tenant, id) = (cell(&made["name"]), cell(&made["tenant"]), cell(&made["instance_id"]));
    let mut text = format!("agent {name} of tenant {tenant} ({id}) {what}.\n\n");
    text.push_str("The environment for it; the secret is shown this once:\n\n");
    let env = made["env"].as_object().cloned().unwrap_or_default();
    // The order in which one reads them, not that of the letters; then whatever else there is.
    let first = ["URL", "ID", "SECRET", "PLATFORMS", "BOT_IDS"].map(|name| format!("GATEWAY_RELAY_{name}"));
    let rest = env.keys().filter(|name| !first.contains(name));
    for name in first.iter().chain(rest) {
        if let Some(value) = env.get(name).and_then(Value::as_str) {
            text.push_str(&format!("{name}={}\n", for_a_shell(value)));
        }
    }
    paper.text(&text)
}

/// One word for a POSIX shell, whatever is in it.
fn for_a_shell(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@".contains(c);
    match !value.is_empty() && value.chars().all(plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', r"'\''")),
    }
}
