//! A person's `/stop`: sent as an interrupt where the agent honours it, else delivered as text (relay contract
//! section 13).
//!
//! The text blocks the reader of a stock gateway for 30 s while a turn runs. An interrupt does not, but not every
//! gateway honours it everywhere. So the entry is stored like any other, and held back while the interrupt is tried.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use ledger::{Acknowledgement, BotRef, RouteTo, session_of};
use posthouse_time::Instant;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, ActionId, EntryId, SessionKey, ToGateway, session_key};
use serde::Deserialize;

use crate::acknowledgements::Acknowledgements;
use crate::actions::ANSWERED_WITHIN;
use crate::admission::{NewEntry, StopRule};
use crate::agent_connections::{AgentConnections, State};
use crate::background::RelayTasks;
use crate::connections::Connections;
use crate::egress::{Egress, PermittedAction};
use crate::generation::Proof;

/// The whole text of a stop. The edge removes the bot's name from `/stop@ourbot`.
pub const STOP: &str = "/stop";
/// Time within which an interrupt must end the typing. Otherwise the text is delivered.
const HONOURED_WITHIN: Duration = Duration::from_secs(5);
/// Confirmation to the person after the typing has ended.
const STOPPED: &str = "Stopped.";
/// Maximum number of chats per agent with a pending stop. Further stops are delivered as text.
const PENDING: usize = 64;

/// A stop that is sent as an interrupt. Its entry is held back as long as this exists.
pub(crate) struct StopInterrupt {
    pub entry: EntryId,
    /// False when the inbox had no room for the entry.
    is_kept: bool,
    connections: Arc<AgentConnections>,
    /// The socket that got the session's last entry.
    socket: u64,
    keys: Vec<SessionKey>,
    /// It was typing before, so that an end of typing is significant.
    was_typing: bool,
    asked: Instant,
    /// The server is shutting down and delivers nothing any more.
    is_abandoned: bool,
    egress: Arc<dyn Egress>,
    confirmation: PermittedAction,
}

impl StopInterrupt {
    fn abandon(&mut self) {
        self.is_abandoned = true;
    }
}

impl Drop for StopInterrupt {
    fn drop(&mut self) {
        if self.is_abandoned {
            return;
        }
        let mut state = self.connections.state.lock();
        state.stopping.retain(|(entry, _)| *entry != self.entry);
        if let Some(live) = state.live() {
            live.notify_task();
        }
    }
}

/// Tries stops as interrupts.
pub(crate) struct Stops {
    connections: Arc<Connections>,
    acknowledgements: Arc<Acknowledgements>,
    background: RelayTasks,
}

impl Stops {
    pub fn new(
        connections: Arc<Connections>,
        acknowledgements: Arc<Acknowledgements>,
        background: RelayTasks,
    ) -> Self {
        Self { connections, acknowledgements, background }
    }

