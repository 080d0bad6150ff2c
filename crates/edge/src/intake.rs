//! Intake of platform deliveries: verify, route, admit and store them before the platform gets its response.

mod judging;
mod sender_texts;

use std::collections::VecDeque;
use std::sync::Arc;

use identity::{Admitted, Identity, OverQuota, PairingCode, Principal, Stranger};
use judging::{AdmittedArrival, ArrivalDecision};
use ledger::{LimitReached, ShownPrompt};
use posthouse_time::Timepiece;
use posthouse_wire::{ChatId, EntryId, PromptToken, Source, ThreadId, session_key};
use relay::{Admission, NewEntry, Relay};
use vault::{CapturedCapability, Vault};

use self::sender_texts::{MAILBOX_FULL, may_answer, pairing_notice};
use crate::Fault;
use crate::albums::Albums;
use crate::asked_prompts::AskedPrompts;
use crate::bots::OpenedBot;
use crate::context_buffer::ContextBuffer;
use crate::link_commands::LinkCommands;
use crate::metrics::Metrics;
use crate::notices::{NoticeKind, Notices};
use crate::own_threads::OwnThreads;
use crate::platform::{
    HeadProof, Moved, Platform, PlatformResponse, Raw, Reading, RequestHead, WebhookRefusal,
};

