//! Callers that wait for the answer to a question.

use dashmap::DashMap;
use posthouse_wire::{CorrelationId, TenantId};
use tokio::sync::watch;

/// Notification channels by question. A notification only means that the record may have changed.
#[derive(Default)]
pub(crate) struct Waiting(DashMap<(TenantId, CorrelationId), watch::Sender<u64>>);

/// One waiting caller.
pub(crate) struct Place<'a> {
    waiting: &'a Waiting,
    question: (TenantId, CorrelationId),
    told: Option<watch::Receiver<u64>>,
}

impl Waiting {
    pub fn place(&self, tenant: &TenantId, correlation: &CorrelationId) -> Place<'_> {
        let question = (tenant.clone(), correlation.clone());
        let told = self.0.entry(question.clone()).or_insert_with(|| watch::Sender::new(0)).subscribe();
        Place { waiting: self, question, told: Some(told) }
    }

    /// Notifies all waiting callers.
    pub fn tell_all(&self) {
        self.0.iter().for_each(|waiting| waiting.send_modify(|times| *times += 1));
    }

    /// Notifies all waiting callers of this tenant.
    pub fn tell_tenant(&self, tenant: &TenantId) {
        let theirs = self.0.iter().filter(|waiting| waiting.key().0 == *tenant);
        theirs.for_each(|waiting| waiting.send_modify(|times| *times += 1));
    }

    pub fn tell(&self, tenant: &TenantId, correlation: &CorrelationId) {
        if let Some(waiting) = self.0.get(&(tenant.clone(), correlation.clone())) {
            waiting.send_modify(|times| *times += 1);
        }
    }
}

impl Place<'_> {
    /// Resolves when something has changed since the last look.
    pub async fn changed(&mut self) {
        let heard = match &mut self.told {
            Some(told) => told.changed().await.is_ok(),
            None => false,
        };
        if !heard {
            // Unreachable: the sender lives as long as any receiver. Callers have a deadline anyway.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.told = None;
        self.waiting.0.remove_if(&self.question, |_, told| told.receiver_count() == 0);
    }
}
