//! The way to agents that dial in: into the inbox, out through the socket, acknowledged by the agent itself.

use std::time::Duration;

use ledger::{Appended, Attempted, Identity, Instance, NewReceipt, Opening, RouteTo, Verb};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::delivery::{AgentStatus, DeliveryReceipt, Kind, Meta, Posted, WakeReceipt};
use posthouse_wire::{ChatId, EntryId, Event, InstanceId, MessageType, TenantId};
use relay::{Admission, Entrant, Relay};

use crate::conversation::{self, identity};
use crate::directory::Way;
use crate::item::{Item, Sending};
use crate::wish::Handed;
use crate::{Fault, Post, Refused, receipt};

/// The name of the connector that every tenant has, first in its order.
pub(crate) const LINE: &str = "relay";

/// The line to one tenant's agents.
#[derive(Clone)]
pub(crate) struct Line {
    relay: Relay,
    tenant: TenantId,
    preamble: bool,
    timepiece: Timepiece,
}

/// What is put into an agent's inbox.
struct Letter<'a> {
    pub sender: &'a str,
    pub chat: ChatId,
    pub text: &'a str,
    /// Nothing for a wake, which has no envelope.
    pub envelope: Option<(Kind, &'a Meta)>,
    pub expects_reply: bool,
}

/// A letter in the inbox.
struct Kept {
    pub entry: EntryId,
    /// The same delivery came before: nothing was done.
    pub known: bool,
}

impl Post {
    pub(crate) fn line(&self, tenant: &TenantId) -> Line {
        Line {
            relay: self.0.relay.clone(),
            tenant: tenant.clone(),
            preamble: self.0.config.preamble,
            timepiece: self.0.timepiece.clone(),
        }
    }
}

impl Line {
    /// Whether anybody is there to take it at this moment.
    pub fn is_attached(&self, instance: &InstanceId) -> bool {
        let presence = self.relay.presence(instance);
        presence.connected && !presence.idle
    }

    /// Keeps a letter and its receipt in one commit. Whoever is not there is roused by the inbox itself.
    async fn keep(&self, to: &Instance, letter: &Letter<'_>, receipt: NewReceipt) -> Result<Kept, Fault> {
        let now = self.timepiece.now();
        let id = EntryId::mint(now.millis());
        let entrant = Entrant {
            event: self.event(&id, letter, now),
            // Repeats are recognised by the receipt.
            dedup: id.as_str().into(),
            id: Some(id),
            addressed: true,
            references: Vec::new(),
            accepted: now,
            receipt: Some(Box::new(receipt)),
        };
        let route = RouteTo { tenant: self.tenant.clone(), instance: to.id.clone() };
        let on: Identity = identity();
        match self.relay.admit(&route, &on, entrant).await? {
            Admission::Kept(Appended::Kept(entry)) => Ok(Kept { entry, known: false }),
            Admission::Kept(Appended::Known(entry)) => Ok(Kept { entry, known: true }),
            Admission::Refused(why) => {
                // We made it ourselves, in a conversation between two.
                Err(ledger::Fault::Storage(format!("our own event was refused: {why}")).into())
            }
        }
    }

