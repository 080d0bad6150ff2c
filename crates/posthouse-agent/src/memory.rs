//! In-memory server for authors' tests: a relay transport without sockets.

mod post;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use posthouse_wire::{
    Action, ChatId, ChatInfo, Descriptor, EntryId, Event, MessageId, Outcome, SessionKey, ThreadId,
};
use tokio::sync::{Notify, watch};

use crate::transport::{
    DeliveryDeclined, Descriptors, EntryState, Fault, Inbound, InboundHandler, RelayTransport, SeenEntries,
    Tag,
};

/// Plays the server: delivers events, records actions, and answers them from a script. Clones share one
/// server; give one to the [`Agent`](crate::Agent) and keep one.
#[derive(Clone)]
pub struct MemoryConnector(Arc<MemoryServer>);

struct MemoryServer {
    descriptors: Arc<Descriptors>,
    handler: watch::Sender<Option<Arc<dyn InboundHandler>>>,
    open: watch::Sender<bool>,
    seen: Mutex<SeenEntries>,
    record: Mutex<MemoryRecord>,
    changed: Notify,
    entries: AtomicU64,
    messages: AtomicU64,
}

#[derive(Default)]
struct MemoryRecord {
    actions: Vec<RequestedAction>,
    /// Number of items of `actions` that `next_action` has already returned.
    read: usize,
    script: VecDeque<Outcome>,
    acknowledged: Vec<EntryId>,
    interrupts: Vec<(SessionKey, Option<String>)>,
    paused: bool,
}

/// An action that the agent asked for, and the identity it was tagged with.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedAction {
    pub action: Action,
    pub tag: Tag,
}

impl RequestedAction {
    /// The text that the action would show, if any.
    pub fn content(&self) -> Option<&str> {
        match &self.action {
            Action::Send { content, .. }
            | Action::Edit { content, .. }
            | Action::FollowUp { content, .. } => Some(content),
            _ => None,
        }
    }
}

impl MemoryConnector {
    /// A server with these platforms. The first one is the default.
    pub fn new(platforms: impl IntoIterator<Item = Descriptor>) -> Self {
        let mut descriptors = Descriptors::default();
        for descriptor in platforms {
            descriptors.learn(descriptor);
        }
        Self(Arc::new(MemoryServer {
            descriptors: Arc::new(descriptors),
            handler: watch::Sender::new(None),
            open: watch::Sender::new(false),
            seen: Mutex::default(),
            record: Mutex::default(),
            changed: Notify::new(),
            entries: AtomicU64::new(0),
            messages: AtomicU64::new(0),
        }))
    }

    /// Delivers an event under a new entry id, once a handler is set. Returns when the agent has accepted
    /// or declined it.
    pub async fn deliver(&self, event: Event) -> Result<EntryId, DeliveryDeclined> {
        let entry = self.new_entry();
        self.deliver_as(event, entry.clone()).await?;
        Ok(entry)
    }

    /// Delivers an event under this entry id. A repeat is acknowledged but not handled.
    pub async fn deliver_as(&self, event: Event, entry: EntryId) -> Result<(), DeliveryDeclined> {
        let handler = self.handler().await;
        let state = self.0.seen.lock().check(&entry);
        match state {
            EntryState::New => {}
            EntryState::InProgress => return Ok(()),
            EntryState::Accepted => {
                self.acknowledge(entry);
                return Ok(());
            }
        }
        match handler.inbound(Inbound { event: Box::new(event), entry: Some(entry.clone()) }).await {
            Ok(()) => {
                self.0.seen.lock().accept(&entry);
                self.acknowledge(entry);
                Ok(())
            }
            Err(declined) => {
                self.0.seen.lock().forget(&entry);
                Err(declined)
            }
        }
    }

    /// Interrupts the turn of a session, as a person's stop button would.
    pub async fn interrupt(&self, session_key: &SessionKey, chat_id: &ChatId) {
        self.handler().await.interrupted(session_key, chat_id);
    }

    /// Answers the next action with `outcome` instead of the default. Scripted outcomes are used in order.
    pub fn answers(&self, outcome: Outcome) {
        self.0.record.lock().script.push_back(outcome);
    }

    /// Waits for the next action that was not read yet, and returns it.
    pub async fn next_action(&self) -> RequestedAction {
        self.eventually(|record| {
            let action = record.actions.get(record.read).cloned()?;
            record.read += 1;
            Some(action)
        })
        .await
    }

