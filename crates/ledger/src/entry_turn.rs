//! Entry turn: the session of an event within its chat, and the prompt that it answers. Delivery needs both.

use std::hash::{DefaultHasher, Hash, Hasher};

use posthouse_wire::{Event, PromptId, Source};

/// The session and the prompt of an event. An entry carries them, so that delivery need not parse the event again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryTurn {
    /// Distinguishes the sessions of one chat. Zero if the chat is a single session.
    pub session: u64,
    /// The prompt that it answers, if it is the press of a button.
    pub pressed: Option<PromptId>,
}

impl EntryTurn {
    pub fn of(event: &Event) -> Self {
        let pressed = event.prompt_response.as_ref().map(|response| PromptId::new(&response.prompt_id));
        Self { session: session_of(&event.source), pressed }
    }

    /// The same for a stored event. Most events are from direct conversations and are not presses. A text search
    /// recognises these without parsing; it cannot match inside a message, where quotation marks are escaped.
    pub fn of_stored(event: &[u8]) -> Self {
        let text = std::str::from_utf8(event).unwrap_or_default();
        let is_direct = text.contains(r#""chat_type":"dm""#) && text.contains(r#""thread_id":null"#);
        if is_direct && !text.contains(r#""prompt_response":{"#) {
            return Self::default();
        }
        serde_json::from_str::<Event>(text).map(|event| Self::of(&event)).unwrap_or_default()
    }
}

/// Distinguishes the sessions of one chat. Zero if the chat is a single session.
pub fn session_of(source: &Source) -> u64 {
    if source.chat_type == "dm" && source.thread_id.is_none() {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    (&source.chat_type, &source.thread_id, &source.user_id, &source.user_id_alt).hash(&mut hasher);
    (&source.profile, &source.prospective_thread_id).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use posthouse_wire::PromptResponse;

    use super::*;

    fn event(chat_type: &str, thread: Option<&str>, user: &str) -> Event {
        let mut event = Event { text: r#""chat_type":"dm""#.to_owned(), ..Event::default() };
        event.source.chat_type = chat_type.to_owned();
        event.source.thread_id = thread.map(Into::into);
        event.source.user_id = Some(user.into());
        event
    }

    fn stored(event: &Event) -> EntryTurn {
        EntryTurn::of_stored(&serde_json::to_vec(event).unwrap())
    }

    #[test]
    fn a_session_is_the_same_before_and_after_it_was_kept() {
        let mut seen = Vec::new();
        for event in [
            event("dm", None, "u1"),
            event("dm", Some("7"), "u1"),
            event("group", None, "u1"),
            event("group", None, "u2"),
        ] {
            let session = session_of(&event.source);
            assert_eq!(stored(&event).session, session, "{event:?}");
            assert_eq!(EntryTurn::of(&event).session, session);
            assert!(!seen.contains(&session));
            seen.push(session);
        }
        assert_eq!(seen[0], 0);
    }

    #[test]
    fn only_an_event_with_a_pressed_button_is_a_press() {
        let press = |text: &str, prompt: Option<&str>, chat_type: &str| {
            let prompt_response = prompt.map(|prompt| {
                Box::new(PromptResponse { prompt_id: prompt.to_owned(), ..PromptResponse::default() })
            });
            let event = Event { text: text.to_owned(), prompt_response, ..event(chat_type, None, "u1") };
            assert_eq!(stored(&event), EntryTurn::of(&event));
            stored(&event).pressed
        };
        for chat_type in ["dm", "group"] {
            assert_eq!(press("/once", Some("a.b"), chat_type), Some("a.b".into()));
            assert_eq!(press(r#""prompt_response":{"prompt_id":"a"}"#, None, chat_type), None);
        }
        assert_eq!(EntryTurn::of_stored(b"no JSON"), EntryTurn::default());
    }
}
