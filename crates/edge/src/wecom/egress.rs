//! Sending actions of agents to WeCom, each within its deadline.

mod app;
mod bot;

use posthouse_wire::{Action, ChatInfo, Outcome};
use relay::{EgressResult, PermittedAction};

use super::{LABEL, WeCom, WeComProduct};
use crate::bots::OpenedBot;
use crate::platform::StoredMedia;
use crate::platform_calls::{CallFailure, CallsWithDeadline};
use app::AppCalls;
use bot::BotCalls;

/// The error for a chat id that no chat has.
const NO_CHAT: &str = "chat not found";
const EMPTY: &str = "message text is empty";
const MALFORMED_PROMPT: &str = "malformed prompt: WeCom shows at most 6 options, each with a short id";

/// Carries out one action.
pub(super) async fn perform(wecom: &WeCom, bot: &OpenedBot, permitted: PermittedAction) -> EgressResult {
    let calls = CallsWithDeadline::new(&wecom.timepiece, permitted.deadline);
    let (tenant, is_last) = (permitted.tenant, permitted.ends_turn);
    match wecom.product {
        WeComProduct::App => {
            let mut calls = AppCalls { wecom, bot, calls, tenant };
            let outcome = match permitted.action {
                Action::Send { chat_id, content, .. } => calls.send(&chat_id, &content).await,
                Action::Prompt { chat_id, prompt_id, content, options, .. } => {
                    calls.prompt(&chat_id, (&prompt_id, &options), &content).await
                }
                Action::GetChatInfo { chat_id } => match calls.person(&chat_id) {
                    Some(person) => {
                        Outcome::info(ChatInfo { name: person.to_owned(), kind: "dm".to_owned() })
                    }
                    None => Outcome::failed(NO_CHAT),
                },
                other => Outcome::unsupported(other.op()),
            };
            EgressResult { outcome, posted: calls.calls.posted, called: calls.calls.called() }
        }
        WeComProduct::AiBot => {
            let mut calls = BotCalls { wecom, bot, calls, posted: None };
            let outcome = match permitted.action {
                Action::Send { chat_id, content, .. } => calls.send(&chat_id, &content, is_last).await,
                Action::Prompt { chat_id, prompt_id, content, options, .. } => {
                    calls.prompt(&chat_id, (&prompt_id, &options), &content).await
                }
                Action::GetChatInfo { chat_id } => {
                    let is_group = wecom.groups.contains_key(&(bot.id.clone(), chat_id.to_string()));
                    let kind = if is_group { "group" } else { "dm" }.to_owned();
                    Outcome::info(ChatInfo { name: chat_id.to_string(), kind })
                }
                other => Outcome::unsupported(other.op()),
            };
            let posted = calls.calls.posted.or(calls.posted);
            EgressResult { outcome, posted, called: calls.calls.called() }
        }
    }
}

/// Carries out one `send_media`.
pub(super) async fn send_media(
    wecom: &WeCom,
    bot: &OpenedBot,
    permitted: PermittedAction,
    media: StoredMedia,
) -> EgressResult {
    let calls = CallsWithDeadline::new(&wecom.timepiece, permitted.deadline);
    let tenant = permitted.tenant;
    let op = permitted.action.op().to_owned();
    let Action::SendMedia { chat_id, media_kind, content, .. } = permitted.action else {
        return Outcome::unsupported(&op).into();
    };
    if wecom.product != WeComProduct::App {
        return Outcome::unsupported(&op).into();
    }
    let mut calls = AppCalls { wecom, bot, calls, tenant };
    let outcome = calls.send_file(&chat_id, media_kind, &content.unwrap_or_default(), media).await;
    EgressResult { outcome, posted: calls.calls.posted, called: calls.calls.called() }
}

/// The outcome of a failed action. After a part was sent, the whole must not be sent again. Stock gateways repeat every
/// failure except one with `timed out`.
fn failed(failure: &CallFailure, sent: usize, of: usize) -> Outcome {
    if sent == 0 {
        return Outcome::failed(failure.error(LABEL));
    }
    let cause = failure.cause(LABEL);
    Outcome::failed(format!("only {sent} of {of} messages were sent, then it failed or timed out: {cause}"))
}

/// A new id of a card. WeCom accepts letters, digits, `_`, `-` and `@`, and each id once.
fn task_id() -> String {
    super::open_connections::request_id("card")
}
