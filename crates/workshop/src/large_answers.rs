//! Large answers: lists and search results that are built in memory, a few at once.
//!
//! Such an answer has up to 32 MiB, and takes up several times as much until it is written as JSON. One client can ask
//! for a thousand of them at once, so a few callers wait in line, and further ones are refused.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use http::StatusCode;
use http_kit::Problem;
use parking_lot::Mutex;
use posthouse_wire::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest answer that is a list, in bytes.
pub(crate) const LARGEST_ANSWER: usize = 32 << 20;
/// Large answers of one tenant that are built at once.
const OF_A_TENANT: usize = 4;
/// Large answers that are built at once in addition to the first one of each tenant.
const IN_ADDITION: usize = 8;
/// Callers of one tenant that build a large answer or wait for it. Each may hold a body of 6.4 MiB.
const IN_LINE: usize = 64;

const FULL: Problem = Problem::fixed(
    StatusCode::TOO_MANY_REQUESTS,
    "too_many_requests",
    "too many large answers of this tenant are asked for at once: try again later",
)
.retry_after(5);

/// Turns to build a large answer. Every tenant can always build one, so no other tenant can hold it up.
pub struct LargeAnswers {
    tenants: Mutex<HashMap<TenantId, Weak<TenantTurns>>>,
    additional: Arc<Semaphore>,
}

struct TenantTurns {
    in_line: Arc<Semaphore>,
    at_once: Arc<Semaphore>,
    /// The one answer that needs no additional turn.
    own: Arc<Semaphore>,
}

/// A turn. It is held until the response exists; from then on its bytes count as unsent.
pub struct AnswerTurn {
    _permits: [Option<OwnedSemaphorePermit>; 3],
    /// The turns of the tenant exist for as long as somebody is in its line.
    _tenant: Arc<TenantTurns>,
}

impl Default for LargeAnswers {
    fn default() -> Self {
        Self { tenants: Mutex::default(), additional: Arc::new(Semaphore::new(IN_ADDITION)) }
    }
}

impl Default for TenantTurns {
    fn default() -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self { in_line: semaphore(IN_LINE), at_once: semaphore(OF_A_TENANT), own: semaphore(1) }
    }
}

impl LargeAnswers {
    /// Waits for a turn of the tenant. Its callers get theirs in the order in which they came.
    pub async fn turn(&self, tenant: &TenantId) -> Result<AnswerTurn, Problem> {
        let tenant = self.tenant(tenant);
        let in_line = Arc::clone(&tenant.in_line).try_acquire_owned().map_err(|_| FULL)?;
        // The semaphores are never closed.
        let at_once = Arc::clone(&tenant.at_once).acquire_owned().await.ok();
        let turn = tokio::select! {
            biased;
            own = Arc::clone(&tenant.own).acquire_owned() => own.ok(),
            additional = Arc::clone(&self.additional).acquire_owned() => additional.ok(),
        };
        Ok(AnswerTurn { _permits: [Some(in_line), at_once, turn], _tenant: tenant })
    }

    fn tenant(&self, tenant: &TenantId) -> Arc<TenantTurns> {
        let mut tenants = self.tenants.lock();
        if let Some(turns) = tenants.get(tenant).and_then(Weak::upgrade) {
            return turns;
        }
        tenants.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::<TenantTurns>::default();
        tenants.insert(tenant.clone(), Arc::downgrade(&turns));
        turns
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
    async fn a_caller_that_waits_for_an_additional_turn_gets_the_tenants_own_when_it_is_free() {
        let answers = LargeAnswers::default();
        let turn = |tenant: &str| answers.turn(&tenant.into()).now_or_never();
        let first = turn("acme").unwrap();
        let mut held = Vec::new();
        for tenant in ["b", "c", "d"] {
            held.extend((0..OF_A_TENANT).map_while(|_| turn(tenant)));
        }
        assert_eq!(held.len(), 3 + IN_ADDITION);
        let acme = "acme".into();
        let mut second = Box::pin(answers.turn(&acme));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.as_mut().now_or_never().is_some(), "others hold all additional turns");
        drop(held);
    }

    #[tokio::test]
    async fn callers_of_one_tenant_get_their_turns_in_order_and_too_many_are_refused() {
        let answers = LargeAnswers::default();
        let acme = "acme".into();
        let mut held: Vec<_> =
            (0..OF_A_TENANT).map(|_| answers.turn(&acme).now_or_never().unwrap()).collect();
        let (mut first, mut second) = (Box::pin(answers.turn(&acme)), Box::pin(answers.turn(&acme)));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        let mut others: Vec<_> = (OF_A_TENANT + 2..IN_LINE).map(|_| Box::pin(answers.turn(&acme))).collect();
        assert!(others.iter_mut().all(|other| other.as_mut().now_or_never().is_none()));
        assert_eq!(answers.turn(&acme).await.err(), Some(FULL));
        held.pop();
        assert!(second.as_mut().now_or_never().is_none());
        assert!(first.as_mut().now_or_never().is_some());
    }
}