    /// Every action so far.
    pub fn actions(&self) -> Vec<RequestedAction> {
        self.0.record.lock().actions.clone()
    }

    pub fn acknowledged(&self) -> Vec<EntryId> {
        self.0.record.lock().acknowledged.clone()
    }

    /// The interrupts that the agent asked for.
    pub fn interrupts(&self) -> Vec<(SessionKey, Option<String>)> {
        self.0.record.lock().interrupts.clone()
    }

    /// Whether the agent asked the server to deliver nothing more.
    pub fn paused(&self) -> bool {
        self.0.record.lock().paused
    }

    fn new_entry(&self) -> EntryId {
        let number = self.0.entries.fetch_add(1, Ordering::Relaxed) + 1;
        EntryId::from(format!("ent_{number}"))
    }

    async fn handler(&self) -> Arc<dyn InboundHandler> {
        let mut handlers = self.0.handler.subscribe();
        let handler = handlers.wait_for(Option::is_some).await.expect("this handle holds the sender").clone();
        handler.expect("waited for it")
    }

    async fn eventually<T>(&self, mut look: impl FnMut(&mut MemoryRecord) -> Option<T>) -> T {
        loop {
            let changed = self.0.changed.notified();
            if let Some(found) = look(&mut self.0.record.lock()) {
                return found;
            }
            changed.await;
        }
    }

    fn acknowledge(&self, entry: EntryId) {
        self.0.record.lock().acknowledged.push(entry);
    }

    fn perform(&self, action: Action, tag: Tag) -> Outcome {
        let mut record = self.0.record.lock();
        let outcome = record.script.pop_front().unwrap_or_else(|| match &action {
            Action::Send { .. }
            | Action::FollowUp { .. }
            | Action::SendMedia { .. }
            | Action::Prompt { .. } => {
                let number = self.0.messages.fetch_add(1, Ordering::Relaxed) + 1;
                Outcome::sent(MessageId::from(format!("m{number}")))
            }
            Action::GetChatInfo { chat_id } => {
                Outcome::info(ChatInfo { name: chat_id.as_str().to_owned(), kind: "dm".to_owned() })
            }
            Action::ThreadCreate { .. } => {
                let number = self.0.messages.fetch_add(1, Ordering::Relaxed) + 1;
                Outcome::thread(ThreadId::from(format!("t{number}")))
            }
            Action::Unsupported { op, .. } => Outcome::unsupported(op),
            Action::Edit { .. }
            | Action::Typing { .. }
            | Action::React { .. }
            | Action::ThreadRename { .. }
            | Action::Draft { .. } => Outcome::done(),
        });
        record.actions.push(RequestedAction { action, tag });
        drop(record);
        self.0.changed.notify_waiters();
        outcome
    }
}

#[async_trait]
impl RelayTransport for MemoryConnector {
    async fn connect(&self) -> Result<(), Fault> {
        self.0.open.send_replace(true);
        Ok(())
    }

    async fn disconnect(&self) {
        self.0.open.send_replace(false);
    }

    async fn handshake(&self) -> Result<Descriptor, Fault> {
        let first = self.0.descriptors.first();
        first.map(|descriptor| Descriptor::clone(descriptor)).ok_or(Fault::NoIdentity)
    }

    fn set_inbound_handler(&self, handler: Arc<dyn InboundHandler>) {
        self.0.handler.send_replace(Some(handler));
    }

    async fn send_outbound(&self, action: Action, tag: &Tag) -> Outcome {
        self.perform(action, tag.clone())
    }

    async fn get_chat_info(&self, chat_id: &ChatId, tag: &Tag) -> Result<ChatInfo, Fault> {
        let outcome = self.perform(Action::GetChatInfo { chat_id: chat_id.clone() }, tag.clone());
        outcome.chat_info.ok_or_else(|| Fault::Untold(outcome.error.unwrap_or_default()))
    }

    async fn send_interrupt(&self, session_key: &SessionKey, reason: Option<&str>) -> bool {
        self.0.record.lock().interrupts.push((session_key.clone(), reason.map(str::to_owned)));
        true
    }

    async fn send_follow_up(&self, action: Action) -> Outcome {
        self.perform(action, Tag::default())
    }

    fn descriptors(&self) -> Arc<Descriptors> {
        self.0.descriptors.clone()
    }

    async fn pause(&self) {
        self.0.record.lock().paused = true;
    }

    async fn ended(&self) -> Fault {
        let mut open = self.0.open.subscribe();
        let _ = open.wait_for(|open| !open).await;
        Fault::Closed
    }
}
