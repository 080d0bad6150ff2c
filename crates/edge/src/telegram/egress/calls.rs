//! Bot API calls of one action.

use std::time::Duration;

use posthouse_wire::{ChatId, Secret};
use relay::PermittedAction;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::prompts::InlineKeyboard;
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, CallShare, CallsWithDeadline, RefusalKind, RepeatRule, ShareOwner};
use crate::telegram::api::CallBody;
use crate::telegram::media::MediaForm;
use crate::telegram::{CALLS_PER_SECOND, CALLS_PER_SECOND_BY_DEFAULT, Telegram};

/// Calls that put no message into a chat. Telegram does not count them with the messages.
const NOT_COUNTED: [&str; 3] = ["getChat", "sendChatAction", "sendMessageDraft"];

pub(super) struct TelegramCalls<'a> {
    pub telegram: &'a Telegram,
    pub bot: &'a OpenedBot,
    pub calls: CallsWithDeadline<'a>,
    /// The business in whose name the action is carried out.
    pub business: Option<&'a Secret>,
    /// The buttons below the next message.
    pub keyboard: Option<InlineKeyboard>,
    share_of: ShareOwner,
    /// The names of the limits that its calls count against: of the whole bot, and of the chat.
    limits: [String; 2],
}

impl<'a> TelegramCalls<'a> {
    pub fn new(
        telegram: &'a Telegram,
        bot: &'a OpenedBot,
        permitted: &PermittedAction,
        business: Option<&'a Secret>,
    ) -> Self {
        let calls = CallsWithDeadline::new(&telegram.timepiece, permitted.deadline);
        let of_bot = format!("{}:global", bot.id);
        let most = bot.setting(CALLS_PER_SECOND).and_then(|most| most.parse().ok());
        let most = most.unwrap_or(CALLS_PER_SECOND_BY_DEFAULT);
        telegram.rate_limits.set_limit(&of_bot, most, Duration::from_secs(1));
        let chat = permitted.action.chat_id().map_or("", ChatId::as_str);
        let limits = [of_bot, format!("{}:chat:{chat}", bot.id)];
        let share_of = Some(permitted.tenant.clone());
        Self { telegram, bot, calls, business, keyboard: None, share_of, limits }
    }

    /// The id of the business connection, as a parameter.
    pub fn business_connection(&self) -> Option<&'a str> {
        self.business.map(Secret::expose)
    }

    /// Calls a method, with retries.
    pub async fn ask<R: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: &impl Serialize,
        repeat: RepeatRule,
    ) -> Result<R, CallFailure> {
        self.ask_with(method, CallBody::Json(params), repeat).await
    }

    /// As [`TelegramCalls::ask`], with a file. The file is read again for each attempt.
    pub async fn send_form<R: DeserializeOwned>(
        &mut self,
        method: &'static str,
        form: &MediaForm,
    ) -> Result<R, CallFailure> {
        self.ask_with::<R, ()>(method, CallBody::Form(form), RepeatRule::IfNothingWasDone).await
    }

    async fn ask_with<R: DeserializeOwned, P: Serialize>(
        &mut self,
        method: &'static str,
        body: CallBody<'_, P>,
        repeat: RepeatRule,
    ) -> Result<R, CallFailure> {
        let (telegram, bot) = (self.telegram, self.bot);
        let share = CallShare { bot: &bot.id, of: &self.share_of };
        let limits = [self.limits[0].as_str(), self.limits[1].as_str()];
        let is_counted = !NOT_COUNTED.contains(&method);
        let attempt = async |left: Duration| {
            let begun = telegram.timepiece.instant();
            if is_counted {
                telegram.rate_limits.take(share, &limits, left).await?;
            }
            let left = left.saturating_sub(telegram.timepiece.instant().since(begun));
            let result = telegram.call_with(bot, method, body, left).await;
            if let Err(CallFailure::Refused(refused)) = &result
                && let (RefusalKind::RateLimited, Some(wait)) = (refused.kind, refused.retry_after)
            {
                // Telegram does not say which limit it was. Mostly it is that of the chat.
                telegram.rate_limits.pause(limits[1], wait);
            }
            result
        };
        self.calls.call(method, repeat, attempt).await
    }
}
