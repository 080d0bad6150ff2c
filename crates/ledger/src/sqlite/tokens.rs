use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ClientId, InstanceId, LoginId, TenantId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Sqlite;
use crate::Fault;
use crate::tokens::{
    AccessRecord, ClientRecord, LoginRecord, Owner, Pair, Renewal, TokenHash, Tokens, operator_client,
};

const CLIENT: &str = "SELECT clients.id, clients.tenant, clients.instance, clients.created, clients.revoked
                      FROM clients";
const LOGIN: &str = "SELECT logins.id, logins.client, instances.tenant, logins.instance, logins.created,
                            logins.refreshed
                     FROM logins JOIN instances ON instances.id = logins.instance";

/// Access tokens of one client or login that are good at once; past that the oldest go. Whoever asks
/// again and again fills nobody's disk.
const ACCESS_TOKENS: u32 = 1000;
/// Refresh tokens that are remembered of one login, rotated ones among them.
const REFRESH_TOKENS: u32 = 128;

#[async_trait]
impl Tokens for Sqlite {
    async fn create_client(
        &self,
        owner: &Owner,
        secret: TokenHash,
        now: Moment,
        overlap_until: Moment,
    ) -> Result<bool, Fault> {
        let (owner, client) = (owner.clone(), owner.client());
        self.write(move |db| {
            let made = match &owner {
                Owner::Instance(instance) => db.execute(
                    "INSERT INTO clients (id, tenant, instance, created)
                     SELECT ?1, tenant, id, ?3 FROM instances WHERE id = ?2
                     ON CONFLICT DO UPDATE SET revoked = NULL",
                    params![client.as_str(), instance.as_str(), now.millis()],
                ),
                Owner::Tenant(tenant) => db.execute(
                    "INSERT INTO clients (id, tenant, created) SELECT ?1, id, ?3 FROM tenants WHERE id = ?2
                     ON CONFLICT DO UPDATE SET revoked = NULL",
                    params![client.as_str(), tenant.as_str(), now.millis()],
                ),
            }?;
            if made == 0 {
                return Ok(false);
            }
            db.execute(
                "UPDATE client_secrets SET expires = ?2 WHERE client = ?1 AND expires IS NULL",
                params![client.as_str(), overlap_until.millis()],
            )?;
            db.execute(
                "INSERT INTO client_secrets (hash, client) VALUES (?1, ?2)",
                params![secret.0, client.as_str()],
            )?;
            Ok(true)
        })
        .await
    }

    async fn client(
        &self,
        client: &ClientId,
        secret: TokenHash,
        now: Moment,
    ) -> Result<Option<ClientRecord>, Fault> {
        let client = client.clone();
        self.read(move |db| {
            // Found by the hash, so that a name that exists costs what one does that does not.
            db.prepare_cached(&format!(
                "{CLIENT} JOIN client_secrets ON client_secrets.client = clients.id
                 WHERE client_secrets.hash = ?1 AND clients.id = ?2 AND clients.revoked IS NULL
                   AND (client_secrets.expires IS NULL OR client_secrets.expires > ?3)"
            ))?
            .query_row(params![secret.0, client.as_str(), now.millis()], client_record)
            .optional()
        })
        .await
    }

    async fn clients(&self, of: Option<&TenantId>) -> Result<Vec<ClientRecord>, Fault> {
        let of = of.cloned();
        self.read(move |db| {
            db.prepare_cached(&format!(
                "{CLIENT} WHERE ?1 IS NULL OR clients.tenant = ?1 ORDER BY created, id"
            ))?
            .query_map([of.as_ref().map(TenantId::as_str)], client_record)?
            .collect()
        })
        .await
    }

    async fn revoke_client(&self, client: &ClientId, now: Moment) -> Result<bool, Fault> {
        let client = client.clone();
        self.write(move |db| {
            db.execute("DELETE FROM client_secrets WHERE client = ?1", [client.as_str()])?;
            // Of a client that is kept: what the operator acts under is none.
            db.execute(
                "DELETE FROM access_tokens WHERE login IS NULL AND client = (SELECT id FROM clients WHERE id = ?1)",
                [client.as_str()],
            )?;
            db.execute(
                "UPDATE clients SET revoked = coalesce(revoked, ?2) WHERE id = ?1",
                params![client.as_str(), now.millis()],
            )
            .map(|rows| rows > 0)
        })
        .await
    }

    async fn grant(&self, client: &ClientId, access: TokenHash, expires: Moment) -> Result<bool, Fault> {
        let client = client.clone();
        self.write(move |db| {
            let granted = db
                .prepare_cached(
                    "INSERT INTO access_tokens (hash, client, tenant, expires)
                     SELECT ?1, id, tenant, ?3 FROM clients WHERE id = ?2 AND revoked IS NULL",
                )?
                .execute(params![access.0, client.as_str(), expires.millis()])?;
            keep_the_newest(db, None, &client)?;
            Ok(granted > 0)
        })
        .await
    }

