//! Events of Matrix as they come, with only the fields that are read.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::platform::PayloadText;

/// The body of a transaction.
#[derive(Deserialize)]
pub(super) struct Transaction<'a> {
    #[serde(borrow)]
    pub events: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct MatrixEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: PayloadText<'a>,
    #[serde(borrow)]
    pub event_id: Option<PayloadText<'a>>,
    /// Absent in a sync response, which groups events by room.
    #[serde(borrow)]
    pub room_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub sender: PayloadText<'a>,
    #[serde(borrow)]
    pub state_key: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub content: Option<&'a RawValue>,
}

/// Content of `m.room.message` and `m.sticker`.
#[derive(Deserialize)]
pub(super) struct MessageContent<'a> {
    #[serde(borrow)]
    pub msgtype: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub body: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub filename: Option<PayloadText<'a>>,
    /// Address of a file that is not encrypted.
    #[serde(borrow)]
    pub url: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub info: Option<FileInfo<'a>>,
    #[serde(borrow)]
    pub geo_uri: Option<PayloadText<'a>>,
    #[serde(borrow, rename = "m.relates_to")]
    pub relation: Option<EventRelation<'a>>,
    #[serde(borrow, rename = "m.mentions")]
    pub mentions: Option<MentionedUsers<'a>>,
    /// Set on a recording.
    #[serde(borrow, rename = "org.matrix.msc3245.voice")]
    pub voice: Option<&'a RawValue>,
    /// Set on messages that a program wrote.
    #[serde(default, rename = "org.matrix.msc1767.automated")]
    pub automated: bool,
}

#[derive(Deserialize)]
pub(super) struct FileInfo<'a> {
    #[serde(borrow)]
    pub mimetype: Option<PayloadText<'a>>,
    pub size: Option<serde_json::Number>,
}

#[derive(Deserialize)]
pub(super) struct EventRelation<'a> {
    #[serde(borrow)]
    pub rel_type: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub event_id: Option<PayloadText<'a>>,
    /// The reply is only for clients without threads.
    #[serde(default)]
    pub is_falling_back: bool,
    #[serde(borrow, rename = "m.in_reply_to")]
    pub in_reply_to: Option<RepliedEvent<'a>>,
}

#[derive(Deserialize)]
pub(super) struct RepliedEvent<'a> {
    #[serde(borrow)]
    pub event_id: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct MentionedUsers<'a> {
    #[serde(borrow, default)]
    pub user_ids: Vec<PayloadText<'a>>,
}

/// Content of `m.room.member`.
#[derive(Deserialize)]
pub(super) struct MemberContent<'a> {
    #[serde(borrow)]
    pub membership: Option<PayloadText<'a>>,
    #[serde(default)]
    pub is_direct: bool,
}

/// A member event with the membership before it.
#[derive(Deserialize)]
pub(super) struct MemberEventBefore<'a> {
    #[serde(borrow)]
    pub unsigned: Option<BeforeMember<'a>>,
}

#[derive(Deserialize)]
pub(super) struct BeforeMember<'a> {
    #[serde(borrow)]
    pub prev_content: Option<MemberContent<'a>>,
}
