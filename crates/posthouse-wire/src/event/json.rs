//! JSON of an event: the same bytes that `serde_json` writes, in a fraction of the time.
//!
//! Every message is written once. Serde looks for characters to escape in each name and each text, byte by byte. Here
//! the names are constants, and a text is checked many bytes at a time.

use serde::Serialize;

use super::{Event, Source};

/// A name after the first one, with the comma before it.
macro_rules! name {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}

impl Event {
    /// The event as one line of JSON.
    pub fn to_json(&self) -> Vec<u8> {
        // Without `..`, so that a new field cannot be forgotten here.
        let Event {
            text,
            message_type,
            source,
            message_id,
            reply_to_message_id,
            media_urls,
            media,
            context,
            reply_to,
            prompt_response,
            bot_id,
            received_at,
            post,
        } = self;
        // Room for most events, so that the buffer does not grow step by step.
        let mut json = JsonWriter(Vec::with_capacity(768 + text.len()));
        json.text("{\"text\":", text);
        json.value(name!("message_type"), message_type);
        json.raw(name!("source"));
        json.source(source);
        json.text_or_null(name!("message_id"), message_id.as_ref());
        json.text_or_null(name!("reply_to_message_id"), reply_to_message_id.as_ref());
        match media_urls.is_empty() {
            true => json.raw(concat!(name!("media_urls"), "[]")),
            false => json.value(name!("media_urls"), media_urls),
        }
        if !media.is_empty() {
            json.value(name!("media"), media);
        }
        if !context.is_empty() {
            json.value(name!("context"), context);
        }
        json.value_if_some(name!("reply_to"), reply_to.as_ref());
        json.value_if_some(name!("prompt_response"), prompt_response.as_ref());
        json.text_if_some(name!("bot_id"), bot_id.as_ref());
        json.text_if_some(name!("received_at"), received_at.as_ref());
        json.value_if_some(name!("post"), post.as_ref());
        json.raw("}");
        json.0
    }
}

struct JsonWriter(Vec<u8>);

impl JsonWriter {
    /// The first eight keys are always written, even if null.
    fn source(&mut self, source: &Source) {
        let Source {
            platform,
            chat_id,
            chat_type,
            chat_name,
            user_id,
            user_name,
            thread_id,
            chat_topic,
            user_id_alt,
            chat_id_alt,
            scope_id,
            parent_chat_id,
            message_id,
            profile,
            prospective_thread_id,
        } = source;
        self.text("{\"platform\":", platform.as_str());
        self.text_or_null(name!("chat_id"), chat_id.as_ref());
        self.text(name!("chat_type"), chat_type);
        self.text_or_null(name!("chat_name"), chat_name.as_ref());
        self.text_or_null(name!("user_id"), user_id.as_ref());
        self.text_or_null(name!("user_name"), user_name.as_ref());
        self.text_or_null(name!("thread_id"), thread_id.as_ref());
        self.text_or_null(name!("chat_topic"), chat_topic.as_ref());
        self.text_if_some(name!("user_id_alt"), user_id_alt.as_ref());
        self.text_if_some(name!("chat_id_alt"), chat_id_alt.as_ref());
        self.text_if_some(name!("scope_id"), scope_id.as_ref());
        self.text_if_some(name!("guild_id"), scope_id.as_ref());
        self.text_if_some(name!("parent_chat_id"), parent_chat_id.as_ref());
        self.text_if_some(name!("message_id"), message_id.as_ref());
        self.text_if_some(name!("profile"), profile.as_ref());
        self.text_if_some(name!("prospective_thread_id"), prospective_thread_id.as_ref());
        self.raw("}");
    }

    fn raw(&mut self, json: &str) {
        self.0.extend_from_slice(json.as_bytes());
    }

    fn text_or_null(&mut self, name: &'static str, text: Option<impl AsRef<str>>) {
        match text {
            Some(text) => self.text(name, text.as_ref()),
            None => {
                self.raw(name);
                self.raw("null");
            }
        }
    }

