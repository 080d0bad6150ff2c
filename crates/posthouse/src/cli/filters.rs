//! Options that several list commands share: filters by agent and by bot, and paging.

use clap::Args;
use serde_json::Value;

use super::bot::split;

/// Filter by agent.
#[derive(Args)]
pub struct AgentFilter {
    /// Only this agent: its name, or its id (inst_…)
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// The agent, as an older spelling of --agent
    #[arg(value_name = "AGENT", hide = true, conflicts_with = "agent")]
    agent_word: Option<String>,
    /// Only agents of this tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
}

impl AgentFilter {
    pub fn query(&self) -> [(&'static str, Option<&str>); 2] {
        let agent = self.agent.as_deref().or(self.agent_word.as_deref());
        [("agent", agent), ("tenant", self.tenant.as_deref())]
    }
}

/// Filter by platform or bot.
#[derive(Args)]
pub struct BotFilter {
    /// Only this platform
    #[arg(long, value_name = "PLATFORM", conflicts_with = "bot")]
    platform: Option<String>,
    /// Only this bot
    #[arg(long, value_name = "PLATFORM:ID")]
    bot: Option<String>,
}

impl BotFilter {
    pub fn of_bot(bot: &str) -> Self {
        Self { platform: None, bot: Some(bot.to_owned()) }
    }

    /// The platform, and the id of the bot. The id comes with its platform.
    pub fn parts(&self) -> anyhow::Result<(Option<&str>, Option<&str>)> {
        match self.bot.as_deref() {
            Some(bot) => split(bot).map(|(platform, id)| (Some(platform), Some(id))),
            None => Ok((self.platform.as_deref(), None)),
        }
    }

    /// Removes what does not match, for lists that the server cannot filter by all of it. `bot` is the field of an item
    /// that holds the id of its bot.
    pub fn retain(&self, items: &mut Vec<Value>, bot: &str) -> anyhow::Result<()> {
        let (platform, id) = self.parts()?;
        let matches = |value: &Value, wanted: Option<&str>| wanted.is_none_or(|wanted| value == wanted);
        items.retain(|item| matches(&item["platform"], platform) && matches(&item[bot], id));
        Ok(())
    }
}

/// Options of a command that prints one page of a list.
#[derive(Args)]
pub struct PageArgs<const DEFAULT: u32, const MOST: u32> {
    /// Maximum number of entries
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    pub limit: u32,
    /// Continue after this cursor: `next` of the previous page
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
}

/// Prints the next cursor to standard error, because other programs may read the list itself line by line.
/// The next page may be empty.
pub fn more(page: &Value) {
    if let Some(next) = page["next"].as_str() {
        eprintln!("posthouse: there may be more: continue with --after {next}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_filter_by_bot_keeps_its_platform_and_its_bot_only() {
        let all = || {
            let item = |platform: &str, bot: &str| json!({ "platform": platform, "bot": bot });
            vec![item("telegram", "1"), item("telegram", "2"), item("discord", "1")]
        };
        for (filter, left) in [
            (BotFilter { platform: None, bot: None }, 3),
            (BotFilter { platform: Some("telegram".to_owned()), bot: None }, 2),
            (BotFilter::of_bot("telegram:2"), 1),
            (BotFilter::of_bot("telegram:3"), 0),
        ] {
            let mut items = all();
            filter.retain(&mut items, "bot").unwrap();
            assert_eq!(items.len(), left);
        }
        assert!(BotFilter::of_bot("telegram").parts().is_err());
    }
}
