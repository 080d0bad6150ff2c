//! Agents that are writing an answer: the last sign of each, either `typing` or a part of its answer.
//!
//! A stock gateway repeats `typing` every 2 s while a turn runs. It sends nothing at the end of the turn if it has
//! already shown its whole answer. So a turn with `typing` is over once that stops. For an agent that never sends
//! `typing` the end of a turn is unknown.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;
use posthouse_time::Instant;
use posthouse_wire::{ChatId, CorrelationId, InstanceId, TenantId};

/// Time after a sign during which the agent counts as writing.
const SHOWS: Duration = Duration::from_secs(5);
/// Time that an unfinished answer is remembered without a further sign.
const LONGEST: Duration = Duration::from_secs(3600);
/// Number of remembered conversations above which old ones are removed.
const MANY: usize = 1024;

pub(crate) type AgentChat = (InstanceId, ChatId);
pub(crate) type QuestionKey = (TenantId, CorrelationId);

#[derive(Default)]
pub(crate) struct AnswersInProgress(Mutex<WritingSigns>);

#[derive(Default)]
struct WritingSigns {
    signs: HashMap<AgentChat, WritingSign>,
    /// Number of conversations at which old ones are removed again.
    swept: usize,
}

#[derive(Default)]
struct WritingSign {
    at: Instant,
    types: bool,
    /// The question whose answer was partly shown.
    begun: Option<QuestionKey>,
}

impl AnswersInProgress {
    /// Records `typing` in the conversation of a question.
    pub fn typed(&self, by: &InstanceId, chat: &ChatId, now: Instant) {
        self.0.lock().sign(by, chat, now).types = true;
    }

    /// Records that an agent has shown a part of its answer.
    pub fn showed(&self, by: &InstanceId, chat: &ChatId, question: QuestionKey, now: Instant) {
        self.0.lock().sign(by, chat, now).begun = Some(question);
    }

    /// Forgets a conversation, because its question has ended.
    pub fn forget(&self, by: &InstanceId, chat: &ChatId) {
        self.0.lock().signs.remove(&(by.clone(), chat.clone()));
    }

    /// Questions whose answer was partly shown and is still being written.
    pub fn being_written(&self, now: Instant) -> HashSet<QuestionKey> {
        let known = self.0.lock();
        known
            .signs
            .values()
            .filter(|sign| now < sign.at + SHOWS)
            .filter_map(|sign| sign.begun.clone())
            .collect()
    }

    /// Questions whose answer was partly shown in a turn that is over.
    pub fn over(&self, now: Instant) -> Vec<(AgentChat, QuestionKey)> {
        let known = self.0.lock();
        let over = known.signs.iter().filter(|(_, sign)| sign.types && now >= sign.at + SHOWS);
        over.filter_map(|(place, sign)| Some((place.clone(), sign.begun.clone()?))).collect()
    }

    /// Time until the next turn may be over.
    pub fn next_end(&self, now: Instant) -> Option<Duration> {
        let known = self.0.lock();
        let begun = known.signs.values().filter(|sign| sign.types && sign.begun.is_some());
        begun.map(|sign| (sign.at + SHOWS).since(now)).min()
    }
}

impl WritingSigns {
    fn sign(&mut self, by: &InstanceId, chat: &ChatId, now: Instant) -> &mut WritingSign {
        if self.signs.len() >= self.swept.max(MANY) {
            self.signs.retain(|_, sign| now < sign.at + if sign.begun.is_some() { LONGEST } else { SHOWS });
            self.swept = self.signs.len() * 2;
        }
        let sign = self.signs.entry((by.clone(), chat.clone())).or_default();
        sign.at = now;
        sign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_over_when_its_typing_stops_and_unknown_where_nobody_types() {
        let (writing, begin) = (AnswersInProgress::default(), Instant::default());
        let (heron, question) =
            (InstanceId::from("heron"), (TenantId::from("acme"), CorrelationId::from("q")));
        let chats = [ChatId::from("typed"), ChatId::from("silent")];
        for chat in &chats {
            writing.showed(&heron, chat, question.clone(), begin);
        }
        writing.typed(&heron, &chats[0], begin + Duration::from_secs(2));
        assert_eq!(writing.next_end(begin + SHOWS), Some(Duration::from_secs(2)));
        assert!(writing.over(begin + SHOWS).is_empty());
        assert!(writing.being_written(begin + SHOWS).contains(&question));
        let over = writing.over(begin + 2 * SHOWS);
        assert_eq!(over, [((heron.clone(), chats[0].clone()), question)]);
        assert!(writing.being_written(begin + 2 * SHOWS).is_empty());
        writing.forget(&heron, &chats[0]);
        assert!(writing.over(begin + 2 * SHOWS).is_empty());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (writing, heron) = (AnswersInProgress::default(), InstanceId::from("heron"));
        for number in 0..10_000_u32 {
            let now = Instant::default() + Duration::from_secs(number.into());
            writing.typed(&heron, &number.to_string().into(), now);
        }
        assert!(writing.0.lock().signs.len() <= MANY);
    }
}
