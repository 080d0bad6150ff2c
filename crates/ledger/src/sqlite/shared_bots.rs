//! SQL of shared bots: the tenants that may use one and the agents that do.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{InstanceId, Platform, TenantId};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Sqlite, claims, roster};
use crate::bindings::ChangedPlace;
use crate::shared_bots::{AdmittedTenant, SharedBots, UseBotResult};
use crate::{BotRef, Deprovisioned, Fault};

/// Stands for every tenant.
const EVERY: &str = "*";

#[async_trait]
impl SharedBots for Sqlite {
    async fn admit_tenant(&self, on: &BotRef, tenant: &AdmittedTenant) -> Result<bool, Fault> {
        let (on, tenant) = (on.clone(), tenant.clone());
        self.write(move |db| {
            let key = [on.platform.as_str(), on.bot.as_str(), stored(&tenant)];
            let fits: bool = db.query_row(
                "SELECT EXISTS (SELECT 1 FROM bots WHERE platform = ?1 AND id = ?2 AND shared)
                   AND (?3 = '*' OR EXISTS (SELECT 1 FROM tenants WHERE id = ?3))",
                key,
                |row| row.get(0),
            )?;
            if fits {
                db.execute(
                    "INSERT OR IGNORE INTO bot_tenants (platform, bot, tenant) VALUES (?1, ?2, ?3)",
                    key,
                )?;
            }
            Ok(fits)
        })
        .await
    }

    async fn withdraw_tenant(
        &self,
        on: &BotRef,
        tenant: &AdmittedTenant,
    ) -> Result<(Vec<InstanceId>, Vec<ChangedPlace>), Fault> {
        let (on, tenant, now) = (on.clone(), tenant.clone(), self.timepiece.now());
        self.write(move |db| {
            db.execute(
                "DELETE FROM bot_tenants WHERE platform = ?1 AND bot = ?2 AND tenant = ?3",
                [on.platform.as_str(), on.bot.as_str(), stored(&tenant)],
            )?;
            let (mut agents, mut places) = (Vec::new(), Vec::new());
            for agent in agents_on(db, &on)? {
                if is_of(db, &agent, &tenant)? && !is_admitted(db, &agent, &on)? {
                    places.extend(stop_fronting(db, &agent, &on, now)?);
                    agents.push(agent);
                }
            }
            Ok((agents, places))
        })
        .await
    }

    async fn admitted_tenants(&self, on: &BotRef) -> Result<Vec<AdmittedTenant>, Fault> {
        let on = on.clone();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT tenant FROM bot_tenants WHERE platform = ?1 AND bot = ?2 ORDER BY tenant",
            )?
            .query_map([on.platform.as_str(), on.bot.as_str()], |row| {
                row.get::<_, String>(0).map(|tenant| match tenant.as_str() {
                    EVERY => AdmittedTenant::Every,
                    _ => AdmittedTenant::One(tenant.into()),
                })
            })?
            .collect()
        })
        .await
    }

    async fn bots_for_tenant(&self, tenant: &TenantId, platform: &Platform) -> Result<Vec<BotRef>, Fault> {
        let (tenant, platform) = (tenant.clone(), platform.clone());
        self.read(move |db| bots_for(db, &tenant, &platform)).await
    }

    async fn use_bot(&self, of: &InstanceId, on: &BotRef) -> Result<UseBotResult, Fault> {
        let (of, on, now) = (of.clone(), on.clone(), self.timepiece.now());
        self.write(move |db| use_bot(db, &of, &on, now)).await
    }

    async fn require_address(&self, on: &BotRef) -> Result<bool, Fault> {
        let on = on.clone();
        self.read(move |db| {
            let required: Option<bool> = db
                .prepare_cached("SELECT max(require_address) FROM bots WHERE platform = ?1 AND id = ?2")?
                .query_row([on.platform.as_str(), on.bot.as_str()], |row| row.get(0))?;
            Ok(required.unwrap_or(true))
        })
        .await
    }

    async fn set_require_address(&self, on: &BotRef, required: bool) -> Result<bool, Fault> {
        let on = on.clone();
        self.write(move |db| {
            db.execute(
                "UPDATE bots SET require_address = ?3 WHERE platform = ?1 AND id = ?2",
                params![on.platform.as_str(), on.bot.as_str(), required],
            )
            .map(|rows| rows > 0)
        })
        .await
    }

    async fn agents_on(&self, on: &BotRef) -> Result<Vec<InstanceId>, Fault> {
        let on = on.clone();
        self.read(move |db| agents_on(db, &on)).await
    }

    async fn profile(&self, of: &InstanceId) -> Result<Option<String>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            let found = db
                .prepare_cached("SELECT profile FROM instances WHERE id = ?1")?
                .query_row([of.as_str()], |row| row.get(0))
                .optional()?;
            Ok(found.flatten())
        })
        .await
    }

    async fn set_profile(&self, of: &InstanceId, profile: Option<&str>) -> Result<(), Fault> {
        let (of, profile) = (of.clone(), profile.map(str::to_owned));
        self.write(move |db| {
            db.execute("UPDATE instances SET profile = ?2 WHERE id = ?1", params![of.as_str(), profile])
                .map(drop)
        })
        .await
    }

    async fn deprovision(&self, id: &InstanceId) -> Result<Deprovisioned, Fault> {
        let owner = self.tenant_of(id);
        let (id, now) = (id.clone(), self.timepiece.now());
        self.write_for(owner, move |db| roster::deprovision(db, &id, now)).await
    }
}

