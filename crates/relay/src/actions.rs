//! Actions of agents: permission check, order per chat, execution, and exactly one result each.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use identity::GatewayOwner;
use ledger::{BeginOutcome, BotRef, Request};
use parking_lot::Mutex;
use posthouse_time::{Instant, Moment};
use posthouse_wire::frame::Outbound;
use posthouse_wire::session_key::UNKNOWN_PLATFORM;
use posthouse_wire::{Action, ActionId, ChatId, Outcome, Platform, SessionKey, ToGateway};

use crate::agent_connections::AgentConnections;
use crate::egress::{Carried, Egress, Order};
use crate::generation::Proof;
use crate::metrics::Done;
use crate::turns::ends_turn;
use crate::{Fault, Relay};

/// Maximum number of waiting requests per chat.
const WAITING: usize = 256;

/// Maximum number of running requests per agent, and their total size in bytes. The size needs its own limit, because
/// each request may be as long as the longest line.
const RUNNING: usize = 2048;
const RUNNING_BYTES: usize = 32 * 1024 * 1024;
/// The longest text of one action, in bytes. A longer one would be split into hundreds of messages.
const LONGEST_TEXT: usize = 256 * 1024;
/// The longest id of a request or a chat, in bytes. A request id is stored as long as its result, and the chats of an
/// agent are remembered whether it may write there or not.
const LONGEST_ID: usize = 256;
/// Time for which a result waits until the ended action is recorded.
const NOTED_WITHIN: Duration = Duration::from_secs(3);
/// Pause between two attempts to record an outcome while the ledger fails.
const AGAIN: Duration = Duration::from_secs(1);

/// One lane per chat: requests for one chat run in order, different chats run in parallel. The chat id alone is the
/// key, because a request need not name its bot; chats with the same id on different bots share a lane.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<HashMap<Towards, VecDeque<QueuedAction>>>);

type QueuedAction = BoxFuture<'static, ()>;

/// The key of a lane: the target of an action.
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

/// The socket that sent a request.
pub(crate) struct Asking<'a> {
    pub socket: u64,
    pub connections: &'a Arc<AgentConnections>,
    pub holder: &'a GatewayOwner,
    pub advertised: &'a [BotRef],
    /// The gateway version that its hellos proved.
    pub proof: Proof,
    pub egress: &'a Arc<dyn Egress>,
    /// Length of the request's line in bytes.
    pub weight: usize,
}

/// One request with its sender.
struct ActionRequest {
    holder: GatewayOwner,
    advertised: Vec<BotRef>,
    egress: Arc<dyn Egress>,
    outbound: Outbound,
    ends_turn: bool,
    weight: usize,
    /// Time of receipt, for its record.
    received: Moment,
    /// Time at which a result is sent at the latest.
    deadline: Instant,
}

