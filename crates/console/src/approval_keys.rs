//! Admin API: approval keys, the public keys that check the signatures of skills; and the audit log of approvals.
//! Private keys never come here: skills are signed on the operator's machine.

use axum::Json;
use axum::extract::{Path, State};
use http_kit::{Page, PageSize};
use ledger::{AddedApprovalKey, ApprovalKeyRecord, SkillAuditRow};
use posthouse_time::Moment;
use serde::{Deserialize, Serialize};

use crate::audit::{CreatedResponse, made};
use crate::extract::{JsonBody, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::Console;

/// Number of audit rows per page.
const ROWS: PageSize = PageSize { default: 100, largest: 1000 };
/// Longest label of a key.
const LABEL: usize = 128;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeysQuery {
    tenant: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillAuditQuery {
    tenant: String,
    after: Option<i64>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewApprovalKey {
    tenant: String,
    /// The public key in PEM.
    public_key: String,
    #[serde(default)]
    label: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct ShownApprovalKey {
    tenant: String,
    key_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    added_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
    active: bool,
}

#[derive(Serialize)]
pub(crate) struct ShownSkillAudit {
    at: String,
    event: &'static str,
    skill: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    caller: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

fn shown(tenant: &str, key: ApprovalKeyRecord) -> ShownApprovalKey {
    ShownApprovalKey {
        tenant: tenant.to_owned(),
        key_id: key.id,
        label: key.label,
        added_at: key.added.to_string(),
        active: key.revoked.is_none(),
        revoked_at: key.revoked.as_ref().map(Moment::to_string),
    }
}

fn absent(tenant: &str, key: &str) -> AdminProblem {
    AdminProblem::absent("no_such_approval_key", format!("tenant `{tenant}` has no approval key `{key}`"))
}

/// Lists the keys of a tenant, revoked ones included.
pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<KeysQuery>,
) -> Result<Json<Page<ShownApprovalKey>>, AdminProblem> {
    let tenant = console.tenant(&which.tenant).await?;
    let (_, keys) = console.workshop.approval_keys().settings(&tenant.id).await?;
    Ok(Json(Page::all(keys.into_iter().map(|key| shown(&tenant.name, key)).collect())))
}

/// Adds a public key. Adding it again changes nothing.
pub(crate) async fn add(
    State(console): State<Console>,
    JsonBody(new): JsonBody<NewApprovalKey>,
) -> Result<CreatedResponse<ShownApprovalKey>, AdminProblem> {
    let tenant = console.tenant(&new.tenant).await?;
    if new.label.as_ref().is_some_and(|label| label.len() > LABEL || label.chars().any(char::is_control)) {
        return Err(AdminProblem::unfit("bad_label", "`label` must be one line of at most 128 bytes"));
    }
    let keys = console.workshop.approval_keys();
    let added = keys.add(&tenant.id, &new.public_key, new.label.as_deref()).await?;
    let (id, added) = added.map_err(|fault| AdminProblem::unfit("bad_key", fault.to_string()))?;
    match added {
        AddedApprovalKey::Added | AddedApprovalKey::Known => {}
        AddedApprovalKey::Revoked => {
            return Err(AdminProblem::conflict(
                "revoked",
                format!("the key {id} was revoked: use another one"),
            ));
        }
        AddedApprovalKey::TooMany => {
            return Err(AdminProblem::conflict("too_many", "the tenant has too many approval keys"));
        }
        AddedApprovalKey::NoTenant => {
            return Err(AdminProblem::absent(
                "no_such_tenant",
                format!("there is no tenant `{}`", tenant.name),
            ));
        }
    }
    let (_, all) = keys.settings(&tenant.id).await?;
    let key = all.into_iter().find(|key| key.id == id).ok_or_else(|| absent(&tenant.name, &id))?;
    Ok(made(format!("{}/{id}", tenant.name), shown(&tenant.name, key)))
}

/// Revokes a key. Skills that it signed stop passing before this answers.
pub(crate) async fn revoke(
    State(console): State<Console>,
    Path((tenant, id)): Path<(String, String)>,
) -> Result<Json<ShownApprovalKey>, AdminProblem> {
    let tenant = console.tenant(&tenant).await?;
    let keys = console.workshop.approval_keys();
    if !keys.revoke(&tenant.id, &id).await? {
        return Err(absent(&tenant.name, &id));
    }
    let (_, all) = keys.settings(&tenant.id).await?;
    let key = all.into_iter().find(|key| key.id == id).ok_or_else(|| absent(&tenant.name, &id))?;
    Ok(Json(shown(&tenant.name, key)))
}

/// Lists approvals, refused approvals and forced Drafts, newest first.
pub(crate) async fn log(
    State(console): State<Console>,
    QueryParams(which): QueryParams<SkillAuditQuery>,
) -> Result<Json<Page<ShownSkillAudit>>, AdminProblem> {
    let tenant = console.tenant(&which.tenant).await?;
    let limit = ROWS.clamp(which.limit);
    let rows = u32::try_from(limit + 1).unwrap_or(u32::MAX);
    let rows = console.workshop.approval_keys().log(&tenant.id, which.after, rows).await?;
    let page = Page::one_less(limit, rows, |(seq, _)| seq.to_string());
    Ok(Json(page.map(|(_, row)| {
        let SkillAuditRow { at, event, skill, version, caller, key, reason } = row;
        ShownSkillAudit {
            at: at.to_string(),
            event: event.word(),
            skill,
            version,
            caller,
            key_id: key,
            reason,
        }
    })))
}
