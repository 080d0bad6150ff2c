//! `posthouse route`

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::json;

use super::bot::split;
use super::client::Client;
use super::paper::Paper;

/// One route.
#[derive(Args)]
pub struct Which {
    /// The bot whose events it is for
    #[arg(value_name = "PLATFORM:ID")]
    bot: String,
    /// Which of them: *, chat:ID, scope:ID or path:PATH
    #[arg(value_name = "DISCRIMINATOR")]
    discriminator: String,
}

#[derive(Subcommand)]
pub enum Command {
    /// Sends a bot's events to an agent: all of an owned bot's, a part of a shared bot's
    #[command(after_help = "Examples:\n  posthouse route create telegram:7001 '*' heron --tenant acme\n  \
        posthouse route create telegram:helpdesk chat:-1001 heron --tenant acme")]
    Create {
        #[command(flatten)]
        which: Which,
        /// Its name, or its id (inst_…)
        agent: String,
        /// The tenant a name is meant in; not needed while only one agent has the name
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
    /// Lists routes
    #[command(after_help = "Example:\n  posthouse route list")]
    List {
        /// Only those of this platform
        #[arg(long, value_name = "PLATFORM")]
        platform: Option<String>,
    },
    /// Shows one route
    #[command(after_help = "Example:\n  posthouse route show telegram:helpdesk chat:-1001")]
    Show(Which),
    /// Removes a route; events that only it led somewhere are refused from then on
    #[command(after_help = "Example:\n  posthouse route remove telegram:helpdesk chat:-1001")]
    Remove(Which),
}

impl Command {
    pub async fn act(self, paper: &Paper, client: &Client) -> anyhow::Result<()> {
        match self {
            Command::Create { which, agent, tenant } => {
                let (platform, bot) = split(&which.bot)?;
                let body = json!({
                    "platform": platform,
                    "bot": bot,
                    "discriminator": which.discriminator,
                    "agent": agent,
                    "tenant": tenant,
                });
                let made = client.post(&["routes"], &[], &body).await?;
                paper.done(&made, &format!("{} {} goes to {agent}", which.bot, which.discriminator))
            }
            Command::List { platform } => {
                let routes = client.list(&["routes"], &[("platform", platform.as_deref())]).await?;
                let columns = [
                    ("PLATFORM", "platform"),
                    ("BOT", "bot"),
                    ("DISCRIMINATOR", "discriminator"),
                    ("TENANT", "tenant"),
                    ("AGENT", "agent"),
                    ("ID", "instance_id"),
                ];
                paper.list(routes, &columns, "there are no routes")
            }
            Command::Show(which) => {
                let (platform, bot) = split(&which.bot)?;
                let routes = client.list(&["routes"], &[("platform", Some(platform))]).await?;
                let found = routes.into_iter().find(|route| {
                    route["bot"] == bot && route["discriminator"] == which.discriminator.as_str()
                });
                let Some(route) = found else {
                    bail!("{} has no route for {}", which.bot, which.discriminator);
                };
                let parts = [
                    ("platform", "platform"),
                    ("bot", "bot"),
                    ("discriminator", "discriminator"),
                    ("tenant", "tenant"),
                    ("agent", "agent"),
                    ("id", "instance_id"),
                    ("created", "created_at"),
                ];
                paper.card(&route, &parts)
            }
            Command::Remove(which) => {
                let (platform, bot) = split(&which.bot)?;
                let query = [
                    ("platform", Some(platform)),
                    ("bot", Some(bot)),
                    ("discriminator", Some(which.discriminator.as_str())),
                ];
                let removed = client.delete(&["routes"], &query).await?;
                paper.done(
                    &removed,
                    &format!("removed the route of {} for {}", which.bot, which.discriminator),
                )
            }
        }
    }
}
