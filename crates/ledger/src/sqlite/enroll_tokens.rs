//! SQL of enrolment tokens and of the names of gateways.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{EnrollTokenId, GatewayId, InstanceId, TenantId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Sqlite, claims, gateway_settings, owner, vault};
use crate::enroll_tokens::{
    CredentialToEnroll, EnrollResult, EnrollSetup, EnrollToken, EnrollTokens, Redeemable, Redeemer,
};
use crate::{BotRef, Fault, TokenHash};

const TOKEN: &str = "SELECT id, tenant, instance, created, min(expires, wall_time_at(ends)), used, gateway, revoked, setup FROM enroll_tokens";

#[async_trait]
impl EnrollTokens for Sqlite {
    async fn create_enroll_token(&self, new: EnrollToken, hash: TokenHash) -> Result<bool, Fault> {
        self.write(move |db| {
            db.execute(
                "INSERT INTO enroll_tokens (id, hash, tenant, instance, created, expires, ends, setup)
                 SELECT ?1, ?2, tenant, id, ?5, ?6, ledger_time_at(?6), ?7 FROM instances
                 WHERE id = ?4 AND tenant = ?3",
                params![
                    new.id.as_str(),
                    hash.0,
                    new.tenant.as_str(),
                    new.instance.as_str(),
                    new.created.millis(),
                    new.expires.millis(),
                    written(&new.setup)
                ],
            )
            .map(|rows| rows > 0)
        })
        .await
    }

    async fn enroll_tokens(&self, of: Option<&TenantId>) -> Result<Vec<EnrollToken>, Fault> {
        let of = of.cloned();
        self.read(move |db| {
            db.prepare_cached(&format!("{TOKEN} WHERE ?1 IS NULL OR tenant = ?1 ORDER BY created, id"))?
                .query_map([of.as_ref().map(TenantId::as_str)], token)?
                .collect()
        })
        .await
    }

    async fn revoke_enroll_token(&self, id: &EnrollTokenId) -> Result<bool, Fault> {
        let (id, now) = (id.clone(), self.timepiece.now());
        self.write(move |db| {
            db.execute(
                "UPDATE enroll_tokens SET revoked = coalesce(revoked, ?2) WHERE id = ?1 AND used IS NULL",
                params![id.as_str(), now.millis()],
            )
            .map(|rows| rows > 0)
        })
        .await
    }

    async fn redeemable(&self, by: Redeemer) -> Result<Option<Redeemable>, Fault> {
        let now = self.timepiece.now();
        self.read(move |db| redeemable(db, &by, now)).await
    }

    async fn redeem_enroll_token(
        &self,
        by: Redeemer,
        credential: CredentialToEnroll,
    ) -> Result<EnrollResult, Fault> {
        let now = self.timepiece.now();
        self.write_for(owner(&by.tenant), move |db| {
            let Some(Redeemable { instance, gateway, setup }) = redeemable(db, &by, now)? else {
                return Ok(EnrollResult::Refused);
            };
            let CredentialToEnroll { gateway: given, secret, overlap_until, claims_on } = &credential;
            if gateway.is_some_and(|named| named != *given)
                || !vault::issue(db, given, &instance, secret, now, *overlap_until)?
            {
                return Ok(EnrollResult::NameChanged);
            }
            db.execute(
                "INSERT INTO gateway_names (instance, name, gateway) VALUES (?1, ?2, ?3)
                 ON CONFLICT (instance, name) DO UPDATE SET gateway = excluded.gateway",
                [instance.as_str(), &by.name, given.as_str()],
            )?;
            db.execute(
                "UPDATE enroll_tokens SET used = ?2, gateway = ?3 WHERE hash = ?1",
                params![by.token.0, now.millis(), given.as_str()],
            )?;
            if !setup.bots.is_empty() {
                gateway_settings::set_bots(db, given, &setup.bots)?;
            }
            if let Some(url) = &setup.wake_url {
                gateway_settings::set_wake_url(db, given, Some(url))?;
            }
            let mut changed = Vec::new();
            for on in claims_on.iter().filter(|_| !setup.route_keys.is_empty()) {
                changed.extend(claims::replace(db, &instance, given, on, &setup.route_keys, now)?.changed);
            }
            Ok(EnrollResult::Enrolled(changed))
        })
        .await
    }
}

