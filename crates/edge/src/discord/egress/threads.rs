//! Threads on Discord: creating and renaming them. A thread is a channel of its own.

use http::Method;
use posthouse_wire::action::Metadata;
use posthouse_wire::{ChatId, MessageId, Outcome, ThreadId};
use serde_json::json;

use super::calls::DiscordCalls;
use super::snowflake;
use crate::discord::api::DiscordCall;
use crate::discord::directory::{Channel, is_thread};
use crate::discord::{LABEL, PLATFORM};
use crate::platform_calls::{CallFailure, CallRefusal, RefusalKind, RepeatRule};

const LONGEST_NAME: usize = 100;
const PUBLIC_THREAD: u8 = 11;
const FORUMS: [u8; 2] = [15, 16];
/// Discord archives a thread after this many minutes without a message: three days.
const ARCHIVE_AFTER: u32 = 4320;

fn cut(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

impl DiscordCalls<'_> {
    /// The channel of a message: the thread if there is one, because a thread is a channel of its own. The permission
    /// of the action is for its chat, so a thread must be that chat or in it.
    pub(super) async fn channel<'a>(
        &mut self,
        chat: &'a ChatId,
        metadata: &'a Metadata,
    ) -> Result<&'a str, Outcome> {
        match metadata.thread_id.as_ref().filter(|thread| !thread.as_str().is_empty()) {
            Some(thread) if thread.as_str() != chat.as_str() => self.thread_of(chat, thread).await,
            _ => snowflake(chat.as_str()).ok_or_else(|| Outcome::failed("chat not found")),
        }
    }

    /// The id of a thread that is this chat or in it. Any other channel is declined like a chat that is not the
    /// agent's, whether it exists or not: on a shared bot it may belong to another tenant.
    async fn thread_of<'a>(&mut self, chat: &ChatId, thread: &'a ThreadId) -> Result<&'a str, Outcome> {
        let declined = || Outcome::egress_declined(PLATFORM);
        let id = snowflake(thread.as_str()).ok_or_else(declined)?;
        // An agent may guess ids. The refusals are counted for its chat, because each guess is another channel.
        let guesses = format!("{}:threads:{}", self.bot.id, chat.as_str());
        let is_known = self.discord.directory(&self.bot.id).channel(id).is_some();
        if !is_known && self.discord.refusal_limit.standing(&guesses).is_some() {
            return Err(declined());
        }
        let found = self.look_up(id).await.map_err(|failure| match failure {
            CallFailure::Refused(
                refusal @ CallRefusal {
                    kind: RefusalKind::Gone | RefusalKind::Forbidden | RefusalKind::Permanent,
                    ..
                },
            ) => {
                self.discord.refusal_limit.note(&guesses, &refusal);
                declined()
            }
            // Nothing was done yet, so that the action can be repeated.
            CallFailure::Lost => Outcome::failed("network: Discord did not answer about the thread"),
            other => Outcome::failed(other.error(LABEL)),
        })?;
        let is_chat = id == chat.as_str() || found.parent_id.as_deref() == Some(chat.as_str());
        if is_thread(found.kind) && is_chat { Ok(id) } else { Err(declined()) }
    }

    /// A channel, from what is known about the bot's servers or else from Discord.
    async fn look_up(&mut self, id: &str) -> Result<Channel, CallFailure> {
        let directory = self.discord.directory(&self.bot.id);
        if let Some(known) = directory.channel(id) {
            return Ok(known);
        }
        let call = DiscordCall::get("GET /channels/ID", &format!("/channels/{id}")).of(id);
        let found: Channel = self.ask(call, RepeatRule::Harmless).await?;
        if found.guild_id.is_some() {
            directory.keep_channel(found.clone());
        }
        Ok(found)
    }

    /// Creates a thread under a message, in a channel, or as a post of a forum.
    pub(super) async fn create_thread(
        &mut self,
        chat: &ChatId,
        name: &str,
        under: Option<&MessageId>,
    ) -> Outcome {
        let Some(channel) = snowflake(chat.as_str()) else { return Outcome::failed("chat not found") };
        let name = cut(name);
        let created = match under.and_then(|message| snowflake(message.as_str())) {
            Some(message) => {
                let path = format!("/channels/{channel}/messages/{message}/threads");
                let body = json!({ "name": name, "auto_archive_duration": ARCHIVE_AFTER });
                DiscordCall::new(Method::POST, "POST /channels/ID/messages/ID/threads", path).json(body)
            }
            None => {
                let mut body = json!({ "name": name, "auto_archive_duration": ARCHIVE_AFTER });
                match self.is_forum(channel).await {
                    // A post begins with a message.
                    true => body["message"] = json!({ "content": name, "allowed_mentions": { "parse": [] } }),
                    false => body["type"] = json!(PUBLIC_THREAD),
                }
                DiscordCall::new(
                    Method::POST,
                    "POST /channels/ID/threads",
                    format!("/channels/{channel}/threads"),
                )
                .json(body)
            }
        };
        match self.ask::<Channel>(created.of(channel), RepeatRule::IfNothingWasDone).await {
            Ok(created) => {
                let thread = created.id.as_str().into();
                // The next action in it may come before the gateway reports it.
                if created.guild_id.is_some() {
                    self.discord.directory(&self.bot.id).keep_channel(created);
                }
                Outcome::thread(thread)
            }
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }

    /// Renames a thread. A channel that is not a thread keeps its name.
    pub(super) async fn rename_thread(&mut self, chat: &ChatId, thread: &ThreadId, name: &str) -> Outcome {
        let thread = match self.thread_of(chat, thread).await {
            Ok(thread) => thread,
            Err(refusal) => return refusal,
        };
        let call = DiscordCall::new(Method::PATCH, "PATCH /channels/ID", format!("/channels/{thread}"))
            .of(thread)
            .json(json!({ "name": cut(name) }));
        self.done(call, RepeatRule::Harmless).await
    }

    async fn is_forum(&mut self, channel: &str) -> bool {
        self.look_up(channel).await.is_ok_and(|found| FORUMS.contains(&found.kind))
    }
}
