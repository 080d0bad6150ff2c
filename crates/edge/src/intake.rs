//! The way in: what a platform delivered, routed and kept before the platform hears a word.

use std::sync::Arc;

use ledger::{Appended, Identity};
use posthouse_wire::{EntryId, session_key};
use relay::{Admission, Bearings, Entrant, Relay};
use vault::Vault;

use crate::Fault;
use crate::bots::Bot;
use crate::metrics::Metrics;
use crate::platform::{Arrival, Moved, Platform, Raw, Reading, Refusal, Reply};

/// Takes arrivals in. Shared by webhooks, pollers and the house's own page.
#[derive(Clone)]
pub struct Intake {
    vault: Vault,
    relay: Relay,
    metrics: Arc<Metrics>,
}

/// What became of a delivery.
#[derive(Debug)]
pub enum Admitted {
    /// Everything in it that is a turn is kept; these are the entries' ids.
    Taken {
        entries: Vec<EntryId>,
        reply: Reply,
    },
    Refused(Refusal),
}

impl Intake {
    pub(crate) fn new(vault: Vault, relay: Relay, metrics: Arc<Metrics>) -> Self {
        Self { vault, relay, metrics }
    }

    /// One HTTP delivery, from raw bytes to the answer.
    pub async fn receive(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<Bot>,
        raw: Raw,
    ) -> Result<Admitted, Fault> {
        // The signature is checked over the bytes as they came; only then is anything parsed.
        let reading = platform.verify(bot, raw).and_then(|verified| platform.normalize(bot, verified));
        let reading = match reading {
            Ok(reading) => reading,
            Err(refusal) => {
                self.metrics.refused(platform.name(), refusal.reason);
                return Ok(Admitted::Refused(refusal));
            }
        };
        let reply = reading.reply.clone();
        let entries = self.take(platform, bot, reading).await?;
        Ok(Admitted::Taken { entries, reply })
    }

    /// Keeps everything in a reading that is a turn. Each arrival is kept under its own dedup key, so a
    /// fault half way costs only the platform's repeat.
    pub async fn take(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<Bot>,
        reading: Reading,
    ) -> Result<Vec<EntryId>, Fault> {
        for reason in &reading.ignored {
            self.metrics.ignored(platform.name(), reason);
        }
        for courtesy in reading.courtesies {
            let (platform, bot) = (Arc::clone(platform), Arc::clone(bot));
            // The platform waits for it with a spinner on somebody's screen; the agent may be asleep.
            self.relay.tasks().spawn(async move { platform.be_courteous(&bot, courtesy).await });
        }
        let on = bot.identity();
        for Moved { from, to } in &reading.moved {
            if self.relay.roster().move_chat(&on, from, to).await? {
                self.relay.roster_changed();
            }
        }
        let mut entries = Vec::with_capacity(reading.arrivals.len());
        for arrival in reading.arrivals {
            if let Some(entry) = self.keep(platform.name(), &on, arrival).await? {
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    async fn keep(
        &self,
        platform: &'static str,
        on: &Identity,
        arrival: Arrival,
    ) -> Result<Option<EntryId>, Fault> {
        let Arrival { mut event, capabilities, dedup, addressed, path, references, received } = arrival;
        let bearings = Bearings { source: &event.source, path: path.as_deref() };
        let Some(route) = self.relay.route(on, bearings).await? else {
            self.metrics.ignored(platform, "no_route");
            return Ok(None);
        };
        event.bot_id = Some(on.bot.clone());
        event.received_at = Some(received.to_string());
        let entrant =
            Entrant { event, id: None, dedup, addressed, references, accepted: received, receipt: None };
        // What is refused at the gate below leaves nothing behind.
        if !capabilities.is_empty() && entrant.refusal().is_none() {
            // A repeat binds nothing again: it would fill up what was meant to be used once.
            if let Some(entry) = self.relay.inbox().known(on, &entrant.dedup).await? {
                self.metrics.ignored(platform, "repeat");
                return Ok(Some(entry));
            }
            // Bind first. A crash after this line leaves a capability that lapses unused; the other
            // order would show an agent a session it cannot follow up.
            let keys = session_key::plausible_of_interaction(&entrant.event.source);
            self.vault.bind(&route.tenant, &route.instance, &keys, capabilities).await?;
        }
        match self.relay.admit(&route, on, entrant).await? {
            Admission::Kept(Appended::Kept(entry)) => {
                self.metrics.kept(platform);
                Ok(Some(entry))
            }
            Admission::Kept(Appended::Known(entry)) => {
                self.metrics.ignored(platform, "repeat");
                Ok(Some(entry))
            }
            Admission::Refused(reason) => {
                self.metrics.ignored(platform, reason);
                Ok(None)
            }
        }
    }
}
