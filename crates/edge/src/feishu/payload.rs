//! Payloads of Feishu: the fields that are read. Fields that are not declared here, such as the verification token,
//! never leave the payload. A declared field that comes twice makes a payload invalid.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::platform::PayloadText;

/// The outer object of an event (schema 2.0) or of a handshake.
#[derive(Deserialize)]
pub(super) struct FeishuEnvelope<'a> {
    /// Of a handshake.
    #[serde(borrow, rename = "type")]
    pub kind: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub challenge: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub header: Option<FeishuHeader<'a>>,
    #[serde(borrow)]
    pub event: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct FeishuHeader<'a> {
    #[serde(borrow)]
    pub event_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub event_type: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub app_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub tenant_key: Option<PayloadText<'a>>,
}

/// `im.message.receive_v1`
#[derive(Deserialize)]
pub(super) struct ReceivedMessage<'a> {
    #[serde(borrow)]
    pub sender: FeishuSender<'a>,
    #[serde(borrow)]
    pub message: FeishuMessage<'a>,
}

#[derive(Deserialize)]
pub(super) struct FeishuSender<'a> {
    #[serde(borrow)]
    pub sender_id: Option<FeishuPerson<'a>>,
    #[serde(borrow)]
    pub sender_type: Option<PayloadText<'a>>,
}

/// The ids of a person.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FeishuPerson<'a> {
    #[serde(borrow)]
    pub open_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub user_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub union_id: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct FeishuMessage<'a> {
    #[serde(borrow)]
    pub message_id: PayloadText<'a>,
    #[serde(borrow)]
    pub root_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub parent_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub thread_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub chat_id: PayloadText<'a>,
    #[serde(borrow)]
    pub chat_type: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub message_type: PayloadText<'a>,
    /// JSON, as a text.
    #[serde(borrow)]
    pub content: PayloadText<'a>,
    #[serde(borrow, default)]
    pub mentions: Option<Vec<FeishuMention<'a>>>,
}

/// A person or bot that a message mentions. The text has the key.
#[derive(Deserialize)]
pub(super) struct FeishuMention<'a> {
    #[serde(borrow)]
    pub key: PayloadText<'a>,
    #[serde(borrow)]
    pub id: Option<FeishuPerson<'a>>,
    #[serde(borrow)]
    pub name: Option<PayloadText<'a>>,
}

/// `card.action.trigger`: somebody pressed a button or filled in a form of a card.
#[derive(Deserialize)]
pub(super) struct CardAction<'a> {
    #[serde(borrow)]
    pub operator: FeishuPerson<'a>,
    /// The credential with which the card can be replaced.
    #[serde(borrow)]
    pub token: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub action: PressedElement<'a>,
    #[serde(borrow)]
    pub context: CardPlace<'a>,
}

#[derive(Deserialize)]
pub(super) struct PressedElement<'a> {
    pub value: Option<Value>,
    #[serde(borrow)]
    pub name: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub option: Option<PayloadText<'a>>,
    pub options: Option<Vec<String>>,
    #[serde(borrow)]
    pub input_value: Option<PayloadText<'a>>,
    pub form_value: Option<serde_json::Map<String, Value>>,
}

#[derive(Deserialize)]
pub(super) struct CardPlace<'a> {
    #[serde(borrow)]
    pub open_message_id: PayloadText<'a>,
    #[serde(borrow)]
    pub open_chat_id: PayloadText<'a>,
}
