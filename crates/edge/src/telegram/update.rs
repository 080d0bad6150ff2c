//! Telegram's `Update` object. Only the fields declared here can ever be copied into an event.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::platform::PayloadText as UpdateText;

/// The id of an update. It is enough to confirm an update that cannot be parsed otherwise.
#[derive(Deserialize)]
pub(super) struct UpdateHead {
    pub update_id: i64,
}

/// An update. It holds one of its parts at a time; the large ones are boxed, so that moving an update stays cheap.
#[derive(Deserialize)]
pub(super) struct Update<'a> {
    pub update_id: i64,
    #[serde(borrow)]
    pub message: Option<Box<TelegramMessage<'a>>>,
    #[serde(borrow)]
    pub channel_post: Option<Box<TelegramMessage<'a>>>,
    #[serde(borrow)]
    pub business_message: Option<Box<TelegramMessage<'a>>>,
    #[serde(borrow)]
    pub callback_query: Option<Box<CallbackQuery<'a>>>,
    pub edited_message: Option<IgnoredAny>,
    pub edited_channel_post: Option<IgnoredAny>,
    pub edited_business_message: Option<IgnoredAny>,
    pub message_reaction: Option<IgnoredAny>,
    pub message_reaction_count: Option<IgnoredAny>,
    pub my_chat_member: Option<IgnoredAny>,
    pub chat_member: Option<IgnoredAny>,
    pub business_connection: Option<IgnoredAny>,
}

#[derive(Deserialize)]
pub(super) struct TelegramMessage<'a> {
    pub message_id: i64,
    #[serde(borrow)]
    pub chat: TelegramChat<'a>,
    #[serde(borrow)]
    pub from: Option<User<'a>>,
    pub sender_chat: Option<IgnoredAny>,
    pub message_thread_id: Option<i64>,
    #[serde(default)]
    pub is_topic_message: bool,
    #[serde(borrow)]
    pub reply_to_message: Option<RepliedMessage<'a>>,
    #[serde(borrow)]
    pub quote: Option<TelegramQuote<'a>>,
    #[serde(borrow)]
    pub business_connection_id: Option<UpdateText<'a>>,

    #[serde(borrow)]
    pub text: Option<UpdateText<'a>>,
    #[serde(borrow, default)]
    pub entities: Vec<TelegramEntity<'a>>,
    #[serde(borrow)]
    pub caption: Option<UpdateText<'a>>,
    #[serde(borrow, default)]
    pub caption_entities: Vec<TelegramEntity<'a>>,

    /// Equal for the messages of one album.
    #[serde(borrow)]
    pub media_group_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub photo: Vec<TelegramFile<'a>>,
    #[serde(borrow)]
    pub document: Option<TelegramFile<'a>>,
    #[serde(borrow)]
    pub voice: Option<TelegramFile<'a>>,
    #[serde(borrow)]
    pub audio: Option<TelegramFile<'a>>,
    #[serde(borrow)]
    pub video: Option<TelegramFile<'a>>,
    #[serde(borrow)]
    pub video_note: Option<TelegramFile<'a>>,
    #[serde(borrow)]
    pub animation: Option<TelegramFile<'a>>,
    #[serde(borrow)]
    pub sticker: Option<TelegramFile<'a>>,

    pub location: Option<GeoLocation>,
    #[serde(borrow)]
    pub venue: Option<Venue<'a>>,
    #[serde(borrow)]
    pub contact: Option<Contact<'a>>,
    #[serde(borrow)]
    pub poll: Option<Poll<'a>>,
    #[serde(borrow)]
    pub dice: Option<Dice<'a>>,

    #[serde(borrow)]
    pub forum_topic_edited: Option<EditedTopic<'a>>,
    pub web_app_data: Option<IgnoredAny>,
    pub passport_data: Option<IgnoredAny>,
    pub migrate_to_chat_id: Option<i64>,
    pub migrate_from_chat_id: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct EditedTopic<'a> {
    #[serde(borrow)]
    pub name: Option<UpdateText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CallbackQuery<'a> {
    #[serde(borrow)]
    pub id: UpdateText<'a>,
    #[serde(borrow)]
    pub from: User<'a>,
    #[serde(borrow)]
    pub message: Option<TelegramMessage<'a>>,
    #[serde(borrow)]
    pub data: Option<UpdateText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct TelegramChat<'a> {
    pub id: i64,
    #[serde(borrow, rename = "type")]
    pub kind: UpdateText<'a>,
    #[serde(borrow)]
    pub title: Option<UpdateText<'a>>,
    #[serde(borrow)]
    pub first_name: Option<UpdateText<'a>>,
    #[serde(borrow)]
    pub last_name: Option<UpdateText<'a>>,
    #[serde(default)]
    pub is_forum: bool,
}

