//! What is still to be sent: attempts that failed, attempts that nobody reported, answers to be collected,
//! questions whose time is up.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use ledger::{Exchange, Outgoing, Verb};
use posthouse_time::Moment;
use posthouse_wire::{CorrelationId, TenantId};

use crate::dispatch::{Begun, LEASE};
use crate::{Fault, Post};

/// How long a ledger in trouble is left alone.
const TROUBLE: Duration = Duration::from_secs(1);
/// Even when nothing is due, the ledger is looked at so often: another node may have left something.
const LOOK: Duration = Duration::from_secs(30);
/// Between the beginnings of two loops.
const TURN: Duration = Duration::from_millis(200);
/// Between two looks for answers that have to be looked for.
const COLLECT: Duration = Duration::from_millis(250);
/// Questions that are read at once to look for their answers.
const COLLECTED: u32 = 1000;
/// Answers to questions whose time is up are looked for a day longer, to be kept as late ones, and not as often.
const LATE: Duration = Duration::from_secs(24 * 3600);
/// Answers looked for side by side, and how long one look may take.
const SIDE_BY_SIDE: usize = 16;
const LOOKED_WITHIN: Duration = Duration::from_secs(5);
/// Questions ended at once.
const EXPIRED: u32 = 500;

impl Post {
    /// Before anything is served: what the last house was at when it fell is nobody's now.
    pub async fn take_over(&self) -> Result<(), Fault> {
        Ok(self.0.receipts.free_outgoing(self.0.timepiece.now()).await?)
    }

    /// The loops of this plane, until the house closes.
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

    /// Begins a loop after the ones before it. Reads that are made at the same moment each take a reader and a
    /// thread of their own, which a quiet house can do without.
    async fn in_turn(&self, place: u32, running: impl Future<Output = ()>) {
        tokio::select! {
            () = self.0.closing.cancelled() => {}
            () = self.0.timepiece.after(TURN * place) => running.await,
        }
    }

    /// An agent or connector that is removed takes the questions put to it along; whoever waits is told to look.
    async fn keep_watching(&self) {
        let mut roster = self.0.relay.watch_roster();
        loop {
            tokio::select! {
                () = self.0.closing.cancelled() => return,
                changed = roster.changed() => if !changed { return },
            }
            self.0.waiting.tell_all();
        }
    }

