//! Payloads of Slack: the fields that are read. Fields that are not declared here, such as tokens and the addresses of
//! files, never leave the payload.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::platform::PayloadText;

/// The outer object of an event.
#[derive(Deserialize)]
pub(super) struct EventEnvelope<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub challenge: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub team_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub enterprise_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub event: Option<&'a RawValue>,
    #[serde(borrow)]
    pub authorizations: Option<Vec<Authorization<'a>>>,
}

/// An installation of the app that may see the event.
#[derive(Deserialize)]
pub(super) struct Authorization<'a> {
    #[serde(borrow)]
    pub team_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub enterprise_id: Option<PayloadText<'a>>,
}

/// What decides how an inner event is read. Other fields have other types in other events.
#[derive(Deserialize)]
pub(super) struct EventKind<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: PayloadText<'a>,
    #[serde(borrow)]
    pub subtype: Option<PayloadText<'a>>,
}

/// A message, or the mention of the bot in one.
#[derive(Deserialize)]
pub(super) struct MessageEvent<'a> {
    #[serde(borrow)]
    pub channel: PayloadText<'a>,
    #[serde(borrow)]
    pub channel_type: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub user: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub bot_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub app_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub team: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub text: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub ts: PayloadText<'a>,
    #[serde(borrow)]
    pub thread_ts: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub parent_user_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub files: Option<Vec<MessageFile<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct MessageFile<'a> {
    #[serde(borrow)]
    pub id: PayloadText<'a>,
    #[serde(borrow)]
    pub name: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub mimetype: Option<PayloadText<'a>>,
    pub size: Option<u64>,
    /// `tombstone` and `hidden_by_limit` are files without content.
    #[serde(borrow)]
    pub mode: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub subtype: Option<PayloadText<'a>>,
}

/// The new id of a channel.
#[derive(Deserialize)]
pub(super) struct ChannelIdChange {
    pub old_channel_id: String,
    pub new_channel_id: String,
}

/// A slash command that came over a socket. By HTTP it is a form with the same fields.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SlashCommand {
    pub team_id: Option<String>,
    pub enterprise_id: Option<String>,
    pub channel_id: String,
    pub channel_name: Option<String>,
    pub user_id: String,
    pub user_name: Option<String>,
    pub command: String,
    pub text: Option<String>,
    pub response_url: Option<String>,
    pub trigger_id: Option<String>,
}

/// A pressed button, a changed list, a submitted form or a shortcut.
#[derive(Deserialize)]
pub(super) struct SlackInteraction<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: PayloadText<'a>,
    #[serde(borrow)]
    pub team: Option<SlackId<'a>>,
    #[serde(borrow)]
    pub enterprise: Option<SlackId<'a>>,
    #[serde(borrow)]
    pub user: Option<InteractionUser<'a>>,
    #[serde(borrow)]
    pub channel: Option<InteractionPlace<'a>>,
    #[serde(borrow)]
    pub container: Option<InteractionContainer<'a>>,
    #[serde(borrow)]
    pub message: Option<InteractionMessage<'a>>,
    pub actions: Option<Vec<Value>>,
    #[serde(borrow)]
    pub callback_id: Option<PayloadText<'a>>,
    pub view: Option<SubmittedView>,
    #[serde(borrow)]
    pub response_url: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub response_urls: Option<Vec<ChannelResponseUrl<'a>>>,
    #[serde(borrow)]
    pub trigger_id: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct SlackId<'a> {
    #[serde(borrow)]
    pub id: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct InteractionUser<'a> {
    #[serde(borrow)]
    pub id: PayloadText<'a>,
    #[serde(borrow)]
    pub username: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub name: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub team_id: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct InteractionPlace<'a> {
    #[serde(borrow)]
    pub id: PayloadText<'a>,
    #[serde(borrow)]
    pub name: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct InteractionContainer<'a> {
    #[serde(borrow)]
    pub channel_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub message_ts: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub thread_ts: Option<PayloadText<'a>>,
}

/// The message whose button was pressed.
#[derive(Deserialize)]
pub(super) struct InteractionMessage<'a> {
    #[serde(borrow)]
    pub ts: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub thread_ts: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub text: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub user: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct SubmittedView {
    pub state: Option<ViewState>,
}

#[derive(Deserialize)]
pub(super) struct ViewState {
    /// By block and field.
    #[serde(default)]
    pub values: Value,
}

/// The response URL of a submitted form, for one channel.
#[derive(Deserialize)]
pub(super) struct ChannelResponseUrl<'a> {
    #[serde(borrow)]
    pub response_url: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub channel_id: Option<PayloadText<'a>>,
}
