//! Tolerant parser of actions. An optional field of a wrong type reads as absent.

use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{Action, PromptOption, PromptStyle, RenameGuard};
use crate::id::{ChatId, MessageId, PromptId, PromptOptionId, ThreadId};
use crate::lenient::{field, object};

/// The longest URL of a file, in bytes.
const LONGEST_URL: usize = 2048;
/// The longest emoji, in bytes. Some are sequences of many code points.
const LONGEST_EMOJI: usize = 64;
/// The longest name of a thread, in characters. A longer one is cut.
const LONGEST_THREAD_NAME: usize = 100;
/// Maximum number of buttons of one prompt.
const PROMPT_OPTIONS: usize = 25;
/// The longest label of a button, in characters. A longer one is cut.
const LONGEST_LABEL: usize = 75;
/// The longest id of a prompt and of an option, in bytes.
const LONGEST_PROMPT_ID: usize = 32;
/// The longest payload of a button, `hp1:PROMPT:OPTION`, in bytes.
const LONGEST_PAYLOAD: usize = 64;

/// The reason why an action with a known op cannot be carried out. The text names the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionFault {
    /// A required field is absent, null or of a wrong type.
    Missing(&'static str),
    /// A field has a value that is not allowed.
    Invalid(&'static str),
}

impl fmt::Display for ActionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ActionFault::Missing(field) => write!(f, "{field} is missing"),
            ActionFault::Invalid(field) => write!(f, "{field} is not valid"),
        }
    }
}

/// The fields of all ops. Each op reads only its own.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ActionFields<'a> {
    #[serde(borrow)]
    op: Option<&'a RawValue>,
    #[serde(borrow)]
    chat_id: Option<&'a RawValue>,
    #[serde(borrow)]
    message_id: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reply_to: Option<&'a RawValue>,
    #[serde(borrow)]
    session_key: Option<&'a RawValue>,
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    media_kind: Option<&'a RawValue>,
    #[serde(borrow)]
    source_url: Option<&'a RawValue>,
    #[serde(borrow)]
    filename: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_kind: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_id: Option<&'a RawValue>,
    #[serde(borrow)]
    options: Option<&'a RawValue>,
    #[serde(borrow)]
    emoji: Option<&'a RawValue>,
    #[serde(borrow)]
    remove: Option<&'a RawValue>,
    #[serde(borrow)]
    thread_name: Option<&'a RawValue>,
    #[serde(borrow)]
    only_if_connector_created: Option<&'a RawValue>,
    #[serde(borrow)]
    only_if_current_name: Option<&'a RawValue>,
    #[serde(borrow)]
    draft_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "final")]
    is_final: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

impl Action {
    /// Reads an action object. What cannot be carried out keeps its op, so that the refusal can name it.
    pub fn read(raw: &RawValue) -> Action {
        let text = Some(raw.get()).filter(|text| text.starts_with('{'));
        let Some(Ok(fields)) = text.map(serde_json::from_str::<ActionFields<'_>>) else {
            return Action::Unsupported { op: String::new(), fault: Some(ActionFault::Missing("op")) };
        };
        let op: String = field(fields.op).unwrap_or_default();
        match fields.action(&op) {
            Ok(Some(action)) => action,
            Ok(None) => Action::Unsupported { op, fault: None },
            Err(fault) => Action::Unsupported { op, fault: Some(fault) },
        }
    }
}

