//! Large answers: lists and search results that are built in memory, a few at once.
//!
//! Such an answer has up to 32 MiB, and takes up several times as much until it is written as JSON. One client can ask
//! for a thousand of them at once, so the others wait in line before anything is read for them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use posthouse_wire::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest answer that is a list, in bytes.
pub(crate) const LARGEST_ANSWER: usize = 32 << 20;
/// Large answers of one tenant that are built at once.
const OF_A_TENANT: usize = 4;
/// Large answers that are built at once in addition to the first one of each tenant.
const IN_ADDITION: usize = 8;

/// Turns to build a large answer. Every tenant can always build one, so no other tenant can hold it up.
pub struct LargeAnswers {
    tenants: Mutex<HashMap<TenantId, Weak<Semaphore>>>,
    additional: Arc<Semaphore>,
}

/// A turn. It is held until the response exists; from then on its bytes count as unsent.
pub struct AnswerTurn {
    _of_tenant: Option<OwnedSemaphorePermit>,
    _additional: Option<OwnedSemaphorePermit>,
    /// The tenant's line exists for as long as somebody is in it.
    _line: Arc<Semaphore>,
}

impl Default for LargeAnswers {
    fn default() -> Self {
        Self { tenants: Mutex::default(), additional: Arc::new(Semaphore::new(IN_ADDITION)) }
    }
}

impl LargeAnswers {
    /// Waits for the tenant's turn. Callers of one tenant get theirs in the order in which they came.
    pub async fn turn(&self, tenant: &TenantId) -> AnswerTurn {
        let line = self.line(tenant);
        // The semaphores are never closed.
        let of_tenant = Arc::clone(&line).acquire_owned().await.ok();
        let is_first = line.available_permits() == OF_A_TENANT - 1;
        let additional = match is_first {
            true => None,
            false => Arc::clone(&self.additional).acquire_owned().await.ok(),
        };
        AnswerTurn { _of_tenant: of_tenant, _additional: additional, _line: line }
    }

    fn line(&self, tenant: &TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock();
        if let Some(line) = tenants.get(tenant).and_then(Weak::upgrade) {
            return line;
        }
        tenants.retain(|_, line| line.strong_count() > 0);
        let line = Arc::new(Semaphore::new(OF_A_TENANT));
        tenants.insert(tenant.clone(), Arc::downgrade(&line));
        line
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_tenant_builds_a_few_answers_at_once_and_every_other_tenant_can_build_one() {
        let answers = LargeAnswers::default();
        let turn = |tenant: &str| answers.turn(&tenant.into()).now_or_never();
        let held: Vec<_> = (0..OF_A_TENANT).map(|_| turn("acme").unwrap()).collect();
        assert!(turn("acme").is_none());
        let greedy: Vec<_> = (0..9)
            .flat_map(|tenant| (0..4).filter_map(|_| turn(&format!("t{tenant}"))).collect::<Vec<_>>())
            .collect();
        assert_eq!(held.len() + greedy.len(), 1 + 9 + IN_ADDITION);
        let zen = turn("zen").expect("every tenant can build one");
        drop((held, greedy, zen));
        assert!(turn("acme").is_some());
        assert_eq!(answers.tenants.lock().len(), 1, "nobody is remembered for nothing");
    }

    #[tokio::test]
    async fn callers_of_one_tenant_get_their_turns_in_order() {
        let answers = LargeAnswers::default();
        let acme = "acme".into();
        let mut held: Vec<_> =
            (0..OF_A_TENANT).map(|_| answers.turn(&acme).now_or_never().unwrap()).collect();
        let (mut first, mut second) = (Box::pin(answers.turn(&acme)), Box::pin(answers.turn(&acme)));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        held.pop();
        assert!(second.as_mut().now_or_never().is_none());
        assert!(first.as_mut().now_or_never().is_some());
    }
}
