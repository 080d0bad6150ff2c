//! Ending and renewing the credentials of an agent, in one transaction each.

use posthouse_time::Moment;
use posthouse_wire::{ClientId, GatewayId, InstanceId, LoginId};
use rusqlite::{Connection, OptionalExtension, params};

use super::super::enroll_tokens;
use super::{create_client, end_logins, log_in, vault};
use crate::tokens::{EndedCredentials, Owner, RenewedCredentials, WhichCredentials};

pub(in crate::sqlite) fn end(
    db: &Connection,
    of: &InstanceId,
    which: &WhichCredentials,
    now: Moment,
) -> rusqlite::Result<EndedCredentials> {
    let mut ended = EndedCredentials::default();
    let all = *which == WhichCredentials::All;
    let good: Vec<String> = db
        .prepare_cached(
            "SELECT id FROM gateways WHERE instance = ?1 AND revoked IS NULL ORDER BY created, id",
        )?
        .query_map([of.as_str()], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for gateway in good.into_iter().map(GatewayId::from) {
        if all || *which == WhichCredentials::Gateway(gateway.clone()) {
            vault::revoke(db, &gateway, now)?;
            ended.gateways.push(gateway);
        }
    }
    if all || *which == WhichCredentials::Client {
        let client = Owner::Instance(of.clone()).client();
        let good: bool = db.query_row(
            "SELECT EXISTS (SELECT 1 FROM clients WHERE id = ?1 AND revoked IS NULL)",
            [client.as_str()],
            |row| row.get(0),
        )?;
        if good {
            revoke_client(db, &client, now)?;
            ended.client = Some(client);
        }
    }
    if all || *which == WhichCredentials::Login {
        let login: Option<String> = db
            .query_row("SELECT id FROM logins WHERE instance = ?1", [of.as_str()], |row| row.get(0))
            .optional()?;
        end_logins(db, of)?;
        ended.login = login.map(LoginId::from);
    }
    if all {
        ended.enroll_tokens = enroll_tokens::revoke_all(db, of, now)?;
    }
    Ok(ended)
}

/// False when there is no such client. The first revocation time stays.
pub(super) fn revoke_client(db: &Connection, client: &ClientId, now: Moment) -> rusqlite::Result<bool> {
    db.execute("DELETE FROM client_secrets WHERE client = ?1", [client.as_str()])?;
    // Only for a stored client: the operator's client ids are not stored and cannot be revoked.
    db.execute(
        "DELETE FROM access_tokens WHERE login IS NULL AND client = (SELECT id FROM clients WHERE id = ?1)",
        [client.as_str()],
    )?;
    db.execute(
        "UPDATE clients SET revoked = coalesce(revoked, ?2) WHERE id = ?1",
        params![client.as_str(), now.millis()],
    )
    .map(|rows| rows > 0)
}

pub(super) fn renew(
    db: &Connection,
    of: &InstanceId,
    renewed: &RenewedCredentials,
    now: Moment,
) -> rusqlite::Result<bool> {
    let there: bool = db.query_row(
        "SELECT EXISTS (SELECT 1 FROM instances WHERE id = ?1)
            AND NOT EXISTS (SELECT 1 FROM gateways WHERE id = ?2 AND (instance <> ?1 OR revoked IS NOT NULL))",
        [of.as_str(), renewed.gateway.as_str()],
        |row| row.get(0),
    )?;
    if !there {
        return Ok(false);
    }
    let http = &renewed.http;
    vault::issue(db, &renewed.gateway, of, &renewed.secret, now, http.overlap_until)?;
    create_client(db, &Owner::Instance(of.clone()), http.client_secret, now, http.overlap_until)?;
    log_in(db, &http.login, &http.login_client, of, http.login_tokens, now)?;
    Ok(true)
}
