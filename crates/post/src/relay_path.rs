//! Delivery to agents connected by the relay: stored in the inbox, sent by the socket, acknowledged by the agent.

use std::time::Duration;

use identity::Gate;
use ledger::{DispatchVerb, Instance, NewReceipt, Opening};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::delivery::{AgentStatus, DeliveryReceipt, Meta, PayloadKind, Posted, WakeReceipt};
use posthouse_wire::{ChatId, EntryId, Event, InstanceId, MessageType, TenantId};
use relay::{Admission, Entrant, Relay, StopRule};

use crate::conversation;
use crate::directory::DeliveryPath;
use crate::item::{Item, Sending};
use crate::requests::Handed;
use crate::{Fault, Post, Refused, receipt};

/// The name of the connector that every tenant has, first in its order.
pub(crate) const RELAY: &str = "relay";

/// The built-in `relay` connector for the agents of one tenant.
#[derive(Clone)]
pub(crate) struct RelayPath {
    relay: Relay,
    tenant: TenantId,
    preamble: bool,
    timepiece: Timepiece,
}

/// A message for an agent's inbox.
struct InboxMessage<'a> {
    pub sender: &'a str,
    pub chat: ChatId,
    pub text: &'a str,
    /// `None` for a wake, which has no envelope.
    pub envelope: Option<(PayloadKind, &'a Meta)>,
    pub expects_reply: bool,
}

/// A stored inbox entry.
struct StoredEntry {
    pub entry: EntryId,
    /// The same delivery was stored before, so nothing was done.
    pub known: bool,
}

impl Post {
    pub(crate) fn relay_path(&self, tenant: &TenantId) -> RelayPath {
        RelayPath {
            relay: self.0.relay.clone(),
            tenant: tenant.clone(),
            preamble: self.0.config.preamble,
            timepiece: self.0.timepiece.clone(),
        }
    }
}

impl RelayPath {
    /// Whether the agent is connected and accepts messages now.
    pub fn is_attached(&self, instance: &InstanceId) -> bool {
        let presence = self.relay.presence(instance);
        presence.connected && !presence.idle
    }

    /// Stores a message and its receipt in one commit. The relay calls the wake URL of an agent that is not connected.
    async fn keep(
        &self,
        to: &Instance,
        letter: &InboxMessage<'_>,
        receipt: NewReceipt,
    ) -> Result<StoredEntry, Refused> {
        let now = self.timepiece.now();
        let id = EntryId::mint(now.millis());
        let entrant = Entrant {
            event: self.event(&id, letter, now),
            // Repeats are recognized by the receipt.
            dedup: id.as_str().into(),
            id: Some(id),
            references: Vec::new(),
            accepted: now,
            receipt: Some(Box::new(receipt)),
            stop: StopRule::Text,
        };
        let admitted = Gate::admit_program(&self.tenant, to, conversation::bot_ref());
        let admitted = admitted.ok_or(Refused::Absent)?;
        match self.relay.admit(&admitted, entrant).await? {
            Admission::Kept(entry) => Ok(StoredEntry { entry, known: false }),
            Admission::Known(entry) => Ok(StoredEntry { entry, known: true }),
            Admission::Full(full) => Err(Refused::InboxFull(full)),
            // Our own events are always valid, so this is a fault of ours.
            Admission::Undeliverable => {
                Err(ledger::Fault::Storage("our own event is not deliverable".to_owned()).into())
            }
        }
    }

