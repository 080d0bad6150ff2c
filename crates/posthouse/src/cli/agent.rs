//! `posthouse agent`: agents and their credentials.

mod change;
mod cron;
mod issued_credentials;

use anyhow::bail;
use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Value, json};

use change::ChangeArgs;

use super::admin_client::AdminClient;
use super::output::{Output, cell};
use super::prompt;
use super::staleness;

/// One agent.
#[derive(Args)]
pub struct AgentSelector {
    /// The agent's name, or its id (inst_…)
    agent: String,
    /// The tenant of the agent; not needed if only one agent has this name
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
}

#[derive(Subcommand)]
pub enum Command {
    /// Creates an agent and prints what it needs to connect; its secret is shown only once
    #[command(after_help = "Examples:\n  posthouse agent create heron --tenant acme --bot telegram:7001\n  \
        posthouse agent create heron --tenant acme --json | jq -r .secret")]
    Create {
        /// Letters, digits, dot, dash and underscore; unique in its tenant
        name: String,
        /// The tenant that owns the agent
        #[arg(long, value_name = "TENANT")]
        tenant: String,
        /// URL to call when something waits for the agent while it is not connected
        #[arg(long, value_name = "URL")]
        wake_url: Option<String>,
        /// The only URL its cron jobs may call back: the address of its gateway's API server
        #[arg(long, value_name = "URL")]
        callback_url: Option<String>,
        /// An owned bot for this agent; can be repeated
        #[arg(long = "bot", value_name = "PLATFORM:ID")]
        bots: Vec<String>,
    },
    /// Lists agents
    #[command(after_help = "Examples:\n  posthouse agent list\n  posthouse agent list --tenant acme --json")]
    List {
        /// Only agents of this tenant
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
    /// Shows one agent: whether it is connected, and how much waits for it
    #[command(after_help = "Example:\n  posthouse agent show heron --tenant acme")]
    Show(AgentSelector),
    /// Changes the settings of an agent
    #[command(override_usage = "posthouse agent change [OPTIONS] <AGENT>")]
    #[command(
        after_help = "Examples:\n  posthouse agent change heron --wake-url https://run.example/wake\n  \
        posthouse agent change heron --no-wake-url --callback-url https://heron.example\n  \
        posthouse agent change heron --generation newer\n  \
        posthouse agent change heron --gateway gw_… --wake-url https://laptop.example/wake --bot telegram:7001"
    )]
    Change(Box<ChangeArgs>),
    /// Prints the settings with which a stock agent hands its cron jobs to this server
    #[command(after_help = "Example:\n  posthouse agent cron heron --callback-url http://127.0.0.1:8642\n\n\
        The login of the agent (auth.json) is printed once, by `agent create`. To get a new one:\n  \
        posthouse client create --tenant acme --agent heron --login")]
    Cron {
        #[command(flatten)]
        which: AgentSelector,
        /// The address of its gateway's API server; from now on the only URL its cron jobs may call back
        #[arg(long, value_name = "URL")]
        callback_url: Option<String>,
    },
    /// Removes an agent with its credentials, routes and inbox
    #[command(after_help = "Example:\n  posthouse agent remove heron --tenant acme")]
    Remove {
        #[command(flatten)]
        which: AgentSelector,
        /// Do not ask for confirmation, even if messages wait for it
        #[arg(long)]
        yes: bool,
    },
    /// Gives an agent a new secret; the old one stays valid for a day
    #[command(
        after_help = "With --all it also gets a new client secret and a new login, even after `agent revoke`. Replaced \
        secrets stay valid for a day; the previous login ends at once.\n\n\
        Examples:\n  posthouse agent rotate heron --tenant acme\n  posthouse agent rotate heron --tenant acme --all"
    )]
    Rotate {
        #[command(flatten)]
        which: AgentSelector,
        /// The credential to replace, if the agent has several
        #[arg(long, value_name = "ID")]
        gateway: Option<String>,
        /// Also replace the client secret and the login
        #[arg(long)]
        all: bool,
    },
    /// Revokes all credentials of an agent at once: gateways, client, login, and every token issued for
    /// them
    #[command(
        after_help = "Its sockets close, and further connections, calls and cron requests are refused. \
        `posthouse agent rotate --all` gives it new ones.\n\n\
        Examples:\n  posthouse agent revoke heron --tenant acme\n  posthouse agent revoke heron --tenant acme --login",
        group = ArgGroup::new("one")
    )]
    Revoke {
        #[command(flatten)]
        which: AgentSelector,
        /// Only this gateway credential
        #[arg(long, value_name = "ID", group = "one")]
        gateway: Option<String>,
        /// Only its client
        #[arg(long, group = "one")]
        client: bool,
        /// Only its login
        #[arg(long, group = "one")]
        login: bool,
    },
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::Create { name, tenant, wake_url, callback_url, bots } => {
                let body = json!({
                    "name": name,
                    "tenant": tenant,
                    "wake_url": wake_url,
                    "callback_url": callback_url,
                    "bots": bots,
                });
                issued_credentials::print(output, &client.post(&["agents"], &[], &body).await?, "can connect")
            }
            Command::List { tenant } => list(output, client, tenant.as_deref()).await,
            Command::Show(which) => {
                let shown = client.get(&["agents", &which.agent], &which.query()).await?;
                show(output, &shown)
            }
            Command::Change(args) => {
                let which = &args.which;
                let changed = client.patch(&["agents", &which.agent], &which.query(), &args.body()).await?;
                output.done(&changed, &format!("changed agent {}", which.agent))?;
                match changed["sleep_url"].as_str() {
                    Some(url) if !output.json => output.text(&sleep_notice(url)),
                    _ if !output.json && args.stop_url.is_some() => output.text(NO_SLEEP_URL),
                    _ => Ok(()),
                }
            }
            Command::Cron { which, callback_url } => print_cron(output, client, &which, callback_url).await,
            Command::Remove { which, yes } => {
                if !yes {
                    confirm_loss(client, &which).await?;
                }
                let removed = client.delete(&["agents", &which.agent], &which.query()).await?;
                output.done(&removed, &format!("removed agent {}", which.agent))
            }
            Command::Rotate { which, gateway, all } => rotate(output, client, &which, gateway, all).await,
            Command::Revoke { which, gateway, client: only_client, login } => {
                let body = json!({ "gateway_id": gateway, "client": only_client, "login": login });
                let revoked = client.post(&["agents", &which.agent, "revoke"], &which.query(), &body).await?;
                output.done(&revoked, &ended(&which.agent, &revoked))
            }
        }
    }
}