/// Reason why an action is not carried out.
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
    /// Accepts a request. Its result is sent to the agent later, even if this socket closes. A result that needs no
    /// work is returned, and the caller sends it.
    pub(crate) fn act(&self, asking: Asking<'_>, outbound: Outbound) -> Option<Outcome> {
        let Asking { socket, connections, holder, advertised, proof, egress, weight } = asking;
        let refusal = match &outbound.action {
            _ if outbound.request_id.as_str().len() > LONGEST_ID => Some(Outcome::failed(format!(
                "malformed request: the request id is longer than {LONGEST_ID} bytes"
            ))),
            action if action.chat_id().is_some_and(|chat| chat.as_str().len() > LONGEST_ID) => {
                let op = action.op();
                Some(Outcome::failed(format!("malformed {op}: chat_id is longer than {LONGEST_ID} bytes")))
            }
            Action::Unsupported { op, missing: Some(field) } => {
                Some(Outcome::failed(format!("malformed {op}: {field} is missing")))
            }
            Action::Unsupported { op, missing: None } => {
                Some(Outcome::failed(format!("unsupported op: {op}")))
            }
            Action::Send { content, .. }
            | Action::Edit { content, .. }
            | Action::FollowUp { content, .. }
                if content.len() > LONGEST_TEXT =>
            {
                // Stock then sends the first 3,500 characters (contract section 11.4).
                Some(Outcome::failed(format!("too long: {} bytes, at most {LONGEST_TEXT}", content.len())))
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            self.count(&outbound.action, &refusal);
            return Some(refusal);
        }
        let running = (holder.gateway.clone(), outbound.request_id.clone());
        {
            let mut state = connections.state.lock();
            let now = self.0.timepiece.instant();
            // Without a hello no new action begins. Only a request that began on another socket is answered.
            if !advertised.is_empty() {
                state.turns.asked(&outbound.action, socket, proof == Proof::Client, now);
            }
            if let Some(asked_by) = state.running.get_mut(&running) {
                // The same request came again while the first is running. The one result serves both, and goes to
                // the socket that asked last.
                *asked_by = socket;
                return None;
            }
            if state.running.len() >= RUNNING || state.running_bytes + weight > RUNNING_BYTES {
                return Some(Outcome::failed("rate limit: too many requests are running"));
            }
            state.running.insert(running.clone(), socket);
            state.running_bytes += weight;
        }
        let lane = Towards::of(&outbound.action);
        let asked = ActionRequest {
            holder: holder.clone(),
            advertised: advertised.to_vec(),
            egress: Arc::clone(egress),
            received: self.0.timepiece.now(),
            deadline: self.0.timepiece.instant() + self.0.config.answer_within.0,
            weight,
            ends_turn: ends_turn(&outbound.action, proof == Proof::Client),
            outbound,
        };
        let (relay, at) = (self.clone(), Arc::clone(connections));
        let job: QueuedAction = Box::pin(async move { relay.answer(&at, asked).await });
        if connections.lanes.enter(self, connections, lane, job).is_err() {
            let mut state = connections.state.lock();
            state.running.remove(&running);
            state.running_bytes -= weight;
            return Some(Outcome::failed("rate limit: too many requests are waiting for this chat"));
        }
        None
    }

    async fn answer(&self, connections: &AgentConnections, asked: ActionRequest) {
        let outcome = self.do_once(&asked).await;
        self.count(&asked.outbound.action, &outcome);
        let (gateway, request_id) = (asked.holder.gateway, asked.outbound.request_id);
        let mut state = connections.state.lock();
        let asked_by = state.running.remove(&(gateway.clone(), request_id.clone())).unwrap_or_default();
        state.running_bytes -= asked.weight;
        let line = ToGateway::OutboundResult { request_id, result: outcome }.line();
        state.answer(asked_by, &gateway, line, self.0.timepiece.instant());
    }

    fn count(&self, action: &Action, outcome: &Outcome) {
        let op = Action::OPS.iter().find(|op| **op == action.op()).copied().unwrap_or("other");
        let success = if outcome.success { "true" } else { "false" };
        self.0.metrics.actions.get_or_create(&Done { op, success }).inc();
    }

    /// Checks, records and carries out a request, and records its outcome. A known request gets its stored outcome.
    async fn do_once(&self, asked: &ActionRequest) -> Outcome {
        let op = asked.outbound.action.op();
        let left = || asked.deadline.since(self.0.timepiece.instant());
        // The outcome is unknown. `timed out` makes a stock agent give up rather than send the request again.
        let unknown = || Outcome::failed(format!("{op} timed out"));
        // It waited too long behind others. An action that begins now would end after its result was sent.
        if left().is_zero() {
            return unknown();
        }
        let order = match self.0.timepiece.within(left(), self.begin(asked)).await {
            Ok(Ok(order)) => order,
            Ok(Err(Stop::Refused(outcome))) => return outcome,
            Ok(Err(Stop::Fault(fault))) => {
                tracing::error!(%fault, "could not record the start of an action");
                // The action certainly did not happen. `network` tells the agent that it may try again.
                return Outcome::failed("network: the server could not record this request and did nothing");
            }
            Err(_) => return unknown(),
        };
        let (id, started) = (order.id.clone(), self.0.timepiece.now());
        let carrying = AssertUnwindSafe(asked.egress.carry(order)).catch_unwind();
        let carried = match self.0.timepiece.within(left(), carrying).await {
            Ok(Ok(carried)) => carried,
            Ok(Err(_)) => {
                tracing::error!(action.id = %id, "carrying out an action panicked");
                Carried { outcome: unknown(), posted: Some(started) }
            }
            Err(_) => Carried { outcome: unknown(), posted: Some(started) },
        };
        self.finish(id, carried.clone()).await;
        carried.outcome
    }

    /// Checks that the action is permitted and new, and records its start.
    async fn begin(&self, asked: &ActionRequest) -> Result<Order, Stop> {
        let action = &asked.outbound.action;
        let on = match self.permit(asked).await {
            // An action that began while it was permitted gets its recorded outcome, because it may have happened.
            Err(Stop::Refused(refusal)) => {
                return Err(Stop::Refused(self.begun_before(asked).await?.unwrap_or(refusal)));
            }
            permitted => permitted?,
        };
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
            BeginOutcome::Fresh { action, .. } => action,
            BeginOutcome::Finished { outcome, .. } => return Err(Stop::Refused(outcome)),
            BeginOutcome::Unfinished { action } if asked.egress.may_repeat(&on) => action,
            BeginOutcome::Unfinished { .. } => return Err(Stop::Refused(end_unknown(action))),
        };
        Ok(Order {
            id,
            tenant: asked.holder.tenant.clone(),
            instance: asked.holder.instance.clone(),
            on,
            action: action.clone(),
            ends_turn: asked.ends_turn,
            stream_cursor: self.stream_cursor(&asked.holder.instance, action).await?,
            deadline: asked.deadline,
        })
    }

    /// The outcome of a request that began before, if it did.
    async fn begun_before(&self, asked: &ActionRequest) -> Result<Option<Outcome>, Stop> {
        let begun = self.0.outbox.begun_before(&asked.holder.gateway, &asked.outbound.request_id).await?;
        Ok(begun.and_then(|begun| match begun {
            BeginOutcome::Fresh { .. } => None,
            BeginOutcome::Finished { outcome, .. } => Some(outcome),
            BeginOutcome::Unfinished { .. } => Some(end_unknown(&asked.outbound.action)),
        }))
    }

    /// Records the outcome of an action, even after its deadline: the result sent must match the record. If the ledger
    /// fails, the agent still gets the true outcome, and recording is retried.
    async fn finish(&self, id: ActionId, carried: Carried) {
        let noting = self.0.outbox.finish(&id, &carried.outcome, carried.posted);
        match self.0.timepiece.within(NOTED_WITHIN, noting).await {
            Ok(Ok(())) | Ok(Err(ledger::Fault::Closed)) => return,
            Ok(Err(fault)) => {
                tracing::error!(%fault, action.id = %id, "could not record the outcome of an action");
            }
            Err(_) => tracing::error!(action.id = %id, "recording the outcome of an action takes long"),
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

    /// Returns the identity for an action, if the action is permitted.
    async fn permit(&self, asked: &ActionRequest) -> Result<BotRef, Stop> {
        let on = self.identity_for(asked).await?;
        self.guard(asked, &on).await?;
        Ok(on)
    }

    /// Chooses the identity for an action (contract section 11.1).
    async fn identity_for(&self, asked: &ActionRequest) -> Result<BotRef, Stop> {
        let Outbound { action, platform, bot_id, .. } = &asked.outbound;
        if asked.advertised.is_empty() {
            let platform = platform.as_ref().map_or("relay", Platform::as_str);
            return Err(Stop::Refused(Outcome::egress_declined(platform)));
        }
        // In scheduled sends, later stock agents use the placeholder `relay` for a platform that they have no name for.
        // It means the same as no platform.
        match platform.as_ref().filter(|platform| **platform != UNKNOWN_PLATFORM) {
            Some(platform) => {
                let advertised = asked.advertised.iter().find(|identity| {
                    identity.platform == *platform && bot_id.as_ref().is_none_or(|bot| identity.bot == *bot)
                });
                // Only credentials of an identity that this socket sent a hello for may be used.
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

    /// Checks that the agent may act in this chat as this bot. The server's own records decide: there must be a
    /// current route, and the chat must have been delivered or routed to the agent (contract section 11.3).
    async fn guard(&self, asked: &ActionRequest, on: &BotRef) -> Result<(), Stop> {
        let (roster, instance) = (&self.0.roster, &asked.holder.instance);
        let needs_no_route = asked.egress.everyones().is_some_and(|everyones| everyones == *on);
        let may = match &asked.outbound.action {
            // A follow-up also needs a capability that is bound to its session, which the egress checks.
            Action::FollowUp { session_key, .. } => {
                match roster.chat_of_session(instance, session_key).await? {
                    Some((was_on, _)) if was_on != *on => false,
                    _ if needs_no_route => true,
                    Some((_, chat)) => roster.may_reach(instance, on, &chat).await?,
                    None => roster.has_route(instance, on).await?,
                }
            }
            action => match action.chat_id() {
                Some(chat) if needs_no_route => roster.knows_chat(instance, on, chat).await?,
                Some(chat) => roster.may_reach(instance, on, chat).await?,
                None => needs_no_route || roster.has_route(instance, on).await?,
            },
        };
        if may { Ok(()) } else { Err(Stop::Refused(Outcome::egress_declined(on.platform.as_str()))) }
    }
}

fn end_unknown(action: &Action) -> Outcome {
    Outcome::failed(format!(
        "{} timed out: an earlier attempt was started and its outcome is unknown",
        action.op()
    ))
}

/// The lane's queue is full.
struct Full;

impl Lanes {
    fn enter(
        &self,
        relay: &Relay,
        connections: &Arc<AgentConnections>,
        lane: Towards,
        job: QueuedAction,
    ) -> Result<(), Full> {
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
        let connections = Arc::clone(connections);
        relay.0.tasks.spawn(async move {
            let mut next = Some(job);
            while let Some(job) = next {
                job.await;
                next = connections.lanes.next(&lane);
            }
        });
        Ok(())
    }

    fn next(&self, lane: &Towards) -> Option<QueuedAction> {
        let mut lanes = self.0.lock();
        let job = lanes.get_mut(lane).and_then(VecDeque::pop_front);
        if job.is_none() {
            lanes.remove(lane);
        }
        job
    }
}
