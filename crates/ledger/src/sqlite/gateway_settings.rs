//! SQL of the settings of gateway credentials.

use async_trait::async_trait;
use posthouse_wire::{GatewayId, InstanceId};
use rusqlite::{Connection, OptionalExtension, params};

use super::Sqlite;
use crate::gateway_settings::{GatewaySettings, GatewaySetup};
use crate::{BotRef, Fault};

#[async_trait]
impl GatewaySettings for Sqlite {
    async fn gateway_setups(&self, of: &InstanceId) -> Result<Vec<GatewaySetup>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT id, wake_url FROM gateways WHERE instance = ?1 AND revoked IS NULL ORDER BY created, id",
            )?
            .query_map([of.as_str()], |row| {
                let gateway = GatewayId::from(row.get::<_, String>(0)?);
                Ok(GatewaySetup {
                    names: names(db, &gateway)?,
                    bots: bots(db, &gateway)?,
                    wake_url: row.get(1)?,
                    gateway,
                })
            })?
            .collect()
        })
        .await
    }

    async fn set_gateway_wake_url(
        &self,
        of: &InstanceId,
        gateway: &GatewayId,
        url: Option<&str>,
    ) -> Result<bool, Fault> {
        let owner = self.tenant_of(of);
        let (of, gateway, url) = (of.clone(), gateway.clone(), url.map(str::to_owned));
        self.write_for(owner, move |db| {
            Ok(is_good(db, &of, &gateway)? && set_wake_url(db, &gateway, url.as_deref())?)
        })
        .await
    }

    async fn set_gateway_bots(
        &self,
        of: &InstanceId,
        gateway: &GatewayId,
        bots: Vec<BotRef>,
    ) -> Result<bool, Fault> {
        let owner = self.tenant_of(of);
        let (of, gateway) = (of.clone(), gateway.clone());
        self.write_for(owner, move |db| {
            if !is_good(db, &of, &gateway)? {
                return Ok(false);
            }
            set_bots(db, &gateway, &bots)?;
            Ok(true)
        })
        .await
    }

    async fn gateway_bots(&self, gateway: &GatewayId) -> Result<Vec<BotRef>, Fault> {
        let gateway = gateway.clone();
        self.read(move |db| bots(db, &gateway)).await
    }

    async fn display_name(&self, of: &InstanceId) -> Result<Option<String>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            let found = db
                .prepare_cached("SELECT display_name FROM instances WHERE id = ?1")?
                .query_row([of.as_str()], |row| row.get(0))
                .optional()?;
            Ok(found.flatten())
        })
        .await
    }
}

pub(super) fn set_wake_url(
    db: &Connection,
    gateway: &GatewayId,
    url: Option<&str>,
) -> rusqlite::Result<bool> {
    db.execute(
        "UPDATE gateways SET wake_url = ?2, wake_url_set = ledger_time() WHERE id = ?1",
        params![gateway.as_str(), url],
    )
    .map(|rows| rows > 0)
}

pub(super) fn set_bots(db: &Connection, gateway: &GatewayId, bots: &[BotRef]) -> rusqlite::Result<()> {
    db.execute("DELETE FROM gateway_identities WHERE gateway = ?1", [gateway.as_str()])?;
    for on in bots {
        db.execute(
            "INSERT OR IGNORE INTO gateway_identities (gateway, platform, bot) VALUES (?1, ?2, ?3)",
            [gateway.as_str(), on.platform.as_str(), on.bot.as_str()],
        )?;
    }
    Ok(())
}

pub(super) fn bots(db: &Connection, gateway: &GatewayId) -> rusqlite::Result<Vec<BotRef>> {
    db.prepare_cached(
        "SELECT platform, bot FROM gateway_identities WHERE gateway = ?1 ORDER BY platform, bot",
    )?
    .query_map([gateway.as_str()], |row| {
        Ok(BotRef { platform: row.get::<_, String>(0)?.into(), bot: row.get::<_, String>(1)?.into() })
    })?
    .collect()
}

fn names(db: &Connection, gateway: &GatewayId) -> rusqlite::Result<Vec<String>> {
    db.prepare_cached("SELECT name FROM gateway_names WHERE gateway = ?1 ORDER BY name")?
        .query_map([gateway.as_str()], |row| row.get(0))?
        .collect()
}

fn is_good(db: &Connection, of: &InstanceId, gateway: &GatewayId) -> rusqlite::Result<bool> {
    db.query_row(
        "SELECT EXISTS (SELECT 1 FROM gateways WHERE id = ?1 AND instance = ?2 AND revoked IS NULL)",
        [gateway.as_str(), of.as_str()],
        |row| row.get(0),
    )
}
