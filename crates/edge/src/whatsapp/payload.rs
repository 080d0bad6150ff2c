//! Payloads of WhatsApp's webhooks. Only fields that are safe to read are declared: download URLs are not.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::platform::PayloadText;

#[derive(Deserialize)]
pub(super) struct WhatsAppNotification<'a> {
    #[serde(borrow, default)]
    pub entry: Vec<AccountEntry<'a>>,
}

#[derive(Deserialize)]
pub(super) struct AccountEntry<'a> {
    #[serde(borrow, default)]
    pub changes: Vec<AccountChange<'a>>,
}

#[derive(Deserialize)]
pub(super) struct AccountChange<'a> {
    #[serde(borrow)]
    pub field: PayloadText<'a>,
    /// Its form depends on the field.
    #[serde(borrow)]
    pub value: &'a RawValue,
}

/// The value of the field `messages`.
#[derive(Deserialize)]
pub(super) struct NumberChange<'a> {
    #[serde(borrow)]
    pub metadata: NumberMetadata<'a>,
    #[serde(borrow, default)]
    pub contacts: Vec<WhatsAppContact<'a>>,
    /// Each is read alone, so that one that cannot be read does not hold back the others.
    #[serde(borrow, default)]
    pub messages: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    pub statuses: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct NumberMetadata<'a> {
    #[serde(borrow)]
    pub phone_number_id: PayloadText<'a>,
    #[serde(borrow)]
    pub display_phone_number: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct WhatsAppContact<'a> {
    #[serde(borrow)]
    pub wa_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub user_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub profile: Option<WhatsAppProfile<'a>>,
}

#[derive(Deserialize)]
pub(super) struct WhatsAppProfile<'a> {
    #[serde(borrow)]
    pub name: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub username: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct WhatsAppMessage<'a> {
    #[serde(borrow)]
    pub id: PayloadText<'a>,
    #[serde(borrow)]
    pub from: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub from_user_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub group_id: Option<PayloadText<'a>>,
    #[serde(borrow, rename = "type")]
    pub kind: PayloadText<'a>,
    #[serde(borrow)]
    pub context: Option<MessageContext<'a>>,
    #[serde(borrow)]
    pub text: Option<WhatsAppText<'a>>,
    #[serde(borrow)]
    pub image: Option<WhatsAppMedia<'a>>,
    #[serde(borrow)]
    pub video: Option<WhatsAppMedia<'a>>,
    #[serde(borrow)]
    pub audio: Option<WhatsAppMedia<'a>>,
    #[serde(borrow)]
    pub document: Option<WhatsAppMedia<'a>>,
    #[serde(borrow)]
    pub sticker: Option<WhatsAppMedia<'a>>,
    #[serde(borrow)]
    pub button: Option<TemplateButton<'a>>,
    #[serde(borrow)]
    pub interactive: Option<InteractiveAnswer<'a>>,
    #[serde(borrow)]
    pub location: Option<SharedLocation<'a>>,
    #[serde(borrow)]
    pub contacts: Option<Vec<SharedContact<'a>>>,
}

/// The message that another one replies to.
#[derive(Deserialize)]
pub(super) struct MessageContext<'a> {
    #[serde(borrow)]
    pub id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub from: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct WhatsAppText<'a> {
    #[serde(borrow)]
    pub body: PayloadText<'a>,
}

#[derive(Deserialize)]
pub(super) struct WhatsAppMedia<'a> {
    #[serde(borrow)]
    pub id: PayloadText<'a>,
    #[serde(borrow)]
    pub mime_type: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub caption: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub filename: Option<PayloadText<'a>>,
    /// Set on a recording.
    #[serde(default)]
    pub voice: bool,
}

/// A button of a template message.
#[derive(Deserialize)]
pub(super) struct TemplateButton<'a> {
    #[serde(borrow)]
    pub payload: Option<PayloadText<'a>>,
    #[serde(borrow)]
    pub text: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct InteractiveAnswer<'a> {
    #[serde(borrow)]
    pub button_reply: Option<ChosenOption<'a>>,
    #[serde(borrow)]
    pub list_reply: Option<ChosenOption<'a>>,
}

#[derive(Deserialize)]
pub(super) struct ChosenOption<'a> {
    #[serde(borrow)]
    pub id: PayloadText<'a>,
}

#[derive(Deserialize)]
pub(super) struct SharedLocation<'a> {
    pub latitude: f64,
    pub longitude: f64,
    #[serde(borrow)]
    pub name: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct SharedContact<'a> {
    #[serde(borrow)]
    pub name: Option<SharedContactName<'a>>,
    #[serde(borrow, default)]
    pub phones: Vec<SharedContactPhone<'a>>,
}

#[derive(Deserialize)]
pub(super) struct SharedContactName<'a> {
    #[serde(borrow)]
    pub formatted_name: Option<PayloadText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct SharedContactPhone<'a> {
    #[serde(borrow)]
    pub phone: Option<PayloadText<'a>>,
}

/// What became of a message of the bot.
#[derive(Deserialize)]
pub(super) struct DeliveryStatus<'a> {
    #[serde(borrow)]
    pub status: PayloadText<'a>,
    #[serde(default)]
    pub errors: Vec<StatusError>,
}

#[derive(Deserialize)]
pub(super) struct StatusError {
    pub code: i64,
}