/// Revokes the unused tokens of an agent and returns their ids.
pub(super) fn revoke_all(
    db: &Connection,
    of: &InstanceId,
    now: Moment,
) -> rusqlite::Result<Vec<EnrollTokenId>> {
    db.prepare_cached(
        "UPDATE enroll_tokens SET revoked = ?2
         WHERE instance = ?1 AND used IS NULL AND revoked IS NULL AND expires > ?2 AND ends > ledger_time()
         RETURNING id",
    )?
    .query_map(params![of.as_str(), now.millis()], |row| row.get::<_, String>(0).map(EnrollTokenId::from))?
    .collect()
}

/// The agent and credential of a token, if this caller may use it now.
fn redeemable(db: &Connection, by: &Redeemer, now: Moment) -> rusqlite::Result<Option<Redeemable>> {
    let found: Option<(String, Option<String>)> = db
        .prepare_cached(
            "SELECT instance, setup FROM enroll_tokens
             WHERE hash = ?1 AND tenant = ?2 AND (?3 IS NULL OR instance = ?3)
               AND used IS NULL AND revoked IS NULL AND expires > ?4 AND ends > ledger_time()",
        )?
        .query_row(
            params![
                by.token.0,
                by.tenant.as_str(),
                by.agent.as_ref().map(|agent| agent.as_str()),
                now.millis()
            ],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((instance, setup)) = found else { return Ok(None) };
    // A gateway may also propose the id that it got before. A revoked credential does not keep its name.
    let gateway = db
        .prepare_cached(
            "SELECT id FROM gateways WHERE instance = ?1 AND revoked IS NULL AND id IN
               (SELECT ?2 UNION ALL SELECT gateway FROM gateway_names WHERE instance = ?1 AND name = ?2)
             ORDER BY id = ?2 DESC LIMIT 1",
        )?
        .query_row([&instance, &by.name], |row| row.get::<_, String>(0).map(GatewayId::from))
        .optional()?;
    Ok(Some(Redeemable { instance: instance.into(), gateway, setup: read(setup) }))
}

fn token(row: &Row<'_>) -> rusqlite::Result<EnrollToken> {
    Ok(EnrollToken {
        id: row.get::<_, String>(0)?.into(),
        tenant: row.get::<_, String>(1)?.into(),
        instance: row.get::<_, String>(2)?.into(),
        created: Moment::from_millis(row.get(3)?),
        expires: Moment::from_millis(row.get(4)?),
        used: row.get::<_, Option<i64>>(5)?.map(Moment::from_millis),
        gateway: row.get::<_, Option<String>>(6)?.map(GatewayId::from),
        revoked: row.get::<_, Option<i64>>(7)?.map(Moment::from_millis),
        setup: read(row.get(8)?),
    })
}

/// The stored form of settings: the wake URL, pairs of platform and bot, and the route keys.
type StoredSetup = (Option<String>, Vec<(String, String)>, Vec<String>);

fn written(setup: &EnrollSetup) -> Option<String> {
    if *setup == EnrollSetup::default() {
        return None;
    }
    let bots = setup.bots.iter().map(|on| (on.platform.to_string(), on.bot.to_string())).collect();
    let stored: StoredSetup = (setup.wake_url.clone(), bots, setup.route_keys.clone());
    serde_json::to_string(&stored).ok()
}

fn read(stored: Option<String>) -> EnrollSetup {
    let stored = stored.and_then(|stored| serde_json::from_str::<StoredSetup>(&stored).ok());
    let Some((wake_url, bots, route_keys)) = stored else { return EnrollSetup::default() };
    let bots = bots.into_iter().map(|(platform, bot)| BotRef { platform: platform.into(), bot: bot.into() });
    EnrollSetup { wake_url, bots: bots.collect(), route_keys }
}
