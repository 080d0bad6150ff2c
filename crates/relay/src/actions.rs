//! What agents ask to be done: may it go out, in which order, and the one answer it gets.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use ledger::{Begun, Generation, Identity, Request};
use parking_lot::Mutex;
use posthouse_time::Moment;
use posthouse_wire::frame::Outbound;
use posthouse_wire::{Action, ChatId, InstanceId, Outcome, RequestId, ToGateway};
use vault::Holder;

use crate::desk::Desk;
use crate::egress::{Carried, Egress, Order};
use crate::metrics::Done;
use crate::{Fault, Relay};

/// Requests of one chat that may wait for their turn.
const WAITING: usize = 256;

/// One lane per chat: what is asked for one chat happens in order, different chats side by side.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<HashMap<LaneKey, VecDeque<Job>>>);

type LaneKey = (Option<Identity>, Option<ChatId>);
type Job = BoxFuture<'static, ()>;

/// One request and who asked.
struct Asked {
    socket: u64,
    holder: Holder,
    advertised: Vec<Identity>,
    egress: Arc<dyn Egress>,
    outbound: Outbound,
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
    /// Takes a request on. Its answer finds its own way to the agent, whatever becomes of the socket.
    pub(crate) fn act(
        &self,
        socket: u64,
        holder: &Holder,
        advertised: &[Identity],
        egress: &Arc<dyn Egress>,
        outbound: Outbound,
    ) {
        let desk = self.desk(&holder.instance);
        let running = (holder.gateway.clone(), outbound.request_id.clone());
        if desk.state.lock().running.insert(running, ()).is_some() {
            // The same request again while the first is under way: the one answer serves both.
            return;
        }
        let asked = Asked {
            socket,
            holder: holder.clone(),
            advertised: advertised.to_vec(),
            egress: Arc::clone(egress),
            received: self.0.timepiece.now(),
            outbound,
        };
        self.note_generation(&asked);
        let platform = asked.outbound.platform.clone();
        let lane = (
            platform.map(|platform| Identity { platform, bot: asked.outbound.bot_id.clone().unwrap_or_else(|| "".into()) }),
            asked.outbound.action.chat_id().cloned(),
        );
        let (relay, at) = (self.clone(), Arc::clone(&desk));
        let (holder, request, socket) = (asked.holder.clone(), asked.outbound.request_id.clone(), asked.socket);
        let job: Job = Box::pin(async move { relay.answer(&at, asked).await });
        if desk.lanes.enter(self, &desk, lane, job).is_err() {
            self.reply(&desk, socket, &holder, request, Outcome::failed("rate limit: too many requests wait for this chat"));
        }
    }

    async fn answer(&self, desk: &Desk, asked: Asked) {
        let deadline = asked.received + self.0.config.answer_within.0;
        let left = deadline.since(self.0.timepiece.now());
        let outcome = match self.0.timepiece.within(left, self.do_once(&asked, deadline)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(Stop::Refused(outcome))) => outcome,
            Ok(Err(Stop::Fault(fault))) => {
                tracing::error!(%fault, "could not carry out an action");
                Outcome::failed("the house could not keep a record of this and did nothing")
            }
            // Nobody knows; the words make a stock agent give up rather than send it again.
            Err(_) => Outcome::failed(format!("{} timed out", asked.outbound.action.op())),
        };
        let op = Action::OPS.iter().find(|op| **op == asked.outbound.action.op()).copied().unwrap_or("other");
        let success = if outcome.success { "true" } else { "false" };
        self.0.metrics.actions.get_or_create(&Done { op, success }).inc();
        self.reply(desk, asked.socket, &asked.holder, asked.outbound.request_id, outcome);
    }

    fn reply(&self, desk: &Desk, socket: u64, holder: &Holder, request_id: RequestId, result: Outcome) {
        let mut state = desk.state.lock();
        state.running.remove(&(holder.gateway.clone(), request_id.clone()));
        let line = ToGateway::OutboundResult { request_id, result }.line();
        state.answer(socket, &holder.gateway, line, self.0.timepiece.now());
    }

    /// Checks, notes, carries out, notes how it ended. A request seen before is answered from memory.
    async fn do_once(&self, asked: &Asked, deadline: Moment) -> Result<Outcome, Stop> {
        let action = &asked.outbound.action;
        if let Action::Unsupported { op, missing } = action {
            return Err(Stop::Refused(match missing {
                Some(field) => Outcome::failed(format!("malformed {op}: no {field}")),
                None => Outcome::failed(format!("unsupported op: {op}")),
            }));
        }
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
            Begun::Finished { outcome, .. } => return Ok(outcome),
            Begun::Unfinished { .. } => {
                let error = format!("{} timed out: it was begun before and its end is unknown", action.op());
                return Ok(Outcome::failed(error));
            }
        };
        let order = Order {
            id: id.clone(),
            tenant: asked.holder.tenant.clone(),
            instance: asked.holder.instance.clone(),
            on,
            action: action.clone(),
            deadline,
        };
        let left = deadline.since(self.0.timepiece.now());
        let started = self.0.timepiece.now();
        let carried = match self.0.timepiece.within(left, asked.egress.carry(order)).await {
            Ok(carried) => carried,
            Err(_) => Carried {
                outcome: Outcome::failed(format!("{} timed out", action.op())),
                posted: Some(started),
            },
        };
        // Finishing is not cut off by the deadline: an answer given must be remembered.
        self.0.outbox.finish(&id, &carried.outcome, carried.posted).await?;
        Ok(carried.outcome)
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
                    Action::FollowUp { session_key, .. } => {
                        self.0.roster.chat_of_session(&asked.holder.instance, session_key).await?.map(|(on, _)| on)
                    }
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

    /// Newer gateways show themselves by what they ask for (contract section 10.3). An agent of our SDK
    /// asks for all of it and is recognised at its hello, so a mistake here costs nothing.
    fn note_generation(&self, asked: &Asked) {
        let action = &asked.outbound.action;
        let newer_op = matches!(action.op(), "edit" | "typing" | "prompt" | "react" | "send_media");
        let newer_metadata =
            action.metadata().is_some_and(|metadata| metadata.scope().is_some() && metadata.user_id.is_some());
        if newer_op || newer_metadata {
            self.saw_newer(&asked.holder.instance);
        }
    }

    /// Remembers, once, that an agent is of a newer generation.
    pub(crate) fn saw_newer(&self, instance: &InstanceId) {
        let desk = self.desk(instance);
        if std::mem::replace(&mut desk.state.lock().seen_newer, true) {
            return;
        }
        let (relay, instance) = (self.clone(), instance.clone());
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

/// A lane that has as much waiting as it takes.
struct Full;

impl Lanes {
    fn enter(&self, relay: &Relay, desk: &Arc<Desk>, lane: LaneKey, job: Job) -> Result<(), Full> {
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

    fn next(&self, lane: &LaneKey) -> Option<Job> {
        let mut lanes = self.0.lock();
        let job = lanes.get_mut(lane).and_then(VecDeque::pop_front);
        if job.is_none() {
            lanes.remove(lane);
        }
        job
    }
}