    /// Decides whether an event becomes an interrupt, before it is stored.
    pub fn recognize(&self, to: &RouteTo, on: &BotRef, new_entry: &NewEntry) -> Option<StopInterrupt> {
        let source = &new_entry.event.source;
        let is_stop =
            new_entry.stop != StopRule::Text && new_entry.event.text == STOP && new_entry.receipt.is_none();
        let chat = source.chat_id.as_ref().filter(|_| is_stop)?;
        let connections = self.connections.find(&to.instance)?;
        let (moment, now) = self.background.timepiece.readings();
        let mut state = connections.state.lock();
        // A repeated stop waits behind the first one as text, and will find nothing to stop.
        if state.stopping.len() >= PENDING || state.stopping.iter().any(|(_, stopped)| stopped == chat) {
            return None;
        }
        let typing = state.turns.typing(chat, now);
        let is_open = state.turns.is_open(chat, now);
        // Without a record of the session, the socket that is typing in the chat has it.
        let socket = state.turns.took(chat, session_of(source)).or(typing)?;
        let seat = state.seat(socket)?;
        let was_typing = typing == Some(socket);
        let honoured = new_entry.stop == StopRule::Interrupt || seat.proof == Proof::Client;
        if !(was_typing || honoured && is_open) {
            return None;
        }
        let egress = Arc::clone(&seat.egress);
        let entry = EntryId::mint(moment.millis());
        state.stopping.push((entry.clone(), chat.clone()));
        drop(state);
        let metadata = Metadata { thread_id: source.thread_id.clone(), ..Metadata::default() };
        Some(StopInterrupt {
            entry,
            is_kept: true,
            socket,
            keys: session_key::plausible(source),
            was_typing,
            asked: now,
            is_abandoned: false,
            egress,
            confirmation: PermittedAction {
                may_redeem: false,
                id: ActionId::mint(moment.millis()),
                tenant: to.tenant.clone(),
                instance: to.instance.clone(),
                on: on.clone(),
                ends_turn: true,
                stream_cursor: String::new(),
                action: Action::Send {
                    chat_id: chat.clone(),
                    content: STOPPED.to_owned(),
                    reply_to: new_entry.event.message_id.clone(),
                    metadata,
                },
                deadline: now + HONOURED_WITHIN + ANSWERED_WITHIN,
            },
            connections,
        })
    }

    /// Sends the interrupt of a stop whose entry did not fit into the inbox: a full inbox must not keep people from
    /// stopping the agent.
    pub fn interrupt_unkept(self: &Arc<Self>, mut stopping: StopInterrupt) {
        stopping.is_kept = false;
        self.interrupt_turn(stopping);
    }

    /// Sends the interrupt, after its entry was stored, and starts a task that checks its effect.
    pub fn interrupt_turn(self: &Arc<Self>, mut stopping: StopInterrupt) {
        let Some(chat_id) = stopping.confirmation.action.chat_id().cloned() else { return };
        {
            let mut state = stopping.connections.state.lock();
            let Some(seat) = state.seat(stopping.socket) else { return };
            for key in &stopping.keys {
                let frame =
                    ToGateway::InterruptInbound { session_key: key.clone(), chat_id: chat_id.clone() };
                if !seat.send_now(frame.line()) {
                    return;
                }
            }
        }
        let (this, until) = (Arc::clone(self), self.background.timepiece.instant() + HONOURED_WITHIN);
        self.background.tasks.spawn(async move {
            tokio::select! {
                // The entry stays in the inbox and is delivered as text after the restart.
                () = this.background.closing.cancelled() => stopping.abandon(),
                () = this.background.timepiece.sleep_until(until) => this.conclude(stopping).await,
            }
        });
    }

    /// Checks the effect of the interrupt. If it worked, acknowledges the entry; otherwise the text is delivered.
    async fn conclude(&self, stopping: StopInterrupt) {
        let Some(chat) = stopping.confirmation.action.chat_id() else { return };
        let (entry, connections) = (&stopping.entry, &stopping.connections);
        let confirms = {
            let mut state = connections.state.lock();
            // Without a working connection there is no typing, although the turn may go on.
            let arrived = state.seat(stopping.socket).and_then(|seat| seat.stops_arrived);
            if arrived < Some(stopping.asked)
                || state.turns.goes_on(chat, self.background.timepiece.instant())
            {
                return;
            }
            state.turns.interrupted(chat);
            if stopping.is_kept {
                state.needs_no_delivery(entry);
            }
            // A turn that ended with its answer meanwhile was not stopped.
            stopping.was_typing && !state.turns.answered_since(chat, stopping.asked)
        };
        let taken =
            Acknowledgement { entry: entry.clone(), handed: self.background.timepiece.now(), place: None };
        if stopping.is_kept
            && let Err(fault) = self.acknowledgements.commit(&connections.instance, &[taken]).await
        {
            tracing::error!(%fault, entry.id = %entry, "could not record that a stop took effect");
            connections.state.lock().has_served(entry);
            return;
        }
        let (egress, confirmation) = (Arc::clone(&stopping.egress), stopping.confirmation.clone());
        drop(stopping);
        if confirms && !egress.perform(confirmation).await.outcome.success {
            tracing::warn!("could not tell a person that the agent has stopped");
        }
    }
}

