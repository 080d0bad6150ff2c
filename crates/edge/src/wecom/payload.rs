//! Payloads of AI bots, with only those fields that are used.

use serde::Deserialize;

use crate::platform::PayloadText;

type Text<'a> = Option<PayloadText<'a>>;

/// A message or an event of a person.
#[derive(Deserialize)]
pub(super) struct BotCallback<'a> {
    #[serde(borrow)]
    pub msgid: Text<'a>,
    #[serde(borrow)]
    pub aibotid: Text<'a>,
    #[serde(borrow)]
    pub chatid: Text<'a>,
    #[serde(borrow)]
    pub chattype: Text<'a>,
    #[serde(borrow)]
    pub from: Option<CallbackSender<'a>>,
    #[serde(borrow)]
    pub response_url: Text<'a>,
    #[serde(borrow)]
    pub msgtype: Text<'a>,
    #[serde(borrow)]
    pub text: Option<CallbackText<'a>>,
    /// The words of a recording. The recording itself is not sent.
    #[serde(borrow)]
    pub voice: Option<CallbackText<'a>>,
    #[serde(borrow)]
    pub image: Option<CallbackFile<'a>>,
    #[serde(borrow)]
    pub file: Option<CallbackFile<'a>>,
    #[serde(borrow)]
    pub video: Option<CallbackFile<'a>>,
    #[serde(borrow)]
    pub mixed: Option<MixedMessage<'a>>,
    #[serde(borrow)]
    pub quote: Option<QuotedCallback<'a>>,
    #[serde(borrow)]
    pub stream: Option<PolledStream<'a>>,
    #[serde(borrow)]
    pub event: Option<CallbackEvent<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CallbackSender<'a> {
    #[serde(borrow)]
    pub userid: Text<'a>,
}

#[derive(Deserialize)]
pub(super) struct CallbackText<'a> {
    #[serde(borrow)]
    pub content: Text<'a>,
}

/// An encrypted file. Its URL and its key are credentials.
#[derive(Deserialize)]
pub(super) struct CallbackFile<'a> {
    #[serde(borrow)]
    pub url: Text<'a>,
    /// The key of this file, on a long connection.
    #[serde(borrow)]
    pub aeskey: Text<'a>,
}

#[derive(Deserialize)]
pub(super) struct MixedMessage<'a> {
    #[serde(borrow, default)]
    pub msg_item: Vec<MixedItem<'a>>,
}

#[derive(Deserialize)]
pub(super) struct MixedItem<'a> {
    #[serde(borrow)]
    pub text: Option<CallbackText<'a>>,
    #[serde(borrow)]
    pub image: Option<CallbackFile<'a>>,
}

#[derive(Deserialize)]
pub(super) struct QuotedCallback<'a> {
    #[serde(borrow)]
    pub text: Option<CallbackText<'a>>,
    #[serde(borrow)]
    pub voice: Option<CallbackText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct PolledStream<'a> {
    #[serde(borrow)]
    pub id: Text<'a>,
}

#[derive(Deserialize)]
pub(super) struct CallbackEvent<'a> {
    #[serde(borrow)]
    pub eventtype: Text<'a>,
    #[serde(borrow)]
    pub template_card_event: Option<CardEvent<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CardEvent<'a> {
    #[serde(borrow, alias = "eventkey", alias = "EventKey")]
    pub event_key: Text<'a>,
    /// The id of the card.
    #[serde(borrow, alias = "taskid", alias = "TaskId")]
    pub task_id: Text<'a>,
}
