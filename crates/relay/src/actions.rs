//! What agents ask to be done: may it go out, in which order, and the one answer it gets.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ledger::{Begun, Generation, Identity, Request};
use parking_lot::Mutex;
use posthouse_time::Moment;
use posthouse_wire::frame::Outbound;
use posthouse_wire::{Action, ActionId, ChatId, Outcome, Platform, SessionKey, ToGateway};
use vault::Holder;

use crate::desk::Desk;
use crate::egress::{Carried, Egress, Order};
use crate::metrics::Done;
use crate::{Fault, Relay};

/// Requests of one chat that may wait for their turn.
const WAITING: usize = 256;

/// Requests of one agent that may be under way, and what they may weigh together: each may be as long as
/// the longest line.
const RUNNING: usize = 2048;
const RUNNING_BYTES: usize = 32 * 1024 * 1024;
/// The longest request id; it is kept for as long as its answer is remembered.
const LONGEST_ID: usize = 256;
/// How long an answer waits for its record once the action has ended.
const NOTED_WITHIN: Duration = Duration::from_secs(3);
/// Between two tries to note how an action ended while the ledger refuses.
const AGAIN: Duration = Duration::from_secs(1);

/// One lane per chat: what is asked for one chat happens in order, different chats side by side. A chat
/// goes by its id alone, since a request need not say which bot it means; namesakes share a lane.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<HashMap<Towards, VecDeque<Job>>>);

type Job = BoxFuture<'static, ()>;

/// Whom an action is for, as far as its order goes.
#[derive(PartialEq, Eq, Hash, Clone)]
enum Towards {
    Chat(ChatId),
    Session(SessionKey),
    Nobody,
}

impl Towards {
    fn of(action: &Action) -> Self {
        match (action, action.chat_id()) {
            (_, Some(chat)) => Towards::Chat(chat.clone()),
            (Action::FollowUp { session_key, .. }, None) => Towards::Session(session_key.clone()),
            (_, None) => Towards::Nobody,
        }
    }
}

/// The socket that asks.
pub(crate) struct Asking<'a> {
    pub socket: u64,
    pub desk: &'a Arc<Desk>,
    pub holder: &'a Holder,
    pub advertised: &'a [Identity],
    /// It announced our SDK.
    pub is_ours: bool,
    pub egress: &'a Arc<dyn Egress>,
    /// How long the line was that it asked with.
    pub weight: usize,
}

/// One request and who asked.
struct Asked {
    holder: Holder,
    advertised: Vec<Identity>,
    egress: Arc<dyn Egress>,
    outbound: Outbound,
    weight: usize,
    received: Moment,
}

/// Why an action is not carried out.
enum Stop {
    Refused(Outcome),
    Fault(Fault),
}

impl<F: Into<Fault>> From<F> for Stop {
    fn from(fault: F) -> Self {
        Stop::Fault(fault.into())
    }
}

