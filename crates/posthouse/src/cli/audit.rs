//! `posthouse audit`: the audit log.

use clap::Subcommand;

use super::admin_client::AdminClient;
use super::filters::{PageArgs, more};
use super::output::Output;

#[derive(Subcommand)]
pub enum Command {
    /// Lists every change that was requested with the admin token, newest first
    #[command(after_help = "Entries are kept for 90 days.\n\nExamples:\n  posthouse audit list\n  \
        posthouse audit list --limit 1000 --json")]
    List {
        #[command(flatten)]
        page: PageArgs<100, { u32::MAX }>,
    },
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        let Command::List { page: PageArgs { limit, after } } = self;
        let limit = limit.to_string();
        let query = [("limit", Some(limit.as_str())), ("after", after.as_deref())];
        // Only one page: the user asks for the newest entries.
        let page = client.get(&["audit"], &query).await?;
        if output.json {
            return output.value(&page);
        }
        let columns = [
            ("AT", "at"),
            ("FROM", "from"),
            ("OPERATION", "operation"),
            ("ABOUT", "about"),
            ("STATUS", "status"),
        ];
        let items = page["items"].as_array().cloned().unwrap_or_default();
        output.list(items, &columns, "there are no changes")?;
        more(&page);
        Ok(())
    }
}
