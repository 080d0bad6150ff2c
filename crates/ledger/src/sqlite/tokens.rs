//! SQL of client credentials, logins and access tokens.

mod ending;
mod refresh;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ClientId, InstanceId, LoginId, TenantId};
use rusqlite::{Connection, OptionalExtension, Row, params};

pub(super) use ending::end as end_credentials;

use super::write_queue::JobTenant;
use super::{Sqlite, owner, vault};
use crate::Fault;
use crate::tokens::{
    AccessRecord, ClientRecord, EndedCredentials, LoginRecord, Owner, RefreshRequest, Renewal,
    RenewedCredentials, TokenHash, TokenPair, Tokens, WhichCredentials, operator_client,
};

const CLIENT: &str = "SELECT clients.id, clients.tenant, clients.instance, clients.created, clients.revoked
                      FROM clients";
const LOGIN: &str = "SELECT logins.id, logins.client, instances.tenant, logins.instance, logins.created,
                            logins.refreshed,
                            (SELECT count(*) FROM login_lines WHERE login = logins.id),
                            (SELECT group_concat(DISTINCT address) FROM login_lines WHERE login = logins.id)
                     FROM logins JOIN instances ON instances.id = logins.instance";

/// Valid access tokens of one client or login. Past that the oldest are deleted, so that repeated requests
/// cannot fill the disk. An access token of a login is neither counted nor deleted while the refresh token
/// that came with it was not presented, because its holder has no newer one.
const ACCESS_TOKENS: u32 = 1000;

#[async_trait]
impl Tokens for Sqlite {
    async fn create_client(
        &self,
        owner: &Owner,
        secret: TokenHash,
        now: Moment,
        overlap_until: Moment,
    ) -> Result<bool, Fault> {
        let owner = owner.clone();
        self.write(move |db| create_client(db, &owner, secret, now, overlap_until)).await
    }