#[derive(Deserialize)]
pub(super) struct User<'a> {
    pub id: i64,
    #[serde(default)]
    pub is_bot: bool,
    #[serde(borrow)]
    pub first_name: Option<UpdateText<'a>>,
    #[serde(borrow)]
    pub last_name: Option<UpdateText<'a>>,
}

/// The message that is replied to; only the fields that are used.
#[derive(Deserialize)]
pub(super) struct RepliedMessage<'a> {
    pub message_id: i64,
    #[serde(borrow)]
    pub from: Option<User<'a>>,
    #[serde(borrow)]
    pub text: Option<UpdateText<'a>>,
    #[serde(borrow)]
    pub caption: Option<UpdateText<'a>>,
    pub forum_topic_created: Option<IgnoredAny>,
}

#[derive(Deserialize)]
pub(super) struct TelegramQuote<'a> {
    #[serde(borrow)]
    pub text: UpdateText<'a>,
}

/// A marked range of a text, in UTF-16 units.
#[derive(Deserialize)]
pub(super) struct TelegramEntity<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: UpdateText<'a>,
    pub offset: i64,
    pub length: i64,
    #[serde(borrow)]
    pub user: Option<User<'a>>,
}

/// An attachment of any kind. Their objects differ only in which of these fields they have.
#[derive(Deserialize)]
pub(super) struct TelegramFile<'a> {
    #[serde(borrow)]
    pub file_id: UpdateText<'a>,
    pub file_size: Option<u64>,
    #[serde(borrow)]
    pub file_name: Option<UpdateText<'a>>,
    #[serde(borrow)]
    pub mime_type: Option<UpdateText<'a>>,
    #[serde(default)]
    pub width: i64,
    #[serde(default)]
    pub height: i64,
    #[serde(borrow)]
    pub emoji: Option<UpdateText<'a>>,
    #[serde(default)]
    pub is_animated: bool,
    #[serde(default)]
    pub is_video: bool,
}

#[derive(Deserialize)]
pub(super) struct GeoLocation {
    pub latitude: f64,
    pub longitude: f64,
}

#[derive(Deserialize)]
pub(super) struct Venue<'a> {
    pub location: GeoLocation,
    #[serde(borrow)]
    pub title: UpdateText<'a>,
    #[serde(borrow)]
    pub address: UpdateText<'a>,
}

#[derive(Deserialize)]
pub(super) struct Contact<'a> {
    #[serde(borrow)]
    pub phone_number: UpdateText<'a>,
    #[serde(borrow)]
    pub first_name: UpdateText<'a>,
    #[serde(borrow)]
    pub last_name: Option<UpdateText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Poll<'a> {
    #[serde(borrow)]
    pub question: UpdateText<'a>,
}

#[derive(Deserialize)]
pub(super) struct Dice<'a> {
    #[serde(borrow)]
    pub emoji: UpdateText<'a>,
    pub value: i64,
}

/// `first [last]`; `None` if both are blank, as for deleted accounts.
pub(super) fn full_name(first: Option<&UpdateText<'_>>, last: Option<&UpdateText<'_>>) -> Option<String> {
    let (first, last) = (first.map_or("", |name| name), last.map_or("", |name| name));
    let name = if last.is_empty() { first.to_owned() } else { [first, " ", last].concat() };
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

impl User<'_> {
    pub(super) fn name(&self) -> Option<String> {
        full_name(self.first_name.as_ref(), self.last_name.as_ref())
    }
}

impl TelegramChat<'_> {
    pub(super) fn name(&self) -> Option<String> {
        let title = self.title.as_deref().filter(|title| !title.is_empty()).map(str::to_owned);
        title.or_else(|| full_name(self.first_name.as_ref(), self.last_name.as_ref()))
    }

    /// The chat type for the agent; `None` for unknown kinds.
    pub(super) fn type_word(&self) -> Option<&'static str> {
        match &*self.kind {
            "private" => Some("dm"),
            "group" | "supergroup" => Some("group"),
            "channel" => Some("channel"),
            _ => None,
        }
    }
}
