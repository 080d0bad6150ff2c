//! Admin API: run settings of tenants, and the secrets of their skills. No answer contains the value of a secret.

use axum::Json;
use axum::extract::{Path, State};
use http_kit::Page;
use posthouse_wire::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use workshop::{NewSecret, RunSettings, RunSettingsRefusal};

use crate::audit::{CreatedResponse, made};
use crate::extract::{JsonBody, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::Console;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretsQuery {
    tenant: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSkillSecret {
    tenant: String,
    name: String,
    value: Secret,
}

#[derive(Serialize)]
pub(crate) struct ShownSecret {
    tenant: String,
    name: String,
}

/// The run settings of a tenant, without the values of headers and keys.
pub(crate) async fn show(
    State(console): State<Console>,
    Path(tenant): Path<String>,
) -> Result<Json<Value>, AdminProblem> {
    let tenant = console.tenant(&tenant).await?;
    let setup = console.runner.resources().of(&tenant.id).await?;
    let mut shown = setup.settings.shown();
    shown["errors"] = json!(setup.resources.errors);
    Ok(Json(shown))
}

/// Changes the run settings that the body names. The others stay.
pub(crate) async fn change(
    State(console): State<Console>,
    Path(tenant): Path<String>,
    JsonBody(change): JsonBody<Map<String, Value>>,
) -> Result<Json<Value>, AdminProblem> {
    let tenant = console.tenant(&tenant).await?;
    let resources = console.runner.resources();
    let now = serde_json::to_value(resources.settings(&tenant.id).await?).unwrap_or_default();
    let mut next = now.as_object().cloned().unwrap_or_default();
    next.extend(change);
    let next: RunSettings = serde_json::from_value(Value::Object(next))
        .map_err(|error| AdminProblem::unfit("bad_run_settings", error.to_string()))?;
    match resources.change_settings(&tenant.id, &next).await? {
        Ok(()) => show(State(console), Path(tenant.name)).await,
        Err(RunSettingsRefusal::Invalid(why)) => Err(AdminProblem::unfit("bad_run_settings", why)),
        Err(RunSettingsRefusal::NoTenant) => Err(no_tenant(&tenant.name)),
    }
}

/// The names of the secrets of a tenant.
pub(crate) async fn secrets(
    State(console): State<Console>,
    QueryParams(which): QueryParams<SecretsQuery>,
) -> Result<Json<Page<ShownSecret>>, AdminProblem> {
    let tenant = console.tenant(&which.tenant).await?;
    let names = console.runner.resources().secret_names(&tenant.id).await?;
    let shown = names.into_iter().map(|name| ShownSecret { tenant: tenant.name.clone(), name });
    Ok(Json(Page::all(shown.collect())))
}

/// Stores a secret and replaces the earlier one of this name.
pub(crate) async fn set_secret(
    State(console): State<Console>,
    JsonBody(new): JsonBody<NewSkillSecret>,
) -> Result<CreatedResponse<ShownSecret>, AdminProblem> {
    let tenant = console.tenant(&new.tenant).await?;
    let stored = console.runner.resources().set_secret(&tenant.id, &new.name, &new.value).await?;
    match stored {
        NewSecret::Stored => {
            let about = format!("{}/{}", tenant.name, new.name);
            Ok(made(about, ShownSecret { tenant: tenant.name, name: new.name }))
        }
        NewSecret::BadName => Err(AdminProblem::unfit(
            "bad_name",
            "a name is a letter or `_`, then letters, digits and `_`, at most 64 characters together",
        )),
        NewSecret::BadValue => {
            Err(AdminProblem::unfit("bad_value", "a secret has at least 1 and at most 65536 bytes"))
        }
        NewSecret::TooMany => Err(AdminProblem::conflict("too_many", "the tenant has too many secrets")),
        NewSecret::NoTenant => Err(no_tenant(&tenant.name)),
    }
}

/// Deletes a secret. Runs that need it fail from now on.
pub(crate) async fn remove_secret(
    State(console): State<Console>,
    Path((tenant, name)): Path<(String, String)>,
) -> Result<Json<ShownSecret>, AdminProblem> {
    let tenant = console.tenant(&tenant).await?;
    if !console.runner.resources().remove_secret(&tenant.id, &name).await? {
        let detail = format!("tenant `{}` has no secret `{name}`", tenant.name);
        return Err(AdminProblem::absent("no_such_secret", detail));
    }
    Ok(Json(ShownSecret { tenant: tenant.name, name }))
}

fn no_tenant(name: &str) -> AdminProblem {
    AdminProblem::absent("no_such_tenant", format!("there is no tenant `{name}`"))
}
