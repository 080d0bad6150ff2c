//! Admin API: client credentials and logins. A secret appears only in the answer that issues it.

use axum::Json;
use axum::extract::{Path, State};
use http_kit::Page;
use ledger::{Instance, Owner};
use posthouse_time::Moment;
use posthouse_wire::{ClientId, InstanceId, LoginId, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::account_names::AccountNames;
use crate::audit::{CreatedResponse, made};
use crate::extract::{JsonBody, PAGE, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::{Console, Parts};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientsQuery {
    tenant: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewClient {
    tenant: String,
    /// Name or id; without it the client belongs to the whole tenant.
    #[serde(default)]
    agent: Option<String>,
    /// A login for a stock agent's `auth.json` instead of a client. It replaces the previous login.
    #[serde(default)]
    login: bool,
}

/// A new credential and its owner.
#[derive(Serialize)]
pub(crate) struct CreatedClient {
    tenant: String,
    tenant_id: TenantId,
    agent: Option<String>,
    instance_id: Option<InstanceId>,
    #[serde(flatten)]
    secrets: CreatedSecrets,
}

#[derive(Serialize)]
#[serde(untagged)]
enum CreatedSecrets {
    Client { client_id: ClientId, client_secret: String, token_url: String },
    Login { login_id: LoginId, access_token: String, refresh_token: String, auth: Value },
}

/// A client, or a login with its own id.
#[derive(Serialize)]
pub(crate) struct ShownClient {
    id: String,
    client_id: ClientId,
    tenant: String,
    tenant_id: TenantId,
    agent: Option<String>,
    instance_id: Option<InstanceId>,
    created_at: String,
    refreshed_at: Option<String>,
    /// Number of places that use a login at the same time; more than one means that its file was copied.
    lines: Option<u32>,
    /// The addresses from which those places last called.
    addresses: Vec<String>,
    revoked_at: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct RevokedClient {
    id: String,
}

fn absent(id: &str) -> AdminProblem {
    AdminProblem::absent("no_such_client", format!("there is no client and no login `{id}`"))
}

pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<ClientsQuery>,
) -> Result<Json<Page<ShownClient>>, AdminProblem> {
    let only = match &which.tenant {
        Some(name) => Some(console.tenant(name).await?.id),
        None => None,
    };
    let names = AccountNames::read(&console, only.as_ref()).await?;
    let clients = console.identity.accounts.clients(only.as_ref()).await?;
    let logins = console.identity.accounts.logins(only.as_ref()).await?;
    let rendered = |moment: Option<Moment>| moment.map(|moment| moment.to_string());
    let clients = clients.into_iter().map(|client| ShownClient {
        id: client.client.to_string(),
        client_id: client.client,
        tenant: names.tenant(&client.tenant),
        tenant_id: client.tenant,
        agent: client.instance.as_ref().map(|instance| names.agent(instance)),
        instance_id: client.instance,
        created_at: client.created.to_string(),
        refreshed_at: None,
        lines: None,
        addresses: Vec::new(),
        revoked_at: rendered(client.revoked),
    });
    let logins = logins.into_iter().map(|login| ShownClient {
        id: login.login.to_string(),
        client_id: login.client,
        tenant: names.tenant(&login.tenant),
        tenant_id: login.tenant,
        agent: Some(names.agent(&login.instance)),
        instance_id: Some(login.instance),
        created_at: login.created.to_string(),
        refreshed_at: rendered(login.refreshed),
        lines: Some(login.lines),
        addresses: login.addresses,
        revoked_at: None,
    });
    let all: Vec<_> = clients.chain(logins).collect();
    Ok(Json(Page::of_sorted(
        all,
        |client| client.id.clone(),
        which.after.as_deref(),
        PAGE.clamp(which.limit),
    )))
}

pub(crate) async fn create(
    State(console): State<Console>,
    JsonBody(new): JsonBody<NewClient>,
) -> Result<CreatedResponse<CreatedClient>, AdminProblem> {
    let (tenant, instance) = match &new.agent {
        Some(agent) => {
            let (tenant, instance) = console.agent(agent, Some(&new.tenant)).await?;
            (tenant, Some(instance))
        }
        None => (console.tenant(&new.tenant).await?, None),
    };
    let secrets = match (&instance, new.login) {
        (Some(instance), true) => console.login(instance).await?,
        (None, true) => {
            return Err(AdminProblem::unfit("no_agent", "a login belongs to an agent: name the agent"));
        }
        (Some(instance), false) => console.client(Owner::Instance(instance.id.clone())).await?,
        (None, false) => console.client(Owner::Tenant(tenant.id.clone())).await?,
    };
    let (agent, instance_id) = instance.map(|instance| (instance.name, instance.id)).unzip();
    let created = CreatedClient { tenant: tenant.name, tenant_id: tenant.id, agent, instance_id, secrets };
    let about = match &created.agent {
        Some(agent) => format!("{}/{agent}", created.tenant),
        None => created.tenant.clone(),
    };
    Ok(made(about, created))
}

pub(crate) async fn remove(
    State(console): State<Console>,
    Path(id): Path<String>,
) -> Result<Json<RevokedClient>, AdminProblem> {
    let known = match id.starts_with("log_") {
        true => console.identity.accounts.log_out(&id.as_str().into()).await?,
        false => console.identity.accounts.revoke_client(&id.as_str().into()).await?,
    };
    if known { Ok(Json(RevokedClient { id })) } else { Err(absent(&id)) }
}

impl Parts {
    async fn client(&self, owner: Owner) -> Result<CreatedSecrets, AdminProblem> {
        let made = self.identity.accounts.create_client(&owner).await?;
        // It can have been removed since it was looked up.
        let (client_id, secret) = made.ok_or_else(|| absent(owner.client().as_str()))?;
        let token_url = format!("{}/oauth/token", self.public_url);
        Ok(CreatedSecrets::Client { client_id, client_secret: secret.expose().to_owned(), token_url })
    }

    async fn login(&self, instance: &Instance) -> Result<CreatedSecrets, AdminProblem> {
        let login = self.identity.accounts.log_in(&instance.id).await?;
        let login = login.ok_or_else(|| absent(instance.id.as_str()))?;
        Ok(CreatedSecrets::Login {
            auth: self.auth(&login),
            access_token: login.access.access_token.expose().to_owned(),
            refresh_token: login.refresh_token.expose().to_owned(),
            login_id: login.login,
        })
    }
}
