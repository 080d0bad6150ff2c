//! Texts of recent messages with buttons. Slack takes the buttons away only together with a new text.

use std::time::Duration;

use moka::sync::Cache;
use posthouse_wire::BotId;

/// Texts are needed again right after the press of a button, which repeats them.
const KEPT: Duration = Duration::from_secs(3600);
/// Most bytes of all texts.
const MOST_BYTES: u64 = 16 << 20;

/// Texts by bot, channel and time of the message. Clones share one state.
#[derive(Clone)]
pub(super) struct PromptTexts(Cache<(BotId, String, String), String>);

impl Default for PromptTexts {
    fn default() -> Self {
        let weight =
            |_: &(BotId, String, String), text: &String| u32::try_from(text.len()).unwrap_or(u32::MAX);
        Self(Cache::builder().max_capacity(MOST_BYTES).weigher(weight).time_to_live(KEPT).build())
    }
}

impl PromptTexts {
    pub fn keep(&self, bot: &BotId, channel: &str, ts: &str, text: &str) {
        self.0.insert((bot.clone(), channel.to_owned(), ts.to_owned()), text.to_owned());
    }

    pub fn take(&self, bot: &BotId, channel: &str, ts: &str) -> Option<String> {
        self.0.remove(&(bot.clone(), channel.to_owned(), ts.to_owned()))
    }
}
