//! Intake of platform deliveries: verify, route, admit and store them before the platform gets its response.

mod judging;
mod sender_texts;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use identity::{Admitted, Identity, OverQuota, PairingCode, Principal, Stranger};
use judging::{AdmittedArrival, ArrivalDecision};
use ledger::{EventFeeds, LimitReached, RouteTo, ShownPrompt};
use posthouse_time::Timepiece;
use posthouse_wire::{ChatId, EntryId, PromptToken, Source, ThreadId, session_key};
use relay::{Admission, Inboxes, NewEntry, Relay, RouteRemovals};
use tokio_util::task::TaskTracker;
use vault::{CapturedCapability, Vault};

use self::sender_texts::{MAILBOX_FULL, may_answer, pairing_notice};
use crate::Fault;
use crate::albums::Albums;
use crate::asked_prompts::AskedPrompts;
use crate::attachments::EarlyAttachments;
use crate::bot_uses::{BotUses, UsePurpose};
use crate::bots::OpenedBot;
use crate::chat_capabilities::ChatCapabilities;
use crate::context_buffer::ContextBuffer;
use crate::known_people::KnownPeople;
use crate::link_commands::LinkCommands;
use crate::metrics::Metrics;
use crate::notices::{NoticeKind, Notices};
use crate::own_threads::OwnThreads;
use crate::platform::{
    HeadProof, Moved, Platform, PlatformResponse, Reading, RequestHead, UnverifiedRequest, WebhookRefusal,
    check_head, check_rest,
};

/// Stores arrivals. Webhooks, pollers and the web chat share it.
#[derive(Clone)]
pub struct Intake {
    vault: Vault,
    inboxes: Arc<Inboxes>,
    removals: Arc<RouteRemovals>,
    identity: Identity,
    notices: Notices,
    links: LinkCommands,
    metrics: Arc<Metrics>,
    context: ContextBuffer,
    albums: Albums,
    records: IncomingRecords,
    early: EarlyAttachments,
    /// Runs calls in the background.
    tasks: TaskTracker,
}

/// What the intake notes about events beside their entries.
#[derive(Clone)]
pub(crate) struct IncomingRecords {
    pub feeds: Arc<dyn EventFeeds>,
    pub chat_capabilities: ChatCapabilities,
    pub prompts: AskedPrompts,
    pub threads: OwnThreads,
    pub people: KnownPeople,
}

/// The result for the arrivals of one reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntakeResult {
    /// The entries of the arrivals that are turns, whether stored now or earlier.
    pub entries: Vec<EntryId>,
    /// Set if at least one arrival was not stored because there was no room for it.
    pub full: Option<LimitReached>,
    /// Set if at least one arrival was not stored because its agent or tenant gets too many messages.
    pub over_quota: Option<OverQuota>,
    /// True if there were arrivals and all of them are from people who may not write to an agent.
    pub only_strangers: bool,
}

/// The result of a delivery.
#[derive(Debug)]
pub enum DeliveryResult {
    /// Every turn in it is stored; these are the ids of the entries.
    Taken {
        entries: Vec<EntryId>,
        reply: PlatformResponse,
    },
    Refused(WebhookRefusal),
}

impl Intake {
    pub(crate) fn new(
        vault: Vault,
        relay: &Relay,
        identity: Identity,
        notices: Notices,
        metrics: Arc<Metrics>,
        records: IncomingRecords,
        timepiece: &Timepiece,
    ) -> Self {
        let links = LinkCommands::new(identity.clone(), relay.clone(), notices.clone());
        let (context, albums) = (ContextBuffer::new(timepiece.clone()), Albums::new(timepiece.clone()));
        let (inboxes, removals) = (Arc::clone(relay.inboxes()), Arc::clone(relay.route_removals()));
        let tasks = relay.tasks().clone();
        let early = EarlyAttachments {
            store: relay.media().clone(),
            bot_uses: BotUses::new(vault.clone()),
            timepiece: timepiece.clone(),
            tasks: tasks.clone(),
        };
        Self {
            vault,
            inboxes,
            removals,
            identity,
            notices,
            links,
            metrics,
            context,
            albums,
            records,
            early,
            tasks,
        }
    }

    /// Checks the head of a delivery before its body is read.
    pub(crate) fn judge_head(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &OpenedBot,
        head: &RequestHead<'_>,
    ) -> Result<HeadProof, WebhookRefusal> {
        check_head(&**platform, bot, head)
            .inspect_err(|refusal| self.metrics.refused(platform.name(), refusal.reason))
    }

    /// Handles one HTTP delivery, from raw bytes to the response.
    pub async fn receive(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        raw: UnverifiedRequest,
    ) -> Result<DeliveryResult, Fault> {
        match self.judge_head(platform, bot, &raw.head()) {
            Ok(proof) => self.receive_rest(platform, bot, proof, raw).await,
            Err(refusal) => Ok(DeliveryResult::Refused(refusal)),
        }
    }