/// The shared bots of a platform that a tenant's agents may use.
pub(super) fn bots_for(
    db: &Connection,
    tenant: &TenantId,
    platform: &Platform,
) -> rusqlite::Result<Vec<BotRef>> {
    db.prepare_cached(
        "SELECT DISTINCT bot FROM bot_tenants WHERE platform = ?1 AND tenant IN (?2, '*') ORDER BY bot",
    )?
    .query_map([platform.as_str(), tenant.as_str()], |row| {
        Ok(BotRef { platform: platform.clone(), bot: row.get::<_, String>(0)?.into() })
    })?
    .collect()
}

fn stored(tenant: &AdmittedTenant) -> &str {
    match tenant {
        AdmittedTenant::Every => EVERY,
        AdmittedTenant::One(tenant) => tenant.as_str(),
    }
}

pub(super) fn use_bot(
    db: &Connection,
    of: &InstanceId,
    on: &BotRef,
    now: Moment,
) -> rusqlite::Result<UseBotResult> {
    if !is_admitted(db, of, on)? {
        return Ok(UseBotResult::Refused);
    }
    db.execute(
        "INSERT OR IGNORE INTO fronts (instance, platform, bot, created) VALUES (?1, ?2, ?3, ?4)",
        params![of.as_str(), on.platform.as_str(), on.bot.as_str(), now.millis()],
    )?;
    Ok(UseBotResult::Uses)
}

/// Whether the agent's tenant may use this shared bot.
fn is_admitted(db: &Connection, of: &InstanceId, on: &BotRef) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM instances
           JOIN bots ON bots.platform = ?2 AND bots.id = ?3 AND bots.shared
           JOIN bot_tenants ON bot_tenants.platform = bots.platform AND bot_tenants.bot = bots.id
             AND bot_tenants.tenant IN (instances.tenant, '*')
           WHERE instances.id = ?1)",
    )?
    .query_row([of.as_str(), on.platform.as_str(), on.bot.as_str()], |row| row.get(0))
}

/// Whether the agent belongs to this tenant.
fn is_of(db: &Connection, agent: &InstanceId, tenant: &AdmittedTenant) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT EXISTS (SELECT 1 FROM instances WHERE id = ?1 AND ?2 IN (tenant, '*'))")?
        .query_row([agent.as_str(), stored(tenant)], |row| row.get(0))
}

/// Takes a bot from an agent, with its claims there and what waits because of them. Operator routes stay.
fn stop_fronting(
    db: &Connection,
    of: &InstanceId,
    on: &BotRef,
    now: Moment,
) -> rusqlite::Result<Vec<ChangedPlace>> {
    let key = [of.as_str(), on.platform.as_str(), on.bot.as_str()];
    for table in ["fronts", "claims", "author_places"] {
        db.execute(&format!("DELETE FROM {table} WHERE instance = ?1 AND platform = ?2 AND bot = ?3"), key)?;
    }
    let live = claims::live_of(db, of, |live| live.on == *on)?;
    let gone = claims::remove_live(db, live, now)?;
    roster::end_unrouted(db, on, of, now)?;
    Ok(gone)
}

/// The agents that use a bot, by a route or without one.
fn agents_on(db: &Connection, on: &BotRef) -> rusqlite::Result<Vec<InstanceId>> {
    db.prepare_cached(
        "SELECT instance FROM routes WHERE platform = ?1 AND bot = ?2
         UNION SELECT instance FROM fronts WHERE platform = ?1 AND bot = ?2 ORDER BY 1",
    )?
    .query_map([on.platform.as_str(), on.bot.as_str()], |row| row.get::<_, String>(0).map(InstanceId::from))?
    .collect()
}
