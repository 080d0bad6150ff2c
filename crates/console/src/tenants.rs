//! Tenants: whose.

use axum::Json;
use axum::extract::{Path, State};
use http::StatusCode;
use ledger::{Removed, Tenant};
use serde::{Deserialize, Serialize};

use crate::listing::Items;
use crate::problem::Problem;
use crate::routes::{Console, Parts};
use crate::told::{Asked, Told};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTenant {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Serialize)]
pub(crate) struct ShownTenant {
    name: String,
    tenant_id: String,
    created_at: String,
}

#[derive(Serialize)]
pub(crate) struct TenantWithAgents {
    #[serde(flatten)]
    tenant: ShownTenant,
    agents: usize,
}

fn shown(tenant: &Tenant) -> ShownTenant {
    ShownTenant {
        name: tenant.name.clone(),
        tenant_id: tenant.id.to_string(),
        created_at: tenant.created.to_string(),
    }
}

impl Parts {
    /// By name or id.
    pub(crate) async fn tenant(&self, name_or_id: &str) -> Result<Tenant, Problem> {
        let found = self.relay.roster().tenant(name_or_id).await?;
        found.ok_or_else(|| Problem::absent("no_such_tenant", format!("there is no tenant `{name_or_id}`")))
    }
}

pub(crate) async fn list(
    State(console): State<Console>,
    Asked(which): Asked<Which>,
) -> Result<Json<Items<ShownTenant>>, Problem> {
    let tenants = console.relay.roster().tenants().await?;
    let page = Items::page(tenants, |tenant| tenant.name.clone(), which.after.as_deref(), which.limit);
    Ok(Json(page.map(|tenant| shown(&tenant))))
}

pub(crate) async fn create(
    State(console): State<Console>,
    Told(new): Told<NewTenant>,
) -> Result<(StatusCode, Json<ShownTenant>), Problem> {
    let made = console.relay.create_tenant(&new.name).await?;
    let made = made.map_err(|refusal| Problem::unfit("bad_name", refusal.to_string()))?;
    match made {
        Some(tenant) => Ok((StatusCode::CREATED, Json(shown(&tenant)))),
        None => Err(Problem::conflict("taken", format!("there already is a tenant `{}`", new.name))),
    }
}

pub(crate) async fn show(
    State(console): State<Console>,
    Path(tenant): Path<String>,
) -> Result<Json<TenantWithAgents>, Problem> {
    let tenant = console.tenant(&tenant).await?;
    let agents = console.relay.roster().instances(Some(&tenant.id)).await?.len();
    Ok(Json(TenantWithAgents { tenant: shown(&tenant), agents }))
}

pub(crate) async fn remove(
    State(console): State<Console>,
    Path(tenant): Path<String>,
) -> Result<Json<ShownTenant>, Problem> {
    let tenant = console.tenant(&tenant).await?;
    match console.relay.roster().remove_tenant(&tenant.id).await? {
        Removed::Gone | Removed::Absent => {
            console.relay.roster_changed();
            Ok(Json(shown(&tenant)))
        }
        Removed::InUse => Err(Problem::conflict(
            "in_use",
            format!("tenant `{}` still has agents: remove them first", tenant.name),
        )),
    }
}
