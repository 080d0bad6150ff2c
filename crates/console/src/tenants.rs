//! Admin API: tenants, the owners of agents.

mod limits;

use std::collections::{BTreeMap, HashMap};

use axum::Json;
use axum::extract::{Path, State};
use http_kit::Page;
use ledger::{Removed, SkillSettingsChange, Tenant, TenantStorage};
use posthouse_wire::{Secret, TenantId};
use serde::{Deserialize, Serialize};
use workshop::{EndpointSecrets, SettingsRefusal};

use self::limits::{LimitChanges, ShownLimit};
use crate::audit::{CreatedResponse, made};
use crate::extract::{JsonBody, PAGE, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::{Console, Parts};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTenant {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantsQuery {
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
    peer_post: PeerPost,
    provisioning: ProvisioningMode,
    storage_used_bytes: i64,
    storage_limit_bytes: i64,
    /// Whether the limit is the tenant's own or the server's default.
    storage_limit: LimitFrom,
    /// The same for the tenant's files.
    media_used_bytes: i64,
    media_limit_bytes: i64,
    media_limit: LimitFrom,
    /// The same for the tenant's data, if it is in the server's own store.
    data_used_bytes: i64,
    data_limit_bytes: i64,
    data_limit: LimitFrom,
    limits: BTreeMap<&'static str, ShownLimit>,
    approval: ApprovalSetting,
    agents_may_approve: bool,
    skill_store: String,
    data_store: String,
    /// What is wrong with its stores. Only the answer to a change of a store has it, because it asks them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    store_problems: Vec<String>,
}

/// What a skill needs to be approved.
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum ApprovalSetting {
    /// The status.
    Open,
    /// The status and a signature.
    Signed,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum LimitFrom {
    Tenant,
    Default,
}

impl LimitFrom {
    fn of(storage: TenantStorage) -> Self {
        if storage.own_limit { LimitFrom::Tenant } else { LimitFrom::Default }
    }
}

/// The agents that an agent may write to with its own credential.
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum PeerPost {
    /// The other agents of its tenant.
    All,
    None,
}

/// Whether gateways that provision themselves may create agents.
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum ProvisioningMode {
    Open,
    /// They get credentials only of agents that exist.
    Closed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantChange {
    #[serde(default)]
    provisioning: Option<ProvisioningMode>,
    #[serde(default)]
    peer_post: Option<PeerPost>,
    #[serde(default)]
    storage_bytes: Option<StorageBytes>,
    #[serde(default)]
    media_bytes: Option<StorageBytes>,
    #[serde(default)]
    limits: LimitChanges,
    #[serde(default)]
    approval: Option<ApprovalSetting>,
    #[serde(default)]
    agents_may_approve: Option<bool>,
    #[serde(default)]
    skill_store: Option<String>,
    /// Secrets of a skill store at a URL.
    #[serde(default)]
    skill_store_authorization: Option<Secret>,
    #[serde(default)]
    skill_store_hmac_secret: Option<Secret>,
    #[serde(default)]
    data_store: Option<String>,
    /// Secrets of a data store at a URL.
    #[serde(default)]
    data_store_authorization: Option<Secret>,
    #[serde(default)]
    data_store_hmac_secret: Option<Secret>,
    #[serde(default)]
    data_bytes: Option<StorageBytes>,
}

/// Storage limit of a tenant.
#[derive(Deserialize)]
#[serde(untagged)]
enum StorageBytes {
    Own(i64),
    Word(DefaultWord),
}

impl StorageBytes {
    /// The tenant's own limit. `None` for the server's default.
    fn limit(self, code: &'static str, negative: &'static str) -> Result<Option<i64>, AdminProblem> {
        match self {
            StorageBytes::Own(bytes) if bytes < 0 => Err(AdminProblem::unfit(code, negative)),
            StorageBytes::Own(bytes) => Ok(Some(bytes)),
            StorageBytes::Word(DefaultWord::Default) => Ok(None),
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DefaultWord {
    Default,
}

/// An empty request body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmptyBody {}

/// An access token with which the operator acts for a tenant; valid for a quarter of an hour.
#[derive(Serialize)]
pub(crate) struct OperatorAccess {
    access_token: String,
    token_type: &'static str,
    expires_in: u64,
    tenant: String,
    tenant_id: TenantId,
}

fn shown(tenant: &Tenant) -> ShownTenant {
    ShownTenant {
        name: tenant.name.clone(),
        tenant_id: tenant.id.to_string(),
        created_at: tenant.created.to_string(),
    }
}

fn no_tenant(name_or_id: &str) -> AdminProblem {
    AdminProblem::absent("no_such_tenant", format!("there is no tenant `{name_or_id}`"))
}

impl Parts {
    /// Finds a tenant by name or id.
    pub(crate) async fn tenant(&self, name_or_id: &str) -> Result<Tenant, AdminProblem> {
        let found = self.identity.roster.records().tenant(name_or_id).await?;
        found.ok_or_else(|| no_tenant(name_or_id))
    }

    /// Names of tenants by id: of one tenant, or of all.
    pub(crate) async fn tenant_names(
        &self,
        only: Option<&str>,
    ) -> Result<(HashMap<TenantId, String>, Option<TenantId>), AdminProblem> {
        let (tenants, only) = match only {
            Some(name) => {
                let tenant = self.tenant(name).await?;
                let id = tenant.id.clone();
                (vec![tenant], Some(id))
            }
            None => (self.identity.roster.records().tenants().await?, None),
        };
        Ok((tenants.into_iter().map(|tenant| (tenant.id, tenant.name)).collect(), only))
    }

    async fn tenant_with_agents(&self, tenant: &Tenant) -> Result<TenantWithAgents, AdminProblem> {
        let agents = self.identity.roster.records().instances(Some(&tenant.id)).await?.len();
        let peer_post = match self.post.connectors().records().peers_may_write(&tenant.id).await? {
            true => PeerPost::All,
            false => PeerPost::None,
        };
        let provisioning = match self.identity.gateway_provisioning.may_create_agents(&tenant.id).await? {
            true => ProvisioningMode::Open,
            false => ProvisioningMode::Closed,
        };
        let quotas = &self.identity.quotas;
        let own = quotas.own_limits(&tenant.id).await?;
        let limits = limits::shown(&quotas.limits(&tenant.id).await, &own, quotas.used(&tenant.id).await);
        let (storage, media) = (self.usage.of_tenant(&tenant.id), self.usage.media_of_tenant(&tenant.id));
        let data = self.usage.data_of_tenant(&tenant.id);
        let (skills, _) = self.workshop.approval_keys().settings(&tenant.id).await?;
        Ok(TenantWithAgents {
            approval: if skills.signed { ApprovalSetting::Signed } else { ApprovalSetting::Open },
            agents_may_approve: skills.agents_may_approve,
            skill_store: skills.store,
            data_store: skills.data_store,
            store_problems: Vec::new(),
            tenant: shown(tenant),
            agents,
            peer_post,
            provisioning,
            storage_used_bytes: storage.used,
            storage_limit_bytes: storage.limit,
            storage_limit: LimitFrom::of(storage),
            media_used_bytes: media.used,
            media_limit_bytes: media.limit,
            media_limit: LimitFrom::of(media),
            data_used_bytes: data.used,
            data_limit_bytes: data.limit,
            data_limit: LimitFrom::of(data),
            limits,
        })
    }
}

pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<TenantsQuery>,
) -> Result<Json<Page<ShownTenant>>, AdminProblem> {
    let tenants = console.identity.roster.records().tenants().await?;
    let page = Page::of_sorted(
        tenants,
        |tenant| tenant.name.clone(),
        which.after.as_deref(),
        PAGE.clamp(which.limit),
    );
    Ok(Json(page.map(|tenant| shown(&tenant))))
}

pub(crate) async fn create(
    State(console): State<Console>,
    JsonBody(new): JsonBody<NewTenant>,
) -> Result<CreatedResponse<ShownTenant>, AdminProblem> {
    let created = console.identity.accounts.create_tenant(&new.name).await?;
    match created.map_err(|refusal| AdminProblem::unfit("bad_name", refusal.to_string()))? {
        Some(tenant) => Ok(made(tenant.name.clone(), shown(&tenant))),
        None => Err(AdminProblem::conflict("taken", format!("there is already a tenant `{}`", new.name))),
    }
}

pub(crate) async fn show(
    State(console): State<Console>,
    Path(tenant): Path<String>,
) -> Result<Json<TenantWithAgents>, AdminProblem> {
    let tenant = console.tenant(&tenant).await?;
    Ok(Json(console.tenant_with_agents(&tenant).await?))
}

pub(crate) async fn change(
    State(console): State<Console>,
    Path(tenant): Path<String>,
    JsonBody(change): JsonBody<TenantChange>,
) -> Result<Json<TenantWithAgents>, AdminProblem> {
    let tenant = console.tenant(&tenant).await?;
    let limits = change.limits.read()?;
    let skills = SkillSettingsChange {
        signed: change.approval.map(|approval| matches!(approval, ApprovalSetting::Signed)),
        agents_may_approve: change.agents_may_approve,
        store: change.skill_store,
        data_store: change.data_store,
        secrets: Vec::new(),
    };
    let for_skills = EndpointSecrets {
        authorization: change.skill_store_authorization,
        hmac_secret: change.skill_store_hmac_secret,
    };
    let for_data = EndpointSecrets {
        authorization: change.data_store_authorization,
        hmac_secret: change.data_store_hmac_secret,
    };
    let changes_store =
        skills.store.is_some() || skills.data_store.is_some() || for_skills.is_some() || for_data.is_some();
    if changes_store || skills != SkillSettingsChange::default() {
        let keys = console.workshop.approval_keys();
        let changed = keys.change_with_secrets(&tenant.id, skills, for_skills, for_data).await?;
        changed.map_err(|refusal| match refusal {
            SettingsRefusal::NoTenant => no_tenant(&tenant.name),
            SettingsRefusal::BadStore(why) => AdminProblem::unfit("bad_skill_store", why),
            SettingsRefusal::BadDataStore(why) => AdminProblem::unfit("bad_data_store", why),
        })?;
    }
    if !limits.is_empty() && !console.identity.quotas.set_limits(&tenant.id, limits).await? {
        return Err(no_tenant(&tenant.name));
    }
    if let Some(peer_post) = change.peer_post {
        let may = matches!(peer_post, PeerPost::All);
        console.post.connectors().records().set_peers_may_write(&tenant.id, may).await?;
        console.post.connectors().changed(&tenant.id);
    }
    if let Some(mode) = change.provisioning {
        let may = matches!(mode, ProvisioningMode::Open);
        console.identity.gateway_provisioning.set_may_create_agents(&tenant.id, may).await?;
    }
    if let Some(storage) = change.storage_bytes {
        let bytes = storage.limit("bad_storage_bytes", "`storage_bytes` must not be negative")?;
        console.usage.set_tenant_limit(&tenant.id, bytes).await?;
    }
    if let Some(media) = change.media_bytes {
        let bytes = media.limit("bad_media_bytes", "`media_bytes` must not be negative")?;
        console.usage.set_media_limit(&tenant.id, bytes).await?;
    }
    if let Some(data) = change.data_bytes {
        let bytes = data.limit("bad_data_bytes", "`data_bytes` must not be negative")?;
        console.usage.set_data_limit(&tenant.id, bytes).await?;
    }
    let mut shown = console.tenant_with_agents(&tenant).await?;
    if changes_store {
        shown.store_problems = console.workshop.approval_keys().problems(&tenant.id).await?;
    }
    Ok(Json(shown))
}

/// Issues an access token for the post, so that the operator can write to agents without a credential of the
/// tenant. The token appears only in this answer; the audit log records that it was issued.
pub(crate) async fn token(
    State(console): State<Console>,
    Path(tenant): Path<String>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> Result<Json<OperatorAccess>, AdminProblem> {
    let tenant = console.tenant(&tenant).await?;
    let granted = console.identity.accounts.operator_access(&tenant.id).await?;
    // It can have been removed since it was looked up.
    let granted = granted.ok_or_else(|| no_tenant(&tenant.name))?;
    Ok(Json(OperatorAccess {
        access_token: granted.access_token.expose().to_owned(),
        token_type: "Bearer",
        expires_in: granted.expires_in.as_secs(),
        tenant: tenant.name,
        tenant_id: tenant.id,
    }))
}

pub(crate) async fn remove(
    State(console): State<Console>,
    Path(tenant): Path<String>,
) -> Result<Json<ShownTenant>, AdminProblem> {
    let tenant = console.tenant(&tenant).await?;
    match console.identity.accounts.remove_tenant(&tenant.id).await? {
        Removed::Gone | Removed::Absent => Ok(Json(shown(&tenant))),
        Removed::InUse => Err(AdminProblem::conflict(
            "in_use",
            format!("tenant `{}` still has agents: remove them first", tenant.name),
        )),
    }
}
