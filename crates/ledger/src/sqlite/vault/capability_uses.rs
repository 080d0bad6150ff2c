//! SQL of the uses of capabilities and bots' credentials.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ActionId, EntryId, InstanceId};
use rusqlite::{Row, params};

use crate::Fault;
use crate::sqlite::Sqlite;
use crate::vault::{CapabilityUses, CredentialUse};

/// Number of latest actions that are searched for uses of a bot's credentials. An index on the agent would find all of
/// them, but it would be written for every message that an agent sends.
const RECENT: i64 = 100_000;

#[async_trait]
impl CapabilityUses for Sqlite {
    async fn end_use(&self, number: i64, called: &str, outcome: &str) -> Result<(), Fault> {
        let (called, outcome) = (called.to_owned(), outcome.to_owned());
        self.write(move |db| {
            db.prepare_cached("UPDATE capability_uses SET called = ?2, outcome = ?3 WHERE seq = ?1")?
                .execute(params![number, called, outcome])
                .map(drop)
        })
        .await
    }

    async fn credential_uses(
        &self,
        of: &InstanceId,
        after: Option<(Moment, ActionId)>,
        at_most: u32,
    ) -> Result<Vec<CredentialUse>, Fault> {
        let of = of.clone();
        let (at, action) = match after {
            Some((at, action)) => (at.millis(), action.bytes()),
            None => (i64::MAX, None),
        };
        self.read(move |db| {
            db.prepare_cached(
                "SELECT * FROM (
                   SELECT at, kind, entry, action, called, outcome FROM capability_uses
                   WHERE instance = ?1 AND (at, coalesce(action, x'')) < (?2, coalesce(?5, x'')) ORDER BY seq DESC LIMIT ?3)
                 UNION ALL
                 SELECT * FROM (
                   SELECT coalesce(posted, received), platform || '.bot', answers, id, called,
                     CASE WHEN finished IS NULL THEN NULL WHEN success THEN 'ok' ELSE coalesce(error, 'failed') END
                   FROM actions
                   WHERE seq > (SELECT max(seq) FROM actions) - ?4 AND instance = ?1 AND called IS NOT NULL
                     AND (coalesce(posted, received), id) < (?2, coalesce(?5, x''))
                   ORDER BY seq DESC LIMIT ?3)
                 ORDER BY 1 DESC, 4 DESC LIMIT ?3",
            )?
            .query_map(params![of.as_str(), at, at_most, RECENT, action], credential_use)?
            .collect()
        })
        .await
    }
}

fn credential_use(row: &Row<'_>) -> rusqlite::Result<CredentialUse> {
    Ok(CredentialUse {
        at: Moment::from_millis(row.get(0)?),
        kind: row.get(1)?,
        entry: row.get::<_, Option<[u8; 16]>>(2)?.map(EntryId::from_bytes),
        action: row.get::<_, Option<[u8; 16]>>(3)?.map(ActionId::from_bytes),
        called: row.get(4)?,
        outcome: row.get(5)?,
    })
}