impl ActionFields<'_> {
    /// `None` for an unknown op.
    fn action(&self, op: &str) -> Result<Option<Action>, ActionFault> {
        Ok(Some(match op {
            "send" => {
                let (chat_id, content, metadata) = (self.chat()?, self.content()?, self.metadata());
                Action::Send { chat_id, content, reply_to: field(self.reply_to), metadata }
            }
            "edit" => {
                let (chat_id, message_id, metadata) = (self.chat()?, self.message()?, self.metadata());
                Action::Edit { chat_id, message_id, content: self.content()?, metadata }
            }
            "typing" => {
                let (chat_id, content, metadata) = (self.chat()?, field(self.content), self.metadata());
                Action::Typing { chat_id, content, metadata }
            }
            "follow_up" => Action::FollowUp {
                session_key: required(self.session_key, "session_key")?,
                kind: required(self.kind, "kind")?,
                content: self.content()?,
                metadata: self.metadata(),
            },
            "get_chat_info" => Action::GetChatInfo { chat_id: self.chat()? },
            "send_media" => self.send_media()?,
            "prompt" => self.prompt()?,
            "react" => Action::React {
                chat_id: self.chat()?,
                message_id: self.message()?,
                emoji: short(required(self.emoji, "emoji")?, LONGEST_EMOJI, "emoji")?,
                remove: field(self.remove).unwrap_or_default(),
                metadata: self.metadata(),
            },
            "thread_create" => Action::ThreadCreate {
                chat_id: self.chat()?,
                thread_name: self.thread_name()?,
                message_id: field::<MessageId>(self.message_id).filter(|message| !message.is_empty()),
                metadata: self.metadata(),
            },
            "thread_rename" => Action::ThreadRename {
                chat_id: self.chat()?,
                thread_id: ThreadId::new(self.message()?),
                thread_name: self.thread_name()?,
                guard: self.rename_guard()?,
                metadata: self.metadata(),
            },
            "draft" => {
                let draft_id = required(self.draft_id, "draft_id")?;
                if draft_id == 0 {
                    return Err(ActionFault::Invalid("draft_id"));
                }
                let (chat_id, content, metadata) = (self.chat()?, self.content()?, self.metadata());
                let is_final = field(self.is_final).unwrap_or_default();
                Action::Draft { chat_id, draft_id, content, is_final, metadata }
            }
            _ => return Ok(None),
        }))
    }

    fn send_media(&self) -> Result<Action, ActionFault> {
        Ok(Action::SendMedia {
            chat_id: self.chat()?,
            media_kind: known(self.media_kind, "media_kind")?,
            source_url: short(required(self.source_url, "source_url")?, LONGEST_URL, "source_url")?,
            content: field::<String>(self.content).filter(|caption| !caption.is_empty()),
            filename: field::<String>(self.filename).filter(|name| !name.is_empty()),
            reply_to: field(self.reply_to),
            metadata: self.metadata(),
        })
    }

    fn prompt(&self) -> Result<Action, ActionFault> {
        let chat_id = self.chat()?;
        let prompt_kind = known(self.prompt_kind, "prompt_kind")?;
        let prompt_id: PromptId = required(self.prompt_id, "prompt_id")?;
        if !is_prompt_id(prompt_id.as_str()) {
            return Err(ActionFault::Invalid("prompt_id"));
        }
        let content = self.content()?;
        let options = self.prompt_options(&prompt_id)?;
        let (reply_to, metadata) = (field(self.reply_to), self.metadata());
        Ok(Action::Prompt { chat_id, prompt_kind, prompt_id, content, options, reply_to, metadata })
    }

    fn prompt_options(&self, prompt: &PromptId) -> Result<Vec<PromptOption>, ActionFault> {
        const INVALID: ActionFault = ActionFault::Invalid("options");
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct OptionFields<'a> {
            #[serde(borrow)]
            id: Option<&'a RawValue>,
            #[serde(borrow)]
            label: Option<&'a RawValue>,
            #[serde(borrow)]
            style: Option<&'a RawValue>,
        }
        let read: Vec<Box<RawValue>> = required(self.options, "options")?;
        if read.is_empty() || read.len() > PROMPT_OPTIONS {
            return Err(INVALID);
        }
        let mut options: Vec<PromptOption> = Vec::with_capacity(read.len());
        for raw in &read {
            let fields: OptionFields<'_> = Some(raw.get())
                .filter(|text| text.starts_with('{'))
                .and_then(|text| serde_json::from_str(text).ok())
                .ok_or(INVALID)?;
            let id: PromptOptionId = field(fields.id).ok_or(INVALID)?;
            let label: String = field(fields.label).ok_or(INVALID)?;
            let payload = "hp1::".len() + prompt.as_str().len() + id.as_str().len();
            let is_repeated = options.iter().any(|known| known.id == id);
            if !is_prompt_id(id.as_str())
                || label.trim().is_empty()
                || payload > LONGEST_PAYLOAD
                || is_repeated
            {
                return Err(INVALID);
            }
            let style: Option<PromptStyle> = field(fields.style);
            options.push(PromptOption { id, label: label.chars().take(LONGEST_LABEL).collect(), style });
        }
        Ok(options)
    }

    fn chat(&self) -> Result<ChatId, ActionFault> {
        field::<ChatId>(self.chat_id).filter(|chat| !chat.is_empty()).ok_or(ActionFault::Missing("chat_id"))
    }

    fn message(&self) -> Result<MessageId, ActionFault> {
        required(self.message_id, "message_id")
    }

    fn content(&self) -> Result<String, ActionFault> {
        required(self.content, "content")
    }

    fn thread_name(&self) -> Result<String, ActionFault> {
        let name: String = required(self.thread_name, "thread_name")?;
        if name.trim().is_empty() {
            return Err(ActionFault::Invalid("thread_name"));
        }
        Ok(name.chars().take(LONGEST_THREAD_NAME).collect())
    }

    /// A condition that cannot be read is not dropped: the rename would happen without it.
    fn rename_guard(&self) -> Result<RenameGuard, ActionFault> {
        let is_said = |raw: Option<&RawValue>| raw.is_some_and(|raw| raw.get() != "null");
        let name = self.only_if_current_name.filter(|_| is_said(self.only_if_current_name));
        let created = self.only_if_connector_created.filter(|_| is_said(self.only_if_connector_created));
        Ok(RenameGuard {
            only_if_connector_created: created
                .map(|raw| known(Some(raw), "only_if_connector_created"))
                .transpose()?
                .unwrap_or_default(),
            only_if_current_name: name.map(|raw| known(Some(raw), "only_if_current_name")).transpose()?,
        })
    }

    fn metadata(&self) -> super::Metadata {
        object(self.metadata).unwrap_or_default()
    }
}

fn required<T: DeserializeOwned>(raw: Option<&RawValue>, name: &'static str) -> Result<T, ActionFault> {
    field(raw).ok_or(ActionFault::Missing(name))
}

/// Tells an absent field from one with a value that is not allowed.
fn known<T: DeserializeOwned>(raw: Option<&RawValue>, name: &'static str) -> Result<T, ActionFault> {
    match raw.filter(|raw| raw.get() != "null") {
        None => Err(ActionFault::Missing(name)),
        Some(raw) => field(Some(raw)).ok_or(ActionFault::Invalid(name)),
    }
}

fn short(text: String, longest: usize, name: &'static str) -> Result<String, ActionFault> {
    if text.is_empty() || text.len() > longest { Err(ActionFault::Invalid(name)) } else { Ok(text) }
}

/// Whether a button's payload can hold this id.
fn is_prompt_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=LONGEST_PROMPT_ID).contains(&id.len()) && id.bytes().all(allowed)
}
