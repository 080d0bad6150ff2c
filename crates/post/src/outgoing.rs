//! What is still to be sent: attempts that failed, attempts that nobody reported, answers to be collected,
//! questions whose time is up.

use std::sync::Arc;
use std::time::Duration;

use ledger::Exchange;
use posthouse_time::Moment;

use crate::dispatch::{Begun, LEASE};
use crate::{Fault, Post};

/// How long a ledger in trouble is left alone.
const TROUBLE: Duration = Duration::from_secs(1);
/// Even when nothing is due, the ledger is looked at so often: another node may have left something.
const LOOK: Duration = Duration::from_secs(30);
/// Between two looks for answers that have to be looked for.
const COLLECT: Duration = Duration::from_millis(250);
/// Questions whose answers are looked for in one look.
const COLLECTED: u32 = 1000;
/// Questions ended at once.
const EXPIRED: u32 = 500;

impl Post {
    /// The loops of this plane, until the house closes.
    pub async fn run(&self) -> Result<(), Fault> {
        self.set_alarms_again().await?;
        tokio::join!(self.keep_sending(), self.keep_ending(), self.keep_collecting());
        Ok(())
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
            // A hand is waited for, whoever holds it: what is due stays due.
            let Ok(hand) = Arc::clone(&self.0.hands).acquire_owned().await else { return Ok(None) };
            let now = self.0.timepiece.now();
            let Some(outgoing) = self.0.receipts.claim_outgoing(now, now + LEASE, 1).await?.pop() else {
                return Ok(self.0.receipts.next_outgoing().await?);
            };
            let post = self.clone();
            // Tracked, so that the closing house waits for an attempt whose end would otherwise be unknown.
            self.0.tasks.spawn(async move {
                if let Err(fault) = post.attempt_promised(outgoing, Begun::Perhaps).await {
                    tracing::error!(%fault, "could not record an attempt: it will be made again");
                }
                drop(hand);
            });
        }
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
            }
        }
    }

    /// Looks for answers where they have to be looked for. Nothing is remembered of it: after a restart the
    /// open questions are on record.
    async fn keep_collecting(&self) {
        while !self.0.closing.is_cancelled() {
            let next = match self.collect().await {
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
        let open = self.0.exchanges.open_elsewhere(COLLECTED).await?;
        for exchange in &open {
            if let Some(answer) = self.look_for(exchange).await? {
                self.take_answer(exchange, answer).await?;
            }
        }
        Ok(open.len())
    }

    async fn look_for(&self, exchange: &Exchange) -> Result<Option<crate::connector::Answer>, Fault> {
        let Some(connector) = self.connector_of(exchange).await? else { return Ok(None) };
        match connector.collect(&exchange.agent, &exchange.dispatch).await {
            Ok(answer) => Ok(answer),
            Err(undone) => {
                tracing::debug!(%undone, "could not look for an answer");
                Ok(None)
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
