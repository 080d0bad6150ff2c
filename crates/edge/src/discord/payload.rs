//! Payload types of Discord. Only the fields declared here can ever be copied into an event.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::platform::PayloadText;

/// A frame of the gateway.
#[derive(Deserialize)]
pub(super) struct GatewayFrame<'a> {
    pub op: u8,
    pub s: Option<u64>,
    #[serde(borrow)]
    pub t: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub d: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct DiscordMessage<'a> {
    #[serde(borrow)]
    pub id: PayloadText<'a>,
    #[serde(borrow)]
    pub channel_id: PayloadText<'a>,
    #[serde(borrow)]
    pub guild_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub author: DiscordUser<'a>,
    #[serde(borrow)]
    pub member: Option<GuildMember<'a>>,
    #[serde(borrow)]
    pub content: Option<PayloadText<'a>>,
    #[serde(default, rename = "type")]
    pub kind: u8,
    #[serde(default)]
    pub flags: u64,
    pub webhook_id: Option<IgnoredAny>,
    #[serde(borrow, default)]
    pub mentions: Vec<MentionedUser<'a>>,
    #[serde(borrow, default)]
    pub attachments: Vec<DiscordAttachment<'a>>,
    #[serde(borrow)]
    pub message_reference: Option<MessageReference<'a>>,
    #[serde(borrow)]
    pub referenced_message: Option<ReferencedMessage<'a>>,
    #[serde(borrow, default)]
    pub message_snapshots: Vec<MessageSnapshot<'a>>,
}

#[derive(Deserialize)]
pub(super) struct DiscordUser<'a> {
    #[serde(borrow)]
    pub id: PayloadText<'a>,
    #[serde(borrow)]
    pub username: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub global_name: Option<PayloadText<'a>>,
    #[serde(default)]
    pub bot: bool,
}

#[derive(Deserialize)]
pub(super) struct MentionedUser<'a> {
    #[serde(borrow)]
    pub id: PayloadText<'a>,
}

#[derive(Deserialize)]
pub(super) struct GuildMember<'a> {
    #[serde(borrow)]
    pub nick: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub user: Option<DiscordUser<'a>>,
}

#[derive(Deserialize)]
pub(super) struct DiscordAttachment<'a> {
    #[serde(borrow)]
    pub id: PayloadText<'a>,
    #[serde(borrow)]
    pub filename: Option<PayloadText<'a>>,
    pub size: Option<u64>,
    #[serde(borrow)]
    pub content_type: Option<PayloadText<'a>>,
    /// It is signed, so that it is never copied into an event.
    #[serde(borrow)]
    pub url: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct MessageReference<'a> {
    #[serde(borrow)]
    pub message_id: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct ReferencedMessage<'a> {
    #[serde(borrow)]
    pub author: Option<DiscordUser<'a>>,
    #[serde(borrow)]
    pub content: Option<PayloadText<'a>>,
}

/// A forwarded message.
#[derive(Deserialize)]
pub(super) struct MessageSnapshot<'a> {
    #[serde(borrow)]
    pub message: SnapshotMessage<'a>,
}

#[derive(Deserialize)]
pub(super) struct SnapshotMessage<'a> {
    #[serde(borrow)]
    pub content: Option<PayloadText<'a>>,
}

/// A slash command, a pressed component or a submitted form.
#[derive(Deserialize)]
pub(super) struct Interaction<'a> {
    #[serde(borrow)]
    pub id: PayloadText<'a>,
    #[serde(borrow)]
    pub application_id: PayloadText<'a>,
    #[serde(rename = "type")]
    pub kind: u8,
    #[serde(borrow)]
    pub token: PayloadText<'a>,
    #[serde(borrow)]
    pub guild_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub channel_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub channel: Option<InteractionChannel<'a>>,
    #[serde(borrow)]
    pub member: Option<GuildMember<'a>>,
    #[serde(borrow)]
    pub user: Option<DiscordUser<'a>>,
    #[serde(borrow)]
    pub data: Option<InteractionData<'a>>,
    #[serde(borrow)]
    pub message: Option<PressedMessage<'a>>,
}

#[derive(Deserialize)]
pub(super) struct InteractionChannel<'a> {
    #[serde(default, rename = "type")]
    pub kind: u8,
    #[serde(borrow)]
    pub name: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub topic: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub parent_id: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct InteractionData<'a> {
    #[serde(borrow)]
    pub name: Option<PayloadText<'a>>,
    #[serde(borrow, default)]
    pub options: Vec<CommandOption<'a>>,
    #[serde(borrow)]
    pub custom_id: Option<PayloadText<'a>>,
    #[serde(borrow, default)]
    pub values: Vec<PayloadText<'a>>,
    #[serde(borrow, default)]
    pub components: Vec<FormComponent<'a>>,
    #[serde(borrow)]
    pub resolved: Option<ResolvedObjects<'a>>,
}

/// The objects that options of a command name by their ids.
#[derive(Deserialize)]
pub(super) struct ResolvedObjects<'a> {
    #[serde(borrow, default)]
    pub attachments: BTreeMap<String, DiscordAttachment<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CommandOption<'a> {
    #[serde(borrow)]
    pub name: PayloadText<'a>,
    #[serde(default, rename = "type")]
    pub kind: u8,
    pub value: Option<OptionValue>,
    #[serde(borrow, default)]
    pub options: Vec<CommandOption<'a>>,
}

/// The value of an option. Everything else than these is left out.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OptionValue {
    Text(String),
    Number(serde_json::Number),
    Switch(bool),
}

/// A field of a form, or a row or label that contains some.
#[derive(Deserialize)]
pub(super) struct FormComponent<'a> {
    #[serde(borrow)]
    pub value: Option<PayloadText<'a>>,
    #[serde(borrow, default)]
    pub values: Vec<PayloadText<'a>>,
    #[serde(borrow, default)]
    pub components: Vec<FormComponent<'a>>,
    #[serde(borrow)]
    pub component: Option<Box<FormComponent<'a>>>,
}

/// The message whose component was pressed.
#[derive(Deserialize)]
pub(super) struct PressedMessage<'a> {
    #[serde(borrow)]
    pub id: PayloadText<'a>,
    #[serde(borrow)]
    pub content: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub author: Option<DiscordUser<'a>>,
}

impl DiscordUser<'_> {
    /// The name that people see, if there is no nickname.
    pub fn name(&self) -> Option<String> {
        let shown = [&self.global_name, &self.username].into_iter().flatten();
        shown.map(|name| name.to_string()).find(|name| !name.is_empty())
    }
}
