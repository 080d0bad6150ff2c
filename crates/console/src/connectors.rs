//! Connectors: ways to agents that do not dial in. They open URLs, panes and folders of the house's machine,
//! so nobody but its operator makes them. Their secrets go in and never come out.

use axum::Json;
use axum::extract::{Path, State};
use http::HeaderValue;
use ledger::{ConnectorRecord, Tenant};
use post::{ConnectorSecrets, Refused, Unmade};
use posthouse_wire::{ConnectorId, Secret, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::audit::{Made, made};
use crate::listing::Items;
use crate::problem::Problem;
use crate::routes::{Console, Parts};
use crate::told::{Asked, Told};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    tenant: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewConnector {
    tenant: String,
    name: String,
    kind: String,
    /// What its kind understands.
    #[serde(default = "nothing_said")]
    settings: Value,
    /// Sent as the `Authorization` header, to the letter.
    #[serde(default)]
    authorization: Option<Secret>,
    /// What it signs with.
    #[serde(default)]
    hmac_secret: Option<Secret>,
    /// Make it even though it is not healthy now.
    #[serde(default)]
    force: bool,
}

fn nothing_said() -> Value {
    json!({})
}

#[derive(Serialize)]
pub(crate) struct ShownConnector {
    tenant: String,
    tenant_id: TenantId,
    name: String,
    connector_id: ConnectorId,
    kind: String,
    settings: Value,
    /// Whether it has one; never what it is.
    authorization: bool,
    hmac_secret: bool,
    created_at: String,
}

impl Parts {
    pub(crate) async fn connector(
        &self,
        tenant: &str,
        name: &str,
    ) -> Result<(Tenant, ConnectorRecord), Problem> {
        let tenant = self.tenant(tenant).await?;
        let found = self.post.connectors().connector(&tenant.id, name).await?;
        let record = found.ok_or_else(|| absent(&tenant.name, name))?;
        Ok((tenant, record))
    }

    async fn shown_connector(
        &self,
        tenant: String,
        record: ConnectorRecord,
    ) -> Result<ShownConnector, Problem> {
        let has = self.post.connector_secrets(&record.id).await?;
        Ok(ShownConnector {
            tenant,
            tenant_id: record.tenant,
            name: record.name,
            connector_id: record.id,
            kind: record.kind,
            settings: serde_json::from_str(&record.settings).unwrap_or_default(),
            authorization: has.authorization,
            hmac_secret: has.hmac_secret,
            created_at: record.created.to_string(),
        })
    }
}

fn absent(tenant: &str, name: &str) -> Problem {
    Problem::absent("no_such_connector", format!("tenant `{tenant}` has no connector `{name}`"))
}

fn unmade(why: Unmade) -> Problem {
    let detail = why.to_string();
    match why {
        Unmade::Malformed { .. } => Problem::unfit("bad_connector", detail),
        Unmade::Taken => Problem::conflict("taken", "the tenant already has a connector of that name"),
        Unmade::NotAllowed(_) => Problem::unfit("not_allowed", detail),
        Unmade::Unhealthy(_) => {
            Problem::unfit("unhealthy", format!("{detail}; nothing was made, unless it is forced"))
        }
        Unmade::Fault(fault) => fault.into(),
    }
}

/// In the order in which they are asked: that of their making.
pub(crate) async fn list(
    State(console): State<Console>,
    Asked(which): Asked<Which>,
) -> Result<Json<Items<ShownConnector>>, Problem> {
    let (names, only) = console.tenant_names(which.tenant.as_deref()).await?;
    let name_of = |tenant: &TenantId| names.get(tenant).cloned().unwrap_or_default();
    let records = console.post.connectors().connectors(only.as_ref()).await?;
    // Ids are minted in the order of time, and so tell the order of making.
    let key = |record: &ConnectorRecord| format!("{}/{}", name_of(&record.tenant), record.id);
    let page = Items::page(records, key, which.after.as_deref(), which.limit);
    let mut items = Vec::with_capacity(page.items.len());
    for record in page.items {
        items.push(console.shown_connector(name_of(&record.tenant), record).await?);
    }
    Ok(Json(Items { items, next: page.next }))
}

pub(crate) async fn create(
    State(console): State<Console>,
    Told(new): Told<NewConnector>,
) -> Result<Made<ShownConnector>, Problem> {
    let tenant = console.tenant(&new.tenant).await?;
    for (name, secret) in [("authorization", &new.authorization), ("hmac_secret", &new.hmac_secret)] {
        if secret.as_ref().is_some_and(Secret::is_empty) {
            return Err(Problem::unfit("bad_connector", format!("`{name}` is empty: leave it out")));
        }
    }
    if new.authorization.as_ref().is_some_and(|value| HeaderValue::from_str(value.expose()).is_err()) {
        return Err(Problem::unfit("bad_connector", "`authorization` cannot be the value of a header"));
    }
    let secrets = ConnectorSecrets { authorization: new.authorization, hmac_secret: new.hmac_secret };
    let record = console
        .post
        .make_connector(&tenant.id, &new.name, &new.kind, new.settings, secrets, new.force)
        .await
        .map_err(unmade)?;
    let about = format!("{}/{}", tenant.name, record.name);
    Ok(made(about, console.shown_connector(tenant.name, record).await?))
}

pub(crate) async fn show(
    State(console): State<Console>,
    Path((tenant, name)): Path<(String, String)>,
) -> Result<Json<ShownConnector>, Problem> {
    let (tenant, record) = console.connector(&tenant, &name).await?;
    Ok(Json(console.shown_connector(tenant.name, record).await?))
}

/// Looks at what it leads to, now. The built-in one can be looked at too.
pub(crate) async fn check(
    State(console): State<Console>,
    Path((tenant, name)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let tenant = console.tenant(&tenant).await?;
    let health = match console.post.check_connector(&tenant.id, &name).await {
        Ok(health) => health,
        Err(Refused::Absent) => return Err(absent(&tenant.name, &name)),
        Err(refused) => return Err(refused.into()),
    };
    Ok(Json(json!({
        "tenant": tenant.name,
        "name": name,
        "healthy": health.healthy,
        "implementation": health.implementation,
        "contract_version": post::connector::CONTRACT_VERSION,
        "features": health.features,
        "agents": health.agents,
    })))
}

#[derive(Serialize)]
pub(crate) struct RemovedConnector {
    tenant: String,
    name: String,
}

pub(crate) async fn remove(
    State(console): State<Console>,
    Path((tenant, name)): Path<(String, String)>,
) -> Result<Json<RemovedConnector>, Problem> {
    let tenant = console.tenant(&tenant).await?;
    match console.post.remove_connector(&tenant.id, &name).await? {
        true => Ok(Json(RemovedConnector { tenant: tenant.name, name })),
        false => Err(absent(&tenant.name, &name)),
    }
}
