//! Nearby messages of groups, as context for the next message that is for an agent (relay contract section 9.1).
//!
//! They trigger nothing and are stored nowhere except on the event that they accompany. Only chats in which an agent was
//! spoken to within a day are listened to. A restart forgets everything.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ledger::BotRef;
use moka::sync::Cache;
use parking_lot::Mutex;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::event::{ContextLine, Speaker};
use posthouse_wire::{ChatId, Event, Source, ThreadId};

/// Most messages of one chat, the longest part of each, and the most bytes of all of them.
const LINES: usize = 20;
const LINE_BYTES: usize = 2 * 1024;
const CHAT_BYTES: usize = 8 * 1024;
/// Most chats. With the bytes of each this is at most 64 MiB. Beyond it, chats that are rarely used are forgotten.
const CHATS: u64 = 8 * 1024;
/// Age after which a message is no context any more.
const NEARBY: Duration = Duration::from_secs(30 * 60);
/// Time for which a chat is listened to after an agent was spoken to in it.
const LISTENS: Duration = Duration::from_secs(24 * 3600);

type ContextKey = (BotRef, ChatId, Option<ThreadId>);

/// The latest messages of groups that were for no agent. Clones share one state.
#[derive(Clone)]
pub(crate) struct ContextBuffer {
    chats: Cache<ContextKey, Arc<Mutex<NearbyMessages>>>,
    timepiece: Timepiece,
}

/// The nearby messages of one chat.
struct NearbyMessages {
    /// Time at which an agent was last spoken to here.
    spoken: Instant,
    lines: VecDeque<(Instant, ContextLine)>,
    bytes: usize,
}

impl ContextBuffer {
    pub fn new(timepiece: Timepiece) -> Self {
        Self { chats: Cache::builder().max_capacity(CHATS).build(), timepiece }
    }

    /// Whether messages of this chat are kept as context.
    pub fn listens(&self, on: &BotRef, source: &Source) -> bool {
        let now = self.timepiece.instant();
        let chat = key(on, source).and_then(|key| self.chats.get(&key));
        chat.is_some_and(|chat| now < chat.lock().spoken + LISTENS)
    }

    /// Keeps a message that is for no agent.
    pub fn keep(&self, on: &BotRef, event: &Event) {
        let Some(chat) = key(on, &event.source).and_then(|key| self.chats.get(&key)) else { return };
        let text = event.text.trim();
        if text.is_empty() {
            return;
        }
        let text = text[..text.floor_char_boundary(LINE_BYTES)].to_owned();
        let Source { user_name, user_id, .. } = &event.source;
        let source = Speaker { user_name: user_name.clone(), user_id: user_id.clone() };
        let mut chat = chat.lock();
        chat.bytes += text.len();
        chat.lines.push_back((self.timepiece.instant(), ContextLine { text, source }));
        while chat.lines.len() > LINES || chat.bytes > CHAT_BYTES {
            let Some((_, oldest)) = chat.lines.pop_front() else { break };
            chat.bytes -= oldest.text.len();
        }
    }

    /// The nearby messages of an event that is for an agent, oldest first. From now on its chat is listened to.
    pub fn around(&self, on: &BotRef, source: &Source) -> Vec<ContextLine> {
        let Some(key) = key(on, source) else { return Vec::new() };
        let now = self.timepiece.instant();
        let chat = self.chats.get_with(key, || {
            Arc::new(Mutex::new(NearbyMessages { spoken: now, lines: VecDeque::new(), bytes: 0 }))
        });
        let mut chat = chat.lock();
        chat.spoken = now;
        let nearby = chat.lines.iter().filter(|(at, _)| now < *at + NEARBY);
        nearby.map(|(_, line)| line.clone()).collect()
    }
}

/// A direct conversation has no context: everything in it is for the agent.
fn key(on: &BotRef, source: &Source) -> Option<ContextKey> {
    let chat = source.chat_id.clone().filter(|_| source.chat_type != "dm")?;
    Some((on.clone(), chat, source.thread_id.clone()))
}

#[cfg(test)]
mod tests {
    use posthouse_time::Moment;

    use super::*;

    fn said(chat_type: &str, chat: &str, text: &str) -> Event {
        let mut event = Event { text: text.to_owned(), ..Event::default() };
        event.source.chat_type = chat_type.to_owned();
        event.source.chat_id = Some(chat.into());
        event.source.user_name = Some("Ana".to_owned());
        event
    }

    fn on(bot: &str) -> BotRef {
        BotRef { platform: "p".into(), bot: bot.into() }
    }

    fn texts(buffer: &ContextBuffer, on: &BotRef, event: &Event) -> Vec<String> {
        buffer.around(on, &event.source).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn nearby_messages_come_oldest_first_and_only_of_chats_where_an_agent_was_spoken_to() {
        let clock = Timepiece::wound(Moment::from_seconds(0));
        let buffer = ContextBuffer::new(clock.clone());
        let (group, other) = (said("group", "c1", "hello"), said("group", "c2", "hello"));
        assert!(!buffer.listens(&on("b"), &group.source));
        buffer.keep(&on("b"), &group);
        assert_eq!(texts(&buffer, &on("b"), &group), Vec::<String>::new(), "nobody was spoken to yet");
        for text in ["one", "  ", "two"] {
            buffer.keep(&on("b"), &said("group", "c1", text));
        }
        assert_eq!(texts(&buffer, &on("b"), &group), ["one", "two"]);
        assert_eq!(texts(&buffer, &on("b"), &group), ["one", "two"], "each agent sees them");
        assert_eq!(texts(&buffer, &on("b"), &other), Vec::<String>::new());
        assert_eq!(texts(&buffer, &on("other"), &group), Vec::<String>::new());
        let dm = said("dm", "c1", "x");
        assert_eq!(texts(&buffer, &on("b"), &dm), Vec::<String>::new());
        assert!(!buffer.listens(&on("b"), &dm.source));
        clock.wind(NEARBY);
        assert_eq!(texts(&buffer, &on("b"), &group), Vec::<String>::new(), "too old");
        clock.wind(LISTENS);
        assert!(!buffer.listens(&on("b"), &group.source));
    }

    #[test]
    fn the_context_of_a_chat_is_bounded() {
        let buffer = ContextBuffer::new(Timepiece::wound(Moment::from_seconds(0)));
        let group = said("group", "c1", "x");
        buffer.around(&on("b"), &group.source);
        for number in 0..100 {
            buffer.keep(&on("b"), &said("group", "c1", &number.to_string()));
        }
        assert_eq!(texts(&buffer, &on("b"), &group).len(), LINES);
        for _ in 0..10 {
            buffer.keep(&on("b"), &said("group", "c1", &"ä".repeat(5000)));
        }
        let kept = texts(&buffer, &on("b"), &group);
        assert!(kept.iter().all(|line| line.len() <= LINE_BYTES));
        assert!(kept.iter().map(String::len).sum::<usize>() <= CHAT_BYTES);
    }
}
