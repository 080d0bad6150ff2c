//! Intake of platform deliveries: verify, route, admit and store them before the platform gets its response.

use std::sync::Arc;

use ledger::{Identity, LimitReached, RouteTo};
use posthouse_wire::{ChatId, EntryId, ThreadId, session_key};
use relay::{Admission, Bearings, Entrant, Relay};
use vault::{Captured, Vault};

use crate::Fault;
use crate::access::{AccessControl, AccessDecision, PairingCode};
use crate::bots::OpenedBot;
use crate::metrics::Metrics;
use crate::notices::Notices;
use crate::platform::{
    Arrival, HeadProof, Moved, Platform, PlatformResponse, Raw, Reading, RequestHead, WebhookRefusal,
};

/// Notice to a sender whose message was not stored because the inbox is full.
const MAILBOX_FULL: &str = "This mailbox is full, so your message was not delivered. Please try again later.";

/// Stores arrivals. Webhooks, pollers and the web chat share it.
#[derive(Clone)]
pub struct Intake {
    vault: Vault,
    relay: Relay,
    access: AccessControl,
    notices: Notices,
    metrics: Arc<Metrics>,
}

/// The result for the arrivals of one reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntakeResult {
    /// The entries of the arrivals that are turns, whether stored now or earlier.
    pub entries: Vec<EntryId>,
    /// Set if at least one arrival was not stored because there was no room for it.
    pub full: Option<LimitReached>,
}

/// The result of a delivery.
#[derive(Debug)]
pub enum Admitted {
    /// Every turn in it is stored; these are the ids of the entries.
    Taken {
        entries: Vec<EntryId>,
        reply: PlatformResponse,
    },
    Refused(WebhookRefusal),
}

/// An admitted arrival.
struct Admitting {
    route: RouteTo,
    entrant: Entrant,
    capabilities: Vec<Captured>,
}

impl Intake {
    pub(crate) fn new(
        vault: Vault,
        relay: Relay,
        access: AccessControl,
        notices: Notices,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { vault, relay, access, notices, metrics }
    }

    /// Checks the head of a delivery before its body is read.
    pub(crate) fn judge_head(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &OpenedBot,
        head: &RequestHead<'_>,
    ) -> Result<HeadProof, WebhookRefusal> {
        platform
            .verify_head(bot, head)
            .inspect_err(|refusal| self.metrics.refused(platform.name(), refusal.reason))
    }

    /// Handles one HTTP delivery, from raw bytes to the response.
    pub async fn receive(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        raw: Raw,
    ) -> Result<Admitted, Fault> {
        // The signature covers the unparsed bytes, so nothing is parsed before it is checked.
        let reading = platform.verify(bot, raw).and_then(|verified| platform.normalize(bot, verified));
        let reading = match reading {
            Ok(reading) => reading,
            Err(refusal) => {
                self.metrics.refused(platform.name(), refusal.reason);
                return Ok(Admitted::Refused(refusal));
            }
        };
        let reply = reading.reply.clone();
        // A full inbox is a success too: a platform that gets an error stops delivering for the whole bot.
        let entries = self.take(platform, bot, reading).await?.entries;
        Ok(Admitted::Taken { entries, reply })
    }

    /// Stores every turn of a reading. Each arrival has its own dedup key, so after a fault half way through, the
    /// platform's repeat adds only what is missing.
    pub async fn take(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        reading: Reading,
    ) -> Result<IntakeResult, Fault> {
        for reason in &reading.ignored {
            self.metrics.ignored(platform.name(), reason);
        }
        let on = bot.identity();
        for Moved { from, to } in &reading.moved {
            if self.relay.roster().move_chat(&on, from, to).await? {
                self.relay.bot_changed(&on);
            }
        }
        // Read before any route is looked up, so that a removal in between is noticed.
        let removals = self.relay.route_removals();
        let is_empty = reading.arrivals.is_empty();
        let mut admitted = Vec::with_capacity(reading.arrivals.len());
        for arrival in reading.arrivals {
            admitted.extend(self.admitted(platform, bot, &on, arrival).await?);
        }
        // A button press by somebody who is not admitted is not acknowledged either.
        if is_empty || !admitted.is_empty() {
            for ack in reading.interaction_acks {
                let (platform, bot) = (Arc::clone(platform), Arc::clone(bot));
                // It does not wait for the agent, which may be asleep: the person sees a spinner until then.
                self.relay.tasks().spawn(async move { platform.acknowledge_interaction(&bot, ack).await });
            }
        }
        let mut result = IntakeResult::default();
        for Admitting { route, entrant, capabilities } in admitted {
            let source = &entrant.event.source;
            let to = may_answer(&entrant).then(|| (source.chat_id.clone(), source.thread_id.clone()));
            match self.keep(platform.name(), &on, &route, entrant, capabilities).await? {
                ArrivalResult::Entry(entry) => {
                    self.relay.end_if_unrouted(&on, &route.instance, removals).await?;
                    result.entries.push(entry);
                }
                ArrivalResult::Nothing => {}
                ArrivalResult::Full(full) => {
                    result.full = Some(full);
                    if let Some((Some(chat), thread)) = to
                        && !platform.answers_senders_itself()
                        && self.notices.may_tell(&on, &chat)
                    {
                        self.answer(platform, bot, chat, thread, MAILBOX_FULL.to_owned());
                    }
                }
            }
        }
        Ok(result)
    }

