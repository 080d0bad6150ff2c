//! Admin API: aliases, other names for agents whose address contains an `@` or is not a valid name.

use axum::Json;
use axum::extract::{Path, State};
use http_kit::Page;
use ledger::{Alias, Created, Removed};
use posthouse_wire::TenantId;
use posthouse_wire::id::is_name;
use serde::{Deserialize, Serialize};

use crate::audit::{CreatedResponse, made};
use crate::extract::{JsonBody, PAGE, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::Console;

/// The longest address of an alias, in bytes.
const LONGEST: usize = 256;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AliasesQuery {
    tenant: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAlias {
    tenant: String,
    name: String,
    /// The agent, by the name under which a connector lists it.
    agent: String,
}

#[derive(Serialize)]
pub(crate) struct ShownAlias {
    tenant: String,
    tenant_id: TenantId,
    name: String,
    agent: String,
}

#[derive(Serialize)]
pub(crate) struct RemovedAlias {
    tenant: String,
    name: String,
}

pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<AliasesQuery>,
) -> Result<Json<Page<ShownAlias>>, AdminProblem> {
    let (names, only) = console.tenant_names(which.tenant.as_deref()).await?;
    let aliases = console.post.connectors().records().aliases(only.as_ref()).await?;
    let shown = aliases.into_iter().map(|alias| ShownAlias {
        tenant: names.get(&alias.tenant).cloned().unwrap_or_default(),
        tenant_id: alias.tenant,
        name: alias.name,
        agent: alias.agent,
    });
    let key = |alias: &ShownAlias| format!("{}/{}", alias.tenant, alias.name);
    Ok(Json(Page::of_sorted(shown.collect(), key, which.after.as_deref(), PAGE.clamp(which.limit))))
}

pub(crate) async fn create(
    State(console): State<Console>,
    JsonBody(new): JsonBody<NewAlias>,
) -> Result<CreatedResponse<ShownAlias>, AdminProblem> {
    let NewAlias { name, agent, .. } = new;
    let tenant = console.tenant(&new.tenant).await?;
    // A name that looks like an id would be read as one.
    if !is_name(&name) || name.starts_with("inst_") {
        let detail = format!("`{name}` is not a valid name: letters, digits, `.`, `_` and `-`, at most 64");
        return Err(AdminProblem::unfit("bad_name", detail));
    }
    if agent.is_empty() || agent.len() > LONGEST {
        let detail = format!("the agent of an alias must have 1 to {LONGEST} bytes");
        return Err(AdminProblem::unfit("bad_agent", detail));
    }
    if console.identity.roster.records().instance_named(&tenant.id, &name).await?.is_some() {
        let detail = format!("tenant `{}` has an agent `{name}`: choose another alias", tenant.name);
        return Err(AdminProblem::conflict("taken", detail));
    }
    let alias = Alias { tenant: tenant.id.clone(), name: name.clone(), agent: agent.clone() };
    match console.post.connectors().records().create_alias(alias).await? {
        Created::Made => {
            console.post.connectors().changed(&tenant.id);
            let shown = ShownAlias { tenant: tenant.name, tenant_id: tenant.id, name, agent };
            Ok(made(format!("{}/{}", shown.tenant, shown.name), shown))
        }
        Created::Taken => {
            let detail = format!("tenant `{}` already has an alias `{name}`", tenant.name);
            Err(AdminProblem::conflict("taken", detail))
        }
        Created::Unfit(why) => Err(AdminProblem::unfit("bad_alias", why)),
    }
}

pub(crate) async fn remove(
    State(console): State<Console>,
    Path((tenant, name)): Path<(String, String)>,
) -> Result<Json<RemovedAlias>, AdminProblem> {
    let tenant = console.tenant(&tenant).await?;
    match console.post.connectors().records().remove_alias(&tenant.id, &name).await? {
        Removed::Gone => {
            console.post.connectors().changed(&tenant.id);
            Ok(Json(RemovedAlias { tenant: tenant.name, name }))
        }
        Removed::Absent | Removed::InUse => {
            let detail = format!("tenant `{}` has no alias `{name}`", tenant.name);
            Err(AdminProblem::absent("no_such_alias", detail))
        }
    }
}
