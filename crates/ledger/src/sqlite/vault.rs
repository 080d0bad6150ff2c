//! SQL of encrypted values: gateways, credentials, connector secrets and capabilities.

mod capabilities;
mod capability_uses;
mod server_keys;
mod tenant_secrets;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{
    ActionId, BotId, CapabilityKind, ConnectorId, GatewayId, InstanceId, Platform, SessionKey, TenantId,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Sqlite, owner};
use crate::vault::{CapabilityRecord, GatewayRecord, RedeemedCapability, Sealed, SealedSecret, VaultRecords};
use crate::{Fault, StoreKind};

const GATEWAY: &str =
    "SELECT gateways.id, gateways.instance, instances.tenant, gateways.created, gateways.revoked
                       FROM gateways JOIN instances ON instances.id = gateways.instance";

#[async_trait]
impl VaultRecords for Sqlite {
    async fn issue(
        &self,
        gateway: &GatewayId,
        to: &InstanceId,
        secret: Sealed,
        now: Moment,
        overlap_until: Moment,
    ) -> Result<bool, Fault> {
        let (gateway, to) = (gateway.clone(), to.clone());
        self.write(move |db| issue(db, &gateway, &to, &secret, now, overlap_until)).await
    }

    async fn gateway(&self, gateway: &GatewayId) -> Result<Option<GatewayRecord>, Fault> {
        let gateway = gateway.clone();
        self.read(move |db| {
            db.prepare_cached(&format!("{GATEWAY} WHERE gateways.id = ?1"))?
                .query_row([gateway.as_str()], |row| record(db, row))
                .optional()
        })
        .await
    }