    async fn grant_operator(
        &self,
        tenant: &TenantId,
        access: TokenHash,
        expires: Moment,
    ) -> Result<bool, Fault> {
        let (tenant, client) = (tenant.clone(), operator_client(tenant));
        self.write(move |db| {
            let granted = db
                .prepare_cached(
                    "INSERT INTO access_tokens (hash, client, tenant, expires)
                     SELECT ?1, ?2, id, ?4 FROM tenants WHERE id = ?3",
                )?
                .execute(params![access.0, client.as_str(), tenant.as_str(), expires.millis()])?;
            keep_the_newest(db, None, &client)?;
            Ok(granted > 0)
        })
        .await
    }

    async fn log_in(
        &self,
        login: &LoginId,
        client: &ClientId,
        instance: &InstanceId,
        pair: Pair,
        now: Moment,
    ) -> Result<Option<LoginRecord>, Fault> {
        let (login, client, instance) = (login.clone(), client.clone(), instance.clone());
        self.write(move |db| {
            let there: bool = db.query_row(
                "SELECT EXISTS (SELECT 1 FROM instances WHERE id = ?1)",
                [instance.as_str()],
                |row| row.get(0),
            )?;
            if !there {
                return Ok(None);
            }
            end_logins(db, &instance)?;
            db.execute(
                "INSERT INTO logins (id, client, instance, created) VALUES (?1, ?2, ?3, ?4)",
                params![login.as_str(), client.as_str(), instance.as_str(), now.millis()],
            )?;
            db.execute(
                "UPDATE instances SET bootstrap = ?2 WHERE id = ?1",
                [instance.as_str(), login.as_str()],
            )?;
            let record =
                db.query_row(&format!("{LOGIN} WHERE logins.id = ?1"), [login.as_str()], login_record)?;
            keep(db, &record, pair)?;
            Ok(Some(record))
        })
        .await
    }

    async fn logins(&self, of: Option<&TenantId>) -> Result<Vec<LoginRecord>, Fault> {
        let of = of.cloned();
        self.read(move |db| {
            db.prepare_cached(&format!(
                "{LOGIN} WHERE ?1 IS NULL OR instances.tenant = ?1 ORDER BY logins.created, logins.id"
            ))?
            .query_map([of.as_ref().map(TenantId::as_str)], login_record)?
            .collect()
        })
        .await
    }

    async fn log_out(&self, login: &LoginId) -> Result<bool, Fault> {
        let login = login.clone();
        self.write(move |db| {
            let of: Option<String> = db
                .query_row("SELECT instance FROM logins WHERE id = ?1", [login.as_str()], |row| row.get(0))
                .optional()?;
            match of {
                // An instance has but one.
                Some(instance) => end_logins(db, &instance.into()).map(|()| true),
                None => Ok(false),
            }
        })
        .await
    }

    async fn refresh(
        &self,
        presented: TokenHash,
        client: &ClientId,
        next: Pair,
        now: Moment,
        honoured_since: Moment,
    ) -> Result<Renewal, Fault> {
        let client = client.clone();
        self.write(move |db| {
            let found = db
                .prepare_cached(&format!(
                    "{LOGIN} JOIN refresh_tokens ON refresh_tokens.login = logins.id
                     WHERE refresh_tokens.hash = ?1 AND logins.client = ?2"
                ))?
                .query_row(params![presented.0, client.as_str()], login_record)
                .optional()?;
            let Some(mut login) = found else { return Ok(Renewal::Unknown) };
            let rotated: i64 = db
                .prepare_cached(
                    "UPDATE refresh_tokens SET rotated = coalesce(rotated, ?2) WHERE hash = ?1
                     RETURNING rotated",
                )?
                .query_row(params![presented.0, now.millis()], |row| row.get(0))?;
            // As long as none of its successors was presented, the answer that carried them may have been
            // lost on its way: a peer that is told "reused" for that has to log in anew.
            let succeeded = db
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM refresh_tokens AS later
                       JOIN refresh_tokens AS this ON this.hash = ?1
                      WHERE later.login = this.login AND later.seq > this.seq AND later.rotated IS NOT NULL)",
                )?
                .query_row([presented.0], |row| row.get::<_, bool>(0))?;
            if succeeded && rotated < honoured_since.millis() {
                return Ok(Renewal::Reused(login));
            }
            db.prepare_cached("UPDATE logins SET refreshed = ?2 WHERE id = ?1")?
                .execute(params![login.login.as_str(), now.millis()])?;
            login.refreshed = Some(now);
            keep(db, &login, next)?;
            Ok(Renewal::Granted(login))
        })
        .await
    }

    async fn bearer(&self, access: TokenHash, now: Moment) -> Result<Option<AccessRecord>, Fault> {
        self.read(move |db| {
            db.prepare_cached(
                "SELECT client, tenant, login, expires FROM access_tokens WHERE hash = ?1 AND expires > ?2",
            )?
            .query_row(params![access.0, now.millis()], |row| {
                Ok(AccessRecord {
                    client: row.get::<_, String>(0)?.into(),
                    tenant: row.get::<_, String>(1)?.into(),
                    login: row.get::<_, Option<String>>(2)?.map(LoginId::from),
                    expires: Moment::from_millis(row.get(3)?),
                })
            })
            .optional()
        })
        .await
    }
}

