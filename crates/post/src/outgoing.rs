//! Background loops of the post: retries, unreported attempts, collection of answers, timeouts of questions.

use std::sync::Arc;
use std::time::Duration;

use identity::RosterChange;
use ledger::{Answered, DispatchVerb, Exchange, ExchangeState, Outgoing};
use posthouse_time::Moment;
use posthouse_wire::{CorrelationId, TenantId};

use crate::dispatch::{Attempt, Begun, FULL_PAUSE, LEASE};
use crate::tenant_rounds::TenantRounds;
use crate::{Fault, Post};

/// Pause after a fault of the ledger.
const TROUBLE: Duration = Duration::from_secs(1);
/// The longest time between two reads of the ledger, because another node may have left work there.
const LOOK: Duration = Duration::from_secs(30);
/// Delay between the starts of two loops.
const TURN: Duration = Duration::from_millis(200);
/// Interval of polling for answers.
const COLLECT: Duration = Duration::from_millis(250);
/// Page size when questions are read to poll for their answers.
const COLLECTED: u32 = 1000;
/// Time after the deadline during which answers are still polled for, less often, to be stored as late replies.
const LATE: Duration = Duration::from_secs(24 * 3600);
/// Concurrent polls of one tenant, and the time limit of one poll.
const SIDE_BY_SIDE: usize = 4;
const LOOKED_WITHIN: Duration = Duration::from_secs(5);
/// Questions that are ended in one transaction.
const EXPIRED: u32 = 500;

impl Post {
    /// Releases the leases of attempts that a crashed server left. Called before the server accepts requests.
    pub async fn take_over(&self) -> Result<(), Fault> {
        Ok(self.0.receipts.free_outgoing().await?)
    }

    /// Runs the background loops until shutdown.
    pub async fn run(&self) -> Result<(), Fault> {
        tokio::join!(
            self.keep_sending(),
            self.in_turn(1, self.keep_ending()),
            self.in_turn(2, self.keep_collecting()),
            self.in_turn(3, self.keep_alarms()),
            self.keep_watching()
        );
        Ok(())
    }

    /// Starts a loop after the ones before it. Simultaneous reads each take a database reader and a thread, which an
    /// idle server does not need.
    async fn in_turn(&self, place: u32, running: impl Future<Output = ()>) {
        tokio::select! {
            () = self.0.closing.cancelled() => {}
            () = self.0.timepiece.after(TURN * place) => running.await,
        }
    }

    /// Wakes waiting callers after roster changes: removing an agent or connector also ends its questions.
    async fn keep_watching(&self) {
        let mut roster = self.0.identity.roster.watch();
        loop {
            let changed = tokio::select! {
                () = self.0.closing.cancelled() => return,
                changed = roster.changed() => changed,
            };
            match changed {
                Some(RosterChange::Tenant(tenant)) => self.0.waiting.tell_tenant(&tenant),
                Some(
                    RosterChange::Agent(_)
                    | RosterChange::Bot(_)
                    | RosterChange::Client(_)
                    | RosterChange::Login(_),
                ) => {}
                Some(RosterChange::Anything) => self.0.waiting.tell_all(),
                None => return,
            }
        }
    }

    async fn keep_alarms(&self) {
        loop {
            let again = async {
                match self.set_alarms_again().await {
                    Ok(()) => self.0.alarms.notified().await,
                    Err(fault) => {
                        tracing::error!(%fault, "could not restore the alarms of scheduled wakes");
                        self.0.timepiece.after(TROUBLE).await;
                    }
                }
            };
            tokio::select! {
                () = self.0.closing.cancelled() => return,
                () = again => {}
            }
        }
    }

    async fn keep_sending(&self) {
        while !self.0.closing.is_cancelled() {
            let next = match self.send_due().await {
                Ok(next) => next,
                Err(fault) => {
                    tracing::error!(%fault, "could not send due deliveries");
                    Some(TROUBLE)
                }
            };
            self.pause(next, &self.0.nudge).await;
        }
    }

