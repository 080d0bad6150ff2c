//! `posthouse claim`: chats and scopes of shared bots that agents ask for.

use clap::{Args, Subcommand};
use serde_json::json;

use super::admin_client::AdminClient;
use super::bot::split;
use super::filters::BotFilter;
use super::output::Output;

/// A place of a bot.
#[derive(Args)]
pub struct PlaceSelector {
    /// The shared bot
    #[arg(value_name = "PLATFORM:ID")]
    bot: String,
    /// The place: chat:ID, scope:ID or path:PATH
    #[arg(value_name = "PLACE")]
    place: String,
}

#[derive(Subcommand)]
pub enum Command {
    /// Lists claims; one becomes live when a person linked to its agent writes there, or when you grant it
    #[command(
        after_help = "Examples:\n  posthouse claim list\n  posthouse claim list --bot telegram:helpdesk"
    )]
    List {
        #[command(flatten)]
        filter: BotFilter,
    },
    /// Makes a place belong to an agent, whether or not it has claimed it
    #[command(
        after_help = "The agent's own policy decides who reaches it there; by default only people who linked themselves \
        to it. To send it the messages of everybody in a place, use `posthouse route create`.\n\n\
        Example:\n  posthouse claim grant telegram:helpdesk chat:-1001 heron --tenant acme"
    )]
    Grant {
        #[command(flatten)]
        which: PlaceSelector,
        /// The agent's name, or its id (inst_…)
        agent: String,
        /// The tenant of the agent; not needed if only one agent has this name
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
    /// Removes a claim of an agent; its gateway may make it again
    #[command(
        after_help = "Example:\n  posthouse claim remove telegram:helpdesk chat:-1001 --agent heron --tenant acme"
    )]
    Remove {
        #[command(flatten)]
        which: PlaceSelector,
        /// The agent's name, or its id (inst_…)
        #[arg(long, value_name = "AGENT")]
        agent: String,
        /// The tenant of the agent; not needed if only one agent has this name
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::List { filter } => {
                let (platform, bot) = filter.parts()?;
                let query = [("platform", platform.filter(|_| bot.is_some())), ("bot", bot)];
                let mut claims = client.list(&["claims"], &query).await?;
                filter.retain(&mut claims, "bot")?;
                let columns = [
                    ("PLATFORM", "platform"),
                    ("BOT", "bot"),
                    ("PLACE", "place"),
                    ("AGENT", "agent"),
                    ("LIVE", "live"),
                    ("GATEWAY", "gateway_id"),
                    ("ID", "instance_id"),
                ];
                output.list(claims, &columns, "there are no claims")
            }
            Command::Grant { which, agent, tenant } => {
                let (platform, bot) = split(&which.bot)?;
                let body = json!({
                    "platform": platform,
                    "bot": bot,
                    "place": which.place,
                    "agent": agent,
                    "tenant": tenant,
                });
                let granted = client.post(&["claims"], &[], &body).await?;
                output.done(&granted, &format!("{} {} belongs to {agent}", which.bot, which.place))
            }
            Command::Remove { which, agent, tenant } => {
                let (platform, bot) = split(&which.bot)?;
                let query = [
                    ("platform", Some(platform)),
                    ("bot", Some(bot)),
                    ("place", Some(which.place.as_str())),
                    ("agent", Some(agent.as_str())),
                    ("tenant", tenant.as_deref()),
                ];
                let removed = client.delete(&["claims"], &query).await?;
                output.done(&removed, &format!("{agent} has no claim on {} of {}", which.place, which.bot))
            }
        }
    }
}
