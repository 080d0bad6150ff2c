//! Test egress: records the actions and returns configured results.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use ledger::{BeginOutcome, BotRef, Fault, Outbox, Request};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{
    Action, ActionId, ChatId, Descriptor, GatewayId, InstanceId, MessageId, Outcome, RequestId,
};
use relay::{Egress, EgressResult, FetchedMedia, MediaWriter, NotFetched, PermittedAction};

use crate::test_server::eventually;

#[derive(Clone)]
pub enum Habit {
    /// Never comes back by itself.
    Hangs,
    /// Comes back when the clock has reached this moment.
    Until(Moment),
    Answers(Outcome),
    Panics,
}

pub struct Recorder {
    clock: Timepiece,
    orders: Mutex<Vec<PermittedAction>>,
    habits: Mutex<HashMap<ChatId, Habit>>,
    files: Mutex<HashMap<String, Bytes>>,
}

impl Recorder {
    pub fn new(clock: Timepiece) -> Self {
        Self { clock, orders: Mutex::default(), habits: Mutex::default(), files: Mutex::default() }
    }

    pub fn in_chat(&self, chat: &str, habit: Habit) {
        self.habits.lock().unwrap().insert(ChatId::new(chat), habit);
    }

    /// The platform has this file. One whose reference is `slow` never comes.
    pub fn has_file(&self, reference: &str, content: impl Into<Bytes>) {
        self.files.lock().unwrap().insert(reference.to_owned(), content.into());
    }

    pub fn orders(&self) -> Vec<PermittedAction> {
        self.orders.lock().unwrap().clone()
    }

    /// What was sent to a chat, in the order in which it was begun.
    pub fn texts(&self, chat: &str) -> Vec<String> {
        let text = |order: PermittedAction| match order.action {
            Action::Send { chat_id, content, .. } if chat_id.as_str() == chat => Some(content),
            _ => None,
        };
        self.orders().into_iter().filter_map(text).collect()
    }

    pub async fn has_begun(&self, count: usize) {
        eventually(|| self.orders().len() >= count).await;
    }
}

#[async_trait]
impl Egress for Recorder {
    async fn descriptor(&self, of: &BotRef) -> Option<Descriptor> {
        let known = matches!(of.platform.as_str(), "telegram" | "discord" | "slack" | "web");
        known.then(|| Descriptor::new(of.platform.clone(), of.bot.as_str()))
    }

    fn is_built_in(&self, bot: &BotRef) -> bool {
        bot.platform.as_str() == "web"
    }

    async fn fetch_media(
        &self,
        _: &BotRef,
        reference: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        if reference == "slow" {
            std::future::pending::<()>().await;
        }
        let content = self.files.lock().unwrap().get(reference).cloned().ok_or(NotFetched::Gone)?;
        into.write(content).await?;
        Ok(FetchedMedia::default())
    }

    async fn perform(&self, order: PermittedAction) -> EgressResult {
        let habit = order.action.chat_id().and_then(|chat| self.habits.lock().unwrap().get(chat).cloned());
        let number = {
            let mut orders = self.orders.lock().unwrap();
            orders.push(order);
            orders.len()
        };
        let sent = Outcome::sent(MessageId::new(format!("m{number}")));
        let outcome = match habit {
            None => sent,
            Some(Habit::Hangs) => std::future::pending().await,
            Some(Habit::Until(moment)) => {
                self.clock.until(moment).await;
                sent
            }
            Some(Habit::Answers(outcome)) => outcome,
            Some(Habit::Panics) => panic!("a platform's code broke"),
        };
        EgressResult { outcome, posted: Some(self.clock.now()), called: None }
    }
}

/// An outbox on a disk that may be full.
pub struct Reluctant {
    pub inner: Arc<dyn Outbox>,
    pub is_full: AtomicBool,
    /// The calls of each kind so far.
    pub calls: Mutex<BTreeMap<&'static str, usize>>,
}

impl Reluctant {
    fn counts(&self, call: &'static str) {
        *self.calls.lock().unwrap().entry(call).or_default() += 1;
    }

    fn room(&self) -> Result<(), Fault> {
        if self.is_full.load(Ordering::SeqCst) { Err(Fault::Full) } else { Ok(()) }
    }
}

#[async_trait]
impl Outbox for Reluctant {
    async fn begin(&self, request: Request) -> Result<BeginOutcome, Fault> {
        self.counts("begin");
        self.room()?;
        self.inner.begin(request).await
    }

    async fn begun_before(
        &self,
        gateway: &GatewayId,
        request: &RequestId,
    ) -> Result<Option<BeginOutcome>, Fault> {
        self.counts("begun_before");
        self.inner.begun_before(gateway, request).await
    }

    async fn finish(
        &self,
        of: &InstanceId,
        action: &ActionId,
        outcome: &Outcome,
        posted: Option<Moment>,
        called: Option<&str>,
    ) -> Result<(), Fault> {
        self.counts("finish");
        self.room()?;
        self.inner.finish(of, action, outcome, posted, called).await
    }
}
