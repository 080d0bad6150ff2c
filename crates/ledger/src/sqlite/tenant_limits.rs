//! SQL of the limits of single tenants.

use std::collections::BTreeMap;

use async_trait::async_trait;
use posthouse_wire::TenantId;
use rusqlite::params;

use super::Sqlite;
use crate::Fault;
use crate::tenant_limits::{LimitName, OwnLimits, TenantLimits};

#[async_trait]
impl TenantLimits for Sqlite {
    async fn tenant_limits(&self, of: &TenantId) -> Result<OwnLimits, Fault> {
        let of = of.clone();
        let rows: Vec<(String, u32)> = self
            .read(move |db| {
                db.prepare_cached("SELECT name, value FROM tenant_limits WHERE tenant = ?1")?
                    .query_map([of.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?
                    .collect()
            })
            .await?;
        Ok(rows.into_iter().filter_map(|(name, value)| Some((name.parse().ok()?, value))).collect())
    }

    async fn set_tenant_limits(
        &self,
        of: &TenantId,
        changes: BTreeMap<LimitName, Option<u32>>,
    ) -> Result<bool, Fault> {
        let of = of.clone();
        self.write(move |db| {
            let exists: bool = db
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM tenants WHERE id = ?1)")?
                .query_row([of.as_str()], |row| row.get(0))?;
            if !exists {
                return Ok(false);
            }
            for (limit, value) in &changes {
                match value {
                    Some(value) => db.execute(
                        "INSERT INTO tenant_limits (tenant, name, value) VALUES (?1, ?2, ?3)
                         ON CONFLICT (tenant, name) DO UPDATE SET value = excluded.value",
                        params![of.as_str(), limit.as_str(), value],
                    )?,
                    None => db.execute(
                        "DELETE FROM tenant_limits WHERE tenant = ?1 AND name = ?2",
                        [of.as_str(), limit.as_str()],
                    )?,
                };
            }
            Ok(true)
        })
        .await
    }
}
