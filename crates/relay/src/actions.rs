//! Actions of agents: permission check, order per chat, execution, and exactly one result each.

mod lanes;
mod permission;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use identity::{GatewayOwner, OverQuota, QuotaKind, Quotas};
use ledger::{BeginOutcome, BotRef, Outbox, Request, Roster};
use posthouse_time::{Instant, Moment};
use posthouse_wire::frame::Outbound;
use posthouse_wire::{Action, ActionId, ChatId, InstanceId, Outcome, ToGateway};

use crate::agent_connections::{AgentConnections, ResultLine};
use crate::background::RelayTasks;
use crate::connections::UNAUTHORIZED;
use crate::egress::{Egress, EgressResult, PermittedAction};
use crate::generation::Proof;
use crate::metrics::ActionLabels;
use crate::stream_cursor::cursor_of;
use crate::turns::ends_turn;
use crate::{Fault, Metrics};
pub(crate) use lanes::Lanes;
use lanes::{LaneKey, QueuedAction};
use permission::{Permissions, Permit};

/// Maximum number of running requests per agent, and their total size in bytes. The size needs its own limit, because
/// each request may be as long as the longest line.
const RUNNING: usize = 2048;
const RUNNING_BYTES: usize = 32 * 1024 * 1024;
/// The longest text of one action, in bytes. A longer one would be split into hundreds of messages.
const LONGEST_TEXT: usize = 256 * 1024;
/// The longest id of a request or a chat, in bytes. A request id is stored as long as its result, and the chats of an
/// agent are remembered whether it may write there or not.
const LONGEST_ID: usize = 256;
/// Time within which every request is answered, finished or not. An agent waits 30 s.
pub(crate) const ANSWERED_WITHIN: Duration = Duration::from_secs(25);
/// Time for which a result waits until the ended action is recorded.
const NOTED_WITHIN: Duration = Duration::from_secs(3);
/// Pause between two attempts to record an outcome while the ledger fails.
const AGAIN: Duration = Duration::from_secs(1);

/// The socket that sent a request.
pub(crate) struct RequestingSocket<'a> {
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
    /// Set if the agent has made too many. It is not carried out.
    over_quota: Option<OverQuota>,
    weight: usize,
    /// Time of receipt, for its record.
    received: Moment,
    /// Time at which a result is sent at the latest.
    deadline: Instant,
}

/// Reason why an action is not carried out.
enum NotBegun {
    Refused(Outcome),
    Fault(Fault),
}

impl<F: Into<Fault>> From<F> for NotBegun {
    fn from(fault: F) -> Self {
        NotBegun::Fault(fault.into())
    }
}

/// Carries out what agents ask for.
pub(crate) struct Actions {
    outbox: Arc<dyn Outbox>,
    roster: Arc<dyn Roster>,
    permissions: Permissions,
    quotas: Quotas,
    metrics: Arc<Metrics>,
    background: RelayTasks,
}

impl Actions {
    pub fn new(
        outbox: Arc<dyn Outbox>,
        roster: Arc<dyn Roster>,
        quotas: Quotas,
        metrics: Arc<Metrics>,
        background: RelayTasks,
    ) -> Self {
        let permissions = Permissions { roster: Arc::clone(&roster) };
        Self { outbox, roster, permissions, quotas, metrics, background }
    }

