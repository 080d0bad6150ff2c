//! Nearby messages of groups, as context for the next message that is for an agent (relay contract section 9.1).
//!
//! They trigger nothing and are stored nowhere except on the event that they accompany. An agent sees only messages that
//! it would have got if they had been addressed to the bot, and only of chats in which it was spoken to within a day.
//! On a bot of many tenants, the agents in one chat therefore see different messages. A restart forgets everything.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ledger::{BotRef, RouteTo};
use parking_lot::Mutex;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::event::{ContextLine, Speaker};
use posthouse_wire::{ChatId, Event, InstanceId, Source, TenantId, ThreadId};

/// Messages that are kept for one agent in one chat.
const LINES: usize = 20;
/// Bytes that are kept of one message.
const LINE_BYTES: usize = 2 * 1024;
/// Bytes that are kept of all of them together.
const CHAT_BYTES: usize = 8 * 1024;
/// Chats that are kept in total, and for one tenant. At 8 KiB each, that is at most 64 MiB. When a limit is reached, the
/// chat whose agent was spoken to longest ago is forgotten: one of this tenant at its own limit, else one of the tenant
/// with most chats.
const CHATS: usize = 8 * 1024;
const CHATS_OF_A_TENANT: usize = 1024;
/// Age after which a message is no context any more.
const NEARBY: Duration = Duration::from_secs(30 * 60);
/// Time for which a chat is listened to after its agent was spoken to in it.
const LISTENS: Duration = Duration::from_secs(24 * 3600);

type ContextKey = (BotRef, ChatId, Option<ThreadId>, InstanceId);

/// The latest messages of groups that were not addressed to a bot. Clones share one state.
#[derive(Clone)]
pub(crate) struct ContextBuffer {
    chats: Arc<Mutex<HashMap<ContextKey, NearbyMessages>>>,
    timepiece: Timepiece,
}

/// The nearby messages for one agent in one chat.
struct NearbyMessages {
    /// The tenant of the agent.
    tenant: TenantId,
    /// Time at which the agent was last spoken to here.
    spoken: Instant,
    lines: VecDeque<(Instant, ContextLine)>,
    bytes: usize,
}

impl ContextBuffer {
    pub fn new(timepiece: Timepiece) -> Self {
        Self { chats: Arc::default(), timepiece }
    }

    /// Whether messages of this chat are kept as context for the agent.
    pub fn listens(&self, on: &BotRef, source: &Source, agent: &RouteTo) -> bool {
        let now = self.timepiece.instant();
        let Some(key) = key(on, source, agent) else { return false };
        self.chats.lock().get(&key).is_some_and(|chat| now < chat.spoken + LISTENS)
    }

    /// Keeps a message that the agent would have got if it had been addressed to the bot.
    pub fn keep(&self, on: &BotRef, event: &Event, agent: &RouteTo) {
        let Some(key) = key(on, &event.source, agent) else { return };
        let text = event.text.trim();
        if text.is_empty() {
            return;
        }
        let text = text[..text.floor_char_boundary(LINE_BYTES)].to_owned();
        let Source { user_name, user_id, .. } = &event.source;
        let source = Speaker { user_name: user_name.clone(), user_id: user_id.clone() };
        let mut chats = self.chats.lock();
        let Some(chat) = chats.get_mut(&key) else { return };
        chat.bytes += text.len();
        chat.lines.push_back((self.timepiece.instant(), ContextLine { text, source }));
        while chat.lines.len() > LINES || chat.bytes > CHAT_BYTES {
            let Some((_, oldest)) = chat.lines.pop_front() else { break };
            chat.bytes -= oldest.text.len();
        }
    }

    /// The nearby messages of an event that is for this agent, oldest first. From now on its chat is listened to.
    pub fn around(&self, on: &BotRef, source: &Source, agent: &RouteTo) -> Vec<ContextLine> {
        let Some(key) = key(on, source, agent) else { return Vec::new() };
        let tenant = &agent.tenant;
        let now = self.timepiece.instant();
        let mut chats = self.chats.lock();
        if !chats.contains_key(&key) {
            make_room(&mut chats, tenant, now);
        }
        let chat = chats.entry(key).or_insert_with(|| NearbyMessages {
            tenant: tenant.clone(),
            spoken: now,
            lines: VecDeque::new(),
            bytes: 0,
        });
        chat.spoken = now;
        let nearby = chat.lines.iter().filter(|(at, _)| now < *at + NEARBY);
        nearby.map(|(_, line)| line.clone()).collect()
    }
}

/// Makes room for one more chat of a tenant.
fn make_room(chats: &mut HashMap<ContextKey, NearbyMessages>, tenant: &TenantId, now: Instant) {
    let mut own = chats.values().filter(|chat| chat.tenant == *tenant);
    if own.by_ref().count() >= CHATS_OF_A_TENANT {
        return forget_oldest(chats, tenant);
    }
    if chats.len() < CHATS {
        return;
    }
    chats.retain(|_, chat| now < chat.spoken + LISTENS);
    if chats.len() < CHATS {
        return;
    }
    let mut counts: HashMap<&TenantId, usize> = HashMap::new();
    chats.values().for_each(|chat| *counts.entry(&chat.tenant).or_default() += 1);
    let busiest = counts.into_iter().max_by_key(|(_, count)| *count).map(|(tenant, _)| tenant.clone());
    if let Some(busiest) = busiest {
        forget_oldest(chats, &busiest);
    }
}