/// Remembers the tokens of a login, and only so many.
fn keep(db: &Connection, of: &LoginRecord, pair: Pair) -> rusqlite::Result<()> {
    let login = of.login.as_str();
    db.prepare_cached(
        "INSERT INTO access_tokens (hash, client, tenant, login, expires) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        pair.access.0,
        of.client.as_str(),
        of.tenant.as_str(),
        login,
        pair.access_expires.millis()
    ])?;
    keep_the_newest(db, Some(login), &of.client)?;
    db.prepare_cached("INSERT INTO refresh_tokens (hash, login) VALUES (?1, ?2)")?
        .execute(params![pair.refresh.0, login])?;
    db.prepare_cached(
        "DELETE FROM refresh_tokens WHERE seq IN
           (SELECT seq FROM refresh_tokens WHERE login = ?1 ORDER BY seq DESC LIMIT -1 OFFSET ?2)",
    )?
    .execute(params![login, REFRESH_TOKENS])
    .map(drop)
}

fn keep_the_newest(db: &Connection, login: Option<&str>, client: &ClientId) -> rusqlite::Result<()> {
    db.prepare_cached(
        "DELETE FROM access_tokens WHERE hash IN
           (SELECT hash FROM access_tokens WHERE login IS ?1 AND client = ?2
            ORDER BY expires DESC LIMIT -1 OFFSET ?3)",
    )?
    .execute(params![login, client.as_str(), ACCESS_TOKENS])
    .map(drop)
}

fn end_logins(db: &Connection, of: &InstanceId) -> rusqlite::Result<()> {
    for tokens in ["access_tokens", "refresh_tokens"] {
        db.execute(
            &format!("DELETE FROM {tokens} WHERE login IN (SELECT id FROM logins WHERE instance = ?1)"),
            [of.as_str()],
        )?;
    }
    db.execute("DELETE FROM logins WHERE instance = ?1", [of.as_str()])?;
    db.execute("UPDATE instances SET bootstrap = NULL WHERE id = ?1", [of.as_str()]).map(drop)
}

/// Takes along whatever an owner that is about to go could present.
pub(super) fn end(db: &Connection, owner: &Owner) -> rusqlite::Result<()> {
    if let Owner::Instance(instance) = owner {
        end_logins(db, instance)?;
    }
    if let Owner::Tenant(tenant) = owner {
        db.execute(
            "DELETE FROM access_tokens WHERE login IS NULL AND client = ?1",
            [operator_client(tenant).as_str()],
        )?;
    }
    let client = owner.client();
    for of_it in [
        "DELETE FROM access_tokens WHERE login IS NULL AND client = ?1",
        "DELETE FROM client_secrets WHERE client = ?1",
        "DELETE FROM clients WHERE id = ?1",
    ] {
        db.execute(of_it, [client.as_str()])?;
    }
    Ok(())
}

fn client_record(row: &Row<'_>) -> rusqlite::Result<ClientRecord> {
    Ok(ClientRecord {
        client: row.get::<_, String>(0)?.into(),
        tenant: row.get::<_, String>(1)?.into(),
        instance: row.get::<_, Option<String>>(2)?.map(InstanceId::from),
        created: Moment::from_millis(row.get(3)?),
        revoked: row.get::<_, Option<i64>>(4)?.map(Moment::from_millis),
    })
}

fn login_record(row: &Row<'_>) -> rusqlite::Result<LoginRecord> {
    Ok(LoginRecord {
        login: row.get::<_, String>(0)?.into(),
        client: row.get::<_, String>(1)?.into(),
        tenant: row.get::<_, String>(2)?.into(),
        instance: row.get::<_, String>(3)?.into(),
        created: Moment::from_millis(row.get(4)?),
        refreshed: row.get::<_, Option<i64>>(5)?.map(Moment::from_millis),
    })
}