    /// Accepts a request. Its result is sent to the agent later, even if this socket closes. A result that needs no
    /// work is returned, and the caller sends it.
    pub async fn accept(
        self: &Arc<Self>,
        asking: RequestingSocket<'_>,
        outbound: Outbound,
    ) -> Option<Outcome> {
        let RequestingSocket { socket, connections, holder, advertised, proof, egress, weight } = asking;
        // Here the limits can be read again. Charging an action does not wait.
        self.quotas.refresh(&holder.tenant).await;
        if let Some(refusal) = unusable(&outbound) {
            self.count(&outbound.action, &refusal);
            return Some(refusal);
        }
        let running = (holder.gateway.clone(), outbound.request_id.clone());
        let over_quota;
        {
            let mut state = connections.state.lock();
            // A request that is read after its credential was revoked is not carried out. The socket is about to close.
            if state.seat(socket).is_none_or(|seat| seat.ordered_to_close() == Some(UNAUTHORIZED)) {
                return None;
            }
            let now = self.background.timepiece.instant();
            // Without a hello no new action begins. Only a request that began on another socket is answered.
            if !advertised.is_empty() {
                state.note_request(&outbound.action, socket, proof == Proof::Client, now);
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
            over_quota = match self.charge(&outbound.action, holder) {
                Ok(over_quota) => over_quota,
                Err(over) => {
                    let refusal = self::over_quota(over);
                    self.count(&outbound.action, &refusal);
                    return Some(refusal);
                }
            };
            state.running.insert(running.clone(), socket);
            state.running_bytes += weight;
        }
        let (lane, edits) = (LaneKey::of(&outbound.action), lanes::edited_by(&outbound.action));
        let asked = ActionRequest {
            holder: holder.clone(),
            advertised: advertised.to_vec(),
            egress: Arc::clone(egress),
            received: self.background.timepiece.now(),
            deadline: self.background.timepiece.instant() + ANSWERED_WITHIN,
            weight,
            ends_turn: ends_turn(&outbound.action, proof == Proof::Client),
            over_quota,
            outbound,
        };
        let (this, at) = (Arc::clone(self), Arc::clone(connections));
        let job = QueuedAction { edits, work: Box::pin(async move { this.answer(&at, asked).await }) };
        if connections.lanes.enter(&self.background.tasks, connections, lane, job).is_err() {
            let mut state = connections.state.lock();
            state.running.remove(&running);
            state.running_bytes -= weight;
            return Some(Outcome::failed("rate limit: too many requests are waiting for this chat"));
        }
        None
    }

    /// Charges an action to the quotas of its agent and tenant. An action over the quota is refused at once (the error), or
    /// after looking up whether it is the repeat of an action that was carried out: such a repeat gets the recorded
    /// outcome. The lookups have a limit too.
    fn charge(&self, action: &Action, by: &GatewayOwner) -> Result<Option<OverQuota>, OverQuota> {
        let take = |what| self.quotas.try_take(what, &by.tenant, &by.instance);
        if matches!(action, Action::Typing { .. }) {
            return take(QuotaKind::Typing).map(|()| None);
        }
        match take(QuotaKind::Action) {
            Ok(()) => Ok(None),
            Err(over) => take(QuotaKind::ActionLookup).map(|()| Some(over)),
        }
    }

    async fn answer(&self, connections: &AgentConnections, asked: ActionRequest) {
        let outcome = self.do_once(&asked).await;
        self.count(&asked.outbound.action, &outcome);
        let chat = self.chat_of(&asked).await;
        let (gateway, request_id) = (asked.holder.gateway, asked.outbound.request_id);
        let mut state = connections.state.lock();
        let asked_by = state.running.remove(&(gateway.clone(), request_id.clone())).unwrap_or_default();
        state.running_bytes -= asked.weight;
        let line = ToGateway::OutboundResult { request_id, result: outcome }.line();
        state.answer(asked_by, &gateway, ResultLine { line, chat }, self.background.timepiece.instant());
    }

    /// The chat that a request is about. A follow-up names a session instead.
    async fn chat_of(&self, asked: &ActionRequest) -> Option<ChatId> {
        let Action::FollowUp { session_key, .. } = &asked.outbound.action else {
            return asked.outbound.action.chat_id().cloned();
        };
        match self.roster.chat_of_session(&asked.holder.instance, session_key).await {
            Ok(found) => found.map(|(_, chat)| chat),
            Err(fault) => {
                tracing::error!(%fault, "could not find the chat of a session");
                None
            }
        }
    }

    fn count(&self, action: &Action, outcome: &Outcome) {
        let op = Action::OPS.iter().find(|op| **op == action.op()).copied().unwrap_or("other");
        let success = if outcome.success { "true" } else { "false" };
        self.metrics.actions.get_or_create(&ActionLabels { op, success }).inc();
    }

    /// Checks, records and carries out a request, and records its outcome. A known request gets its stored outcome.
    async fn do_once(&self, asked: &ActionRequest) -> Outcome {
        let op = asked.outbound.action.op();
        let left = || asked.deadline.since(self.background.timepiece.instant());
        // The outcome is unknown. `timed out` makes a stock agent give up rather than send the request again.
        let unknown = || Outcome::failed(format!("{op} timed out"));
        // It waited too long behind others. An action that begins now would end after its result was sent.
        if left().is_zero() {
            return unknown();
        }
        let permitted = match self.background.timepiece.within(left(), self.begin(asked)).await {
            Ok(Ok(permitted)) => permitted,
            Ok(Err(NotBegun::Refused(outcome))) => return outcome,
            Ok(Err(NotBegun::Fault(fault))) => {
                tracing::error!(%fault, "could not record the start of an action");
                // The action certainly did not happen. `network` tells the agent that it may try again.
                return Outcome::failed("network: the server could not record this request and did nothing");
            }
            Err(_) => return unknown(),
        };
        let (id, started) = (permitted.id.clone(), self.background.timepiece.now());
        let performing = AssertUnwindSafe(asked.egress.perform(permitted)).catch_unwind();
        let carried = match self.background.timepiece.within(left(), performing).await {
            Ok(Ok(carried)) => carried,
            Ok(Err(_)) => {
                tracing::error!(action.id = %id, "carrying out an action panicked");
                EgressResult { outcome: unknown(), posted: Some(started), called: None }
            }
            Err(_) => EgressResult { outcome: unknown(), posted: Some(started), called: None },
        };
        self.finish(asked.holder.instance.clone(), id, carried.clone()).await;
        carried.outcome
    }

    /// Checks that the action is permitted and new, and records its start.
    async fn begin(&self, asked: &ActionRequest) -> Result<PermittedAction, NotBegun> {
        let action = &asked.outbound.action;
        if let Some(over) = asked.over_quota {
            let recorded = self.begun_before(asked).await?;
            return Err(NotBegun::Refused(recorded.unwrap_or_else(|| over_quota(over))));
        }
        let Permit { on, may_redeem } = match self.permissions.permit(asked).await {
            // An action that began while it was permitted gets its recorded outcome, because it may have happened.
            Err(NotBegun::Refused(refusal)) => {
                return Err(NotBegun::Refused(self.begun_before(asked).await?.unwrap_or(refusal)));
            }
            permitted => permitted?,
        };
        let begun = self
            .outbox
            .begin(Request {
                gateway: asked.holder.gateway.clone(),
                request: asked.outbound.request_id.clone(),
                instance: asked.holder.instance.clone(),
                op: action.op().to_owned(),
                platform: on.platform.clone(),
                bot: on.bot.clone(),
                chat: action.chat_id().cloned(),
                reply_to: action.reply_to().cloned(),
                received: asked.received,
            })
            .await?;
        let id = match begun {
            BeginOutcome::Fresh { action, .. } => action,
            BeginOutcome::Finished { outcome, .. } => return Err(NotBegun::Refused(outcome)),
            BeginOutcome::Unfinished { action } if asked.egress.may_repeat(&on) => action,
            BeginOutcome::Unfinished { .. } => return Err(NotBegun::Refused(end_unknown(action))),
        };
        Ok(PermittedAction {
            id,
            tenant: asked.holder.tenant.clone(),
            instance: asked.holder.instance.clone(),
            on,
            action: action.clone(),
            may_redeem,
            ends_turn: asked.ends_turn,
            stream_cursor: cursor_of(&*self.roster, &asked.holder.instance, action).await?,
            deadline: asked.deadline,
        })
    }

    /// The outcome of a request that began before, if it did.
    async fn begun_before(&self, asked: &ActionRequest) -> Result<Option<Outcome>, NotBegun> {
        let begun = self.outbox.begun_before(&asked.holder.gateway, &asked.outbound.request_id).await?;
        Ok(begun.and_then(|begun| match begun {
            BeginOutcome::Fresh { .. } => None,
            BeginOutcome::Finished { outcome, .. } => Some(outcome),
            BeginOutcome::Unfinished { .. } => Some(end_unknown(&asked.outbound.action)),
        }))
    }

    /// Records the outcome of an action, even after its deadline: the result sent must match the record. If the ledger
    /// fails, the agent still gets the true outcome, and recording is retried.
    async fn finish(&self, of: InstanceId, id: ActionId, carried: EgressResult) {
        let EgressResult { outcome, posted, called } = &carried;
        let noting = self.outbox.finish(&of, &id, outcome, *posted, called.as_deref());
        match self.background.timepiece.within(NOTED_WITHIN, noting).await {
            Ok(Ok(())) | Ok(Err(ledger::Fault::Closed)) => return,
            Ok(Err(fault)) => {
                tracing::error!(%fault, action.id = %id, "could not record the outcome of an action");
            }
            Err(_) => tracing::error!(action.id = %id, "recording the outcome of an action takes long"),
        }
        let (outbox, background) = (Arc::clone(&self.outbox), self.background.clone());
        self.background.tasks.spawn(async move {
            let EgressResult { outcome, posted, called } = carried;
            while !background.is_closing() {
                match outbox.finish(&of, &id, &outcome, posted, called.as_deref()).await {
                    Ok(()) | Err(ledger::Fault::Closed) => return,
                    Err(_) => background.timepiece.after(AGAIN).await,
                }
            }
        });
    }
}

/// The answer to a request that no platform could carry out.
fn unusable(outbound: &Outbound) -> Option<Outcome> {
    match &outbound.action {
        _ if outbound.request_id.as_str().len() > LONGEST_ID => Some(Outcome::failed(format!(
            "malformed request: the request id is longer than {LONGEST_ID} bytes"
        ))),
        action if action.chat_id().is_some_and(|chat| chat.as_str().len() > LONGEST_ID) => {
            let op = action.op();
            Some(Outcome::failed(format!("malformed {op}: chat_id is longer than {LONGEST_ID} bytes")))
        }
        Action::Unsupported { op, fault: Some(fault) } => {
            Some(Outcome::failed(format!("malformed {op}: {fault}")))
        }
        Action::Unsupported { op, fault: None } => Some(Outcome::unsupported(op)),
        // Stock then sends the first 3,500 characters (contract section 11.4).
        action => action
            .content()
            .map(str::len)
            .filter(|length| *length > LONGEST_TEXT)
            .map(|length| Outcome::failed(format!("too long: {length} bytes, at most {LONGEST_TEXT}"))),
    }
}

/// The refusal of an action over the quota. A stock agent repeats the request once, as plain text: the words `network` and
/// `timed out` would make it go on or give up (contract section 11.4).
fn over_quota(over: OverQuota) -> Outcome {
    let (whose, value, seconds) = (over.whose(), over.value, over.retry_seconds());
    Outcome::failed(format!("rate limit: this {whose} may make {value} actions per minute; wait {seconds} s"))
}

fn end_unknown(action: &Action) -> Outcome {
    Outcome::failed(format!(
        "{} timed out: an earlier attempt was started and its outcome is unknown",
        action.op()
    ))
}

#[cfg(test)]
mod tests;
