//! `posthouse agent`: agents and their credentials.

mod cron;
mod issued_credentials;

use anyhow::bail;
use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Map, Value, json};

use super::admin_client::AdminClient;
use super::output::{Output, cell};
use super::prompt;
use super::staleness::{self, StaleArgs};

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
    #[command(
        after_help = "Examples:\n  posthouse agent change heron --wake-url https://run.example/wake\n  \
        posthouse agent change heron --no-wake-url --callback-url https://heron.example\n  \
        posthouse agent change heron --generation newer"
    )]
    Change(ChangeArgs),
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

/// New settings of an agent.
#[derive(Args)]
#[group(skip)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).arg("stale"))]
pub struct ChangeArgs {
    #[command(flatten)]
    which: AgentSelector,
    /// URL to call when something waits for the agent while it is not connected
    #[arg(long, value_name = "URL", group = "what", conflicts_with = "no_wake_url")]
    wake_url: Option<String>,
    /// Call no URL when something waits for the agent
    #[arg(long, group = "what")]
    no_wake_url: bool,
    /// URL to call when the agent asks to be stopped; prints the URL at which it asks, which is shown only once
    #[arg(long, value_name = "URL", group = "what", conflicts_with = "no_stop_url")]
    stop_url: Option<String>,
    /// Call no URL when the agent asks to be stopped
    #[arg(long, group = "what")]
    no_stop_url: bool,
    /// The only URL its cron jobs may call back: the address of its gateway's API server
    #[arg(long, value_name = "URL", group = "what", conflicts_with = "no_callback_url")]
    callback_url: Option<String>,
    /// Let its cron jobs call back any URL that the server is allowed to call
    #[arg(long, group = "what")]
    no_callback_url: bool,
    /// Version of hermes-agent that it runs: `0.19` needs a pause after each hello, `newer` does not,
    /// `auto` removes the pin and decides by the hello of each socket
    #[arg(long, value_name = "VERSION", group = "what", value_parser = ["auto", "0.19", "newer"])]
    generation: Option<String>,
    /// The credential that --generation applies to; by default all of them
    #[arg(long, value_name = "ID", requires = "generation")]
    gateway: Option<String>,
    /// Whether further messages of a chat wait until the agent's turn in it has ended: always (on),
    /// never (off), or only the messages that were waiting when it connected (drain, the default)
    #[arg(long, value_name = "WHEN", group = "what", value_parser = ["on", "off", "drain"])]
    hold_back: Option<String>,
    /// The mark at the end of a text that the agent is still writing, if its answers are streamed; ""
    /// for none
    #[arg(long, value_name = "TEXT", group = "what")]
    stream_cursor: Option<String>,
    /// Deletes what its gateways declared about messages of groups, so that it gets only addressed ones
    #[arg(long, group = "what")]
    clear_relevance: bool,
    #[command(flatten)]
    staleness: StaleArgs,
    /// Deliver messages however long they waited, unless their route says otherwise
    #[arg(long, group = "what", conflicts_with = "stale")]
    no_stale: bool,
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

impl ChangeArgs {
    /// The changed settings. An absent field leaves a setting as it is; null removes it.
    fn body(&self) -> Value {
        let mut body = Map::new();
        for (name, url, removed) in [
            ("wake_url", &self.wake_url, self.no_wake_url),
            ("stop_url", &self.stop_url, self.no_stop_url),
            ("callback_url", &self.callback_url, self.no_callback_url),
        ] {
            if url.is_some() || removed {
                body.insert(name.to_owned(), json!(url));
            }
        }
        for (name, value) in [
            ("generation", &self.generation),
            ("gateway_id", &self.gateway),
            ("hold_back", &self.hold_back),
            ("stream_cursor", &self.stream_cursor),
        ] {
            if value.is_some() {
                body.insert(name.to_owned(), json!(value));
            }
        }
        if let Some(setting) = self.staleness.setting() {
            body.insert("staleness".to_owned(), setting);
        } else if self.no_stale {
            body.insert("staleness".to_owned(), Value::Null);
        }
        if self.clear_relevance {
            body.insert("clear_relevance".to_owned(), json!(true));
        }
        Value::Object(body)
    }
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
        ("wake url", "wake_url"),
        ("stop url", "stop_url"),
        ("callback url", "callback_url"),
        ("pinned generation", "generation"),
        ("hold back", "hold_back"),
        ("stream cursor", "stream_cursor"),
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
    for (name, columns) in [("connections", connections), ("relevance", relevance)] {
        if let Some(rows) = agent[name].as_array().filter(|rows| !rows.is_empty()) {
            output.text("\n")?;
            output.list(rows.clone(), &columns, "")?;
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