/// Stores arrivals. Webhooks, pollers and the web chat share it.
#[derive(Clone)]
pub struct Intake {
    vault: Vault,
    relay: Relay,
    identity: Identity,
    notices: Notices,
    links: LinkCommands,
    metrics: Arc<Metrics>,
    prompts: AskedPrompts,
    threads: OwnThreads,
    context: ContextBuffer,
    albums: Albums,
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
        relay: Relay,
        identity: Identity,
        notices: Notices,
        metrics: Arc<Metrics>,
        (prompts, threads): (AskedPrompts, OwnThreads),
        timepiece: &Timepiece,
    ) -> Self {
        let links = LinkCommands::new(identity.clone(), relay.clone(), notices.clone());
        let (context, albums) = (ContextBuffer::new(timepiece.clone()), Albums::new(timepiece.clone()));
        Self { vault, relay, identity, notices, links, metrics, prompts, threads, context, albums }
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
    ) -> Result<DeliveryResult, Fault> {
        // The signature covers the unparsed bytes, so nothing is parsed before it is checked.
        let reading = platform.verify(bot, raw).and_then(|verified| platform.normalize(bot, verified));
        let reading = match reading {
            Ok(reading) => reading,
            Err(refusal) => {
                self.metrics.refused(platform.name(), refusal.reason);
                return Ok(DeliveryResult::Refused(refusal));
            }
        };
        let reply = reading.reply.clone();
        // A full inbox is a success too: a platform that gets an error stops delivering for the whole bot.
        let entries = self.take(platform, bot, reading, None).await?.entries;
        Ok(DeliveryResult::Taken { entries, reply })
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
        // The gate decides about messages of other bots, and counts those that are ignored.
        for reason in reading.ignored.iter().filter(|_| reading.from_bots.is_empty()) {
            self.metrics.ignored(platform.name(), reason);
        }
        let on = bot.bot_ref();
        for Moved { from, to } in &reading.moved {
            self.identity.accounts.move_chat(&on, from, to).await?;
        }
        for renamed in &reading.renamed {
            self.threads.named(&on, renamed).await?;
        }
        // Read before any route is looked up, so that a removal in between is noticed.
        let removals = self.relay.route_removals().ended_count();
        let mut may_acknowledge = reading.arrivals.is_empty();
        let mut result = IntakeResult::default();
        let mut admitted = Vec::with_capacity(reading.arrivals.len());
        let arrivals = reading.arrivals.into_iter().map(|arrival| (arrival, false));
        let arrivals = arrivals.chain(reading.from_bots.into_iter().map(|arrival| (arrival, true)));
        let mut arrivals: VecDeque<_> = arrivals
            .flat_map(|(arrival, from_bot)| {
                self.albums.complete(&on, arrival).into_iter().map(move |part| (part, from_bot))
            })
            .collect();
        while let Some((arrival, from_bot)) = arrivals.pop_front() {
            match self.judge(platform, bot, arrival, from_bot, person).await? {
                ArrivalDecision::Turn(turn) => {
                    may_acknowledge = true;
                    admitted.push(turn);
                }
                ArrivalDecision::JudgeAgain(arrival) => arrivals.push_front((*arrival, from_bot)),
                ArrivalDecision::Dropped { by_admitted } => may_acknowledge |= by_admitted,
                ArrivalDecision::OverQuota(over) => {
                    may_acknowledge = true;
                    result.over_quota = Some(over);
                }
            }
        }
        // A button press by somebody who is not admitted is not acknowledged either.
        if may_acknowledge {
            for ack in reading.interaction_acks {
                let (platform, bot) = (Arc::clone(platform), Arc::clone(bot));
                // It does not wait for the agent, which may be asleep: the person sees a spinner until then.
                self.relay.tasks().spawn(async move { platform.acknowledge_interaction(&bot, ack).await });
            }
        }
        for arrival in admitted {
            let AdmittedArrival { admitted, new_entry, capabilities, answers } = *arrival;
            let source = &new_entry.event.source;
            let to = (source.chat_id.clone(), source.thread_id.clone(), may_answer(source));
            match self.keep(platform.name(), &admitted, new_entry, capabilities).await? {
                ArrivalResult::Entry(entry) => {
                    if let Some((prompt, token)) = answers {
                        self.close_prompt(platform, bot, &prompt, &token).await?;
                    }
                    self.relay
                        .route_removals()
                        .end_if_unrouted(&on, &admitted.to().instance, removals)
                        .await?;
                    result.entries.push(entry);
                }
                ArrivalResult::Nothing => {}
                ArrivalResult::Full(full) => {
                    result.full = Some(full);
                    self.tell_sender(platform, bot, to, NoticeKind::MailboxFull, MAILBOX_FULL);
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
        self.prompts.answered(prompt, token).await?;
        let (platform, bot) = (Arc::clone(platform), Arc::clone(bot));
        let (chat, message) = (prompt.chat.clone(), prompt.message.clone());
        self.relay.tasks().spawn(async move { platform.close_prompt(&bot, &chat, &message).await });
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

    /// Tells a sender why their message was not delivered, in a task of its own. A chat hears of one reason once an hour.
    fn tell_sender(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        (chat, thread, may_answer): (Option<ChatId>, Option<ThreadId>, bool),
        kind: NoticeKind,
        text: &'static str,
    ) {
        let Some(chat) = chat.filter(|_| may_answer && !platform.answers_senders_itself()) else { return };
        if self.notices.may_tell(&bot.bot_ref(), &chat, kind) {
            let (notices, platform, bot) = (self.notices.clone(), Arc::clone(platform), Arc::clone(bot));
            let text = text.to_owned();
            self.relay
                .tasks()
                .spawn(async move { notices.send(platform, bot, None, chat, thread, text).await });
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
        self.relay.tasks().spawn(async move {
            if !notices.send(platform, bot, None, chat, thread, pairing_notice(&code)).await {
                access.withdraw_code(code).await;
            }
        });
    }

    async fn keep(
        &self,
        platform: &'static str,
        admitted: &Admitted,
        new_entry: NewEntry,
        capabilities: Vec<CapturedCapability>,
    ) -> Result<ArrivalResult, Fault> {
        if !capabilities.is_empty() {
            // A repeat does not bind again: that would refill a capability that can be used once.
            if let Some(entry) = self.relay.inboxes().records().known(admitted.on(), &new_entry.dedup).await?
            {
                self.metrics.ignored(platform, "repeat");
                return Ok(ArrivalResult::Entry(entry));
            }
            // Bind before the entry is stored. A crash in between leaves a capability that expires unused; the other
            // order would show the agent a session whose capability is not there yet.
            let keys = session_key::plausible_of_interaction(&new_entry.event.source);
            let to = admitted.to();
            self.vault.bind(&to.tenant, &to.instance, &keys, new_entry.id.as_ref(), capabilities).await?;
        }
        Ok(match self.relay.inboxes().admit(admitted, new_entry).await? {
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
            Admission::Undeliverable => {
                self.metrics.ignored(platform, "undeliverable");
                ArrivalResult::Nothing
            }
        })
    }
}

/// The result for one arrival.
enum ArrivalResult {
    Entry(EntryId),
    Nothing,
    Full(LimitReached),
}
