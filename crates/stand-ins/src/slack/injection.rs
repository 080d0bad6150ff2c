//! Injection types of Slack: descriptions of what people do.

use serde::Deserialize;
use serde_json::Value;

/// A file that a person shares.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlackFile {
    /// File name.
    pub name: String,
    /// The type that the sender claims.
    #[serde(default = "octets")]
    pub mimetype: String,
    /// Content in base64.
    pub base64: String,
}

fn octets() -> String {
    "application/octet-stream".to_owned()
}

fn someone() -> String {
    "U77".to_owned()
}

/// What a person does.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum SlackInjection {
    /// Writes a message. `<@U...>` mentions somebody. Without a channel it is a direct message to the bot.
    Message {
        /// Text, in Slack's escapes.
        text: String,
        /// Who. Default `U77`.
        #[serde(default = "someone")]
        user: String,
        /// Name of that person.
        #[serde(default)]
        user_name: Option<String>,
        /// Channel, created if it does not exist.
        #[serde(default)]
        channel: Option<String>,
        /// `channel`, `group` or `mpim`. Default `channel`.
        #[serde(default)]
        channel_type: Option<String>,
        /// The thread.
        #[serde(default)]
        thread_ts: Option<String>,
        /// Files.
        #[serde(default)]
        files: Vec<SlackFile>,
        /// The app. Default: the first.
        #[serde(default)]
        app: Option<String>,
    },
    /// Edits a message.
    Edit {
        /// Where.
        channel: String,
        /// Which message.
        ts: String,
        /// New text.
        text: String,
    },
    /// Deletes a message.
    Delete {
        /// Where.
        channel: String,
        /// Which message.
        ts: String,
    },
    /// Reacts to a message.
    React {
        /// Where.
        channel: String,
        /// Which message.
        ts: String,
        /// Name of the emoji.
        name: String,
        /// Who.
        #[serde(default = "someone")]
        user: String,
    },
    /// Presses a button of a message of the bot.
    Press {
        /// Where.
        channel: String,
        /// Which message.
        ts: String,
        /// Which button.
        action_id: String,
        /// Who.
        #[serde(default = "someone")]
        user: String,
    },
    /// Sends a form that the app opened.
    SubmitView {
        /// Id of the form.
        callback_id: String,
        /// `view.state.values`.
        values: Value,
        /// Who.
        #[serde(default = "someone")]
        user: String,
        /// The app. Default: the first.
        #[serde(default)]
        app: Option<String>,
    },
    /// Calls a slash command.
    Command {
        /// With the slash.
        command: String,
        /// What follows it.
        #[serde(default)]
        text: String,
        /// Who.
        #[serde(default = "someone")]
        user: String,
        /// Channel. Default: the direct message with the bot.
        #[serde(default)]
        channel: Option<String>,
        /// The app. Default: the first.
        #[serde(default)]
        app: Option<String>,
    },
    /// Delivers this inner event, unchanged.
    Event {
        /// The event.
        event: Value,
        /// The app. Default: the first.
        #[serde(default)]
        app: Option<String>,
    },
}

impl SlackInjection {
    /// A direct message to the first app.
    #[must_use]
    pub fn direct(user: &str, text: &str) -> SlackInjection {
        SlackInjection::Message {
            text: text.to_owned(),
            user: user.to_owned(),
            user_name: None,
            channel: None,
            channel_type: None,
            thread_ts: None,
            files: Vec::new(),
            app: None,
        }
    }
}
