//! `posthouse agent`

use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::Client;
use super::paper::{Paper, cell};

/// One agent.
#[derive(Args)]
pub struct Which {
    /// The agent: its name, or its id (inst_…)
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
        /// The tenant that it shall belong to
        #[arg(long, value_name = "TENANT")]
        tenant: String,
        /// Called when something waits for the agent while it sleeps
        #[arg(long, value_name = "URL")]
        wake_url: Option<String>,
        /// Where alone it may ask to be called back by its cron jobs: its public base address
        #[arg(long, value_name = "URL")]
        callback_url: Option<String>,
        /// An owned bot that shall belong to it; may be said several times
        #[arg(long = "bot", value_name = "PLATFORM:ID")]
        bots: Vec<String>,
    },
    /// Lists agents
    #[command(after_help = "Examples:\n  posthouse agent list\n  posthouse agent list --tenant acme --json")]
    List {
        /// Only those of this tenant
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
    /// Shows one agent: whether it is on the line, and what waits for it
    #[command(after_help = "Example:\n  posthouse agent show heron --tenant acme")]
    Show(Which),
    /// Changes what an agent is known by
    #[command(
        after_help = "Examples:\n  posthouse agent change heron --wake-url https://run.example/wake\n  \
        posthouse agent change heron --no-wake-url --callback-url https://heron.example",
        group = ArgGroup::new("what").required(true).multiple(true)
    )]
    Change {
        #[command(flatten)]
        which: Which,
        /// Called when something waits for the agent while it sleeps
        #[arg(long, value_name = "URL", group = "what", conflicts_with = "no_wake_url")]
        wake_url: Option<String>,
        /// Do not call anybody when something waits
        #[arg(long, group = "what")]
        no_wake_url: bool,
        /// Where alone it may ask to be called back by its cron jobs
        #[arg(long, value_name = "URL", group = "what", conflicts_with = "no_callback_url")]
        callback_url: Option<String>,
        /// Let it ask to be called back wherever the house may call
        #[arg(long, group = "what")]
        no_callback_url: bool,
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
            Command::Create { name, tenant, wake_url, callback_url, bots } => {
                let body = json!({
                    "name": name,
                    "tenant": tenant,
                    "wake_url": wake_url,
                    "callback_url": callback_url,
                    "bots": bots,
                });
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
            Command::Change { which, wake_url, no_wake_url, callback_url, no_callback_url } => {
                let mut body = Map::new();
                // What is not said stays; what is taken away is said as null.
                for (name, url, taken_away) in
                    [("wake_url", wake_url, no_wake_url), ("callback_url", callback_url, no_callback_url)]
                {
                    if url.is_some() || taken_away {
                        body.insert(name.to_owned(), json!(url));
                    }
                }
                let changed =
                    client.patch(&["agents", &which.agent], &which.query(), &Value::Object(body)).await?;
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
        ("callback url", "callback_url"),
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
    if made["auth"].is_object() {
        text.push_str(&papers(made));
    }
    paper.text(&text)
}

/// What goes into a stock agent's home, and what programs that act for it present.
fn papers(made: &Value) -> String {
    let auth = &made["auth"];
    let mut text = format!("\nIts login, for auth.json in its home; shown this once:\n\n{auth:#}\n");
    text.push_str("\nFor cron jobs that run while it sleeps, in its configuration:\n\n");
    let mut cron = made["cron"].as_object().cloned().unwrap_or_default();
    let callback = "cron.chronos.callback_url";
    let is_open = cron.entry(callback).or_insert_with(|| PLACEHOLDER.into()) == PLACEHOLDER;
    for (name, value) in &cron {
        text.push_str(&format!("{name}: {}\n", cell(value)));
    }
    if is_open {
        text.push_str(&format!("\nPut the address under which we reach the agent for {PLACEHOLDER}.\n"));
    }
    let (client, secret) = (cell(&made["client_id"]), cell(&made["client_secret"]));
    text.push_str("\nFor programs that act for it; the secret is shown this once:\n\n");
    text.push_str(&format!("client_id={client}\nclient_secret={secret}\n"));
    text
}

/// Stands for what only the agent's owner knows.
const PLACEHOLDER: &str = "https://AGENT.EXAMPLE";

/// One word for a POSIX shell, whatever is in it.
pub fn for_a_shell(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@".contains(c);
    match !value.is_empty() && value.chars().all(plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', r"'\''")),
    }
}
