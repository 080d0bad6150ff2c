//! Lookups of channels and servers that the gateway has not described. It describes them at the beginning of a session and
//! when they change, but not when a session is resumed after a restart of this server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use posthouse_wire::BotId;
use tokio::sync::Mutex;

use super::api::DiscordCall;
use super::directory::{Channel, ChannelView, Guild, is_thread};
use super::{Discord, LABEL};
use crate::bots::OpenedBot;
use crate::platform::{Arrival, Reading};
use crate::platform_calls::CallFailure;

/// Time limit of one question. A message waits for its answer.
const TIME_LIMIT: Duration = Duration::from_secs(3);
/// Time for which a server or parent channel whose name was not told is not looked up again.
const NOT_REPEATED: Duration = Duration::from_secs(60);
/// Most lookups under way, and most names that were not told, over all bots.
const MOST: u64 = 10_000;
/// Reason for which messages of channels that no longer exist are ignored.
const UNKNOWN_CHANNEL: &str = "unknown_channel";

/// What the lookups share. Clones share one state.
#[derive(Clone)]
pub(super) struct ChannelLookups {
    /// Held while Discord is asked about a channel or server, so that it is asked once.
    asking: Cache<(BotId, String), Arc<Mutex<()>>>,
    /// Servers and channels whose names were not told.
    unnamed: Cache<(BotId, String), ()>,
}

impl Default for ChannelLookups {
    fn default() -> Self {
        Self {
            asking: Cache::builder().max_capacity(MOST).time_to_idle(NOT_REPEATED).build(),
            unnamed: Cache::builder().max_capacity(MOST).time_to_live(NOT_REPEATED).build(),
        }
    }
}

impl ChannelLookups {
    fn asking(&self, bot: &OpenedBot, id: &str) -> Arc<Mutex<()>> {
        self.asking.get_with((bot.id.clone(), id.to_owned()), Arc::default)
    }
}

impl Discord {
    /// Writes into the events of a reading where they happened. Those of channels that no longer exist are taken out. If
    /// Discord does not answer, the reading stays as it is: a guess could give the message of a thread to the tenant of
    /// its server instead of the tenant of its channel.
    pub(super) async fn describe_places(
        &self,
        bot: &OpenedBot,
        reading: &mut Reading,
    ) -> Result<(), CallFailure> {
        let mut places: HashMap<String, Option<ChannelView>> = HashMap::new();
        // Discord waits three seconds for the answer to an interaction, so it does not wait for names.
        let with_names = reading.interaction_acks.is_empty();
        for arrival in reading.arrivals.iter().chain(&reading.from_bots) {
            let Some((guild, channel)) = place_of(arrival) else { continue };
            let view = match self.full_view(bot, guild, channel, with_names).await {
                Ok(view) => Some(view),
                Err(failure) if failure.is_final() => {
                    let cause = failure.cause(LABEL);
                    tracing::warn!(bot.id = %bot.id, channel, "dropped a message of an unknown channel: {cause}");
                    None
                }
                Err(failure) => return Err(failure),
            };
            places.insert(channel.to_owned(), view);
        }
        for arrivals in [&mut reading.arrivals, &mut reading.from_bots] {
            arrivals.retain_mut(|arrival| {
                let place = place_of(arrival).and_then(|(_, channel)| places.get(channel).cloned());
                match place {
                    // A direct message.
                    None => true,
                    Some(Some(view)) => {
                        view.write_to(&mut arrival.event.source);
                        true
                    }
                    Some(None) => {
                        reading.ignored.push(UNKNOWN_CHANNEL);
                        // A press that reaches nobody is not shown as taken.
                        reading.interaction_acks.clear();
                        false
                    }
                }
            });
        }
        reading.incomplete = false;
        Ok(())
    }

    /// A channel with its full name. Only the channel itself must be known: a name that is not told is left out, and
    /// without `with_names` Discord is not asked for it.
    async fn full_view(
        &self,
        bot: &OpenedBot,
        guild: &str,
        channel: &str,
        with_names: bool,
    ) -> Result<ChannelView, CallFailure> {
        let found = self.channel(bot, channel).await?;
        let directory = self.directory(&bot.id);
        let parent = match found.parent_id.as_deref().filter(|_| is_thread(found.kind)) {
            Some(parent) if with_names => self.unless_untold(bot, parent, self.channel(bot, parent)).await,
            Some(parent) => directory.channel(parent),
            None => None,
        };
        let guild = match with_names {
            true => self.unless_untold(bot, guild, self.guild(bot, guild)).await,
            false => directory.guild(guild),
        };
        let guild = guild.as_ref().map(|guild| guild.name.as_str());
        Ok(ChannelView::of(&found).with_full_name(channel, guild, parent.as_ref()))
    }

    /// The answer to a question about a name. It is not asked if it had no answer a moment ago.
    async fn unless_untold<T>(
        &self,
        bot: &OpenedBot,
        id: &str,
        question: impl Future<Output = Result<T, CallFailure>>,
    ) -> Option<T> {
        let key = (bot.id.clone(), id.to_owned());
        if self.lookups.unnamed.contains_key(&key) {
            return None;
        }
        let answer = question.await;
        if answer.is_err() {
            self.lookups.unnamed.insert(key, ());
        }
        answer.ok()
    }

    /// A channel, from what is known about the bot's servers or else from Discord.
    pub(super) async fn channel(&self, bot: &OpenedBot, id: &str) -> Result<Channel, CallFailure> {
        let directory = self.directory(&bot.id);
        if let Some(known) = directory.channel(id) {
            return Ok(known);
        }
        let asking = self.lookups.asking(bot, id);
        let _asking = asking.lock().await;
        if let Some(known) = directory.channel(id) {
            return Ok(known);
        }
        let call = DiscordCall::get("GET /channels/ID", &format!("/channels/{id}")).of(id);
        let found: Channel = self.call(bot, call, TIME_LIMIT).await?;
        // The gateway reports changes of server channels, so these can be kept. Direct channels are requested each
        // time.
        if found.guild_id.is_some() {
            directory.keep_channel(found.clone());
        }
        Ok(found)
    }

    /// A server, from what is known about the bot's servers or else from Discord.
    pub(super) async fn guild(&self, bot: &OpenedBot, id: &str) -> Result<Guild, CallFailure> {
        let directory = self.directory(&bot.id);
        if let Some(known) = directory.guild(id) {
            return Ok(known);
        }
        let asking = self.lookups.asking(bot, id);
        let _asking = asking.lock().await;
        if let Some(known) = directory.guild(id) {
            return Ok(known);
        }
        let call = DiscordCall::get("GET /guilds/ID", &format!("/guilds/{id}")).of(id);
        let found: Guild = self.call(bot, call, TIME_LIMIT).await?;
        directory.keep_guild(found.clone());
        Ok(found)
    }
}

/// The server and the channel of an arrival. `None` if it is a direct message.
fn place_of(arrival: &Arrival) -> Option<(&str, &str)> {
    let source = &arrival.event.source;
    Some((source.scope_id.as_ref()?.as_str(), source.chat_id.as_ref()?.as_str()))
}
