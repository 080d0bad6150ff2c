//! Expiry of messages that waited too long for their agent, as the policy of their route says.
//!
//! A socket never hands over an entry that is due to expire. Its entries end here, and so do those of agents that are
//! not connected. An entry that an agent has got and not acknowledged yet does not expire while the agent is connected.

use std::collections::HashMap;
use std::sync::Arc;

use ledger::{Entry, ExpiredEntry, Inbox};
use parking_lot::Mutex;
use posthouse_wire::{EntryId, InstanceId};

use crate::background::RelayTasks;
use crate::connections::Connections;
use crate::{Fault, Metrics};

/// Entries of one agent that expire in one pass, and those that sockets may report until the next pass. The rest
/// follows in later passes.
const OF_AN_AGENT: u16 = 128;

/// Ends stale entries.
pub struct Expirations {
    records: Arc<dyn Inbox>,
    connections: Arc<Connections>,
    metrics: Arc<Metrics>,
    background: RelayTasks,
    /// Due entries that sockets came across and did not hand over. At most [`OF_AN_AGENT`] for each connected agent.
    skipped: Mutex<HashMap<InstanceId, Vec<EntryId>>>,
}

impl Expirations {
    pub(crate) fn new(
        records: Arc<dyn Inbox>,
        connections: Arc<Connections>,
        metrics: Arc<Metrics>,
        background: RelayTasks,
    ) -> Self {
        Self { records, connections, metrics, background, skipped: Mutex::default() }
    }

    /// Notes an entry that a socket did not hand over because it is due to expire. One that does not fit is read
    /// again after the next pass.
    pub(crate) fn skipped(&self, entry: &Entry) {
        let mut skipped = self.skipped.lock();
        let entries = skipped.entry(entry.instance.clone()).or_default();
        if entries.len() < usize::from(OF_AN_AGENT) {
            entries.push(entry.id.clone());
        }
    }

    /// Records that an entry was handed over with a line that says how old it is.
    pub(crate) fn handed_late(&self, entry: &Entry) {
        self.metrics.entries_stale("mark", 1);
        let (records, agent, entry) = (Arc::clone(&self.records), entry.instance.clone(), entry.id.clone());
        self.background.tasks.spawn(async move {
            if let Err(fault) = records.handed_late(&agent, &entry).await {
                tracing::error!(%fault, "could not record that an entry was marked as late");
            }
        });
    }

    /// Ends entries that are due. Returns them, so that their senders can be told.
    pub async fn expire_due(&self) -> Result<Vec<ExpiredEntry>, Fault> {
        let skipped = std::mem::take(&mut *self.skipped.lock());
        let mut expired = Vec::new();
        for (agent, entries) in skipped {
            let is_full = entries.len() == usize::from(OF_AN_AGENT);
            let ended = self.records.expire(&agent, Some(entries), OF_AN_AGENT).await;
            if is_full || ended.is_err() {
                // The socket has passed entries that are still waiting.
                self.connections.read_inbox_again(&agent);
            }
            expired.extend(ended?);
        }
        for agent in self.records.agents_with_expired().await? {
            if !self.connections.presence(&agent).connected {
                expired.extend(self.records.expire(&agent, None, OF_AN_AGENT).await?);
            }
        }
        self.metrics.entries_stale("expire", expired.len());
        Ok(expired)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ledger::{StaleAction, StalePolicy};

    use super::*;
    use crate::tests::{Records, bot_of};

    #[tokio::test]
    async fn a_due_entry_expires_while_its_agent_is_away_or_when_a_socket_has_skipped_it() {
        let records = Records::open().await;
        let (heron, egret) = (records.enrol("heron").await.instance, records.enrol("egret").await.instance);
        let connections = records.connections();
        let inbox = records.ledger.inbox();
        let expirations = Expirations::new(
            Arc::clone(&inbox),
            Arc::clone(&connections),
            Arc::default(),
            records.background(),
        );
        let stale = StalePolicy { after: Duration::from_secs(60), action: StaleAction::Expire };
        let away = records.append(&heron, &bot_of("heron"), Some(stale)).await;
        let connected = records.append(&egret, &bot_of("egret"), Some(stale)).await;
        connections.with_live_socket(&egret, |_| {});
        assert!(expirations.expire_due().await.unwrap().is_empty(), "nothing is due yet");
        records.clock.wind(Duration::from_secs(61));
        let expired = expirations.expire_due().await.unwrap();
        assert_eq!(expired.iter().map(|expired| &expired.entry).collect::<Vec<_>>(), [&away]);
        let skipped = inbox.unread(&egret, ledger::Seq(0), 1).await.unwrap().remove(0);
        expirations.skipped(&skipped);
        let expired = expirations.expire_due().await.unwrap();
        assert_eq!(expired.iter().map(|expired| &expired.entry).collect::<Vec<_>>(), [&connected]);
    }
}
