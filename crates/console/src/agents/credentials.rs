//! Admin API: gateway credentials of agents. A secret appears only in the answer that issues it.

use axum::Json;
use axum::extract::{Path, State};
use identity::{EndedCredentials, WhichCredentials};
use ledger::{BotRef, Instance, Tenant};
use posthouse_wire::{ClientId, EnrollTokenId, GatewayId, InstanceId, LoginId, Secret, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::TenantQuery;
use super::issued_credentials::IssuedCredentials;
use crate::env;
use crate::extract::{JsonBody, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::{Console, Parts};

/// What an agent needs to connect; shown once.
#[derive(Serialize)]
pub(crate) struct Credential {
    tenant: String,
    tenant_id: TenantId,
    name: String,
    instance_id: InstanceId,
    gateway_id: GatewayId,
    secret: String,
    env: Value,
    #[serde(flatten)]
    issued_credentials: Option<IssuedCredentials>,
}

impl Credential {
    pub fn new(
        console: &Parts,
        tenant: &Tenant,
        instance: &Instance,
        gateway: &GatewayId,
        secret: &Secret,
        bots: &[BotRef],
    ) -> Self {
        let env = env::env(&console.public_url, gateway, secret, bots);
        Self {
            tenant: tenant.name.clone(),
            tenant_id: tenant.id.clone(),
            name: instance.name.clone(),
            instance_id: instance.id.clone(),
            gateway_id: gateway.clone(),
            secret: secret.expose().to_owned(),
            env: env::shown(&env),
            issued_credentials: None,
        }
    }

    /// The same for an agent that has our login.
    pub fn with_portal(mut self, console: &Parts) -> Self {
        let (name, value) = env::portal(&console.public_url);
        self.env[name] = value.expose().into();
        self
    }

    /// The same for an agent that can ask to be stopped.
    pub fn with_sleep_url(mut self, url: Option<String>) -> Self {
        if let Some(url) = url {
            self.env["GATEWAY_RELAY_SLEEP_URL"] = url.into();
        }
        self
    }

    pub fn with_issued_credentials(self, console: &Parts, issued_credentials: IssuedCredentials) -> Self {
        Self { issued_credentials: Some(issued_credentials), ..self.with_portal(console) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CredentialRotation {
    #[serde(default)]
    gateway_id: Option<GatewayId>,
    /// Also replace the client secret and the login.
    #[serde(default)]
    all: bool,
}

/// The credential to revoke; all if none is named.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Revocation {
    #[serde(default)]
    gateway_id: Option<GatewayId>,
    #[serde(default)]
    client: bool,
    #[serde(default)]
    login: bool,
}

/// The revoked credentials.
#[derive(Serialize)]
pub(crate) struct Revoked {
    instance_id: InstanceId,
    gateway_ids: Vec<GatewayId>,
    client_id: Option<ClientId>,
    login_id: Option<LoginId>,
    enroll_token_ids: Vec<EnrollTokenId>,
}

impl Parts {
    /// The credentials of an agent that were not revoked.
    pub(crate) async fn good_gateways(&self, of: &InstanceId) -> Result<Vec<GatewayId>, AdminProblem> {
        let held = self.identity.accounts.gateways(of).await?;
        Ok(held.into_iter().filter(|(_, _, revoked)| revoked.is_none()).map(|(id, ..)| id).collect())
    }

    /// The named credential, or the only one. None if the agent has none.
    async fn meant(
        &self,
        of: &Instance,
        named: Option<GatewayId>,
    ) -> Result<Option<GatewayId>, AdminProblem> {
        let good = self.good_gateways(&of.id).await?;
        match named {
            Some(named) if good.contains(&named) => Ok(Some(named)),
            Some(named) => Err(AdminProblem::absent(
                "no_such_gateway",
                format!("agent `{}` has no valid credential `{named}`", of.name),
            )),
            None if good.len() > 1 => Err(AdminProblem::conflict(
                "ambiguous",
                format!("agent `{}` has several credentials: name one as gateway_id", of.name),
            )),
            None => Ok(good.into_iter().next()),
        }
    }
}

/// Gives a credential a new secret; the old one stays valid for a day. If all credentials of the agent were
/// revoked, it gets a new one. With `all`, its client and its login are replaced too.
pub(crate) async fn rotate(
    State(console): State<Console>,
    Path(agent): Path<String>,
    QueryParams(query): QueryParams<TenantQuery>,
    JsonBody(wanted): JsonBody<CredentialRotation>,
) -> Result<Json<Credential>, AdminProblem> {
    let (tenant, instance) = console.agent(&agent, query.tenant.as_deref()).await?;
    let gateway = match console.meant(&instance, wanted.gateway_id).await? {
        Some(gateway) => gateway,
        None => GatewayId::mint(console.timepiece.now().millis()),
    };
    let revoked = || AdminProblem::conflict("revoked", "the credential was revoked at the same time");
    let bots = console.real_bots(&instance.id).await?;
    if wanted.all {
        let (secret, http) =
            console.identity.accounts.rotate_all(&gateway, &instance).await?.ok_or_else(revoked)?;
        let sleep_url = console.new_sleep_url(&instance.id).await?;
        let credential =
            Credential::new(&console, &tenant, &instance, &gateway, &secret, &bots).with_sleep_url(sleep_url);
        return Ok(Json(
            credential.with_issued_credentials(&console, console.issued_credentials(&instance, &http)),
        ));
    }
    let secret = console.identity.accounts.rotate(&gateway, &instance.id).await?.ok_or_else(revoked)?;
    let sleep_url = console.new_sleep_url(&instance.id).await?;
    let credential =
        Credential::new(&console, &tenant, &instance, &gateway, &secret, &bots).with_sleep_url(sleep_url);
    let logins = console.identity.accounts.logins(Some(&tenant.id)).await?;
    let has_login = logins.iter().any(|login| login.instance == instance.id);
    Ok(Json(if has_login { credential.with_portal(&console) } else { credential }))
}

/// Revokes an agent's credentials: all of them, or the named one. Sockets close, and further connections,
/// tokens and secrets are refused.
pub(crate) async fn revoke(
    State(console): State<Console>,
    Path(agent): Path<String>,
    QueryParams(query): QueryParams<TenantQuery>,
    JsonBody(wanted): JsonBody<Revocation>,
) -> Result<Json<Revoked>, AdminProblem> {
    let (_, instance) = console.agent(&agent, query.tenant.as_deref()).await?;
    let which = match (wanted.gateway_id, wanted.client, wanted.login) {
        (None, false, false) => WhichCredentials::All,
        (Some(gateway), false, false) => WhichCredentials::Gateway(gateway),
        (None, true, false) => WhichCredentials::Client,
        (None, false, true) => WhichCredentials::Login,
        _ => {
            return Err(AdminProblem::unfit(
                "contradiction",
                "use only one of gateway_id, client and login, or none",
            ));
        }
    };
    let ended = console.identity.accounts.revoke(&instance.id, which).await?;
    if ended.is_empty() {
        let detail = format!("agent `{}` has no such valid credential", instance.name);
        return Err(AdminProblem::absent("no_such_credential", detail));
    }
    let EndedCredentials { gateways, client, login, enroll_tokens } = ended;
    Ok(Json(Revoked {
        instance_id: instance.id,
        gateway_ids: gateways,
        client_id: client,
        login_id: login,
        enroll_token_ids: enroll_tokens,
    }))
}
