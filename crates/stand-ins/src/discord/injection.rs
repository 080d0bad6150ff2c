//! Injection types of Discord: descriptions of what people do.

use serde::Deserialize;
use serde_json::{Value, json};

/// A person, or another bot.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiscordPerson {
    /// Default 77.
    pub id: String,
    /// Default `person_<id>`.
    pub username: String,
    /// The name that is shown, if it is not the username.
    pub global_name: Option<String>,
    /// Whether it is a bot that the stand-in does not play.
    pub bot: bool,
}

impl Default for DiscordPerson {
    fn default() -> DiscordPerson {
        DiscordPerson { id: "77".to_owned(), username: String::new(), global_name: None, bot: false }
    }
}

impl DiscordPerson {
    /// A person with this id and username.
    #[must_use]
    pub fn new(id: &str, username: &str) -> DiscordPerson {
        DiscordPerson { id: id.to_owned(), username: username.to_owned(), ..DiscordPerson::default() }
    }

    pub(super) fn object(&self) -> Value {
        let username =
            if self.username.is_empty() { format!("person_{}", self.id) } else { self.username.clone() };
        let mut object = json!({
            "id": self.id, "username": username, "global_name": self.global_name, "discriminator": "0",
            "avatar": null, "public_flags": 0,
        });
        if self.bot {
            object["bot"] = json!(true);
        }
        object
    }
}

/// Where something happens. Without a server it is the direct message of the person and the bot. What does not exist is
/// created.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiscordPlace {
    /// The server.
    pub guild_id: Option<String>,
    /// The channel or thread.
    pub channel_id: Option<String>,
    /// Type of a channel that does not exist yet. Default 0, a text channel.
    pub channel_type: u8,
    /// Parent of a channel that does not exist yet.
    pub parent_id: Option<String>,
}

impl DiscordPlace {
    /// A channel of a server.
    #[must_use]
    pub fn channel(guild: &str, channel: &str) -> DiscordPlace {
        DiscordPlace {
            guild_id: Some(guild.to_owned()),
            channel_id: Some(channel.to_owned()),
            ..DiscordPlace::default()
        }
    }
}

/// A file that a person attaches.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectedFile {
    /// File name.
    pub name: String,
    /// The type that the sender claims.
    #[serde(default = "octets")]
    pub content_type: String,
    /// Content in base64.
    pub base64: String,
}

fn octets() -> String {
    "application/octet-stream".to_owned()
}

/// What a person does.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum DiscordInjection {
    /// Writes a message. `<@ID>` mentions somebody.
    Message {
        /// Text.
        text: String,
        /// Who.
        #[serde(default)]
        from: DiscordPerson,
        /// Where.
        #[serde(default, rename = "in")]
        place: DiscordPlace,
        /// The bot of a direct message. Default: the first.
        #[serde(default)]
        bot: Option<String>,
        /// Message that it replies to.
        #[serde(default)]
        reply_to: Option<String>,
        /// Files.
        #[serde(default)]
        files: Vec<InjectedFile>,
        /// Flags, for example 8192 for a voice message.
        #[serde(default)]
        flags: u64,
        /// Id of the message. Default: a new one.
        #[serde(default)]
        id: Option<String>,
    },
    /// Edits a message.
    Edit {
        /// Which message.
        message_id: String,
        /// New text.
        text: String,
    },
    /// Deletes a message.
    Delete {
        /// Which message.
        message_id: String,
    },
    /// Reacts to a message.
    React {
        /// Which message.
        message_id: String,
        /// Emoji, or `name:id` for one of the server.
        emoji: String,
        /// Who.
        #[serde(default)]
        from: DiscordPerson,
        /// Whether the reaction is removed.
        #[serde(default)]
        remove: bool,
    },
    /// Calls a command of an application.
    Command {
        /// Name of the command.
        name: String,
        /// Options as the platform sends them.
        #[serde(default)]
        options: Vec<Value>,
        /// Who.
        #[serde(default)]
        from: DiscordPerson,
        /// Where.
        #[serde(default, rename = "in")]
        place: DiscordPlace,
        /// The application. Default: the first.
        #[serde(default)]
        bot: Option<String>,
        /// Whether the person is still typing: an autocomplete request.
        #[serde(default)]
        autocomplete: bool,
        /// Whether the command needs no registration.
        #[serde(default)]
        unregistered: bool,
    },
    /// Presses a button or chooses from a list.
    Press {
        /// Message with the button.
        message_id: String,
        /// Id of the button.
        custom_id: String,
        /// Chosen values of a list.
        #[serde(default)]
        values: Vec<String>,
        /// Who.
        #[serde(default)]
        from: DiscordPerson,
    },
    /// Sends a form that the application showed.
    SubmitModal {
        /// Id of the form.
        custom_id: String,
        /// Ids and values of its fields, in order.
        fields: Vec<(String, String)>,
        /// Who.
        #[serde(default)]
        from: DiscordPerson,
        /// Where.
        #[serde(default, rename = "in")]
        place: DiscordPlace,
        /// The application. Default: the first.
        #[serde(default)]
        bot: Option<String>,
    },
    /// Sends this event to the gateway sessions of an application, unchanged.
    Event {
        /// Name of the event.
        t: String,
        /// Payload.
        d: Value,
        /// The application. Default: the first.
        #[serde(default)]
        bot: Option<String>,
    },
    /// Delivers this interaction, unchanged except for a token if it has none.
    Interaction {
        /// Payload.
        d: Value,
    },
}

impl DiscordInjection {
    /// A message of a person in a direct message with the first bot.
    #[must_use]
    pub fn direct(from: DiscordPerson, text: &str) -> DiscordInjection {
        DiscordInjection::message(from, DiscordPlace::default(), text)
    }

    /// A message of a person.
    #[must_use]
    pub fn message(from: DiscordPerson, place: DiscordPlace, text: &str) -> DiscordInjection {
        DiscordInjection::Message {
            text: text.to_owned(),
            from,
            place,
            bot: None,
            reply_to: None,
            files: Vec::new(),
            flags: 0,
            id: None,
        }
    }
}
