//! SQL of connectors and aliases.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::TenantId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Sqlite, receipts, vault};
use crate::connectors::{Alias, ConnectorRecord, Connectors};
use crate::{Created, Fault, Removed, Sealed};

const CONNECTOR: &str = "SELECT id, tenant, name, kind, settings, created FROM connectors";
const NO_TENANT: Created = Created::Unfit("no such tenant");

#[async_trait]
impl Connectors for Sqlite {
    async fn create_connector(
        &self,
        new: ConnectorRecord,
        secrets: Vec<(String, Sealed)>,
    ) -> Result<Created, Fault> {
        self.write(move |db| {
            if !is_tenant(db, &new.tenant)? {
                return Ok(NO_TENANT);
            }
            let created = db.execute(
                "INSERT INTO connectors (id, tenant, name, kind, settings, created)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
                params![
                    new.id.as_str(),
                    new.tenant.as_str(),
                    new.name,
                    new.kind,
                    new.settings,
                    new.created.millis()
                ],
            )?;
            for (name, sealed) in secrets.iter().filter(|_| created > 0) {
                vault::put_connector_secret(db, &new.id, name, sealed)?;
            }
            Ok(made(created))
        })
        .await
    }

    async fn connectors(&self, of: Option<&TenantId>) -> Result<Vec<ConnectorRecord>, Fault> {
        let of = of.cloned();
        self.read(move |db| match &of {
            Some(of) => db
                .prepare_cached(&format!("{CONNECTOR} WHERE tenant = ?1 ORDER BY seq"))?
                .query_map([of.as_str()], connector)?
                .collect(),
            None => {
                db.prepare_cached(&format!("{CONNECTOR} ORDER BY seq"))?.query_map([], connector)?.collect()
            }
        })
        .await
    }

    async fn connector(&self, tenant: &TenantId, name: &str) -> Result<Option<ConnectorRecord>, Fault> {
        let (tenant, name) = (tenant.clone(), name.to_owned());
        self.read(move |db| {
            db.prepare_cached(&format!("{CONNECTOR} WHERE tenant = ?1 AND name = ?2"))?
                .query_row([tenant.as_str(), &name], connector)
                .optional()
        })
        .await
    }

    /// A foreign key deletes its secrets together with its row.
    async fn remove_connector(&self, tenant: &TenantId, name: &str) -> Result<Removed, Fault> {
        let (tenant, name, now) = (tenant.clone(), name.to_owned(), self.timepiece.now());
        self.write(move |db| {
            let gone = db
                .execute("DELETE FROM connectors WHERE tenant = ?1 AND name = ?2", [tenant.as_str(), &name])
                .map(removed)?;
            if gone == Removed::Gone {
                receipts::fail_outgoing_of(db, &tenant, &name, "the connector was removed", now)?;
            }
            Ok(gone)
        })
        .await
    }

    async fn create_alias(&self, new: Alias) -> Result<Created, Fault> {
        self.write(move |db| {
            if !is_tenant(db, &new.tenant)? {
                return Ok(NO_TENANT);
            }
            db.execute(
                "INSERT INTO aliases (tenant, name, agent) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                [new.tenant.as_str(), &new.name, &new.agent],
            )
            .map(made)
        })
        .await
    }

    async fn aliases(&self, of: Option<&TenantId>) -> Result<Vec<Alias>, Fault> {
        let of = of.cloned();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT tenant, name, agent FROM aliases WHERE ?1 IS NULL OR tenant = ?1 ORDER BY tenant, name",
            )?
            .query_map([of.as_ref().map(TenantId::as_str)], |row| {
                Ok(Alias { tenant: row.get::<_, String>(0)?.into(), name: row.get(1)?, agent: row.get(2)? })
            })?
            .collect()
        })
        .await
    }

    async fn remove_alias(&self, tenant: &TenantId, name: &str) -> Result<Removed, Fault> {
        let (tenant, name) = (tenant.clone(), name.to_owned());
        self.write(move |db| {
            db.execute("DELETE FROM aliases WHERE tenant = ?1 AND name = ?2", [tenant.as_str(), &name])
                .map(removed)
        })
        .await
    }

    /// False for a tenant that does not exist.
    async fn peers_may_write(&self, tenant: &TenantId) -> Result<bool, Fault> {
        let tenant = tenant.clone();
        self.read(move |db| {
            db.prepare_cached("SELECT peer_post FROM tenants WHERE id = ?1")?
                .query_row([tenant.as_str()], |row| row.get(0))
                .optional()
                .map(|may| may.unwrap_or(false))
        })
        .await
    }

    async fn set_peers_may_write(&self, tenant: &TenantId, may: bool) -> Result<(), Fault> {
        let tenant = tenant.clone();
        self.write(move |db| {
            db.execute("UPDATE tenants SET peer_post = ?2 WHERE id = ?1", params![tenant.as_str(), may])
                .map(drop)
        })
        .await
    }
}

fn is_tenant(db: &Connection, id: &TenantId) -> rusqlite::Result<bool> {
    db.query_row("SELECT EXISTS (SELECT 1 FROM tenants WHERE id = ?1)", [id.as_str()], |row| row.get(0))
}

fn made(rows: usize) -> Created {
    if rows == 0 { Created::Taken } else { Created::Made }
}

fn removed(rows: usize) -> Removed {
    if rows == 0 { Removed::Absent } else { Removed::Gone }
}

fn connector(row: &Row<'_>) -> rusqlite::Result<ConnectorRecord> {
    Ok(ConnectorRecord {
        id: row.get::<_, String>(0)?.into(),
        tenant: row.get::<_, String>(1)?.into(),
        name: row.get(2)?,
        kind: row.get(3)?,
        settings: row.get(4)?,
        created: Moment::from_millis(row.get(5)?),
    })
}