    async fn keep_alarms(&self) {
        loop {
            let again = async {
                match self.set_alarms_again().await {
                    Ok(()) => self.0.alarms.notified().await,
                    Err(fault) => {
                        tracing::error!(%fault, "could not set the alarms of scheduled wakes again");
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
                    tracing::error!(%fault, "could not send what is due");
                    Some(self.0.timepiece.now() + TROUBLE)
                }
            };
            self.pause_until(next, &self.0.nudge).await;
        }
    }

    /// Begins everything that is due, as far as there are hands, and says when the next is.
    async fn send_due(&self) -> Result<Option<Moment>, Fault> {
        loop {
            let hand = tokio::select! {
                // What is not begun stays due for the next house.
                () = self.0.closing.cancelled() => return Ok(None),
                hand = Arc::clone(&self.0.hands).acquire_owned() => hand,
            };
            let Ok(hand) = hand else { return Ok(None) };
            let Some(outgoing) = self.claim().await? else {
                return Ok(self.0.receipts.next_outgoing(&self.0.busy.full()).await?);
            };
            // A question may be held open by its receiver for as long as it is open, and there are only so many.
            let place = (outgoing.receipt.verb != Verb::Exchange)
                .then(|| (hand, self.0.busy.enter(&outgoing.receipt.tenant)));
            let post = self.clone();
            // Tracked, so that the closing house waits for an attempt whose end would otherwise be unknown.
            self.0.tasks.spawn(async move {
                if let Err(fault) = post.attempt_promised(outgoing, Begun::Perhaps).await {
                    tracing::error!(%fault, "could not record an attempt: it will be made again");
                }
                drop(place);
                post.0.nudge.notify_one();
            });
        }
    }

    /// The next delivery to be made, of whoever has the fewest under way: one tenant's slow receivers keep its
    /// own deliveries waiting and nobody else's.
    async fn claim(&self) -> Result<Option<Outgoing>, Fault> {
        let now = self.0.timepiece.now();
        for busier in self.0.busy.in_turn() {
            let due = self.0.receipts.claim_outgoing(now, now + LEASE, &busier, 1).await?;
            if let Some(outgoing) = due.into_iter().next() {
                return Ok(Some(outgoing));
            }
        }
        Ok(None)
    }

    /// Ends questions whose time is up.
    async fn keep_ending(&self) {
        while !self.0.closing.is_cancelled() {
            let next = match self.end_due().await {
                Ok(next) => next,
                Err(fault) => {
                    tracing::error!(%fault, "could not end questions whose time is up");
                    Some(self.0.timepiece.now() + TROUBLE)
                }
            };
            self.pause_until(next, &self.0.asked).await;
        }
    }

    pub(crate) async fn end_due(&self) -> Result<Option<Moment>, Fault> {
        loop {
            let ended = self.0.exchanges.expire(self.0.timepiece.now(), EXPIRED).await?;
            if ended.is_empty() {
                return Ok(self.0.exchanges.next_deadline().await?);
            }
            for (tenant, correlation) in &ended {
                self.0.metrics.timed_out();
                self.0.waiting.tell(tenant, correlation);
                if let Err(fault) = self.take_back(tenant, correlation).await {
                    tracing::error!(%fault, "could not take a question back that nobody waits for");
                }
            }
        }
    }

    /// An agent that slept through a question is not given it when it wakes: a turn costs money, and nobody
    /// waits for its answer.
    async fn take_back(&self, tenant: &TenantId, correlation: &CorrelationId) -> Result<(), Fault> {
        let Some(exchange) = self.0.exchanges.exchange(tenant, correlation).await? else { return Ok(()) };
        let Some(instance) = &exchange.instance else { return Ok(()) };
        for receipt in self.0.receipts.receipts_of(Some(tenant), None, &exchange.dispatch).await? {
            if let Some(entry) = &receipt.entry {
                self.0.relay.recall(instance, entry).await?;
            }
        }
        Ok(())
    }

    /// Looks for answers where they have to be looked for. Nothing is remembered of it: after a restart the
    /// open questions are on record.
    async fn keep_collecting(&self) {
        let mut late_ones = self.0.timepiece.now();
        while !self.0.closing.is_cancelled() {
            let now = self.0.timepiece.now();
            let looked = match now >= late_ones {
                true => {
                    late_ones = now + LOOK;
                    self.collect_late(now).await
                }
                false => Ok(()),
            };
            let next = match looked.and(self.collect().await) {
                Ok(0) => None,
                Ok(_) => Some(self.0.timepiece.now() + COLLECT),
                Err(fault) => {
                    tracing::error!(%fault, "could not look for answers");
                    Some(self.0.timepiece.now() + TROUBLE)
                }
            };
            self.pause_until(next, &self.0.collecting).await;
        }
    }

    /// How many questions are open whose answer may have to be looked for.
    async fn collect(&self) -> Result<usize, Fault> {
        let (mut after, mut open) = (None, 0);
        // All of them, or one tenant's many would keep another's answer from being found.
        while !self.0.closing.is_cancelled() {
            let page = self.0.exchanges.uncollected(after, COLLECTED).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            open += page.len();
            self.look_for_all(&page).await;
        }
        Ok(open)
    }

    /// An answer that nobody waits for any more is still told with the receipt.
    async fn collect_late(&self, now: Moment) -> Result<(), Fault> {
        let mut after = None;
        while !self.0.closing.is_cancelled() {
            let page = self.0.exchanges.overdue(now - LATE, after, COLLECTED).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            self.look_for_all(&page).await;
        }
        Ok(())
    }

    async fn look_for_all(&self, questions: &[(i64, Exchange)]) {
        let looks = async |(_, exchange): &(i64, Exchange)| {
            if let Err(fault) = self.look_for(exchange).await {
                tracing::error!(%fault, "could not look for an answer");
            }
        };
        futures_util::stream::iter(questions).for_each_concurrent(SIDE_BY_SIDE, looks).await;
    }

    async fn look_for(&self, exchange: &Exchange) -> Result<(), Fault> {
        let Some(connector) = self.connector_of(exchange).await? else { return Ok(()) };
        let look = connector.collect(&exchange.agent, &exchange.dispatch, &exchange.correlation);
        // A folder that hangs is looked into another time. What was found is kept in any case.
        let Ok(found) = self.0.timepiece.within(LOOKED_WITHIN, look).await else { return Ok(()) };
        match found {
            Ok(Some(answer)) => {
                self.take_answer(exchange, answer).await?;
                // Last, so that a house that falls here tells of it twice and not never.
                Ok(self.0.exchanges.stop_looking(&exchange.tenant, &exchange.correlation).await?)
            }
            Ok(None) => Ok(()),
            Err(undone) => {
                tracing::debug!(%undone, "could not look for an answer");
                Ok(())
            }
        }
    }

    async fn pause_until(&self, next: Option<Moment>, nudge: &tokio::sync::Notify) {
        let look = self.0.timepiece.now() + LOOK;
        tokio::select! {
            () = self.0.closing.cancelled() => {}
            () = nudge.notified() => {}
            () = self.0.timepiece.until(next.map_or(look, |next| next.min(look))) => {}
        }
    }
}