    /// Starts all due deliveries, up to the limits, and returns the time until the next one. A tenant without a running
    /// attempt may always start one. An attempt that ends wakes this loop.
    async fn send_due(&self) -> Result<Option<Duration>, Fault> {
        // What is not started stays due for the next start of the server.
        while !self.0.closing.is_cancelled() {
            let hand = Arc::clone(&self.0.hands).try_acquire_owned().ok();
            let (turns, waiting) = match hand {
                Some(_) => (self.0.busy.in_turn(), self.0.busy.full()),
                None => (vec![self.0.busy.any()], self.0.busy.any()),
            };
            let Some(outgoing) = self.claim(turns).await? else {
                let asked = self.0.timepiece.instant();
                let next = self.0.receipts.next_outgoing(&waiting).await?;
                return Ok(next.map(|left| (asked + left).since(self.0.timepiece.instant())));
            };
            let tenant = &outgoing.receipt.tenant;
            let hand = hand.filter(|_| self.0.busy.has_any(tenant));
            // Questions do not count: a receiver may hold its response until the deadline, and open questions have a
            // limit of their own.
            let place =
                (outgoing.receipt.verb != DispatchVerb::Exchange).then(|| (hand, self.0.busy.enter(tenant)));
            let post = self.clone();
            // Tracked, so that shutdown waits for the attempt. Its result would be unknown otherwise.
            self.0.tasks.spawn(async move {
                if let Err(fault) = post.attempt_again(outgoing).await {
                    tracing::error!(%fault, "could not record an attempt: it will be made again");
                }
                drop(place);
                post.0.nudge.notify_one();
            });
        }
        Ok(None)
    }

    /// One more attempt at a due delivery. A full inbox only postpones it, because it was accepted.
    async fn attempt_again(&self, outgoing: Outgoing) -> Result<(), Fault> {
        let key = outgoing.receipt.key;
        if self.attempt_promised(outgoing, Begun::Perhaps).await? == Attempt::InboxFull {
            let until = self.0.timepiece.now() + FULL_PAUSE;
            self.0.receipts.hold(key, until).await?;
        }
        Ok(())
    }

    /// Claims the next delivery, preferring the tenants with the fewest running attempts. Slow receivers of one tenant
    /// delay only its own deliveries.
    async fn claim(&self, turns: Vec<Vec<TenantId>>) -> Result<Option<Outgoing>, Fault> {
        let now = self.0.timepiece.now();
        for busier in turns {
            let due = self.0.receipts.claim_outgoing(now + LEASE, &busier, 1).await?;
            if let Some(outgoing) = due.into_iter().next() {
                return Ok(Some(outgoing));
            }
        }
        Ok(None)
    }

    /// Ends questions past their deadline.
    async fn keep_ending(&self) {
        while !self.0.closing.is_cancelled() {
            let next = match self.end_due().await {
                Ok(next) => next,
                Err(fault) => {
                    tracing::error!(%fault, "could not end questions past their deadline");
                    Some(TROUBLE)
                }
            };
            self.pause(next, &self.0.asked).await;
        }
    }

    /// Ends due questions, and returns the time until the next deadline.
    pub(crate) async fn end_due(&self) -> Result<Option<Duration>, Fault> {
        self.end_begun().await?;
        loop {
            let writing = self.0.writing.going_on(self.0.timepiece.instant());
            let ended = self.0.exchanges.expire(self.0.timepiece.now(), EXPIRED, writing).await?;
            if ended.is_empty() {
                let asked = self.0.timepiece.instant();
                let deadline = self.0.exchanges.next_deadline().await?;
                let now = self.0.timepiece.instant();
                let deadline = deadline.map(|left| (asked + left).since(now));
                let turn = self.0.writing.next_end(now);
                return Ok(deadline.into_iter().chain(turn).min());
            }
            for (tenant, correlation) in &ended {
                self.0.waiting.tell(tenant, correlation);
                if let Err(fault) = self.take_back(tenant, correlation).await {
                    tracing::error!(%fault, "could not recall a timed-out question from the agent's inbox");
                }
            }
        }
    }

    /// Answers questions with the part of an answer that was shown, if the agent's turn is over.
    async fn end_begun(&self) -> Result<(), Fault> {
        for ((instance, chat), (tenant, correlation)) in self.0.writing.over(self.0.timepiece.instant()) {
            let now = self.0.timepiece.now();
            if self.0.exchanges.answer_with_begun(&tenant, &correlation, now).await? {
                self.0.metrics.answered(Answered::First);
                self.0.waiting.tell(&tenant, &correlation);
            }
            self.0.writing.forget(&instance, &chat);
        }
        Ok(())
    }