/// Whether a stored event is exactly a stop.
pub(crate) fn is_stop(event: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct EventText<'a> {
        #[serde(borrow)]
        text: Cow<'a, str>,
    }
    serde_json::from_slice::<EventText<'_>>(event).is_ok_and(|event| event.text == STOP)
}

impl State {
    /// Whether this entry is a stop that is being tried as an interrupt.
    pub fn is_stopping(&self, entry: &EntryId) -> bool {
        self.stopping.iter().any(|(stopping, _)| stopping == entry)
    }

    /// Records an honoured stop, or an entry that another socket has acknowledged, so that it is not also delivered,
    /// wherever it is queued.
    pub fn needs_no_delivery(&mut self, entry: &EntryId) {
        if self.served.len() >= PENDING {
            self.served.pop_front();
        }
        self.served.push_back(entry.clone());
    }

    /// Whether this entry needs no delivery any more. The record is removed by the first call.
    pub fn has_served(&mut self, entry: &EntryId) -> bool {
        let at = self.served.iter().position(|served| served == entry);
        at.is_some_and(|at| self.served.remove(at).is_some())
    }
}

#[cfg(test)]
mod tests {
    use posthouse_time::Moment;
    use posthouse_wire::{Event, Source};

    use super::*;
    use crate::tests::{Records, bot_of};

    fn stop() -> NewEntry {
        NewEntry {
            event: Event {
                text: STOP.to_owned(),
                source: Source {
                    platform: "telegram".into(),
                    chat_id: Some("c1".into()),
                    chat_type: "dm".to_owned(),
                    ..Source::default()
                },
                ..Event::default()
            }
            .deliverable()
            .unwrap(),
            id: None,
            dedup: "d1".into(),
            references: Vec::new(),
            album: None,
            forward: None,
            accepted: Moment::default(),
            receipt: None,
            stop: StopRule::InterruptIfTyping,
            stale: None,
        }
    }

    #[tokio::test]
    async fn a_stop_is_an_interrupt_while_the_agent_types_and_its_entry_is_held_back_meanwhile() {
        let records = Records::open().await;
        let heron = records.enrol("heron").await;
        let to = RouteTo { tenant: heron.tenant, instance: heron.instance.clone() };
        let connections = records.connections();
        let acknowledgements =
            Arc::new(Acknowledgements::new(records.ledger.inbox(), Arc::default(), records.clock.clone()));
        let stops = Arc::new(Stops::new(Arc::clone(&connections), acknowledgements, records.background()));
        let socket = connections.with_live_socket(&heron.instance, |_| {});
        let on = bot_of("heron");
        assert!(stops.recognize(&to, &on, &stop()).is_none(), "no turn is running");
        let typing = Action::Typing { chat_id: "c1".into(), content: None, metadata: Metadata::default() };
        let now = records.clock.instant();
        connections.of(&heron.instance).state.lock().note_request(&typing, socket, false, now);
        let stopping = stops.recognize(&to, &on, &stop()).expect("a typing agent is interrupted");
        let entry = stopping.entry.clone();
        let is_held_back = || connections.of(&heron.instance).state.lock().is_stopping(&entry);
        assert!(is_held_back());
        assert!(stops.recognize(&to, &on, &stop()).is_none(), "a second stop waits behind the first as text");
        stops.interrupt_turn(stopping);
        let (lines, _) = connections.orders_of(&heron.instance, socket);
        assert!(lines.iter().all(|line| line.contains("interrupt_inbound")) && !lines.is_empty());
        // Nothing shows that the interrupt has arrived, so the text is delivered after all.
        records
            .clock
            .wind_until(HONOURED_WITHIN, async {
                while is_held_back() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
    }
}
