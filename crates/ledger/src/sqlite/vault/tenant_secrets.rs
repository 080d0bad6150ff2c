//! SQL of the sealed values of tenants.

use async_trait::async_trait;
use posthouse_wire::TenantId;
use rusqlite::{OptionalExtension, params};

use super::{put_tenant_secret, sealed};
use crate::Fault;
use crate::sqlite::{Sqlite, owner};
use crate::vault::{SECRETS_OF_A_TENANT, Sealed, SecretStored, TenantSecrets};

#[async_trait]
impl TenantSecrets for Sqlite {
    async fn put_tenant_secret(
        &self,
        tenant: &TenantId,
        prefix: &str,
        name: &str,
        sealed: Sealed,
    ) -> Result<SecretStored, Fault> {
        let (tenant, prefix, name) = (tenant.clone(), format!("{prefix}*"), name.to_owned());
        self.write_for(owner(&tenant), move |db| {
            let exists: bool = db
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM tenants WHERE id = ?1)")?
                .query_row([tenant.as_str()], |row| row.get(0))?;
            if !exists {
                return Ok(SecretStored::NoTenant);
            }
            let others: u32 = db
                .prepare_cached(
                    "SELECT count(*) FROM tenant_secrets WHERE tenant = ?1 AND name GLOB ?2 AND name <> ?3",
                )?
                .query_row([tenant.as_str(), &prefix, &name], |row| row.get(0))?;
            if others >= SECRETS_OF_A_TENANT {
                return Ok(SecretStored::TooMany);
            }
            put_tenant_secret(db, &tenant, &name, &sealed)?;
            Ok(SecretStored::Stored)
        })
        .await
    }

    async fn find_tenant_secret(&self, tenant: &TenantId, name: &str) -> Result<Option<Sealed>, Fault> {
        let (tenant, name) = (tenant.clone(), name.to_owned());
        self.read(move |db| {
            db.prepare_cached("SELECT key_id, blob FROM tenant_secrets WHERE tenant = ?1 AND name = ?2")?
                .query_row([tenant.as_str(), &name], |row| sealed(row, 0))
                .optional()
        })
        .await
    }

    async fn tenant_secret_names(&self, tenant: &TenantId, prefix: &str) -> Result<Vec<String>, Fault> {
        let (tenant, prefix) = (tenant.clone(), format!("{prefix}*"));
        self.read(move |db| {
            db.prepare_cached(
                "SELECT name FROM tenant_secrets WHERE tenant = ?1 AND name GLOB ?2 ORDER BY name",
            )?
            .query_map([tenant.as_str(), &prefix], |row| row.get(0))?
            .collect()
        })
        .await
    }

    async fn remove_tenant_secret(&self, tenant: &TenantId, name: &str) -> Result<bool, Fault> {
        let (tenant, name) = (tenant.clone(), name.to_owned());
        self.write_for(owner(&tenant), move |db| {
            let gone = db.execute(
                "DELETE FROM tenant_secrets WHERE tenant = ?1 AND name = ?2",
                params![tenant.as_str(), name],
            )?;
            Ok(gone > 0)
        })
        .await
    }
}
