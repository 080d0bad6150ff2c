//! Injections into Feishu: what people do.

use serde::Deserialize;
use serde_json::Value;

/// A file that a person sends.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeishuSharedFile {
    /// `image`, `file`, `audio` or `media` (a video).
    #[serde(default = "file_kind")]
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its type.
    pub mime: String,
    /// Its content.
    pub base64: String,
}

fn file_kind() -> String {
    "file".to_owned()
}

fn person() -> String {
    "u77".to_owned()
}

/// Something that a person does.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum FeishuInjection {
    /// Writes a message.
    Message {
        /// The text. Ignored if there is a file.
        #[serde(default)]
        text: String,
        /// The person's `user_id`. The other ids are made from it.
        #[serde(default = "person")]
        user: String,
        /// Name of the person.
        user_name: Option<String>,
        /// A group, `oc_...`. Default: the direct chat of the person with the bot.
        chat: Option<String>,
        /// Mentions the bot before the text.
        #[serde(default)]
        mention: bool,
        /// The message that it answers.
        parent: Option<String>,
        /// The answer is in the thread below that message.
        #[serde(default)]
        in_thread: bool,
        /// A file.
        file: Option<FeishuSharedFile>,
        /// Another bot writes it, not a person.
        #[serde(default)]
        by_app: bool,
        /// Default: the first app.
        app: Option<String>,
    },
    /// Presses the button of a card whose payload contains this text.
    Press {
        /// The message with the card.
        message: String,
        /// A part of the payload.
        value: String,
        /// The person.
        #[serde(default = "person")]
        user: String,
    },
    /// Recalls a message.
    Recall {
        /// The message.
        message: String,
    },
    /// Any other event.
    Event {
        /// Its type.
        event_type: String,
        /// Its object.
        event: Value,
        /// Default: the first app.
        app: Option<String>,
    },
}