async fn list(output: &Output, client: &AdminClient, tenant: Option<&str>) -> anyhow::Result<()> {
    let columns = [
        ("TENANT", "tenant"),
        ("NAME", "name"),
        ("CONNECTED", "connected"),
        ("IDLE", "idle"),
        ("UNREAD", "unread"),
        ("BOTS", "bots"),
        ("ID", "instance_id"),
    ];
    output.list(client.list(&["agents"], &[("tenant", tenant)]).await?, &columns, "there are no agents")
}

/// Printed when a stop URL is set and agents cannot ask to be stopped.
const NO_SLEEP_URL: &str = "\nAgents ask to be stopped only over https. Set server.public_url to an https address, then \
    repeat the command to get the URL for the agent.\n";

/// The URL at which an agent asks to be stopped.
fn sleep_notice(url: &str) -> String {
    format!(
        "\nAdd this to the agent's environment. The URL contains a secret and is shown only once; an earlier one stays \
         valid for a day.\n\nGATEWAY_RELAY_SLEEP_URL={url}\n"
    )
}

/// Prints the cron settings of an agent, after its callback URL has been set if there is a new one.
async fn print_cron(
    output: &Output,
    client: &AdminClient,
    which: &AgentSelector,
    callback_url: Option<String>,
) -> anyhow::Result<()> {
    let agent = ["agents", which.agent.as_str()];
    if let Some(url) = callback_url {
        client.patch(&agent, &which.query(), &json!({ "callback_url": url })).await?;
    }
    let shown = client.get(&agent, &which.query()).await?;
    if output.json {
        return output.value(&shown["cron"]);
    }
    output.text(&cron::printed(&which.agent, &shown["cron"], &cron::platforms(&shown["bots"]))?)
}

async fn rotate(
    output: &Output,
    client: &AdminClient,
    which: &AgentSelector,
    gateway: Option<String>,
    all: bool,
) -> anyhow::Result<()> {
    let body = json!({ "gateway_id": gateway, "all": all });
    let rotated = client.post(&["agents", &which.agent, "rotate"], &which.query(), &body).await?;
    let what = match all {
        true => "has new credentials; replaced secrets stay valid for a day, the previous login has ended",
        false => "has a new secret; a replaced one stays valid for a day",
    };
    issued_credentials::print(output, &rotated, what)
}

