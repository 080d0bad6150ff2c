//! Admin API: connectors, the ways to agents that do not connect by WebSocket. They open URLs, panes and
//! folders of the server's machine, so only the operator can create them. Their secrets can be set but
//! never read.

use axum::Json;
use axum::extract::{Path, State};
use http::HeaderValue;
use http_kit::Page;
use ledger::{ConnectorRecord, Tenant};
use post::connector::Capabilities;
use post::{ConnectorHealth, ConnectorNotCreated, ConnectorSecrets, Refused};
use posthouse_wire::delivery::AgentDescriptor;
use posthouse_wire::{ConnectorId, Secret, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::audit::{CreatedResponse, made};
use crate::extract::{JsonBody, PAGE, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::{Console, Parts};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConnectorsQuery {
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
    /// Settings of its kind.
    #[serde(default = "nothing_said")]
    settings: Value,
    /// Sent unchanged as the `Authorization` header.
    #[serde(default)]
    authorization: Option<Secret>,
    /// Secret for signatures.
    #[serde(default)]
    hmac_secret: Option<Secret>,
    /// Create it even if it is not healthy now.
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
    /// Whether it has one, never its value.
    authorization: bool,
    hmac_secret: bool,
    created_at: String,
    /// Null if only a check can tell.
    healthy: Option<bool>,
    why: Option<String>,
    #[serde(flatten)]
    capabilities: Capabilities,
}

/// Result of a check; the built-in connector has no record.
#[derive(Serialize)]
pub(crate) struct CheckedConnector {
    tenant: String,
    name: String,
    healthy: Option<bool>,
    why: Option<String>,
    #[serde(flatten)]
    capabilities: Capabilities,
    agents: Vec<AgentDescriptor>,
}

impl Parts {
    pub(crate) async fn connector(
        &self,
        tenant: &str,
        name: &str,
    ) -> Result<(Tenant, ConnectorRecord), AdminProblem> {
        let tenant = self.tenant(tenant).await?;
        let found = self.post.connectors().records().connector(&tenant.id, name).await?;
        let record = found.ok_or_else(|| absent(&tenant.name, name))?;
        Ok((tenant, record))
    }

    async fn shown_connector(
        &self,
        tenant: String,
        record: ConnectorRecord,
        ConnectorHealth { healthy, why, capabilities, .. }: ConnectorHealth,
    ) -> Result<ShownConnector, AdminProblem> {
        let has = self.post.connectors().secrets_of(&record.id).await?;
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
            healthy,
            why,
            capabilities,
        })
    }

    async fn checked(&self, tenant: &Tenant, name: &str) -> Result<ConnectorHealth, AdminProblem> {
        self.post.connectors().check(&tenant.id, name).await.map_err(|refused| match refused {
            Refused::Absent => absent(&tenant.name, name),
            refused => refused.into(),
        })
    }
}

fn absent(tenant: &str, name: &str) -> AdminProblem {
    AdminProblem::absent("no_such_connector", format!("tenant `{tenant}` has no connector `{name}`"))
}

fn unmade(why: ConnectorNotCreated) -> AdminProblem {
    let detail = why.to_string();
    match why {
        ConnectorNotCreated::Malformed { .. } => AdminProblem::unfit("bad_connector", detail),
        ConnectorNotCreated::Taken => {
            AdminProblem::conflict("taken", "the tenant already has a connector of that name")
        }
        ConnectorNotCreated::NotAllowed(_) => AdminProblem::unfit("not_allowed", detail),
        ConnectorNotCreated::Unhealthy(_) => {
            AdminProblem::unfit("unhealthy", format!("{detail}; not created; use force to create it anyway"))
        }
        ConnectorNotCreated::Fault(fault) => fault.into(),
    }
}

/// Lists connectors in the order in which the server tries them: the order of creation. No connector is
/// called, so a broken one shows only if it cannot be opened at all.
pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<ConnectorsQuery>,
) -> Result<Json<Page<ShownConnector>>, AdminProblem> {
    let (names, only) = console.tenant_names(which.tenant.as_deref()).await?;
    let name_of = |tenant: &TenantId| names.get(tenant).cloned().unwrap_or_default();
    let records = console.post.connectors().records().connectors(only.as_ref()).await?;
    // Ids are ordered by time, so they give the order of creation.
    let key = |record: &ConnectorRecord| format!("{}/{}", name_of(&record.tenant), record.id);
    let page = Page::of_sorted(records, key, which.after.as_deref(), PAGE.clamp(which.limit));
    let mut items = Vec::with_capacity(page.items.len());
    for record in page.items {
        let health = console.post.connectors().describe(&record);
        items.push(console.shown_connector(name_of(&record.tenant), record, health).await?);
    }
    Ok(Json(Page { items, next: page.next }))
}

pub(crate) async fn create(
    State(console): State<Console>,
    JsonBody(new): JsonBody<NewConnector>,
) -> Result<CreatedResponse<ShownConnector>, AdminProblem> {
    let tenant = console.tenant(&new.tenant).await?;
    for (name, secret) in [("authorization", &new.authorization), ("hmac_secret", &new.hmac_secret)] {
        if secret.as_ref().is_some_and(Secret::is_empty) {
            return Err(AdminProblem::unfit("bad_connector", format!("`{name}` is empty: leave it out")));
        }
    }
    if new.authorization.as_ref().is_some_and(|value| HeaderValue::from_str(value.expose()).is_err()) {
        return Err(AdminProblem::unfit("bad_connector", "`authorization` cannot be the value of a header"));
    }
    let secrets = ConnectorSecrets { authorization: new.authorization, hmac_secret: new.hmac_secret };
    let record = console
        .post
        .connectors()
        .create(&tenant.id, &new.name, &new.kind, new.settings, secrets, new.force)
        .await
        .map_err(unmade)?;
    let about = format!("{}/{}", tenant.name, record.name);
    let mut health = console.post.connectors().describe(&record);
    // It was checked just now, unless it was forced.
    health.healthy = health.healthy.or((!new.force).then_some(true));
    Ok(made(about, console.shown_connector(tenant.name, record, health).await?))
}

/// Shows a connector, with a check of its health.
pub(crate) async fn show(
    State(console): State<Console>,
    Path((tenant, name)): Path<(String, String)>,
) -> Result<Json<ShownConnector>, AdminProblem> {
    let (tenant, record) = console.connector(&tenant, &name).await?;
    let health = console.checked(&tenant, &name).await?;
    Ok(Json(console.shown_connector(tenant.name, record, health).await?))
}

/// Checks the health now. The built-in connector can be checked too.
pub(crate) async fn check(
    State(console): State<Console>,
    Path((tenant, name)): Path<(String, String)>,
) -> Result<Json<CheckedConnector>, AdminProblem> {
    let tenant = console.tenant(&tenant).await?;
    let ConnectorHealth { healthy, why, capabilities, agents } = console.checked(&tenant, &name).await?;
    Ok(Json(CheckedConnector { tenant: tenant.name, name, healthy, why, capabilities, agents }))
}

#[derive(Serialize)]
pub(crate) struct RemovedConnector {
    tenant: String,
    name: String,
}

pub(crate) async fn remove(
    State(console): State<Console>,
    Path((tenant, name)): Path<(String, String)>,
) -> Result<Json<RemovedConnector>, AdminProblem> {
    let tenant = console.tenant(&tenant).await?;
    match console.post.connectors().remove(&tenant.id, &name).await? {
        true => Ok(Json(RemovedConnector { tenant: tenant.name, name })),
        false => Err(absent(&tenant.name, &name)),
    }
}