    /// Handles a delivery whose head was judged. Its future is in a box, so that it is not copied each time the future of
    /// the handler is moved.
    pub(crate) fn receive_rest<'a>(
        &'a self,
        platform: &'a Arc<dyn Platform>,
        bot: &'a Arc<OpenedBot>,
        proof: HeadProof,
        raw: UnverifiedRequest,
    ) -> BoxFuture<'a, Result<DeliveryResult, Fault>> {
        Box::pin(async move {
            // The signature covers the unparsed bytes, so nothing is parsed before it is checked.
            let verified = check_rest(&**platform, bot, proof, raw).await;
            let mut reading = match verified.and_then(|verified| platform.normalize(bot, verified)) {
                Ok(reading) => reading,
                Err(refusal) => {
                    self.metrics.refused(platform.name(), refusal.reason);
                    return Ok(DeliveryResult::Refused(refusal));
                }
            };
            let mut reply = std::mem::take(&mut reading.reply);
            let to_strangers = reading.reply_to_strangers.take();
            // A full inbox is a success too: a platform that gets an error stops delivering for the whole bot.
            let taken = self.take(platform, bot, reading, None).await?;
            if let Some(to_strangers) = to_strangers.filter(|_| taken.only_strangers) {
                reply = to_strangers;
            }
            Ok(DeliveryResult::Taken { entries: taken.entries, reply })
        })
    }

    /// Stores every turn of a reading. Each arrival has its own dedup key, so after a fault half way through, the
    /// platform's repeat adds only what is missing. `person` is the invited person who wrote, if there is one.
    pub async fn take(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        reading: Reading,
        person: Option<&Principal>,
    ) -> Result<IntakeResult, Fault> {
        // Rare steps of this function are in boxes, so that its future is small: every message allocates one.
        let reading = match reading.incomplete {
            true => platform.complete(bot, reading).await?,
            false => reading,
        };
        // The gate decides about messages of other bots, and counts those that are ignored.
        for reason in reading.ignored.iter().filter(|_| reading.from_bots.is_empty()) {
            self.metrics.ignored(platform.name(), reason);
        }
        let on = bot.bot_ref();
        for Moved { from, to } in &reading.moved {
            Box::pin(self.identity.accounts.move_chat(&on, from, to)).await?;
        }
        for renamed in &reading.renamed {
            Box::pin(self.records.threads.named(&on, renamed)).await?;
        }
        for call in reading.service_calls {
            let (platform, bot) = (Arc::clone(platform), Arc::clone(bot));
            self.tasks.spawn(async move { platform.acknowledge_interaction(&bot, call).await });
        }
        // Read before any route is looked up, so that a removal in between is noticed.
        let removals = self.removals.ended_count();
        let mut may_acknowledge = reading.arrivals.is_empty();
        let mut result = IntakeResult::default();
        let mut turns = Vec::with_capacity(reading.arrivals.len());
        let arrivals = reading.arrivals.into_iter().map(|arrival| (arrival, false));
        let from_bots = reading.from_bots.into_iter().map(|arrival| (arrival, true));
        for (arrival, from_bot) in arrivals.chain(from_bots) {
            let mut arrival = Box::new(arrival);
            // Before anything is decided: the sender's id decides whether they may write.
            self.records.people.use_known_ids(&on, &mut arrival).await?;
            for part in self.albums.complete(&on, arrival) {
                match self.judge(platform, bot, part, from_bot, person).await? {
                    ArrivalDecision::Turn(turn) => {
                        may_acknowledge = true;
                        if let Some(person) = &turn.person {
                            // Now, because the next arrival may be of the same person under another id.
                            self.records.people.note(&on, person, &turn.new_entry.event.source).await?;
                        }
                        turns.push(turn);
                    }
                    ArrivalDecision::Dropped { by_admitted } => may_acknowledge |= by_admitted,
                    ArrivalDecision::OverQuota(over) => {
                        may_acknowledge = true;
                        result.over_quota = Some(over);
                    }
                }
            }
        }
        result.only_strangers = !may_acknowledge;
        // A button press by somebody who is not admitted is not acknowledged either.
        if may_acknowledge {
            for ack in reading.interaction_acks {
                let (platform, bot) = (Arc::clone(platform), Arc::clone(bot));
                // It does not wait for the agent, which may be asleep: the person sees a spinner until then.
                self.tasks.spawn(async move { platform.acknowledge_interaction(&bot, ack).await });
            }
        }
        for turn in turns {
            let AdmittedArrival { admitted, mut new_entry, capabilities, other_dedups, answers, .. } = turn;
            if !other_dedups.is_empty() {
                new_entry.dedup = self.records.feeds.first_key(&on, &new_entry.dedup, &other_dedups).await?;
            }
            let source = &new_entry.event.source;
            let to = (source.chat_id.clone(), source.thread_id.clone(), may_answer(source));
            let noted = &self.records.chat_capabilities;
            noted.note(&**platform, &admitted.to().instance, source, &capabilities).await?;
            match self.keep(platform, bot, &admitted, new_entry, capabilities).await? {
                ArrivalResult::Entry(entry) => {
                    if let Some((prompt, token)) = answers {
                        Box::pin(self.close_prompt(platform, bot, &prompt, &token)).await?;
                    }
                    self.removals.end_if_unrouted(&on, &admitted.to().instance, removals).await?;
                    result.entries.push(entry);
                }
                ArrivalResult::Full(full) => {
                    result.full = Some(full);
                    self.tell_sender(platform, bot, admitted.to(), to, NoticeKind::MailboxFull, MAILBOX_FULL);
                }
            }
        }
        Ok(result)
    }

    /// Records that a prompt has its answer, and takes its buttons away.
    async fn close_prompt(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        prompt: &ShownPrompt,
        token: &PromptToken,
    ) -> Result<(), Fault> {
        self.records.prompts.answered(prompt, token).await?;
        let (platform, bot) = (Arc::clone(platform), Arc::clone(bot));
        let (chat, message) = (prompt.chat.clone(), prompt.message.clone());
        self.tasks.spawn(async move { platform.close_prompt(&bot, &chat, &message).await });
        Ok(())
    }

    /// Makes a pairing code for a stranger and sends it to them. If this bot has just answered somebody else, the
    /// stranger has to send one more message.
    async fn offer_pairing(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        source: &Source,
        stranger: Stranger,
    ) -> Result<(), Fault> {
        let on = bot.bot_ref();
        if !self.notices.may_send(&on) {
            return Ok(());
        }
        let Some(code) = self.identity.gate.access().pair(stranger).await? else { return Ok(()) };
        self.notices.sent(&on);
        if let (Some(chat), true) = (&source.chat_id, may_answer(source)) {
            self.tell_code(platform, bot, chat.clone(), source.thread_id.clone(), code);
        }
        Ok(())
    }

    /// Tells a sender why their message to this agent was not delivered, in a task of its own. Each reason
    /// is sent at most once an hour per chat.
    fn tell_sender(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        agent: &RouteTo,
        (chat, thread, may_answer): (Option<ChatId>, Option<ThreadId>, bool),
        kind: NoticeKind,
        text: &'static str,
    ) {
        let Some(chat) = chat.filter(|_| may_answer && !platform.answers_senders_itself()) else { return };
        if self.notices.may_tell(&bot.bot_ref(), &chat, kind) {
            let (notices, platform, bot) = (self.notices.clone(), Arc::clone(platform), Arc::clone(bot));
            let (text, about) = (text.to_owned(), UsePurpose { agent: agent.clone(), entry: None });
            self.tasks
                .spawn(async move { notices.send(platform, bot, Some(about), chat, thread, text).await });
        }
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
        let (notices, access) = (self.notices.clone(), self.identity.gate.access().clone());
        let (platform, bot) = (Arc::clone(platform), Arc::clone(bot));
        self.tasks.spawn(async move {
            if !notices.send(platform, bot, None, chat, thread, pairing_notice(&code)).await {
                access.withdraw_code(code).await;
            }
        });
    }

    async fn keep(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        admitted: &Admitted,
        new_entry: Box<NewEntry>,
        capabilities: Vec<CapturedCapability>,
    ) -> Result<ArrivalResult, Fault> {
        let name = platform.name();
        if !capabilities.is_empty() {
            // A repeat does not bind again: that would refill a capability that can be used once.
            if let Some(entry) = self.inboxes.records().known(admitted.on(), &new_entry.dedup).await? {
                self.metrics.ignored(name, "repeat");
                return Ok(ArrivalResult::Entry(entry));
            }
            // Bind before the entry is stored. A crash in between leaves a capability that expires unused; the other
            // order would show the agent a session whose capability is not there yet.
            let keys = session_key::plausible_of_interaction(&new_entry.event.source);
            let (to, id) = (admitted.to(), new_entry.id.as_ref());
            Box::pin(self.vault.bind(&to.tenant, &to.instance, &keys, id, capabilities)).await?;
        }
        let (admission, attachments) = self.inboxes.admit_with_attachments(admitted, new_entry).await?;
        Ok(match admission {
            Admission::Kept(entry) => {
                self.metrics.kept(name);
                self.early.start(platform, bot, (admitted.to(), &entry), attachments);
                ArrivalResult::Entry(entry)
            }
            Admission::Known(entry) => {
                self.metrics.ignored(name, "repeat");
                ArrivalResult::Entry(entry)
            }
            Admission::Full(full) => {
                self.metrics.ignored(name, "inbox_full");
                ArrivalResult::Full(full)
            }
        })
    }
}

/// The result for one arrival.
enum ArrivalResult {
    Entry(EntryId),
    Full(LimitReached),
}
