//! SQL of capabilities: binding them under session keys, taking a use, and forgetting those that no key leads to.

use posthouse_time::Moment;
use posthouse_wire::{CapabilityKind, EntryId, InstanceId, SessionKey, TenantId};
use rusqlite::{Connection, OptionalExtension, params};

use super::sealed;
use crate::vault::{CapabilityRecord, RedeemedCapability, Uses};

/// Whose capability is redeemed, and which.
pub(super) struct CapabilityHolder<'a> {
    pub tenant: &'a TenantId,
    pub instance: &'a InstanceId,
    pub key: &'a SessionKey,
    pub kind: &'a CapabilityKind,
}

pub(super) fn bind(db: &Connection, capability: &CapabilityRecord) -> rusqlite::Result<()> {
    if capability.session_keys.is_empty() {
        // A capability without a session key could never be redeemed.
        return Ok(());
    }
    let uses_left = match capability.uses {
        Uses::Many => None,
        Uses::Left(uses) => Some(uses),
    };
    db.prepare_cached(
        "INSERT INTO capabilities (tenant, instance, kind, key_id, blob, expires, ends, uses_left, entry, bound)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ledger_time_at(?6), ?7, ?8, ledger_time())",
    )?
    .execute(params![
        capability.tenant.as_str(),
        capability.instance.as_str(),
        capability.kind.as_str(),
        capability.sealed.key_id,
        capability.sealed.blob,
        capability.expires.map(Moment::millis),
        uses_left,
        capability.entry.as_ref().and_then(EntryId::bytes),
    ])?;
    let id = db.last_insert_rowid();
    let mut held = db.prepare_cached(
        "SELECT capability FROM capability_keys WHERE instance = ?1 AND session_key = ?2 AND kind = ?3",
    )?;
    let mut under = db.prepare_cached(
        "INSERT INTO capability_keys (instance, session_key, kind, capability) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET capability = excluded.capability",
    )?;
    let mut forget = db.prepare_cached(
        "DELETE FROM capabilities WHERE id = ?1
           AND NOT EXISTS (SELECT 1 FROM capability_keys WHERE capability = ?1)",
    )?;
    let (instance, kind) = (capability.instance.as_str(), capability.kind.as_str());
    for key in &capability.session_keys {
        let older: Option<i64> =
            held.query_row([instance, key.as_str(), kind], |row| row.get(0)).optional()?;
        under.execute(params![instance, key.as_str(), kind, id])?;
        if let Some(older) = older {
            forget.execute([older])?;
        }
    }
    Ok(())
}

/// Takes one use and records it.
pub(super) fn redeem(
    db: &Connection,
    by: &CapabilityHolder<'_>,
    action: Option<[u8; 16]>,
    now: Moment,
) -> rusqlite::Result<Option<RedeemedCapability>> {
    let now = now.millis();
    let (tenant, instance) = (by.tenant.as_str(), by.instance.as_str());
    let (key, kind) = (by.key.as_str(), by.kind.as_str());
    // The use is taken before the call that it is for. Only a call that certainly had no effect gives
    // it back.
    let redeemed = db
        .prepare_cached(
            "UPDATE capabilities SET uses_left = uses_left - 1
             WHERE id = (SELECT capability FROM capability_keys
                         WHERE instance = ?2 AND session_key = ?3 AND kind = ?4)
               AND tenant = ?1 AND instance = ?2
               AND (uses_left IS NULL OR uses_left > 0) AND (expires IS NULL OR expires > ?5 AND ends > ledger_time())
             RETURNING id, key_id, blob, entry",
        )?
        .query_row(
            params![tenant, instance, key, kind, now],
            |row| Ok((row.get(0)?, sealed(row, 1)?, row.get::<_, Option<[u8; 16]>>(3)?)),
        )
        .optional()?;
    let Some((capability, sealed, entry)) = redeemed else { return Ok(None) };
    db.prepare_cached(
        "INSERT INTO capability_uses (tenant, instance, entry, action, kind, at, counted)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ledger_time())",
    )?
    .execute(params![tenant, instance, entry, action, kind, now])?;
    Ok(Some(RedeemedCapability { capability, number: db.last_insert_rowid(), sealed }))
}

pub(super) fn unbind(
    db: &Connection,
    instance: &InstanceId,
    keys: &[SessionKey],
    kind: &CapabilityKind,
) -> rusqlite::Result<()> {
    let mut unbind = db.prepare_cached(
        "DELETE FROM capability_keys WHERE instance = ?1 AND session_key = ?2 AND kind = ?3
         RETURNING capability",
    )?;
    let mut forget = db.prepare_cached(
        "DELETE FROM capabilities WHERE id = ?1
           AND NOT EXISTS (SELECT 1 FROM capability_keys WHERE capability = ?1)",
    )?;
    for key in keys {
        let unbound: Option<i64> = unbind
            .query_row([instance.as_str(), key.as_str(), kind.as_str()], |row| row.get(0))
            .optional()?;
        if let Some(capability) = unbound {
            forget.execute([capability])?;
        }
    }
    Ok(())
}
