//! Callers that wait for the answer to a question, and their notification.

use dashmap::DashMap;
use posthouse_wire::{CorrelationId, TenantId};
use tokio::sync::watch;

/// Notification channels by question. A notification only means that the record may have changed.
#[derive(Default)]
pub(crate) struct AnswerWaiters(DashMap<(TenantId, CorrelationId), watch::Sender<u64>>);

/// One waiting caller.
pub(crate) struct AnswerWaiter<'a> {
    waiters: &'a AnswerWaiters,
    question: (TenantId, CorrelationId),
    changes: Option<watch::Receiver<u64>>,
}

impl AnswerWaiters {
    pub fn wait(&self, tenant: &TenantId, correlation: &CorrelationId) -> AnswerWaiter<'_> {
        let question = (tenant.clone(), correlation.clone());
        let changes = self.0.entry(question.clone()).or_insert_with(|| watch::Sender::new(0)).subscribe();
        AnswerWaiter { waiters: self, question, changes: Some(changes) }
    }

    /// Notifies all waiting callers.
    pub fn notify_all(&self) {
        self.0.iter().for_each(|waiting| waiting.send_modify(|count| *count += 1));
    }

    /// Notifies all waiting callers of this tenant.
    pub fn notify_tenant(&self, tenant: &TenantId) {
        let theirs = self.0.iter().filter(|waiting| waiting.key().0 == *tenant);
        theirs.for_each(|waiting| waiting.send_modify(|count| *count += 1));
    }

    pub fn notify(&self, tenant: &TenantId, correlation: &CorrelationId) {
        if let Some(waiting) = self.0.get(&(tenant.clone(), correlation.clone())) {
            waiting.send_modify(|count| *count += 1);
        }
    }
}

impl AnswerWaiter<'_> {
    /// Resolves when something has changed since the last look.
    pub async fn changed(&mut self) {
        let changed = match &mut self.changes {
            Some(changes) => changes.changed().await.is_ok(),
            None => false,
        };
        if !changed {
            // Unreachable: the sender lives as long as any receiver. Callers have a deadline anyway.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for AnswerWaiter<'_> {
    fn drop(&mut self) {
        self.changes = None;
        self.waiters.0.remove_if(&self.question, |_, changes| changes.receiver_count() == 0);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn callers_of_a_question_are_notified_and_forgotten_with_the_last_of_them() {
        let waiters = AnswerWaiters::default();
        let (acme, zeta) = (TenantId::from("acme"), TenantId::from("zeta"));
        let question = CorrelationId::from("q-1");
        let mut waiter = waiters.wait(&acme, &question);
        waiters.notify(&zeta, &question);
        waiters.notify_tenant(&zeta);
        assert!(waiter.changed().now_or_never().is_none(), "another tenant's question has the same id");
        waiters.notify(&acme, &question);
        assert!(waiter.changed().now_or_never().is_some());
        waiters.notify_all();
        assert!(waiter.changed().now_or_never().is_some());
        drop(waiter);
        assert!(waiters.0.is_empty());
    }
}