    async fn gateways(&self, of: &InstanceId) -> Result<Vec<GatewayRecord>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            db.prepare_cached(&format!("{GATEWAY} WHERE gateways.instance = ?1 ORDER BY gateways.created"))?
                .query_map([of.as_str()], |row| record(db, row))?
                .collect()
        })
        .await
    }

    async fn revoke(&self, gateway: &GatewayId, now: Moment) -> Result<bool, Fault> {
        let gateway = gateway.clone();
        self.write(move |db| revoke(db, &gateway, now)).await
    }

    async fn put_credential(
        &self,
        platform: &Platform,
        bot: &BotId,
        name: &str,
        sealed: Sealed,
    ) -> Result<(), Fault> {
        let (platform, bot, name) = (platform.clone(), bot.clone(), name.to_owned());
        self.write(move |db| put_credential(db, &platform, &bot, &name, &sealed)).await
    }

    async fn credentials(&self, platform: &Platform, bot: &BotId) -> Result<Vec<(String, Sealed)>, Fault> {
        let (platform, bot) = (platform.clone(), bot.clone());
        self.read(move |db| {
            db.prepare_cached("SELECT name, key_id, blob FROM credentials WHERE platform = ?1 AND bot = ?2")?
                .query_map([platform.as_str(), bot.as_str()], |row| Ok((row.get(0)?, sealed(row, 1)?)))?
                .collect()
        })
        .await
    }

    async fn put_connector_secret(
        &self,
        connector: &ConnectorId,
        name: &str,
        sealed: Sealed,
    ) -> Result<(), Fault> {
        let (connector, name) = (connector.clone(), name.to_owned());
        self.write(move |db| put_connector_secret(db, &connector, &name, &sealed)).await
    }

    async fn connector_secrets(&self, connector: &ConnectorId) -> Result<Vec<(String, Sealed)>, Fault> {
        let connector = connector.clone();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT name, key_id, blob FROM connector_secrets WHERE connector = ?1 ORDER BY name",
            )?
            .query_map([connector.as_str()], |row| Ok((row.get(0)?, sealed(row, 1)?)))?
            .collect()
        })
        .await
    }

    async fn bind(&self, capability: CapabilityRecord) -> Result<(), Fault> {
        self.write_for(self.tenant_of(&capability.instance), move |db| capabilities::bind(db, &capability))
            .await
    }

    async fn redeem(
        &self,
        tenant: &TenantId,
        instance: &InstanceId,
        key: &SessionKey,
        kind: &CapabilityKind,
        action: Option<&ActionId>,
    ) -> Result<Option<RedeemedCapability>, Fault> {
        let (tenant, instance, key, kind) = (tenant.clone(), instance.clone(), key.clone(), kind.clone());
        let (action, timepiece) = (action.and_then(ActionId::bytes), self.timepiece.clone());
        self.write_for(owner(&tenant), move |db| {
            let by = capabilities::CapabilityHolder {
                tenant: &tenant,
                instance: &instance,
                key: &key,
                kind: &kind,
            };
            capabilities::redeem(db, &by, action, timepiece.now())
        })
        .await
    }

    async fn holds_kind(&self, of: Option<&InstanceId>, kind: &CapabilityKind) -> Result<bool, Fault> {
        let (of, kind) = (of.cloned(), kind.clone());
        self.read(move |db| match &of {
            Some(instance) => db
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM capability_keys WHERE instance = ?1 AND kind = ?2)",
                )?
                .query_row([instance.as_str(), kind.as_str()], |row| row.get(0)),
            None => db
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM capabilities WHERE kind = ?1)")?
                .query_row([kind.as_str()], |row| row.get(0)),
        })
        .await
    }

    async fn unbind(
        &self,
        instance: &InstanceId,
        keys: &[SessionKey],
        kind: &CapabilityKind,
    ) -> Result<(), Fault> {
        let (instance, keys, kind) = (instance.clone(), keys.to_vec(), kind.clone());
        self.write_for(self.tenant_of(&instance), move |db| capabilities::unbind(db, &instance, &keys, &kind))
            .await
    }

    async fn give_back(&self, tenant: &TenantId, capability: i64) -> Result<(), Fault> {
        self.write_for(owner(tenant), move |db| {
            db.execute("UPDATE capabilities SET uses_left = uses_left + 1 WHERE id = ?1", [capability])
                .map(drop)
        })
        .await
    }

    async fn tenant_secret(
        &self,
        tenant: &TenantId,
        name: &str,
        if_absent: Sealed,
    ) -> Result<Option<Sealed>, Fault> {
        let (tenant, name) = (tenant.clone(), name.to_owned());
        self.write_for(owner(&tenant), move |db| {
            db.execute(
                "INSERT INTO tenant_secrets (tenant, name, key_id, blob)
                 SELECT id, ?2, ?3, ?4 FROM tenants WHERE id = ?1 ON CONFLICT DO NOTHING",
                params![tenant.as_str(), name, if_absent.key_id, if_absent.blob],
            )?;
            db.query_row(
                "SELECT key_id, blob FROM tenant_secrets WHERE tenant = ?1 AND name = ?2",
                [tenant.as_str(), &name],
                |row| sealed(row, 0),
            )
            .optional()
        })
        .await
    }

    async fn store_secrets(
        &self,
        tenant: &TenantId,
        kind: StoreKind,
        url: &str,
    ) -> Result<Vec<(String, Sealed)>, Fault> {
        let (tenant, names, url) = (tenant.clone(), kind.secret_name("*"), url.to_owned());
        self.read(move |db| {
            db.prepare_cached(
                "SELECT name, key_id, blob FROM tenant_secrets WHERE tenant = ?1 AND name GLOB ?2
                   AND EXISTS (SELECT 1 FROM skill_settings WHERE tenant = ?1
                     AND CASE ?3 WHEN 'skill_store' THEN store ELSE data_store END = ?4)
                 ORDER BY name",
            )?
            .query_map([tenant.as_str(), &names, kind.word(), &url], |row| {
                Ok((row.get(0)?, sealed(row, 1)?))
            })?
            .collect()
        })
        .await
    }

    async fn sealed_under_other_keys(
        &self,
        key_id: &str,
        at_most: u16,
    ) -> Result<Vec<(String, Sealed)>, Fault> {
        let key_id = key_id.to_owned();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT 'gateway/' || gateway || '#' || id, key_id, blob FROM gateway_secrets WHERE key_id <> ?1
                 UNION ALL
                 SELECT 'bot/' || platform || '/' || bot || '/' || name || '#' || id, key_id, blob
                   FROM credentials WHERE key_id <> ?1
                 UNION ALL
                 SELECT 'capability/' || instance || '/' || kind || '#' || id, key_id, blob
                   FROM capabilities WHERE key_id <> ?1
                 UNION ALL
                 SELECT 'house/' || kind || '/' || name || '#' || id, key_id, blob FROM house_keys WHERE key_id <> ?1
                 UNION ALL
                 SELECT 'connector/' || connector || '/' || name || '#' || id, key_id, blob
                   FROM connector_secrets WHERE key_id <> ?1
                 UNION ALL
                 SELECT 'tenant/' || tenant || '/' || name || '#' || id, key_id, blob
                   FROM tenant_secrets WHERE key_id <> ?1
                 LIMIT ?2",
            )?
            .query_map(params![key_id, at_most], |row| Ok((row.get(0)?, sealed(row, 1)?)))?
            .collect()
        })
        .await
    }

    async fn reseal(&self, place: &str, old: &Sealed, new: Sealed) -> Result<(), Fault> {
        let (place, old) = (place.to_owned(), old.clone());
        self.write(move |db| {
            let table = match place.split('/').next() {
                Some("gateway") => "gateway_secrets",
                Some("bot") => "credentials",
                Some("house") => "house_keys",
                Some("connector") => "connector_secrets",
                Some("tenant") => "tenant_secrets",
                _ => "capabilities",
            };
            let id: i64 = place.rsplit('#').next().and_then(|id| id.parse().ok()).unwrap_or(-1);
            db.execute(
                &format!("UPDATE {table} SET key_id = ?3, blob = ?4 WHERE id = ?1 AND blob = ?2"),
                params![id, old.blob, new.key_id, new.blob],
            )
            .map(drop)
        })
        .await
    }
}

