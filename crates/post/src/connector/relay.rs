//! Relay connector: agents connected by the relay. A message is an entry in the agent's inbox, in one commit with its
//! receipt.

mod contract;

use std::time::Duration;

use async_trait::async_trait;
use identity::{Gate, RosterView};
use ledger::{Instance, NewReceipt};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::delivery::{DeliveryReceipt, PayloadKind, Posted, WakeReceipt};
use posthouse_wire::{ChatId, EntryId, Event, InstanceId, MessageType, TenantId};
use relay::{Admission, NewEntry, Relay, StopRule};

use super::{MessageStorage, NewMessage, StoredDispatch};
use crate::conversations::names;
use crate::dispatch::DispatchItem;
use crate::{Config, Fault, Refused};

/// The name of the connector that every tenant has, first in its order.
pub(crate) const RELAY: &str = "relay";

/// The relay connector of one tenant.
pub struct RelayConnector {
    relay: Relay,
    agents: RosterView,
    tenant: TenantId,
    preamble: bool,
    wake_wait: Duration,
    timepiece: Timepiece,
}

impl RelayConnector {
    pub const IMPLEMENTATION: &str = RELAY;

    pub(crate) fn new(
        relay: Relay,
        agents: RosterView,
        tenant: TenantId,
        config: &Config,
        timepiece: Timepiece,
    ) -> Self {
        let (preamble, wake_wait) = (config.preamble, config.wake_wait.0);
        Self { relay, agents, tenant, preamble, wake_wait, timepiece }
    }

    /// Whether the agent is connected and accepts messages now.
    fn is_attached(&self, instance: &InstanceId) -> bool {
        let presence = self.relay.connections().presence(instance);
        presence.connected && !presence.idle
    }

    /// Why the agent did not accept a wake, as far as known.
    async fn why_not_woken(&self, instance: &Instance, wait: Duration) -> Result<Vec<String>, Fault> {
        if !self.is_attached(&instance.id) {
            let next = self.relay.wake_calls().calls_again(&instance.id);
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
        let ahead = self.relay.inboxes().records().size(&instance.id).await?.entries - 1;
        if ahead > 0 {
            warnings.push(format!("queued behind {ahead}"));
        }
        warnings.push(match self.relay.connections().is_settling(&instance.id) {
            true => "the agent has just connected and is given time to settle".to_owned(),
            false => format!("the agent is connected and did not accept it within {} ms", wait.as_millis()),
        });
        Ok(warnings)
    }
}

#[async_trait]
impl MessageStorage for RelayConnector {
    async fn store(&self, message: NewMessage<'_>) -> Result<StoredDispatch, Refused> {
        let NewMessage { to, dispatch, item, receipt } = message;
        let (session, chat) = names::conversation_of(dispatch, item)?;
        let (at, skipped) = (receipt.accepted, !self.is_attached(&to.id));
        let now = self.timepiece.now();
        let id = EntryId::mint(now.millis());
        let new_entry = NewEntry {
            forward: None,
            event: event(&id, &dispatch.from, item, &chat, self.preamble, now)
                .deliverable()
                .expect("the server writes the platform, the chat and its type"),
            // Repeats are recognized by the receipt.
            dedup: id.as_str().into(),
            id: Some(id),
            references: Vec::new(),
            album: None,
            accepted: now,
            receipt: Some(Box::new(NewReceipt {
                instance: Some(to.id.clone()),
                chat: Some(chat),
                session: Some(session.clone()),
                skipped,
                ..receipt
            })),
            stop: StopRule::Text,
            stale: None,
        };
        let admitted = Gate::admit_program(&self.tenant, to, names::bot_ref()).ok_or(Refused::Absent)?;
        // The relay calls the wake URL of an agent that is not connected.
        let (entry, known) = match self.relay.inboxes().admit(&admitted, Box::new(new_entry)).await? {
            Admission::Kept(entry) => (entry, false),
            Admission::Known(entry) => (entry, true),
            Admission::Full(full) => return Err(Refused::InboxFull(full)),
        };
        let receipt = DeliveryReceipt {
            delivered_at: at.millis(),
            delivery_id: Some(entry.to_string()),
            session_id: Some(session),
            delivery_skipped: skipped,
            warnings: Vec::new(),
        };
        let wake_wait = if skipped { Duration::ZERO } else { self.wake_wait };
        Ok(StoredDispatch { entry, receipt, known, wake_wait })
    }

    async fn woken(
        &self,
        to: &Instance,
        stored: &StoredDispatch,
        wait: Duration,
    ) -> Result<WakeReceipt, Fault> {
        let woken = self.relay.acknowledgements().wait_for(&stored.entry, wait).await?.is_some();
        let warnings = if woken { Vec::new() } else { self.why_not_woken(to, wait).await? };
        Ok(WakeReceipt {
            woken_at: self.timepiece.now().millis(),
            woken,
            session_id: stored.receipt.session_id.clone(),
            warnings,
            ..WakeReceipt::default()
        })
    }
}

/// The event of an item from this sender.
fn event(
    id: &EntryId,
    sender: &str,
    item: &DispatchItem,
    chat: &ChatId,
    preamble: bool,
    now: Moment,
) -> Event {
    let (text, kind, word, meta) = match item {
        DispatchItem::Deliver { payload } | DispatchItem::Ask { payload } => {
            (payload.text.as_str(), payload.kind, payload.kind.word(), Some(payload.meta.clone()))
        }
        // A wake has no envelope.
        DispatchItem::Wake { opts, .. } => {
            (opts.context.as_deref().unwrap_or_default(), PayloadKind::Augment, "wake", None)
        }
    };
    let preamble = preamble_for(text, word, sender, preamble);
    let mut event = Event {
        text: format!("{}{text}", preamble.as_deref().unwrap_or_default()),
        message_type: MessageType::Text,
        message_id: Some(id.as_str().into()),
        bot_id: Some(names::BOT.into()),
        received_at: Some(now.to_string()),
        post: Some(Box::new(Posted {
            kind,
            meta,
            expects_reply: matches!(item, DispatchItem::Ask { .. }),
            preamble,
        })),
        ..Event::default()
    };
    let source = &mut event.source;
    source.platform = names::PLATFORM.into();
    source.chat_id = Some(chat.clone());
    source.chat_type = "dm".to_owned();
    source.chat_name = Some(sender.to_owned());
    source.user_id = Some(format!("post:{sender}").into());
    source.user_name = Some(sender.to_owned());
    source.message_id = Some(id.as_str().into());
    event
}

/// The first line with kind and sender. A text that begins with `/` always gets it, because the agent would run it
/// as a command. An empty text gets it too, because a stock agent ignores empty messages.
fn preamble_for(text: &str, word: &str, sender: &str, always: bool) -> Option<String> {
    let needed = text.trim_start().starts_with('/') || text.is_empty();
    if !always && !needed {
        return None;
    }
    let line = format!("[posthouse {word} from {sender}]");
    Some(if text.is_empty() { line } else { format!("{line}\n\n") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_and_an_empty_text_always_get_the_first_line() {
        let line = |text, always| preamble_for(text, "wake", "desk", always);
        assert_eq!(line("hello", false), None);
        assert_eq!(line("hello", true).as_deref(), Some("[posthouse wake from desk]\n\n"));
        assert_eq!(line(" /stop", false).as_deref(), Some("[posthouse wake from desk]\n\n"));
        assert_eq!(line("", false).as_deref(), Some("[posthouse wake from desk]"));
    }
}