    async fn client(
        &self,
        client: &ClientId,
        secret: TokenHash,
        now: Moment,
    ) -> Result<Option<ClientRecord>, Fault> {
        let client = client.clone();
        self.read(move |db| {
            // The query looks up the hash, so that existing and unknown names take the same time.
            db.prepare_cached(&format!(
                "{CLIENT} JOIN client_secrets ON client_secrets.client = clients.id
                 WHERE client_secrets.hash = ?1 AND clients.id = ?2 AND clients.revoked IS NULL
                   AND (client_secrets.expires IS NULL
                        OR client_secrets.expires > ?3 AND client_secrets.ends > ledger_time())"
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
        self.write(move |db| ending::revoke_client(db, &client, now)).await
    }

    async fn grant(&self, client: &ClientId, access: TokenHash, expires: Moment) -> Result<bool, Fault> {
        let client = client.clone();
        self.write_for(self.tenant_of_client(&client), move |db| {
            let granted = db
                .prepare_cached(
                    "INSERT INTO access_tokens (hash, client, tenant, expires, ends)
                     SELECT ?1, id, tenant, ?3, ledger_time_at(?3) FROM clients WHERE id = ?2 AND revoked IS NULL",
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
                    "INSERT INTO access_tokens (hash, client, tenant, expires, ends)
                     SELECT ?1, ?2, id, ?4, ledger_time_at(?4) FROM tenants WHERE id = ?3",
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
        pair: TokenPair,
        now: Moment,
    ) -> Result<Option<LoginRecord>, Fault> {
        let (login, client, instance) = (login.clone(), client.clone(), instance.clone());
        self.write(move |db| log_in(db, &login, &client, &instance, pair, now)).await
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
                // An instance has only one login.
                Some(instance) => end_logins(db, &instance.into()).map(|()| true),
                None => Ok(false),
            }
        })
        .await
    }

    async fn refresh(&self, request: RefreshRequest) -> Result<Renewal, Fault> {
        // A refusal costs a read, not a commit.
        let asked = request.clone();
        match self.read(move |db| refresh::check(db, &asked)).await? {
            Err(refused) => Ok(refused),
            Ok(login) => {
                self.write_for(owner(&login.tenant), move |db| refresh::exchange(db, &request)).await
            }
        }
    }

    async fn end_credentials(
        &self,
        of: &InstanceId,
        which: WhichCredentials,
        now: Moment,
    ) -> Result<EndedCredentials, Fault> {
        let of = of.clone();
        self.write(move |db| ending::end(db, &of, &which, now)).await
    }

    async fn renew_credentials(
        &self,
        of: &InstanceId,
        renewed: RenewedCredentials,
        now: Moment,
    ) -> Result<bool, Fault> {
        let of = of.clone();
        self.write(move |db| ending::renew(db, &of, &renewed, now)).await
    }

    async fn bearer(&self, access: TokenHash, now: Moment) -> Result<Option<AccessRecord>, Fault> {
        self.read(move |db| {
            db.prepare_cached(
                "SELECT token.client, tenant, login, instance, min(expires, wall_time_at(ends))
                 FROM access_tokens token LEFT JOIN logins ON logins.id = login
                 WHERE hash = ?1 AND expires > ?2 AND ends > ledger_time()",
            )?
            .query_row(params![access.0, now.millis()], |row| {
                Ok(AccessRecord {
                    client: row.get::<_, String>(0)?.into(),
                    tenant: row.get::<_, String>(1)?.into(),
                    login: row.get::<_, Option<String>>(2)?.map(LoginId::from),
                    agent: row.get::<_, Option<String>>(3)?.map(InstanceId::from),
                    expires: Moment::from_millis(row.get(4)?),
                })
            })
            .optional()
        })
        .await
    }
}

impl Sqlite {
    /// The tenant of a client, as the owner of writes for it. A client asks for tokens as often as it likes.
    fn tenant_of_client(&self, client: &ClientId) -> JobTenant {
        match client.as_str().split_once(':') {
            Some(("agent", instance)) => self.tenant_of(&InstanceId::new(instance)),
            Some(("tenant", tenant)) => Some(tenant.into()),
            _ => None,
        }
    }
}

/// Creates the owner's client, or gives it another secret. False when there is no such owner.
pub(super) fn create_client(
    db: &Connection,
    owner: &Owner,
    secret: TokenHash,
    now: Moment,
    overlap_until: Moment,
) -> rusqlite::Result<bool> {
    let client = owner.client();
    let made = match owner {
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
        "UPDATE client_secrets SET expires = ?2, ends = ledger_time_at(?2)
         WHERE client = ?1 AND expires IS NULL",
        params![client.as_str(), overlap_until.millis()],
    )?;
    db.execute(
        "INSERT INTO client_secrets (hash, client) VALUES (?1, ?2)",
        params![secret.0, client.as_str()],
    )?;
    Ok(true)
}

/// Creates the bootstrap login of an instance and ends an earlier one. None when there is no such instance.
pub(super) fn log_in(
    db: &Connection,
    login: &LoginId,
    client: &ClientId,
    instance: &InstanceId,
    pair: TokenPair,
    now: Moment,
) -> rusqlite::Result<Option<LoginRecord>> {
    let there: bool =
        db.query_row("SELECT EXISTS (SELECT 1 FROM instances WHERE id = ?1)", [instance.as_str()], |row| {
            row.get(0)
        })?;
    if !there {
        return Ok(None);
    }
    end_logins(db, instance)?;
    db.execute(
        "INSERT INTO logins (id, client, instance, created) VALUES (?1, ?2, ?3, ?4)",
        params![login.as_str(), client.as_str(), instance.as_str(), now.millis()],
    )?;
    db.execute("UPDATE instances SET bootstrap = ?2 WHERE id = ?1", [instance.as_str(), login.as_str()])?;
    let refresh = refresh::begin(db, login, pair.refresh, now)?;
    let record = db.query_row(&format!("{LOGIN} WHERE logins.id = ?1"), [login.as_str()], login_record)?;
    keep_access(db, &record, pair, refresh)?;
    Ok(Some(record))
}

/// Stores an access token of a login, issued with this refresh token, and deletes the oldest past the limit.
fn keep_access(db: &Connection, of: &LoginRecord, pair: TokenPair, refresh: i64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO access_tokens (hash, client, tenant, login, refresh, expires, ends)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ledger_time_at(?6))",
    )?
    .execute(params![
        pair.access.0,
        of.client.as_str(),
        of.tenant.as_str(),
        of.login.as_str(),
        refresh,
        pair.access_expires.millis()
    ])?;
    keep_the_newest(db, Some(of.login.as_str()), &of.client)
}

fn keep_the_newest(db: &Connection, login: Option<&str>, client: &ClientId) -> rusqlite::Result<()> {
    db.prepare_cached(
        "DELETE FROM access_tokens WHERE hash IN
           (SELECT hash FROM access_tokens WHERE login IS ?1 AND client = ?2 AND refresh IS NULL
            ORDER BY ends DESC LIMIT -1 OFFSET ?3)",
    )?
    .execute(params![login, client.as_str(), ACCESS_TOKENS])
    .map(drop)
}

fn end_logins(db: &Connection, of: &InstanceId) -> rusqlite::Result<()> {
    for tokens in ["access_tokens", "refresh_tokens", "login_lines"] {
        db.execute(
            &format!("DELETE FROM {tokens} WHERE login IN (SELECT id FROM logins WHERE instance = ?1)"),
            [of.as_str()],
        )?;
    }
    db.execute("DELETE FROM logins WHERE instance = ?1", [of.as_str()])?;
    db.execute("UPDATE instances SET bootstrap = NULL WHERE id = ?1", [of.as_str()]).map(drop)
}

/// Deletes all credentials of an owner that is being removed.
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
        lines: row.get(6)?,
        addresses: row
            .get::<_, Option<String>>(7)?
            .map(|addresses| addresses.split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
    })
}
