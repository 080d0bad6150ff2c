//! `posthouse binding`: links between people on chat platforms and agents.

use clap::Subcommand;

use super::admin_client::AdminClient;
use super::bot::split;
use super::output::Output;

#[derive(Subcommand)]
pub enum Command {
    /// Lists the people who linked themselves to agents
    #[command(
        after_help = "Examples:\n  posthouse binding list\n  posthouse binding list --agent heron --tenant acme"
    )]
    List {
        /// Only people of this agent: its name, or its id (inst_…)
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// The tenant of the agent; not needed if only one agent has this name
        #[arg(long, value_name = "TENANT", requires = "agent")]
        tenant: Option<String>,
    },
    /// Removes the links of a person: their unread messages are dropped, and the agent can no longer write to them
    #[command(after_help = "Example:\n  posthouse binding remove telegram:4711 --agent heron --tenant acme")]
    Remove {
        /// Platform and id of the person
        #[arg(value_name = "PLATFORM:USER")]
        person: String,
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
            Command::List { agent, tenant } => {
                let query = [("agent", agent.as_deref()), ("tenant", tenant.as_deref())];
                let columns = [
                    ("PLATFORM", "platform"),
                    ("BOT", "bot"),
                    ("USER", "user"),
                    ("TENANT", "tenant"),
                    ("AGENT", "agent"),
                    ("DM DEFAULT", "dm_default"),
                    ("LINKED", "linked_at"),
                ];
                output.list(
                    client.list(&["bindings"], &query).await?,
                    &columns,
                    "nobody is linked to an agent",
                )
            }
            Command::Remove { person, agent, tenant } => {
                let (platform, user) = split(&person)?;
                let query = [
                    ("platform", Some(platform)),
                    ("user", Some(user)),
                    ("agent", Some(agent.as_str())),
                    ("tenant", tenant.as_deref()),
                ];
                let removed = client.delete(&["bindings"], &query).await?;
                output.done(&removed, &format!("{person} is no longer linked to {agent}"))
            }
        }
    }
}
