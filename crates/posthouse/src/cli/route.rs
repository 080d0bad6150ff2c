//! `posthouse route`: which agent gets the events of a bot.

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::json;

use super::admin_client::AdminClient;
use super::bot::split;
use super::filters::BotFilter;
use super::output::Output;
use super::staleness::{self, StaleArgs};

/// One route.
#[derive(Args)]
pub struct RouteSelector {
    /// The bot whose events are routed
    #[arg(value_name = "PLATFORM:ID")]
    bot: String,
    /// Which of its events: *, chat:ID, scope:ID or path:PATH
    #[arg(value_name = "EVENTS")]
    discriminator: String,
}

#[derive(Subcommand)]
pub enum Command {
    /// Sends events of a bot to an agent: all events of an owned bot, a part of those of a shared bot
    #[command(after_help = "Examples:\n  posthouse route create telegram:7001 '*' heron --tenant acme\n  \
        posthouse route create telegram:helpdesk chat:-1001 heron --tenant acme")]
    Create {
        #[command(flatten)]
        which: RouteSelector,
        /// The agent's name, or its id (inst_…)
        agent: String,
        /// The tenant of the agent; not needed if only one agent has this name
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// The agent's profile for these events, if it has several
        #[arg(long, value_name = "PROFILE")]
        profile: Option<String>,
        #[command(flatten)]
        staleness: StaleArgs,
    },
    /// Changes what happens to messages of a route that waited too long for the agent
    #[command(after_help = "Examples:\n  \
        posthouse route change telegram:helpdesk chat:-1001 --stale-after 2h --stale expire\n  \
        posthouse route change telegram:helpdesk chat:-1001 --no-stale")]
    Change {
        #[command(flatten)]
        which: RouteSelector,
        #[command(flatten)]
        staleness: StaleArgs,
        /// Use the agent's setting
        #[arg(long, required_unless_present = "stale", conflicts_with = "stale")]
        no_stale: bool,
    },
    /// Lists routes
    #[command(
        after_help = "Examples:\n  posthouse route list\n  posthouse route list --bot telegram:helpdesk"
    )]
    List {
        #[command(flatten)]
        filter: BotFilter,
    },
    /// Shows one route
    #[command(after_help = "Example:\n  posthouse route show telegram:helpdesk chat:-1001")]
    Show(RouteSelector),
    /// Removes a route: its events are refused, unread ones are dropped, and the agent can no longer act there
    #[command(after_help = "Example:\n  posthouse route remove telegram:helpdesk chat:-1001")]
    Remove(RouteSelector),
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::Create { which, agent, tenant, profile, staleness } => {
                let (platform, bot) = split(&which.bot)?;
                let body = json!({
                    "platform": platform,
                    "bot": bot,
                    "discriminator": which.discriminator,
                    "agent": agent,
                    "tenant": tenant,
                    "profile": profile,
                    "staleness": staleness.setting(),
                });
                let made = client.post(&["routes"], &[], &body).await?;
                output.done(&made, &format!("{} {} goes to {agent}", which.bot, which.discriminator))
            }
            Command::Change { which, staleness, .. } => {
                let (platform, bot) = split(&which.bot)?;
                let query = [
                    ("platform", Some(platform)),
                    ("bot", Some(bot)),
                    ("discriminator", Some(which.discriminator.as_str())),
                ];
                let body = json!({ "staleness": staleness.setting() });
                let changed = client.patch(&["routes"], &query, &body).await?;
                output.done(
                    &changed,
                    &format!("changed the route of {} for {}", which.bot, which.discriminator),
                )
            }
            Command::List { filter } => {
                let (platform, _) = filter.parts()?;
                let mut routes = client.list(&["routes"], &[("platform", platform)]).await?;
                filter.retain(&mut routes, "bot")?;
                let columns = [
                    ("PLATFORM", "platform"),
                    ("BOT", "bot"),
                    ("EVENTS", "discriminator"),
                    ("TENANT", "tenant"),
                    ("AGENT", "agent"),
                    ("ID", "instance_id"),
                ];
                output.list(routes, &columns, "there are no routes")
            }
            Command::Show(which) => {
                let (platform, bot) = split(&which.bot)?;
                let routes = client.list(&["routes"], &[("platform", Some(platform))]).await?;
                let found = routes.into_iter().find(|route| {
                    route["bot"] == bot && route["discriminator"] == which.discriminator.as_str()
                });
                let Some(mut route) = found else {
                    bail!("{} has no route for {}", which.bot, which.discriminator);
                };
                if !output.json {
                    route["staleness"] = staleness::shown(&route["staleness"]);
                }
                let parts = [
                    ("platform", "platform"),
                    ("bot", "bot"),
                    ("discriminator", "discriminator"),
                    ("tenant", "tenant"),
                    ("agent", "agent"),
                    ("id", "instance_id"),
                    ("profile", "profile"),
                    ("stale messages", "staleness"),
                    ("created", "created_at"),
                ];
                output.card(&route, &parts)
            }
            Command::Remove(which) => {
                let (platform, bot) = split(&which.bot)?;
                let query = [
                    ("platform", Some(platform)),
                    ("bot", Some(bot)),
                    ("discriminator", Some(which.discriminator.as_str())),
                ];
                let removed = client.delete(&["routes"], &query).await?;
                output.done(
                    &removed,
                    &format!("removed the route of {} for {}", which.bot, which.discriminator),
                )
            }
        }
    }
}