    fn text_if_some(&mut self, name: &'static str, text: Option<impl AsRef<str>>) {
        if let Some(text) = text {
            self.text(name, text.as_ref());
        }
    }

    fn text(&mut self, name: &'static str, text: &str) {
        if needs_escape(text) {
            return self.value(name, text);
        }
        self.raw(name);
        self.0.push(b'"');
        self.raw(text);
        self.0.push(b'"');
    }

    fn value_if_some(&mut self, name: &'static str, value: Option<&impl Serialize>) {
        if let Some(value) = value {
            self.value(name, value);
        }
    }

    fn value(&mut self, name: &'static str, value: &(impl Serialize + ?Sized)) {
        self.raw(name);
        serde_json::to_writer(&mut self.0, value).expect("an event holds only texts and numbers");
    }
}

/// Looks at every byte, also after one that needs an escape: without an early end, the compiler checks many at once.
fn needs_escape(text: &str) -> bool {
    text.bytes().fold(false, |needed, byte| needed | (byte < 0x20) | (byte == b'"') | (byte == b'\\'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::delivery::{PayloadKind, Posted};
    use crate::event::{ContextLine, Media, MessageType, Quoted, Speaker};
    use crate::id::*;

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof!["[ -~]{0,40}", "\\PC{0,40}", any::<String>()]
    }

    fn maybe<T: for<'a> From<&'a str> + std::fmt::Debug>() -> impl Strategy<Value = Option<T>> {
        proptest::option::of(any_text().prop_map(|text| T::from(&text)))
    }

    prop_compose! {
        fn any_source()(
            (platform, chat_type) in (any_text(), any_text()),
            (chat_id, chat_name, user_id, user_name) in (maybe::<ChatId>(), maybe(), maybe::<UserId>(), maybe()),
            (thread_id, chat_topic, user_id_alt) in (maybe::<ThreadId>(), maybe(), maybe::<UserId>()),
            (chat_id_alt, scope_id, parent_chat_id) in (maybe::<ChatId>(), maybe::<ScopeId>(), maybe::<ChatId>()),
            (message_id, profile) in (maybe::<MessageId>(), maybe()),
            prospective_thread_id in maybe::<ThreadId>(),
        ) -> Source {
            Source {
                platform: platform.into(),
                chat_id,
                chat_type,
                chat_name,
                user_id,
                user_name,
                thread_id,
                chat_topic,
                user_id_alt,
                chat_id_alt,
                scope_id,
                parent_chat_id,
                message_id,
                profile,
                prospective_thread_id,
            }
        }
    }

    prop_compose! {
        fn any_event()(
            text in any_text(),
            source in any_source(),
            (message_id, reply_to_message_id) in (maybe::<MessageId>(), maybe::<MessageId>()),
            media_urls in proptest::collection::vec(any_text(), 0..3),
            (bot_id, received_at) in (maybe::<BotId>(), maybe()),
            is_rich in any::<bool>(),
        ) -> Event {
            let rich = |text: &str| Event {
                media: vec![Media { kind: text.to_owned(), ..Media::default() }],
                context: vec![ContextLine { text: text.to_owned(), source: Speaker::default() }],
                reply_to: Some(Quoted { text: Some(text.to_owned()), ..Quoted::default() }),
                prompt_response: Some(Box::default()),
                post: Some(Box::new(Posted {
                    kind: PayloadKind::Augment,
                    meta: None,
                    expects_reply: true,
                    preamble: Some(text.to_owned()),
                })),
                message_type: MessageType::Voice,
                ..Event::default()
            };
            let rest = if is_rich { rich(&text) } else { Event::default() };
            Event { text, source, message_id, reply_to_message_id, media_urls, bot_id, received_at, ..rest }
        }
    }

    proptest! {
        #[test]
        fn an_event_is_written_byte_for_byte_as_serde_writes_it(event in any_event()) {
            let by_serde = serde_json::to_string(&event).unwrap();
            prop_assert_eq!(String::from_utf8(event.to_json()).unwrap(), by_serde);
        }
    }
}
