//! Passive streams: answers of an AI bot that gets callbacks. WeCom asks for the text again and again until it is
//! finished.
//!
//! They are in the memory of the process that got the message. After a restart, or on another node, WeCom is told that
//! the stream has ended.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use parking_lot::Mutex;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::{BotId, ChatId};
use serde_json::json;
use tokio::sync::watch;

/// WeCom asks for at most six minutes. The rest is a margin.
const OPEN_FOR: Duration = Duration::from_secs(330);
const MOST: u64 = 10_000;

/// The content of an open stream.
struct StreamText {
    text: String,
    finish: bool,
    /// The number of changes, and the last one that WeCom has fetched.
    changes: u64,
}

struct PassiveStream {
    id: String,
    opened: Instant,
    text: Mutex<StreamText>,
    fetched: watch::Sender<u64>,
}

/// The open streams. Clones share one state.
#[derive(Clone)]
pub(super) struct PassiveStreams {
    timepiece: Timepiece,
    by_id: Cache<(BotId, String), Arc<PassiveStream>>,
    /// The stream of the last message of each chat.
    by_chat: Cache<(BotId, String), Arc<PassiveStream>>,
}

/// The result of adding to a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamResult {
    /// WeCom has fetched it.
    Fetched(String),
    /// There is no open stream: nobody has written, or the last answer is finished.
    NoStream,
    TooLong,
    /// WeCom did not ask for it in time. It was taken back.
    NotFetched,
}

impl PassiveStreams {
    pub fn new(timepiece: Timepiece) -> Self {
        let cache = || Cache::builder().max_capacity(MOST).time_to_live(OPEN_FOR).build();
        Self { timepiece, by_id: cache(), by_chat: cache() }
    }

    pub fn open(&self, bot: &BotId, chat: &str, id: String) {
        let text = Mutex::new(StreamText { text: String::new(), finish: false, changes: 0 });
        let opened = self.timepiece.instant();
        let stream = Arc::new(PassiveStream { id: id.clone(), opened, text, fetched: watch::Sender::new(0) });
        self.by_id.insert((bot.clone(), id), Arc::clone(&stream));
        self.by_chat.insert((bot.clone(), chat.to_owned()), stream);
    }

    /// The answer to a question of WeCom for more of a stream.
    pub fn polled(&self, bot: &BotId, id: &str) -> String {
        let Some(stream) = self.by_id.get(&(bot.clone(), id.to_owned())) else {
            return finished_stream(id, "");
        };
        let text = stream.text.lock();
        let is_old = self.timepiece.instant().since(stream.opened) >= OPEN_FOR;
        let finish = text.finish || is_old;
        stream.fetched.send_replace(text.changes);
        stream_text(id, finish, &text.text)
    }

    /// Adds a text to the stream of a chat, and waits at most `limit` until WeCom has fetched it.
    pub async fn add(
        &self,
        bot: &BotId,
        chat: &ChatId,
        content: &str,
        is_last: bool,
        limit: Duration,
    ) -> StreamResult {
        let stream = self.by_chat.get(&(bot.clone(), chat.to_string()));
        let Some(stream) = stream.filter(|stream| self.timepiece.instant().since(stream.opened) < OPEN_FOR)
        else {
            return StreamResult::NoStream;
        };
        let (change, length) = {
            let mut text = stream.text.lock();
            let length = text.text.len();
            if text.finish {
                return StreamResult::NoStream;
            }
            if length + content.len() + 2 > super::ANSWER_BYTES {
                return StreamResult::TooLong;
            }
            if length > 0 {
                text.text.push_str("\n\n");
            }
            text.text.push_str(content);
            text.finish = is_last;
            text.changes += 1;
            (text.changes, length)
        };
        let mut fetched = stream.fetched.subscribe();
        let waited = fetched.wait_for(|fetched| *fetched >= change);
        if self.timepiece.within(limit, waited).await.is_ok_and(|waited| waited.is_ok()) {
            return StreamResult::Fetched(stream.id.clone());
        }
        let mut text = stream.text.lock();
        match *stream.fetched.borrow() >= change {
            true => StreamResult::Fetched(stream.id.clone()),
            false => {
                text.text.truncate(length);
                text.finish = false;
                StreamResult::NotFetched
            }
        }
    }
}

/// A new id of a stream, which nobody can guess.
pub(super) fn new_stream_id() -> Option<String> {
    let mut random = [0; 16];
    aws_lc_rs::rand::fill(&mut random).ok()?;
    Some(hex::encode(random))
}

pub(super) fn opened_stream(id: &str) -> String {
    stream_text(id, false, "")
}

pub(super) fn finished_stream(id: &str, content: &str) -> String {
    stream_text(id, true, content)
}

fn stream_text(id: &str, finish: bool, content: &str) -> String {
    json!({ "msgtype": "stream", "stream": { "id": id, "finish": finish, "content": content } }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_counts_as_sent_when_wecom_has_fetched_it() {
        let streams = PassiveStreams::new(Timepiece::wall());
        let (bot, chat): (BotId, ChatId) = ("AIB".into(), "li".into());
        let limit = Duration::from_secs(20);
        assert_eq!(streams.add(&bot, &chat, "x", true, limit).await, StreamResult::NoStream);
        streams.open(&bot, "li", "s1".to_owned());
        let asking = async {
            loop {
                let answer: serde_json::Value = serde_json::from_str(&streams.polled(&bot, "s1")).unwrap();
                if answer["stream"]["finish"] == true {
                    return answer["stream"]["content"].clone();
                }
                tokio::task::yield_now().await;
            }
        };
        let sending = async {
            let first = streams.add(&bot, &chat, "one", false, limit).await;
            (first, streams.add(&bot, &chat, "two", true, limit).await)
        };
        let ((first, second), seen) = tokio::join!(sending, asking);
        let fetched = StreamResult::Fetched("s1".to_owned());
        assert_eq!((first, second), (StreamResult::Fetched("s1".to_owned()), fetched));
        assert_eq!(seen, "one\n\ntwo");
        assert_eq!(streams.add(&bot, &chat, "late", true, limit).await, StreamResult::NoStream);
        assert!(streams.polled(&bot, "unknown").contains("\"finish\":true"));
    }

    #[tokio::test]
    async fn a_text_that_wecom_does_not_fetch_is_taken_back() {
        let streams = PassiveStreams::new(Timepiece::wall());
        let (bot, chat): (BotId, ChatId) = ("AIB".into(), "li".into());
        streams.open(&bot, "li", "s1".to_owned());
        let result = streams.add(&bot, &chat, "unseen", true, Duration::ZERO).await;
        assert_eq!(result, StreamResult::NotFetched);
        let answer = streams.polled(&bot, "s1");
        assert!(!answer.contains("unseen") && answer.contains("\"finish\":false"), "{answer}");
        let long = "x".repeat(super::super::ANSWER_BYTES);
        let result = streams.add(&bot, &chat, &long, true, Duration::ZERO).await;
        assert_eq!(result, StreamResult::TooLong);
    }
}