    fn event(&self, id: &EntryId, letter: &InboxMessage<'_>, now: Moment) -> Event {
        let InboxMessage { sender, chat, text, envelope, expects_reply } = letter;
        let (kind, word) = match envelope {
            Some((kind, _)) => (*kind, kind.word()),
            None => (PayloadKind::Augment, "wake"),
        };
        let preamble = self.preamble_for(text, word, sender);
        let mut event = Event {
            text: format!("{}{text}", preamble.as_deref().unwrap_or_default()),
            message_type: MessageType::Text,
            message_id: Some(id.as_str().into()),
            bot_id: Some(conversation::BOT.into()),
            received_at: Some(now.to_string()),
            post: Some(Box::new(Posted {
                kind,
                meta: envelope.map(|(_, meta)| meta.clone()),
                expects_reply: *expects_reply,
                preamble,
            })),
            ..Event::default()
        };
        let source = &mut event.source;
        source.platform = conversation::PLATFORM.into();
        source.chat_id = Some(chat.clone());
        source.chat_type = "dm".to_owned();
        source.chat_name = Some((*sender).to_owned());
        source.user_id = Some(format!("post:{sender}").into());
        source.user_name = Some((*sender).to_owned());
        source.message_id = Some(id.as_str().into());
        event
    }

    /// The first line with kind and sender. A text that begins with `/` always gets it, because the agent would run it
    /// as a command. An empty text gets it too, because a stock agent ignores empty messages.
    fn preamble_for(&self, text: &str, word: &str, sender: &str) -> Option<String> {
        let needed = text.trim_start().starts_with('/') || text.is_empty();
        if !self.preamble && !needed {
            return None;
        }
        let line = format!("[posthouse {word} from {sender}]");
        Some(if text.is_empty() { line } else { format!("{line}\n\n") })
    }

    /// Waits for the agent to accept the wake, and reports whether it did.
    pub async fn woken(
        &self,
        instance: &Instance,
        entry: &EntryId,
        session: &str,
        wait: Duration,
    ) -> Result<WakeReceipt, Fault> {
        let taken = self.relay.acknowledged_within(entry, wait).await?;
        let warnings = if taken { Vec::new() } else { self.why_not(instance, wait).await? };
        Ok(WakeReceipt {
            woken_at: self.timepiece.now().millis(),
            woken: taken,
            session_id: Some(session.to_owned()),
            warnings,
            ..WakeReceipt::default()
        })
    }

    /// Why the agent did not accept a wake, as far as known.
    async fn why_not(&self, instance: &Instance, wait: Duration) -> Result<Vec<String>, Fault> {
        let presence = self.relay.presence(&instance.id);
        if !presence.connected || presence.idle {
            let next = self.relay.calls_again(&instance.id);
            return Ok(vec![match (&instance.wake_url, next) {
                (Some(_), None) => "the agent is not connected: its wake URL is being called".to_owned(),
                // The wake URL is not called for every wake, so that a slow agent is not flooded.
                (Some(_), Some(at)) => {
                    format!(
                        "the agent is not connected: its wake URL was called, and is called again at {at}"
                    )
                }
                (None, _) => {
                    "the agent is not connected and has no wake URL: it gets this when it connects".to_owned()
                }
            }]);
        }
        let mut warnings = Vec::new();
        let ahead = self.relay.inbox().size(&instance.id).await?.entries - 1;
        if ahead > 0 {
            warnings.push(format!("queued behind {ahead}"));
        }
        warnings.push(match self.relay.is_settling(&instance.id) {
            true => "the agent has just connected and is given time to settle".to_owned(),
            false => format!("the agent is connected and did not take it within {} ms", wait.as_millis()),
        });
        Ok(warnings)
    }

    pub async fn status(&self, instance: &Instance) -> Result<AgentStatus, Fault> {
        let presence = self.relay.presence(&instance.id);
        Ok(match (presence.connected && !presence.idle, &instance.wake_url) {
            (true, _) if self.relay.inbox().size(&instance.id).await?.entries > 0 => AgentStatus::Active,
            (true, _) => AgentStatus::Idle,
            (false, Some(_)) => AgentStatus::Asleep,
            (false, None) => AgentStatus::Unknown,
        })
    }
}