/// The credentials that a revocation ended, one per line.
fn ended(agent: &str, revoked: &Value) -> String {
    let mut text = format!("these credentials of agent {agent} are revoked:");
    let gateways = revoked["gateway_ids"].as_array().into_iter().flatten().map(|id| ("gateway", id));
    let others = [("client", &revoked["client_id"]), ("login", &revoked["login_id"])];
    for (what, id) in gateways.chain(others).filter(|(_, id)| !id.is_null()) {
        text.push_str(&format!("\n  {what} {}", cell(id)));
    }
    text
}

/// Asks for confirmation if the agent has unread messages, because they would be lost.
async fn confirm_loss(client: &AdminClient, which: &AgentSelector) -> anyhow::Result<()> {
    let shown = client.get(&["agents", &which.agent], &which.query()).await?;
    let waiting = match shown["unread"].as_u64() {
        Some(0) | None => return Ok(()),
        Some(1) => "1 message waits".to_owned(),
        Some(unread) => format!("{unread} messages wait"),
    };
    let agent = &which.agent;
    if !prompt::is_interactive() {
        bail!("{waiting} for {agent} and would be lost; use --yes to remove it anyway");
    }
    if !prompt::confirm(&format!("{waiting} for {agent} and will be lost. Remove it?"))? {
        bail!("{agent} was not removed");
    }
    Ok(())
}

impl AgentSelector {
    fn query(&self) -> [(&'static str, Option<&str>); 1] {
        [("tenant", self.tenant.as_deref())]
    }
}

fn show(output: &Output, agent: &Value) -> anyhow::Result<()> {
    let mut agent = agent.clone();
    if !output.json {
        agent["staleness"] = staleness::shown(&agent["staleness"]);
    }
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
        ("display name", "display_name"),
        ("wake url", "wake_url"),
        ("stop url", "stop_url"),
        ("callback url", "callback_url"),
        ("pinned generation", "generation"),
        ("hold back", "hold_back"),
        ("interactions", "interactions"),
        ("stream cursor", "stream_cursor"),
        ("profile", "profile"),
        ("stale messages", "staleness"),
        ("created", "created_at"),
    ];
    output.card(&agent, &parts)?;
    if output.json {
        return Ok(());
    }
    let connections =
        [("GATEWAY", "gateway_id"), ("ROLE", "role"), ("SINCE", "since"), ("GENERATION", "status")];
    let relevance = [
        ("PLATFORM", "platform"),
        ("ONLY ADDRESSED", "require_address"),
        ("FREE SCOPES", "free_scopes"),
        ("OTHER BOTS", "allow_other_bots"),
    ];
    let gateways =
        [("GATEWAY", "gateway_id"), ("NAMES", "names"), ("WAKE URL", "wake_url"), ("ONLY BOTS", "bots")];
    let principals = [("PLATFORM", "platform"), ("PEOPLE WITHOUT A LINK", "policy"), ("ALLOWED", "allowed")];
    let wake_failures = [("WAKE URL", "what"), ("REASON", "reason"), ("AT", "at")];
    let tables = [
        ("wake_failures", &wake_failures[..]),
        ("gateway_settings", &gateways[..]),
        ("connections", &connections),
        ("relevance", &relevance),
        ("principals", &principals),
    ];
    for (name, columns) in tables {
        if let Some(rows) = agent[name].as_array().filter(|rows| !rows.is_empty()) {
            output.text("\n")?;
            output.list(rows.clone(), columns, "")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revocation_prints_what_ended_and_nothing_else() {
        let all =
            json!({ "gateway_ids": ["gw_1", "gw_2"], "client_id": "agent:inst_1", "login_id": "log_1" });
        assert_eq!(
            ended("heron", &all),
            "these credentials of agent heron are revoked:\n  gateway gw_1\n  gateway gw_2\n  \
             client agent:inst_1\n  login log_1"
        );
        let client = json!({ "gateway_ids": [], "client_id": "agent:inst_1", "login_id": null });
        assert_eq!(
            ended("heron", &client),
            "these credentials of agent heron are revoked:\n  client agent:inst_1"
        );
    }
}
