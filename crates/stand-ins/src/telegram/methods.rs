//! Methods of the Bot API.

mod chats;
mod interactions;
mod media;
mod messages;
mod updates;

use std::sync::Arc;

use super::{
    Shared,
    answer::{ApiRefusal, ApiSuccess},
    moment::unix_ms,
    params::Params,
    transcript::{RowKind, TranscriptRow},
    world::{BotState, World},
};

const METHODS: [&str; 23] = [
    "getMe",
    "getUpdates",
    "setWebhook",
    "deleteWebhook",
    "getWebhookInfo",
    "sendMessage",
    "editMessageText",
    "deleteMessage",
    "sendChatAction",
    "setMessageReaction",
    "answerCallbackQuery",
    "getChat",
    "getChatMember",
    "getFile",
    "createForumTopic",
    "editForumTopic",
    "editMessageReplyMarkup",
    "sendMessageDraft",
    "sendPhoto",
    "sendVoice",
    "sendAudio",
    "sendVideo",
    "sendDocument",
];

/// The method's own spelling. The Bot API ignores case.
pub(super) fn known(name: &str) -> Option<&'static str> {
    METHODS.into_iter().find(|method| method.eq_ignore_ascii_case(name))
}

/// Whether the method takes a form with a file.
pub(super) fn takes_file(method: &str) -> bool {
    media::field(method).is_some()
}

/// One call of a bot with a valid token.
pub(super) struct MethodCall<'a> {
    pub shared: &'a Arc<Shared>,
    /// Index of the bot.
    pub at: usize,
    pub method: &'static str,
    pub params: &'a Params,
}

impl MethodCall<'_> {
    /// Carries out the call.
    pub async fn run(&self) -> Result<ApiSuccess, ApiRefusal> {
        match self.method {
            "getUpdates" => self.get_updates().await,
            "setWebhook" => self.set_webhook(),
            "deleteWebhook" => self.delete_webhook(),
            _ => {
                let outcome = self.work(&mut self.shared.world.lock());
                self.shared.changed.notify_waiters();
                outcome
            }
        }
    }

    fn work(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        match self.method {
            "getMe" => Ok(self.get_me(world)),
            "getWebhookInfo" => Ok(self.get_webhook_info(world)),
            "sendMessage" => self.send_message(world),
            "editMessageText" => self.edit_message_text(world),
            "deleteMessage" => self.delete_message(world),
            "setMessageReaction" => self.set_message_reaction(world),
            "sendChatAction" => self.send_chat_action(world),
            "answerCallbackQuery" => self.answer_callback_query(world),
            "getChat" => self.get_chat(world),
            "getChatMember" => self.get_chat_member(world),
            "getFile" => self.get_file(world),
            "createForumTopic" => self.create_forum_topic(world),
            "editForumTopic" => self.edit_forum_topic(world),
            "editMessageReplyMarkup" => self.edit_message_reply_markup(world),
            "sendMessageDraft" => self.send_message_draft(world),
            method if takes_file(method) => self.send_media(world),
            _ => Err(ApiRefusal::not_found()),
        }
    }

    fn state<'w>(&self, world: &'w mut World) -> &'w mut BotState {
        &mut world.bots[self.at]
    }

    /// The chat of this call, if the bot may know it.
    fn chat(&self, state: &mut BotState) -> Result<i64, ApiRefusal> {
        let not_found = || ApiRefusal::bad_request("chat not found");
        let Some(id) = self.params.integer("chat_id") else {
            let name = self.params.text("chat_id").unwrap_or("");
            let Some(name) = name.strip_prefix('@') else {
                return Err(ApiRefusal::bad_request("chat_id is empty"));
            };
            let named = state.chats.iter().find(|(_, chat)| chat.object["username"] == name);
            return named.map(|(id, _)| *id).ok_or_else(not_found);
        };
        if self.shared.settings.accept_unknown_chats {
            state.chats.entry(id).or_insert_with(|| chats::unknown(id));
        }
        let chat = state.chats.get(&id).ok_or_else(not_found)?;
        match self.params.text("business_connection_id") {
            Some(connection) if chat.business.as_deref() != Some(connection) => {
                Err(ApiRefusal::bad_request("business connection not found"))
            }
            // The bot itself has no conversation with a customer of a business.
            None if chat.business.is_some() && !chat.is_own => {
                Err(ApiRefusal::forbidden("bot can't initiate conversation with a user"))
            }
            _ => Ok(id),
        }
    }

    /// A required message id.
    fn message_id(&self) -> Result<i64, ApiRefusal> {
        self.params
            .integer("message_id")
            .ok_or_else(|| ApiRefusal::bad_request("message identifier is not specified"))
    }

    /// Counts a write against the rate limits, if there are any.
    fn apply_rate_limit(&self, state: &mut BotState, chat: i64) -> Result<(), ApiRefusal> {
        match &self.shared.settings.limits {
            Some(limits) => state.windows.admit(limits, chat, unix_ms()).map_err(ApiRefusal::too_many),
            None => Ok(()),
        }
    }

    fn row(&self, state: &BotState, kind: RowKind) -> TranscriptRow {
        TranscriptRow::new(state.bot.id, kind, self.method, self.params.raw())
    }

    /// Records that this call was refused.
    pub fn record_refusal(&self, refusal: &ApiRefusal) {
        let mut world = self.shared.world.lock();
        let row = TranscriptRow {
            chat: self.params.integer("chat_id"),
            message_id: self.params.integer("message_id"),
            text: Some(refusal.description.clone()),
            ..self.row(&world.bots[self.at], RowKind::Refused)
        };
        world.record_refusal(row);
        drop(world);
        self.shared.changed.notify_waiters();
    }
}
