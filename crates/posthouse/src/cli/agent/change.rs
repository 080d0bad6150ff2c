//! `posthouse agent change`: settings of an agent, and of one of its gateways.

use clap::{ArgGroup, Args};
use serde_json::{Map, Value, json};

use super::AgentSelector;
use crate::cli::staleness::StaleArgs;

/// New settings of an agent.
#[derive(Args)]
#[group(skip)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).arg("stale"))]
#[command(group = ArgGroup::new("of_gateway").multiple(true))]
pub struct ChangeArgs {
    #[command(flatten)]
    pub(super) which: AgentSelector,
    /// URL to call when something waits for the agent while it is not connected
    #[arg(long, value_name = "URL", groups = ["what", "of_gateway"], conflicts_with = "no_wake_url")]
    wake_url: Option<String>,
    /// Call no URL when something waits for the agent; with --gateway, use the agent's wake URL
    #[arg(long, groups = ["what", "of_gateway"])]
    no_wake_url: bool,
    /// URL to call when the agent asks to be stopped; prints the URL at which it asks, which is shown only once
    #[arg(long, value_name = "URL", group = "what", conflicts_with = "no_stop_url")]
    pub(super) stop_url: Option<String>,
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
    #[arg(long, value_name = "VERSION", groups = ["what", "of_gateway"], value_parser = ["auto", "0.19", "newer"])]
    generation: Option<String>,
    /// Apply --generation, --wake-url, --bot and --route-key to this gateway credential alone
    #[arg(long, value_name = "ID", requires = "of_gateway")]
    gateway: Option<String>,
    /// A bot that this gateway may use, from its next connection on; can be repeated
    #[arg(long = "bot", value_name = "PLATFORM:ID", groups = ["what", "of_gateway"], requires = "gateway")]
    bots: Vec<String>,
    /// A chat or scope of a shared bot that this gateway claims; replaces its earlier ones; can be repeated
    #[arg(long = "route-key", value_name = "KEY", groups = ["what", "of_gateway"], requires = "gateway")]
    route_keys: Vec<String>,
    /// Remove all claims of this gateway
    #[arg(long, groups = ["what", "of_gateway"], requires = "gateway", conflicts_with = "route_keys")]
    no_route_keys: bool,
    /// Let this gateway use every bot of the agent
    #[arg(long, groups = ["what", "of_gateway"], requires = "gateway", conflicts_with = "bots")]
    all_bots: bool,
    /// Whether further messages of a chat wait until the agent's turn in it has ended: always (on),
    /// never (off), or only the messages that were waiting when it connected (drain, the default)
    #[arg(long, value_name = "WHEN", group = "what", value_parser = ["on", "off", "drain"])]
    hold_back: Option<String>,
    /// How it gets interactions, such as slash commands: as messages (inbound, the default), or as the
    /// platform sent them, without secrets (passthrough)
    #[arg(long, value_name = "HOW", group = "what", value_parser = ["inbound", "passthrough"])]
    interactions: Option<String>,
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
    /// Deletes what it declared about people without a link, so that only linked ones reach it in claimed places
    #[arg(long, group = "what")]
    clear_principals: bool,
    /// Its profile for all its events, if it has several
    #[arg(long, value_name = "PROFILE", group = "what", conflicts_with = "no_profile")]
    profile: Option<String>,
    /// Deliver its events without a profile
    #[arg(long, group = "what")]
    no_profile: bool,
    /// A shared bot that it uses from now on; can be repeated
    #[arg(long = "use-bot", value_name = "PLATFORM:ID", group = "what")]
    use_bots: Vec<String>,
}

impl ChangeArgs {
    /// The changed settings. An absent field leaves a setting as it is; null removes it.
    pub(super) fn body(&self) -> Value {
        let mut body = Map::new();
        for (name, url, removed) in [
            ("wake_url", &self.wake_url, self.no_wake_url),
            ("stop_url", &self.stop_url, self.no_stop_url),
            ("callback_url", &self.callback_url, self.no_callback_url),
            ("profile", &self.profile, self.no_profile),
        ] {
            if url.is_some() || removed {
                body.insert(name.to_owned(), json!(url));
            }
        }
        for (name, value) in [
            ("generation", &self.generation),
            ("gateway_id", &self.gateway),
            ("hold_back", &self.hold_back),
            ("interactions", &self.interactions),
            ("stream_cursor", &self.stream_cursor),
        ] {
            if value.is_some() {
                body.insert(name.to_owned(), json!(value));
            }
        }
        if self.all_bots || !self.bots.is_empty() {
            body.insert("gateway_bots".to_owned(), json!(self.bots));
        }
        if self.no_route_keys || !self.route_keys.is_empty() {
            body.insert("route_keys".to_owned(), json!(self.route_keys));
        }
        for (name, clears) in
            [("clear_relevance", self.clear_relevance), ("clear_principals", self.clear_principals)]
        {
            if clears {
                body.insert(name.to_owned(), json!(true));
            }
        }
        if let Some(setting) = self.staleness.setting() {
            body.insert("staleness".to_owned(), setting);
        } else if self.no_stale {
            body.insert("staleness".to_owned(), Value::Null);
        }
        if !self.use_bots.is_empty() {
            body.insert("use_bots".to_owned(), json!(self.use_bots));
        }
        Value::Object(body)
    }
}
