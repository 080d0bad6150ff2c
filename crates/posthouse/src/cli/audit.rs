//! `posthouse audit`

use clap::Subcommand;

use super::client::Client;
use super::paper::Paper;

#[derive(Subcommand)]
pub enum Command {
    /// Lists every change that was asked for with the admin token, newest first
    #[command(after_help = "Told for 90 days.\n\nExamples:\n  posthouse audit list\n  \
        posthouse audit list --limit 1000 --json")]
    List {
        /// How many at most
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// Only those before this one: `next` of the page before, as --json shows it
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
    },
}

impl Command {
    pub async fn act(self, paper: &Paper, client: &Client) -> anyhow::Result<()> {
        let Command::List { limit, after } = self;
        let limit = limit.to_string();
        let query = [("limit", Some(limit.as_str())), ("after", after.as_deref())];
        // One page: the newest are what is asked for.
        let page = client.get(&["audit"], &query).await?;
        if paper.json {
            return paper.value(&page);
        }
        let columns = [
            ("AT", "at"),
            ("FROM", "from"),
            ("OPERATION", "operation"),
            ("ABOUT", "about"),
            ("STATUS", "status"),
        ];
        let items = page["items"].as_array().cloned().unwrap_or_default();
        paper.list(items, &columns, "nothing was changed")
    }
}