    /// Returns the arrival if it is a turn for an agent, from a sender who may write to it. This is decided before
    /// anything is stored or bound, or an agent woken.
    async fn admitted(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        on: &Identity,
        arrival: Arrival,
    ) -> Result<Option<Admitting>, Fault> {
        let Arrival { mut event, capabilities, dedup, addressed, path, references, received } = arrival;
        let bearings = Bearings { source: &event.source, path: path.as_deref() };
        let routed = self.relay.find_route(on, bearings).await?;
        event.bot_id = Some(on.bot.clone());
        event.received_at = Some(received.to_string());
        let entrant = Entrant {
            event,
            id: None,
            dedup,
            addressed,
            references,
            accepted: received,
            receipt: None,
            stop: platform.stop_rule(),
        };
        let ignored = |reason| {
            self.metrics.ignored(platform.name(), reason);
            Ok(None)
        };
        // Without a route there is no agent to be admitted to, so no pairing code is offered.
        if routed.is_none() && (bot.shared || platform.decides_access()) {
            return ignored("no_route");
        }
        if let Some(reason) = entrant.refusal() {
            return ignored(reason);
        }
        if !platform.decides_access() {
            let names_place = routed.as_ref().is_some_and(|routed| routed.names_place);
            match self.access.judge(on, &entrant.event.source, names_place).await? {
                AccessDecision::Admitted => {}
                AccessDecision::Denied => return ignored("denied"),
                AccessDecision::Stranger(code) => {
                    let source = &entrant.event.source;
                    if let (Some(code), Some(chat)) = (code, &source.chat_id)
                        && may_answer(&entrant)
                    {
                        self.tell_code(platform, bot, chat.clone(), source.thread_id.clone(), code);
                    }
                    return ignored("stranger");
                }
            }
        }
        match routed {
            Some(routed) => Ok(Some(Admitting { route: routed.to, entrant, capabilities })),
            None => ignored("no_route"),
        }
    }

    /// Sends a notice of the server to a sender, in a task of its own.
    fn answer(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        chat: ChatId,
        thread: Option<ThreadId>,
        text: String,
    ) {
        let (notices, platform, bot) = (self.notices.clone(), Arc::clone(platform), Arc::clone(bot));
        self.relay.tasks().spawn(async move { notices.send(platform, bot, chat, thread, text).await });
    }

    /// Sends a stranger their pairing code, in a task of its own.
    fn tell_code(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        chat: ChatId,
        thread: Option<ThreadId>,
        code: PairingCode,
    ) {
        let (notices, access) = (self.notices.clone(), self.access.clone());
        let (platform, bot) = (Arc::clone(platform), Arc::clone(bot));
        self.relay.tasks().spawn(async move {
            if !notices.send(platform, bot, chat, thread, code.notice()).await {
                access.not_told(code).await;
            }
        });
    }

    async fn keep(
        &self,
        platform: &'static str,
        on: &Identity,
        route: &RouteTo,
        entrant: Entrant,
        capabilities: Vec<Captured>,
    ) -> Result<ArrivalResult, Fault> {
        if !capabilities.is_empty() {
            // A repeat does not bind again: that would refill a capability that can be used once.
            if let Some(entry) = self.relay.inbox().known(on, &entrant.dedup).await? {
                self.metrics.ignored(platform, "repeat");
                return Ok(ArrivalResult::Entry(entry));
            }
            // Bind before the entry is stored. A crash in between leaves a capability that expires unused; the other
            // order would show the agent a session whose capability is not there yet.
            let keys = session_key::plausible_of_interaction(&entrant.event.source);
            self.vault.bind(&route.tenant, &route.instance, &keys, capabilities).await?;
        }
        Ok(match self.relay.admit(route, on, entrant).await? {
            Admission::Kept(entry) => {
                self.metrics.kept(platform);
                ArrivalResult::Entry(entry)
            }
            Admission::Known(entry) => {
                self.metrics.ignored(platform, "repeat");
                ArrivalResult::Entry(entry)
            }
            Admission::Full(full) => {
                self.metrics.ignored(platform, "inbox_full");
                ArrivalResult::Full(full)
            }
            Admission::Refused(reason) => {
                self.metrics.ignored(platform, reason);
                ArrivalResult::Nothing
            }
        })
    }
}

/// Whether a notice may be sent. In a channel it would be published to all readers.
fn may_answer(entrant: &Entrant) -> bool {
    entrant.event.source.chat_type != "channel"
}

/// The result for one arrival.
enum ArrivalResult {
    Entry(EntryId),
    Nothing,
    Full(LimitReached),
}
