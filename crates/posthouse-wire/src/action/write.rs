//! Writes actions as JSON objects, for SDK agents.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Action, Metadata};

/// Writes the object that [`Action::read`] reads.
impl Serialize for Action {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("op", self.op())?;
        if let Some(chat_id) = self.chat_id() {
            map.serialize_entry("chat_id", chat_id)?;
        }
        if let Some(content) = self.content() {
            map.serialize_entry("content", content)?;
        }
        if let Some(reply_to) = self.reply_to() {
            map.serialize_entry("reply_to", reply_to)?;
        }
        self.write_own_fields(&mut map)?;
        if let Some(metadata) = self.metadata().filter(|metadata| **metadata != Metadata::default()) {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

impl Action {
    /// The fields that only some ops have.
    fn write_own_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self {
            Action::Edit { message_id, .. } => map.serialize_entry("message_id", message_id)?,
            Action::FollowUp { session_key, kind, .. } => {
                map.serialize_entry("session_key", session_key)?;
                map.serialize_entry("kind", kind)?;
            }
            Action::SendMedia { media_kind, source_url, filename, .. } => {
                map.serialize_entry("media_kind", media_kind)?;
                map.serialize_entry("source_url", source_url)?;
                if let Some(filename) = filename {
                    map.serialize_entry("filename", filename)?;
                }
            }
            Action::Prompt { prompt_kind, prompt_id, options, .. } => {
                map.serialize_entry("prompt_kind", prompt_kind)?;
                map.serialize_entry("prompt_id", prompt_id)?;
                map.serialize_entry("options", options)?;
            }
            Action::React { message_id, emoji, remove, .. } => {
                map.serialize_entry("message_id", message_id)?;
                map.serialize_entry("emoji", emoji)?;
                map.serialize_entry("remove", remove)?;
            }
            Action::ThreadCreate { thread_name, message_id, .. } => {
                map.serialize_entry("thread_name", thread_name)?;
                if let Some(message_id) = message_id {
                    map.serialize_entry("message_id", message_id)?;
                }
            }
            Action::ThreadRename { thread_id, thread_name, guard, .. } => {
                map.serialize_entry("message_id", thread_id)?;
                map.serialize_entry("thread_name", thread_name)?;
                if guard.only_if_connector_created {
                    map.serialize_entry("only_if_connector_created", &true)?;
                }
                if let Some(name) = &guard.only_if_current_name {
                    map.serialize_entry("only_if_current_name", name)?;
                }
            }
            Action::Draft { draft_id, is_final, .. } => {
                map.serialize_entry("draft_id", draft_id)?;
                map.serialize_entry("final", is_final)?;
            }
            Action::Send { .. }
            | Action::Typing { .. }
            | Action::GetChatInfo { .. }
            | Action::Unsupported { .. } => {}
        }
        Ok(())
    }
}
