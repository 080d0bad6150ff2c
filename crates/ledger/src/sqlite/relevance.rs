//! SQL of relevance policies.

use async_trait::async_trait;
use posthouse_wire::{InstanceId, Platform};
use rusqlite::{OptionalExtension, Row, params};

use super::Sqlite;
use crate::Fault;
use crate::relevance::{PLATFORMS_OF_AN_AGENT, RelevancePolicies, RelevancePolicy};

const POLICY: &str =
    "SELECT platform, require_address, allow_other_bots, free_scopes FROM relevance_policies";

#[async_trait]
impl RelevancePolicies for Sqlite {
    async fn declare_relevance(
        &self,
        of: &InstanceId,
        on: &Platform,
        policy: RelevancePolicy,
    ) -> Result<bool, Fault> {
        let (of, on, now) = (of.clone(), on.clone(), self.timepiece.now());
        let scopes = serde_json::to_string(&policy.free_scopes).unwrap_or_default();
        self.write_for(self.tenant_of(&of), move |db| {
            db.execute(
                "INSERT INTO relevance_policies
                   (instance, platform, require_address, allow_other_bots, free_scopes, declared)
                 SELECT id, ?2, ?3, ?4, ?5, ?6 FROM instances
                 WHERE id = ?1 AND (SELECT count(*) FROM relevance_policies
                                    WHERE instance = ?1 AND platform <> ?2) < ?7
                 ON CONFLICT (instance, platform) DO UPDATE SET
                   require_address = excluded.require_address, allow_other_bots = excluded.allow_other_bots,
                   free_scopes = excluded.free_scopes, declared = excluded.declared",
                params![
                    of.as_str(),
                    on.as_str(),
                    policy.require_address,
                    policy.allow_other_bots,
                    scopes,
                    now.millis(),
                    PLATFORMS_OF_AN_AGENT
                ],
            )
            .map(|rows| rows > 0)
        })
        .await
    }

    async fn relevance(&self, of: &InstanceId, on: &Platform) -> Result<Option<RelevancePolicy>, Fault> {
        let (of, on) = (of.clone(), on.clone());
        self.read(move |db| {
            db.prepare_cached(&format!("{POLICY} WHERE instance = ?1 AND platform = ?2"))?
                .query_row([of.as_str(), on.as_str()], |row| policy(row).map(|(_, policy)| policy))
                .optional()
        })
        .await
    }

    async fn relevance_policies(&self, of: &InstanceId) -> Result<Vec<(Platform, RelevancePolicy)>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            db.prepare_cached(&format!("{POLICY} WHERE instance = ?1 ORDER BY platform"))?
                .query_map([of.as_str()], policy)?
                .collect()
        })
        .await
    }

    async fn clear_relevance(&self, of: &InstanceId) -> Result<(), Fault> {
        let owner = self.tenant_of(of);
        let of = of.clone();
        self.write_for(owner, move |db| {
            db.execute("DELETE FROM relevance_policies WHERE instance = ?1", [of.as_str()]).map(drop)
        })
        .await
    }
}

fn policy(row: &Row<'_>) -> rusqlite::Result<(Platform, RelevancePolicy)> {
    let policy = RelevancePolicy {
        require_address: row.get(1)?,
        allow_other_bots: row.get(2)?,
        // The server wrote the list itself. One that cannot be read frees no chat.
        free_scopes: serde_json::from_str(&row.get::<_, String>(3)?).unwrap_or_default(),
    };
    Ok((row.get::<_, String>(0)?.into(), policy))
}
