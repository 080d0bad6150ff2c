//! Calls with an interaction token: first answer, follow-ups, and their edits.

use serde_json::{Value, json};

use super::{ApiResult, RestCall, no_content, ok};
use crate::{
    discord::{
        errors::RestError,
        interactions::StandInInteraction,
        messages::{Authorship, EPHEMERAL},
        world::DiscordWorld,
    },
    harness::{PlatformRow, form},
};

/// Flag of a message that shows "is thinking".
const LOADING: u64 = 1 << 7;

impl RestCall<'_> {
    /// Whether the query sets this flag, as `true` or `1`.
    fn is_set(&self, name: &str) -> bool {
        let query = form::read_pairs(self.call.head.uri.query().unwrap_or_default().as_bytes());
        query
            .iter()
            .any(|(found, value)| found == name && matches!(value.to_lowercase().as_str(), "true" | "1"))
    }

    pub(super) fn interaction_callback(&self) -> ApiResult {
        let body = self.message_body()?;
        let id = self.segments[1];
        let matches = {
            let world = self.discord.world.lock();
            world.interactions.get(self.segments[2]).is_some_and(|interaction| interaction.id == id)
        };
        if !matches {
            return Err(RestError::unknown(10062, "interaction"));
        }
        let message = self.discord.first_answer(self.segments[2], body)?;
        if self.is_set("with_response") {
            let world = self.discord.world.lock();
            let interaction = world.interactions.get(self.segments[2]);
            let (kind, answered) = interaction.map_or((0, None), |one| (one.kind, one.answered));
            let original = interaction.and_then(|one| one.original.clone());
            let mut answer = json!({"interaction": {
                "id": id, "type": kind, "response_message_id": original,
                "response_message_loading": answered == Some(5), "response_message_ephemeral": false,
            }});
            if let Some(message) = message {
                answer["resource"] = json!({"type": answered, "message": message});
            }
            return ok(&answer);
        }
        no_content()
    }

    /// The interaction of the token in the path, if it was answered and has not expired.
    fn interaction<'w>(&self, world: &'w DiscordWorld) -> Result<&'w StandInInteraction, RestError> {
        let interaction = world.interactions.get(self.segments[2]);
        let interaction = interaction.filter(|interaction| interaction.application == self.segments[1]);
        let interaction = interaction.ok_or_else(|| RestError::new(401, 50027, "Invalid Webhook Token"))?;
        let lifetime = self.discord.settings.interaction_lifetime.as_millis();
        if i128::from(self.now_ms - interaction.created_ms) >= i128::try_from(lifetime).unwrap_or(i128::MAX) {
            return Err(RestError::new(401, 50027, "Invalid Webhook Token"));
        }
        if interaction.answered.is_none() {
            return Err(RestError::unknown(10015, "Webhook"));
        }
        Ok(interaction)
    }

    pub(super) fn follow_up(&self) -> ApiResult {
        let body = self.message_body()?;
        let mut world = self.discord.world.lock();
        let (channel, application) = {
            let interaction = self.interaction(&world)?;
            (interaction.channel.clone(), interaction.application.clone())
        };
        body.check(true)?;
        let base_url = self.discord.harness.base_url();
        let by = Authorship {
            channel: &channel,
            author: &application,
            kind: 0,
            now_ms: self.now_ms,
            base_url: &base_url,
        };
        let mut message = world.write(by, &body, None);
        message["webhook_id"] = json!(application);
        message["application_id"] = json!(application);
        if message["flags"].as_u64().unwrap_or(0) & EPHEMERAL == 0 {
            world.announce_message("MESSAGE_CREATE", &message);
        }
        drop(world);
        self.record("sent", &application, &channel, &message, body.text(), body.described());
        if self.is_set("wait") { ok(&message) } else { no_content() }
    }

    fn record(&self, kind: &'static str, account: &str, chat: &str, message: &Value, text: &str, raw: Value) {
        let row = PlatformRow::new(account, kind, self.call.subject.call.clone()).chat(chat);
        let row = row.message(message["id"].as_str().unwrap_or_default()).text(text).raw(raw);
        self.discord.harness.record(row);
    }

    /// The id of the message in the path. `@original` is the first answer.
    fn answer_id(&self, interaction: &StandInInteraction) -> Result<String, RestError> {
        match self.segments[4] {
            "@original" => interaction.original.clone().ok_or_else(|| RestError::unknown(10008, "Message")),
            id => Ok(id.to_owned()),
        }
    }

    pub(super) fn read_answer(&self) -> ApiResult {
        let world = self.discord.world.lock();
        let id = self.answer_id(self.interaction(&world)?)?;
        ok(world.messages.get(&id).ok_or_else(|| RestError::unknown(10008, "Message"))?)
    }

    pub(super) fn edit_answer(&self) -> ApiResult {
        let body = self.message_body()?;
        let mut world = self.discord.world.lock();
        let interaction = self.interaction(&world)?;
        let (id, application) = (self.answer_id(interaction)?, interaction.application.clone());
        let channel = interaction.channel.clone();
        body.check(false)?;
        let flags = world.messages.get(&id).and_then(|message| message["flags"].as_u64()).unwrap_or(0);
        let mut message = world.change(&id, &body, self.now_ms)?;
        let was_loading = flags & LOADING != 0;
        if was_loading {
            message["flags"] = json!(flags & !LOADING);
            message["edited_timestamp"] = Value::Null;
            world.messages.insert(id, message.clone());
        }
        if flags & EPHEMERAL == 0 {
            world.announce_message("MESSAGE_UPDATE", &message);
        }
        drop(world);
        // The first text in place of "is thinking" is what the person sees as the answer.
        let kind = if was_loading { "sent" } else { "edited" };
        self.record(kind, &application, &channel, &message, body.text(), body.described());
        ok(&message)
    }

    pub(super) fn delete_answer(&self) -> ApiResult {
        let mut world = self.discord.world.lock();
        let interaction = self.interaction(&world)?;
        let (id, application) = (self.answer_id(interaction)?, interaction.application.clone());
        let channel = interaction.channel.clone();
        let message = world.messages.remove(&id).ok_or_else(|| RestError::unknown(10008, "Message"))?;
        drop(world);
        self.record("deleted", &application, &channel, &message, "", Value::Null);
        no_content()
    }
}