impl Post {
    /// Stores an item in the agent's inbox, with its receipt, in one commit. A wake also waits for the agent.
    pub(crate) async fn send_down(
        &self,
        path: &DeliveryPath,
        relay_path: &RelayPath,
        instance: &Instance,
        sending: &Sending,
        item: &Item,
        asked: Option<Duration>,
    ) -> Result<Handed, Refused> {
        let session = match item {
            Item::Deliver { .. } => conversation::name(&sending.from),
            Item::Ask { payload } => match &payload.meta.correlation_id {
                Some(correlation) => conversation::question(correlation),
                None => return Err(Refused::malformed("correlation_id", "is missing")),
            },
            Item::Wake { opts, .. } => {
                conversation::name(opts.session_id.as_deref().unwrap_or(&sending.from))
            }
        };
        let (text, envelope) = match item {
            Item::Deliver { payload } | Item::Ask { payload } => {
                (payload.text.as_str(), Some((payload.kind, &payload.meta)))
            }
            Item::Wake { opts, .. } => (opts.context.as_deref().unwrap_or_default(), None),
        };
        let chat = conversation::chat(&session);
        let letter = InboxMessage {
            sender: &sending.from,
            chat: chat.clone(),
            text,
            envelope,
            expects_reply: item.verb() == DispatchVerb::Exchange,
        };
        let (attached, at) = (relay_path.is_attached(&instance.id), self.0.timepiece.now());
        let new = NewReceipt {
            instance: Some(instance.id.clone()),
            chat: Some(chat),
            session: Some(session.clone()),
            skipped: !attached,
            ..sending.receipt(path, item, Opening::Entry, at)
        };
        let digest = new.digest;
        let turn = self.0.turns.turn(&sending.tenant).await;
        let kept = relay_path.keep(instance, &letter, new).await?;
        if kept.known {
            let first = self.0.receipts.receipt(&sending.tenant, &sending.dispatch, digest).await?;
            // The receipt identified the repeat, but it may have been pruned since.
            return match first {
                Some(first) => receipt::handed(&first),
                None => Ok(taken_in(&kept.entry, &session, at, false, item)),
            };
        }
        if item.verb() != DispatchVerb::Wake {
            return Ok(taken_in(&kept.entry, &session, at, !attached, item));
        }
        let default = if attached { self.0.config.wake_wait.0 } else { Duration::ZERO };
        let asked = asked.unwrap_or(default);
        // A request that waits for the agent gives its turn back, so that it does not block its tenant.
        let turn = Some(turn).filter(|_| asked.is_zero());
        // Shutdown does not wait for agents.
        let wait = async |wait: Duration| relay_path.woken(instance, &kept.entry, &session, wait).await;
        let woken = tokio::select! {
            woken = wait(asked) => woken?,
            () = self.0.closing.cancelled() => wait(Duration::ZERO).await?,
        };
        let _turn = match turn {
            Some(turn) => turn,
            None => self.0.turns.turn(&sending.tenant).await,
        };
        let handed = Handed::Woken(woken);
        let answer = receipt::answer(&handed);
        self.0.receipts.note_answer(&sending.tenant, &sending.dispatch, digest, answer).await?;
        Ok(handed)
    }
}

/// The receipt for an inbox entry that nobody waits for.
fn taken_in(entry: &EntryId, session: &str, at: Moment, skipped: bool, item: &Item) -> Handed {
    match item.verb() {
        DispatchVerb::Wake => Handed::Woken(WakeReceipt {
            woken_at: at.millis(),
            woken: false,
            session_id: Some(session.to_owned()),
            warnings: vec!["it was sent before, and its receipt was removed since".to_owned()],
            ..WakeReceipt::default()
        }),
        DispatchVerb::Deliver | DispatchVerb::Exchange => {
            Handed::Delivered(accepted(entry, session, at, skipped))
        }
    }
}

/// The receipt of a delivery into the inbox: the time of our commit, and the id of the entry.
fn accepted(entry: &EntryId, session: &str, at: Moment, skipped: bool) -> DeliveryReceipt {
    DeliveryReceipt {
        delivered_at: at.millis(),
        delivery_id: Some(entry.to_string()),
        session_id: Some(session.to_owned()),
        delivery_skipped: skipped,
        warnings: Vec::new(),
    }
}
