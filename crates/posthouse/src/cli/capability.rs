//! `posthouse capability`: uses of capabilities and of bots' credentials.

use clap::Subcommand;

use super::admin_client::AdminClient;
use super::output::Output;

#[derive(Subcommand)]
pub enum Command {
    /// Lists what an agent did with capabilities and with its bots' credentials, newest first
    #[command(after_help = "Examples:\n  posthouse capability list --agent heron\n  \
        posthouse capability list --agent heron --tenant acme --json\n\n\
        Uses of the last week are shown, without any secret.")]
    List {
        /// The agent: its name, or its id (inst_…)
        #[arg(long, value_name = "AGENT")]
        agent: String,
        /// The tenant of the agent; needed if several tenants have an agent of this name
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        let Command::List { agent, tenant } = self;
        let path = ["agents", &agent, "capabilities"];
        let uses = client.list(&path, &[("tenant", tenant.as_deref())]).await?;
        let columns = [
            ("AT", "at"),
            ("KIND", "kind"),
            ("ENTRY", "entry"),
            ("CALLED", "called"),
            ("OUTCOME", "outcome"),
            ("ACTION", "action"),
        ];
        output.list(uses, &columns, "no credential was used in the last week")
    }
}