fn forget_oldest(chats: &mut HashMap<ContextKey, NearbyMessages>, tenant: &TenantId) {
    let own = chats.iter().filter(|(_, chat)| chat.tenant == *tenant);
    let oldest = own.min_by_key(|(_, chat)| chat.spoken).map(|(key, _)| key.clone());
    if let Some(oldest) = oldest {
        chats.remove(&oldest);
    }
}

fn key(on: &BotRef, source: &Source, agent: &RouteTo) -> Option<ContextKey> {
    let chat = source.chat_id.clone()?;
    Some((on.clone(), chat, source.thread_id.clone(), agent.instance.clone()))
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

    fn heron() -> RouteTo {
        agent("ten_1", "inst_heron")
    }

    fn agent(tenant: &str, instance: &str) -> RouteTo {
        RouteTo { tenant: tenant.into(), instance: instance.into() }
    }

    fn texts(buffer: &ContextBuffer, on: &BotRef, event: &Event) -> Vec<String> {
        buffer.around(on, &event.source, &heron()).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn nearby_messages_come_oldest_first_and_only_of_chats_where_the_agent_was_spoken_to() {
        let clock = Timepiece::wound(Moment::from_seconds(0));
        let buffer = ContextBuffer::new(clock.clone());
        let (group, other) = (said("group", "c1", "hello"), said("group", "c2", "hello"));
        assert!(!buffer.listens(&on("b"), &group.source, &heron()));
        buffer.keep(&on("b"), &group, &heron());
        assert_eq!(texts(&buffer, &on("b"), &group), Vec::<String>::new(), "nobody was spoken to yet");
        for text in ["one", "  ", "two"] {
            buffer.keep(&on("b"), &said("group", "c1", text), &heron());
        }
        assert_eq!(texts(&buffer, &on("b"), &group), ["one", "two"]);
        assert_eq!(texts(&buffer, &on("b"), &group), ["one", "two"], "they stay");
        assert_eq!(texts(&buffer, &on("b"), &other), Vec::<String>::new());
        assert_eq!(texts(&buffer, &on("other"), &group), Vec::<String>::new());
        clock.wind(NEARBY);
        assert_eq!(texts(&buffer, &on("b"), &group), Vec::<String>::new(), "too old");
        clock.wind(LISTENS);
        assert!(!buffer.listens(&on("b"), &group.source, &heron()));
    }

    #[test]
    fn an_agent_sees_nothing_that_was_kept_for_another_agent_in_the_same_chat() {
        let buffer = ContextBuffer::new(Timepiece::wound(Moment::from_seconds(0)));
        let (group, otter) = (said("group", "c1", "lunch at noon"), agent("ten_2", "inst_otter"));
        for agent in [&heron(), &otter] {
            buffer.around(&on("b"), &group.source, agent);
        }
        buffer.keep(&on("b"), &group, &otter);
        assert_eq!(texts(&buffer, &on("b"), &group), Vec::<String>::new());
        assert_eq!(buffer.around(&on("b"), &group.source, &otter).len(), 1);
    }

    #[test]
    fn the_context_of_a_chat_is_bounded() {
        let buffer = ContextBuffer::new(Timepiece::wound(Moment::from_seconds(0)));
        let group = said("group", "c1", "x");
        buffer.around(&on("b"), &group.source, &heron());
        for number in 0..100 {
            buffer.keep(&on("b"), &said("group", "c1", &number.to_string()), &heron());
        }
        assert_eq!(texts(&buffer, &on("b"), &group).len(), LINES);
        for _ in 0..10 {
            buffer.keep(&on("b"), &said("group", "c1", &"ä".repeat(5000)), &heron());
        }
        let kept = texts(&buffer, &on("b"), &group);
        assert!(kept.iter().all(|line| line.len() <= LINE_BYTES));
        assert!(kept.iter().map(String::len).sum::<usize>() <= CHAT_BYTES);
    }

    #[test]
    fn a_tenant_in_many_chats_forgets_its_own_and_nobody_elses() {
        let clock = Timepiece::wound(Moment::from_seconds(0));
        let buffer = ContextBuffer::new(clock.clone());
        let quiet = said("group", "quiet", "lunch at noon");
        let owl = agent("quiet", "inst_owl");
        buffer.around(&on("b"), &quiet.source, &owl);
        buffer.keep(&on("b"), &quiet, &owl);
        for tenant in 0..10 {
            clock.wind(Duration::from_millis(1));
            for chat in 0..CHATS_OF_A_TENANT + 5 {
                let group = said("group", &format!("c{chat}"), "hi");
                let noisy = agent(&format!("ten_{tenant}"), &format!("inst_{tenant}"));
                buffer.around(&on("shared"), &group.source, &noisy);
            }
        }
        assert_eq!(buffer.chats.lock().len(), CHATS);
        assert_eq!(buffer.around(&on("b"), &quiet.source, &owl).len(), 1);
    }
}