    /// Removes a timed-out question from the agent's inbox. The agent's turn would cost money, and nobody waits for the
    /// answer.
    async fn take_back(&self, tenant: &TenantId, correlation: &CorrelationId) -> Result<(), Fault> {
        let Some(exchange) = self.0.exchanges.exchange(tenant, correlation).await? else { return Ok(()) };
        if let (Some(instance), Some(chat)) = (&exchange.instance, &exchange.chat) {
            self.0.writing.forget(instance, chat);
        }
        if exchange.state == ExchangeState::Answered {
            // At the deadline, the shown part of the answer became the answer.
            self.0.metrics.answered(Answered::First);
            return Ok(());
        }
        self.0.metrics.timed_out();
        let Some(instance) = &exchange.instance else { return Ok(()) };
        for receipt in self.0.receipts.receipts_of(Some(tenant), None, &exchange.dispatch).await? {
            if let Some(entry) = &receipt.entry {
                self.0.relay.recall(instance, entry).await?;
            }
        }
        Ok(())
    }

    /// Polls connectors for answers. It keeps no state: after a restart the open questions are read from the ledger.
    async fn keep_collecting(&self) {
        let mut late_ones = self.0.timepiece.instant();
        while !self.0.closing.is_cancelled() {
            let now = self.0.timepiece.instant();
            let looked = match now >= late_ones {
                true => {
                    late_ones = now + LOOK;
                    self.collect_late(self.0.timepiece.now()).await
                }
                false => Ok(()),
            };
            let next = match looked.and(self.collect().await) {
                Ok(0) => None,
                Ok(_) => Some(COLLECT),
                Err(fault) => {
                    tracing::error!(%fault, "could not look for answers");
                    Some(TROUBLE)
                }
            };
            self.pause(next, &self.0.collecting).await;
        }
    }

    /// Polls for answers to open questions, and returns their number.
    async fn collect(&self) -> Result<usize, Fault> {
        let (mut after, mut open) = (None, Vec::new());
        // All pages, so that many questions of one tenant do not hide those of another.
        while !self.0.closing.is_cancelled() {
            let page = self.0.exchanges.uncollected(after, COLLECTED).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            open.extend(page.into_iter().map(|(_, exchange)| exchange));
        }
        let count = open.len();
        self.look_for_all(&self.0.looks, open);
        Ok(count)
    }

    /// Polls for late answers, which are stored with the receipt.
    async fn collect_late(&self, now: Moment) -> Result<(), Fault> {
        let (mut after, mut late) = (None, Vec::new());
        while !self.0.closing.is_cancelled() {
            let page = self.0.exchanges.overdue(now - LATE, after, COLLECTED).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            late.extend(page.into_iter().map(|(_, exchange)| exchange));
        }
        self.look_for_all(&self.0.late_looks, late);
        Ok(())
    }

    /// Starts one polling round per tenant. The rounds run concurrently, so slow folders delay only their own tenant.
    fn look_for_all(&self, rounds: &TenantRounds, questions: Vec<Exchange>) {
        let questions = questions.into_iter().map(|exchange| (exchange.tenant.clone(), exchange)).collect();
        let post = self.clone();
        rounds.start(&self.0.tasks, questions, SIDE_BY_SIDE, move |exchange| {
            let post = post.clone();
            async move {
                if post.0.closing.is_cancelled() {
                    return;
                }
                if let Err(fault) = post.look_for(&exchange).await {
                    tracing::error!(%fault, "could not look for an answer");
                }
            }
        });
    }

    async fn look_for(&self, exchange: &Exchange) -> Result<(), Fault> {
        let Some(connector) = self.connector_of(exchange).await? else { return Ok(()) };
        let look = connector.collect(&exchange.agent, &exchange.dispatch, &exchange.correlation);
        // A poll of a hanging folder is given up and repeated later. An answer that was found is always stored.
        let Ok(found) = self.0.timepiece.within(LOOKED_WITHIN, look).await else { return Ok(()) };
        match found {
            Ok(Some(answer)) => {
                self.take_answer(exchange, answer).await?;
                // Last, so that a crash before this repeats the answer instead of losing it.
                Ok(self.0.exchanges.stop_looking(&exchange.tenant, &exchange.correlation).await?)
            }
            Ok(None) => Ok(()),
            Err(undone) => {
                tracing::debug!(%undone, "could not look for an answer");
                Ok(())
            }
        }
    }

    /// Waits for `next`, at most until the next regular read of the ledger, or until nudged.
    async fn pause(&self, next: Option<Duration>, nudge: &tokio::sync::Notify) {
        tokio::select! {
            () = self.0.closing.cancelled() => {}
            () = nudge.notified() => {}
            () = self.0.timepiece.after(next.map_or(LOOK, |next| next.min(LOOK))) => {}
        }
    }
}