fn sealed(row: &Row<'_>, at: usize) -> rusqlite::Result<Sealed> {
    Ok(Sealed { key_id: row.get(at)?, blob: row.get(at + 1)? })
}

fn record(db: &Connection, row: &Row<'_>) -> rusqlite::Result<GatewayRecord> {
    let gateway: String = row.get(0)?;
    let secrets = db
        .prepare_cached(
            "SELECT key_id, blob, min(expires, wall_time_at(ends)) FROM gateway_secrets
             WHERE gateway = ?1 AND (ends IS NULL OR ends > ledger_time()) ORDER BY id DESC",
        )?
        .query_map([&gateway], |row| {
            Ok(SealedSecret {
                sealed: sealed(row, 0)?,
                expires: row.get::<_, Option<i64>>(2)?.map(Moment::from_millis),
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(GatewayRecord {
        gateway: gateway.into(),
        instance: row.get::<_, String>(1)?.into(),
        tenant: row.get::<_, String>(2)?.into(),
        created: Moment::from_millis(row.get(3)?),
        revoked: row.get::<_, Option<i64>>(4)?.map(Moment::from_millis),
        secrets,
    })
}

/// Creates a gateway or gives it a new current secret. False when the id belongs to another instance or is
/// revoked.
pub(super) fn issue(
    db: &Connection,
    gateway: &GatewayId,
    to: &InstanceId,
    secret: &Sealed,
    now: Moment,
    overlap_until: Moment,
) -> rusqlite::Result<bool> {
    db.execute(
        "INSERT INTO gateways (id, instance, created) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        params![gateway.as_str(), to.as_str(), now.millis()],
    )?;
    let ours: bool = db.query_row(
        "SELECT EXISTS (SELECT 1 FROM gateways WHERE id = ?1 AND instance = ?2 AND revoked IS NULL)",
        [gateway.as_str(), to.as_str()],
        |row| row.get(0),
    )?;
    if !ours {
        return Ok(false);
    }
    db.execute(
        "UPDATE gateway_secrets SET expires = ?2, ends = ledger_time_at(?2)
         WHERE gateway = ?1 AND expires IS NULL",
        params![gateway.as_str(), overlap_until.millis()],
    )?;
    db.execute(
        "INSERT INTO gateway_secrets (gateway, key_id, blob, made) VALUES (?1, ?2, ?3, ledger_time())",
        params![gateway.as_str(), secret.key_id, secret.blob],
    )?;
    Ok(true)
}

/// Deletes its secrets and marks the record as revoked. False when there is no such gateway. The first
/// revocation time stays.
pub(super) fn revoke(db: &Connection, gateway: &GatewayId, now: Moment) -> rusqlite::Result<bool> {
    db.execute("DELETE FROM gateway_secrets WHERE gateway = ?1", [gateway.as_str()])?;
    db.execute(
        "UPDATE gateways SET revoked = coalesce(revoked, ?2) WHERE id = ?1",
        params![gateway.as_str(), now.millis()],
    )
    .map(|rows| rows > 0)
}

pub(super) fn put_credential(
    db: &Connection,
    platform: &Platform,
    bot: &BotId,
    name: &str,
    sealed: &Sealed,
) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO credentials (platform, bot, name, key_id, blob) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (platform, bot, name) DO UPDATE SET key_id = excluded.key_id, blob = excluded.blob",
        params![platform.as_str(), bot.as_str(), name, sealed.key_id, sealed.blob],
    )
    .map(drop)
}

pub(super) fn put_tenant_secret(
    db: &Connection,
    tenant: &TenantId,
    name: &str,
    sealed: &Sealed,
) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO tenant_secrets (tenant, name, key_id, blob) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (tenant, name) DO UPDATE SET key_id = excluded.key_id, blob = excluded.blob",
        params![tenant.as_str(), name, sealed.key_id, sealed.blob],
    )
    .map(drop)
}

pub(super) fn put_connector_secret(
    db: &Connection,
    connector: &ConnectorId,
    name: &str,
    sealed: &Sealed,
) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO connector_secrets (connector, name, key_id, blob) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (connector, name) DO UPDATE SET key_id = excluded.key_id, blob = excluded.blob",
        params![connector.as_str(), name, sealed.key_id, sealed.blob],
    )
    .map(drop)
}