    fn event(&self, id: &EntryId, letter: &Letter<'_>, now: Moment) -> Event {
        let Letter { sender, chat, text, envelope, expects_reply } = letter;
        let (kind, word) = match envelope {
            Some((kind, _)) => (*kind, kind.word()),
            None => (Kind::Augment, "wake"),
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

    /// The line that tells context from instruction. A text that would be a command to the agent always
    /// gets it, and so does an empty one: a stock agent makes nothing of no text at all.
    fn preamble_for(&self, text: &str, word: &str, sender: &str) -> Option<String> {
        let needed = text.trim_start().starts_with('/') || text.is_empty();
        if !self.preamble && !needed {
            return None;
        }
        let line = format!("[posthouse {word} from {sender}]");
        Some(if text.is_empty() { line } else { format!("{line}\n\n") })
    }

    /// Waits for the agent to take what it was woken with, and says whether it did.
    pub async fn woken(
        &self,
        instance: &Instance,
        entry: &EntryId,
        session: &str,
        wait: Duration,
    ) -> Result<WakeReceipt, Fault> {
        let taken = self.relay.taken(entry, wait).await?;
        let warnings = if taken { Vec::new() } else { self.why_not(instance, wait).await? };
        Ok(WakeReceipt {
            woken_at: self.timepiece.now().millis(),
            woken: taken,
            session_id: Some(session.to_owned()),
            warnings,
            ..WakeReceipt::default()
        })
    }

    /// In words, as far as we know.
    async fn why_not(&self, instance: &Instance, wait: Duration) -> Result<Vec<String>, Fault> {
        let presence = self.relay.presence(&instance.id);
        if !presence.connected || presence.idle {
            let next = self.relay.calls_again(&instance.id);
            return Ok(vec![match (&instance.wake_url, next) {
                (Some(_), None) => "the agent is not connected: its wake URL is being called".to_owned(),
                // Not with every wake, so that an agent that takes its time is not stormed.
                (Some(_), Some(at)) => {
                    format!(
                        "the agent is not connected: its wake URL was called, and is called again at {at}"
                    )
                }
                (None, _) => "the agent is not connected and has no wake URL: it finds this when it dials in"
                    .to_owned(),
            }]);
        }
        let mut warnings = Vec::new();
        let ahead = self.relay.inbox().size(&instance.id).await?.entries - 1;
        if ahead > 0 {
            warnings.push(format!("queued behind {ahead}"));
        }
        let settling =
            self.relay.settles_until(&instance.id).is_some_and(|until| until > self.timepiece.now());
        warnings.push(match settling {
            true => "the agent has just dialed in and is left to settle first".to_owned(),
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
    /// Into the inbox, with its receipt, in one commit.
    pub(crate) async fn send_down(
        &self,
        way: &Way,
        line: &Line,
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
        let letter = Letter {
            sender: &sending.from,
            chat: chat.clone(),
            text,
            envelope,
            expects_reply: item.verb() == Verb::Exchange,
        };
        let (attached, at) = (line.is_attached(&instance.id), self.0.timepiece.now());
        let new = NewReceipt {
            instance: Some(instance.id.clone()),
            chat: Some(chat),
            session: Some(session.clone()),
            skipped: !attached,
            ..sending.receipt(way, item, Opening::Entry, at)
        };
        let digest = new.digest;
        let kept = line.keep(instance, &letter, new).await?;
        if kept.known {
            let first = self.0.receipts.receipt(&sending.tenant, &sending.dispatch, digest).await?;
            // It was told by its receipt, which may have been pruned since.
            return match first {
                Some(first) => receipt::handed(&first),
                None => Ok(taken_in(&kept.entry, &session, at, false, item)),
            };
        }
        if item.verb() != Verb::Wake {
            return Ok(taken_in(&kept.entry, &session, at, !attached, item));
        }
        let default = if attached { self.0.config.wake_wait.0 } else { Duration::ZERO };
        // A house that closes does not keep anybody waiting.
        let wait = async |wait: Duration| line.woken(instance, &kept.entry, &session, wait).await;
        let woken = tokio::select! {
            woken = wait(asked.unwrap_or(default)) => woken?,
            () = self.0.closing.cancelled() => wait(Duration::ZERO).await?,
        };
        let handed = Handed::Woken(woken);
        if let Some(first) = self.0.receipts.receipt(&sending.tenant, &sending.dispatch, digest).await? {
            let answer = receipt::answer(&handed);
            self.0.receipts.attempted(first.key, Attempted::Answered { answer }).await?;
        }
        Ok(handed)
    }
}

/// The answer to what lies in the inbox and is not waited for.
fn taken_in(entry: &EntryId, session: &str, at: Moment, skipped: bool, item: &Item) -> Handed {
    match item.verb() {
        Verb::Wake => Handed::Woken(WakeReceipt {
            woken_at: at.millis(),
            woken: false,
            session_id: Some(session.to_owned()),
            warnings: vec!["it was sent before, and what came of it is forgotten".to_owned()],
            ..WakeReceipt::default()
        }),
        Verb::Deliver | Verb::Exchange => Handed::Delivered(accepted(entry, session, at, skipped)),
    }
}

/// What a delivery down the line is answered with: accepted at our commit, under the entry's id.
fn accepted(entry: &EntryId, session: &str, at: Moment, skipped: bool) -> DeliveryReceipt {
    DeliveryReceipt {
        delivered_at: at.millis(),
        delivery_id: Some(entry.to_string()),
        session_id: Some(session.to_owned()),
        delivery_skipped: skipped,
        warnings: Vec::new(),
    }
}