impl Relay {
    /// Takes a request on; its answer finds its own way to the agent, whatever becomes of the socket.
    /// What needs no work is answered at once, by the caller.
    pub(crate) fn act(&self, asking: Asking<'_>, outbound: Outbound) -> Option<Outcome> {
        let Asking { socket, desk, holder, advertised, is_ours, egress, weight } = asking;
        // An agent of our SDK asks for all of it, which says nothing about a stock one that may dial in
        // with the same credential tomorrow.
        if !is_ours && shows_newer(&outbound.action) {
            self.saw_newer(desk);
        }
        let refusal = match &outbound.action {
            _ if outbound.request_id.as_str().len() > LONGEST_ID => {
                Some(Outcome::failed(format!("malformed request: its id is longer than {LONGEST_ID} bytes")))
            }
            Action::Unsupported { op, missing: Some(field) } => {
                Some(Outcome::failed(format!("malformed {op}: no {field}")))
            }
            Action::Unsupported { op, missing: None } => {
                Some(Outcome::failed(format!("unsupported op: {op}")))
            }
            _ if advertised.is_empty() => {
                Some(Outcome::egress_declined(outbound.platform.as_ref().map_or("relay", Platform::as_str)))
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            self.count(&outbound.action, &refusal);
            return Some(refusal);
        }
        let running = (holder.gateway.clone(), outbound.request_id.clone());
        {
            let mut state = desk.state.lock();
            if let Some(asked_by) = state.running.get_mut(&running) {
                // The same request again while the first is under way: the one answer serves both, and
                // goes where it was asked for last.
                *asked_by = socket;
                return None;
            }
            if state.running.len() >= RUNNING || state.running_bytes + weight > RUNNING_BYTES {
                return Some(Outcome::failed("rate limit: too many requests are under way"));
            }
            state.running.insert(running.clone(), socket);
            state.running_bytes += weight;
        }
        let lane = Towards::of(&outbound.action);
        let asked = Asked {
            holder: holder.clone(),
            advertised: advertised.to_vec(),
            egress: Arc::clone(egress),
            received: self.0.timepiece.now(),
            weight,
            outbound,
        };
        let (relay, at) = (self.clone(), Arc::clone(desk));
        let job: Job = Box::pin(async move { relay.answer(&at, asked).await });
        if desk.lanes.enter(self, desk, lane, job).is_err() {
            let mut state = desk.state.lock();
            state.running.remove(&running);
            state.running_bytes -= weight;
            return Some(Outcome::failed("rate limit: too many requests wait for this chat"));
        }
        None
    }

    async fn answer(&self, desk: &Desk, asked: Asked) {
        let outcome = self.do_once(&asked).await;
        self.count(&asked.outbound.action, &outcome);
        let (gateway, request_id) = (asked.holder.gateway, asked.outbound.request_id);
        let mut state = desk.state.lock();
        let asked_by = state.running.remove(&(gateway.clone(), request_id.clone())).unwrap_or_default();
        state.running_bytes -= asked.weight;
        let line = ToGateway::OutboundResult { request_id, result: outcome }.line();
        state.answer(asked_by, &gateway, line, self.0.timepiece.now());
    }

    fn count(&self, action: &Action, outcome: &Outcome) {
        let op = Action::OPS.iter().find(|op| **op == action.op()).copied().unwrap_or("other");
        let success = if outcome.success { "true" } else { "false" };
        self.0.metrics.actions.get_or_create(&Done { op, success }).inc();
    }

    /// Checks, notes, carries out, notes how it ended. A request seen before is answered from memory.
    async fn do_once(&self, asked: &Asked) -> Outcome {
        let deadline = asked.received + self.0.config.answer_within.0;
        let op = asked.outbound.action.op();
        let left = || deadline.since(self.0.timepiece.now());
        // Nobody knows; the words make a stock agent give up rather than send it again.
        let unknown = || Outcome::failed(format!("{op} timed out"));
        // It waited behind others for too long: whatever is begun now would end unseen.
        if left().is_zero() {
            return unknown();
        }
        let order = match self.0.timepiece.within(left(), self.begin(asked, deadline)).await {
            Ok(Ok(order)) => order,
            Ok(Err(Stop::Refused(outcome))) => return outcome,
            Ok(Err(Stop::Fault(fault))) => {
                tracing::error!(%fault, "could not begin an action");
                // It surely did not happen, so the agent may well try again.
                return Outcome::failed("network: the house could not keep a record of this and did nothing");
            }
            Err(_) => return unknown(),
        };
        let (id, started) = (order.id.clone(), self.0.timepiece.now());
        let carrying = AssertUnwindSafe(asked.egress.carry(order)).catch_unwind();
        let carried = match self.0.timepiece.within(left(), carrying).await {
            Ok(Ok(carried)) => carried,
            Ok(Err(_)) => {
                tracing::error!(action.id = %id, "carrying out an action broke off");
                Carried { outcome: unknown(), posted: Some(started) }
            }
            Err(_) => Carried { outcome: unknown(), posted: Some(started) },
        };
        self.finish(id, carried.clone()).await;
        carried.outcome
    }

    /// Is it allowed and new? Notes that it is about to be acted on.
    async fn begin(&self, asked: &Asked, deadline: Moment) -> Result<Order, Stop> {
        let action = &asked.outbound.action;
        let on = self.identity_for(asked).await?;
        self.guard(asked, &on).await?;
        let begun = self
            .0
            .outbox
            .begin(Request {
                gateway: asked.holder.gateway.clone(),
                request: asked.outbound.request_id.clone(),
                instance: asked.holder.instance.clone(),
                op: action.op().to_owned(),
                platform: on.platform.clone(),
                bot: on.bot.clone(),
                chat: action.chat_id().cloned(),
                reply_to: match action {
                    Action::Send { reply_to, .. } => reply_to.clone(),
                    _ => None,
                },
                received: asked.received,
            })
            .await?;
        let id = match begun {
            Begun::Fresh { action, .. } => action,
            Begun::Finished { outcome, .. } => return Err(Stop::Refused(outcome)),
            Begun::Unfinished { action } if asked.egress.may_repeat(&on) => action,
            Begun::Unfinished { .. } => {
                let error = format!("{} timed out: it was begun before and its end is unknown", action.op());
                return Err(Stop::Refused(Outcome::failed(error)));
            }
        };
        Ok(Order {
            id,
            tenant: asked.holder.tenant.clone(),
            instance: asked.holder.instance.clone(),
            on,
            action: action.clone(),
            deadline,
        })
    }

    /// Notes how an action ended, deadline or not: what is answered must be what is remembered. Where the
    /// ledger cannot take it the agent is told the truth all the same, and the noting goes on.
    async fn finish(&self, id: ActionId, carried: Carried) {
        let noting = self.0.outbox.finish(&id, &carried.outcome, carried.posted);
        match self.0.timepiece.within(NOTED_WITHIN, noting).await {
            Ok(Ok(())) | Ok(Err(ledger::Fault::Closed)) => return,
            Ok(Err(fault)) => tracing::error!(%fault, action.id = %id, "could not note how an action ended"),
            Err(_) => tracing::error!(action.id = %id, "noting how an action ended takes long"),
        }
        let relay = self.clone();
        self.0.tasks.spawn(async move {
            while !relay.0.closing.is_cancelled() {
                match relay.0.outbox.finish(&id, &carried.outcome, carried.posted).await {
                    Ok(()) | Err(ledger::Fault::Closed) => return,
                    Err(_) => relay.0.timepiece.after(AGAIN).await,
                }
            }
        });
    }

    /// Under which identity an action goes out (contract section 11.1).
    async fn identity_for(&self, asked: &Asked) -> Result<Identity, Stop> {
        let Outbound { action, platform, bot_id, .. } = &asked.outbound;
        match platform {
            Some(platform) => {
                let advertised = asked.advertised.iter().find(|identity| {
                    identity.platform == *platform && bot_id.as_ref().is_none_or(|bot| identity.bot == *bot)
                });
                // Never with another credential than the one it said hello for.
                advertised.cloned().ok_or_else(|| Stop::Refused(Outcome::egress_declined(platform.as_str())))
            }
            None => {
                let last = match action {
                    Action::FollowUp { session_key, .. } => self
                        .0
                        .roster
                        .chat_of_session(&asked.holder.instance, session_key)
                        .await?
                        .map(|(on, _)| on),
                    _ => match action.chat_id() {
                        Some(chat) => self.0.roster.last_identity(&asked.holder.instance, chat).await?,
                        None => None,
                    },
                };
                last.or_else(|| asked.advertised.first().cloned())
                    .ok_or_else(|| Stop::Refused(Outcome::egress_declined("relay")))
            }
        }
    }

    /// May this agent reach that chat? Only if our own records say so (contract section 11.3).
    async fn guard(&self, asked: &Asked, on: &Identity) -> Result<(), Stop> {
        // A follow-up is guarded by what was bound to its session.
        let Some(chat) = asked.outbound.action.chat_id() else { return Ok(()) };
        if self.0.roster.may_reach(&asked.holder.instance, on, chat).await? {
            return Ok(());
        }
        Err(Stop::Refused(Outcome::egress_declined(on.platform.as_str())))
    }

    /// Remembers, once, that an agent is of a newer generation.
    pub(crate) fn saw_newer(&self, desk: &Desk) {
        if std::mem::replace(&mut desk.state.lock().seen_newer, true) {
            return;
        }
        let (relay, instance) = (self.clone(), desk.instance.clone());
        self.0.tasks.spawn(async move {
            let roster = &relay.0.roster;
            let noted = match roster.instance(&instance).await {
                Ok(Some(found)) if found.generation == Generation::Auto => {
                    roster.set_generation(&instance, Generation::Newer).await
                }
                Ok(_) => Ok(()),
                Err(fault) => Err(fault),
            };
            if let Err(fault) = noted {
                tracing::error!(%fault, "could not note an agent's generation");
            }
        });
    }
}

/// Newer gateways show themselves by what they ask for (contract section 10.3).
fn shows_newer(action: &Action) -> bool {
    let newer_op = matches!(action.op(), "edit" | "typing" | "prompt" | "react" | "send_media");
    newer_op
        || action.metadata().is_some_and(|metadata| metadata.scope().is_some() && metadata.user_id.is_some())
}

/// A lane that has as much waiting as it takes.
struct Full;

impl Lanes {
    fn enter(&self, relay: &Relay, desk: &Arc<Desk>, lane: Towards, job: Job) -> Result<(), Full> {
        let mut lanes = self.0.lock();
        if let Some(waiting) = lanes.get_mut(&lane) {
            if waiting.len() >= WAITING {
                return Err(Full);
            }
            waiting.push_back(job);
            return Ok(());
        }
        lanes.insert(lane.clone(), VecDeque::new());
        drop(lanes);
        let desk = Arc::clone(desk);
        relay.0.tasks.spawn(async move {
            let mut next = Some(job);
            while let Some(job) = next {
                job.await;
                next = desk.lanes.next(&lane);
            }
        });
        Ok(())
    }

    fn next(&self, lane: &Towards) -> Option<Job> {
        let mut lanes = self.0.lock();
        let job = lanes.get_mut(lane).and_then(VecDeque::pop_front);
        if job.is_none() {
            lanes.remove(lane);
        }
        job
    }
}
