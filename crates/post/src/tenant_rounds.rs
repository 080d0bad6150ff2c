//! Concurrent rounds of work per tenant, so that a slow tenant delays only itself.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::StreamExt;
use parking_lot::Mutex;
use posthouse_wire::TenantId;
use tokio_util::task::TaskTracker;

/// The tenants with a running round.
#[derive(Clone, Default)]
pub(crate) struct TenantRounds(Arc<Mutex<HashSet<TenantId>>>);

/// A running round of one tenant. It ends when this is dropped.
struct TenantRound {
    rounds: TenantRounds,
    tenant: TenantId,
}

impl TenantRounds {
    /// Starts a round for each tenant in `items`, with at most `side_by_side` of its items at the same time. A tenant
    /// whose last round is still running is skipped.
    pub fn start<T, W, F>(&self, tasks: &TaskTracker, items: Vec<(TenantId, T)>, side_by_side: usize, work: W)
    where
        T: Send + 'static,
        W: Fn(T) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let mut by_tenant = HashMap::<TenantId, Vec<T>>::new();
        for (tenant, item) in items {
            by_tenant.entry(tenant).or_default().push(item);
        }
        for (tenant, items) in by_tenant {
            let Some(round) = self.begin(tenant) else { continue };
            let work = work.clone();
            tasks.spawn(async move {
                futures_util::stream::iter(items).for_each_concurrent(side_by_side, work).await;
                drop(round);
            });
        }
    }

    fn begin(&self, tenant: TenantId) -> Option<TenantRound> {
        let begun = self.0.lock().insert(tenant.clone());
        begun.then(|| TenantRound { rounds: self.clone(), tenant })
    }
}

impl Drop for TenantRound {
    fn drop(&mut self) {
        self.rounds.0.lock().remove(&self.tenant);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, watch};

    use super::*;

    #[tokio::test]
    async fn answer_collection_of_one_tenant_leaves_that_of_another_alone() {
        let (rounds, tasks) = (TenantRounds::default(), TaskTracker::new());
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let open = watch::Sender::new(false);
        // Polls of acme hang until its folder responds again; those of zeta do not.
        let poll = {
            let open = open.clone();
            move |(tenant, number): (&'static str, u32)| {
                let (sender, mut open) = (sender.clone(), open.subscribe());
                async move {
                    let _ = sender.send((tenant, number, "begun"));
                    if tenant == "acme" {
                        let _ = open.wait_for(|open| *open).await;
                    }
                    let _ = sender.send((tenant, number, "done"));
                }
            }
        };
        let round = |numbers: std::ops::Range<u32>| {
            let acme = numbers.map(|number| (TenantId::from("acme"), ("acme", number)));
            acme.chain([(TenantId::from("zeta"), ("zeta", 0))]).collect::<Vec<_>>()
        };
        for _ in 0..3 {
            rounds.start(&tasks, round(0..100), 4, poll.clone());
            loop {
                match receiver.recv().await.unwrap() {
                    ("zeta", _, "done") => break,
                    ("acme", number, "begun") => assert!(number < 4, "only so many side by side"),
                    other => assert_eq!(other, ("zeta", 0, "begun")),
                }
            }
            while rounds.0.lock().contains("zeta") {
                tokio::task::yield_now().await;
            }
        }
        open.send_replace(true);
        tasks.close();
        tasks.wait().await;
        let mut done = 0;
        while let Ok((tenant, _, what)) = receiver.try_recv() {
            done += usize::from(tenant == "acme" && what == "done");
        }
        assert_eq!(done, 100, "its one round went on, and no second was begun beside it");
    }
}
