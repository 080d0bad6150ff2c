//! The credentials an agent dials in with. A secret is seen in the one answer that hands it out.

use axum::Json;
use axum::extract::{Path, State};
use ledger::{Identity, Instance, Tenant};
use posthouse_wire::{GatewayId, InstanceId, Secret, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Inside;
use super::papers::Papers;
use crate::env;
use crate::problem::Problem;
use crate::routes::{Console, Parts};
use crate::told::{Asked, Told};

/// What an agent needs to dial in, handed out once.
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
    papers: Option<Papers>,
}

impl Credential {
    pub fn new(
        console: &Parts,
        tenant: &Tenant,
        instance: &Instance,
        gateway: &GatewayId,
        secret: &Secret,
        bots: &[Identity],
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
            papers: None,
        }
    }

    /// The same for an agent whose login is ours.
    pub fn with_portal(mut self, console: &Parts) -> Self {
        let (name, value) = env::portal(&console.public_url);
        self.env[name] = value.expose().into();
        self
    }

    pub fn with_papers(self, console: &Parts, papers: Papers) -> Self {
        Self { papers: Some(papers), ..self.with_portal(console) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhichGateway {
    #[serde(default)]
    gateway_id: Option<GatewayId>,
}

#[derive(Serialize)]
pub(crate) struct Revoked {
    instance_id: InstanceId,
    gateway_id: GatewayId,
}

impl Parts {
    /// The credentials of an agent that were not revoked.
    pub(crate) async fn good_gateways(&self, of: &InstanceId) -> Result<Vec<GatewayId>, Problem> {
        let held = self.relay.keyring().of(of).await.map_err(relay::Fault::from)?;
        Ok(held.into_iter().filter(|(_, _, revoked)| revoked.is_none()).map(|(id, ..)| id).collect())
    }

    /// The one that is meant: as named, or the only one there is. Nothing when there is none at all.
    async fn meant(&self, of: &Instance, named: Option<GatewayId>) -> Result<Option<GatewayId>, Problem> {
        let good = self.good_gateways(&of.id).await?;
        match named {
            Some(named) if good.contains(&named) => Ok(Some(named)),
            Some(named) => Err(Problem::absent(
                "no_such_gateway",
                format!("agent `{}` has no good credential `{named}`", of.name),
            )),
            None if good.len() > 1 => Err(Problem::conflict(
                "ambiguous",
                format!("agent `{}` has several credentials: name one as gateway_id", of.name),
            )),
            None => Ok(good.into_iter().next()),
        }
    }
}

/// Gives a credential a new secret, the old one staying good for a day. An agent whose credentials were
/// all revoked gets a new one.
pub(crate) async fn rotate(
    State(console): State<Console>,
    Path(agent): Path<String>,
    Asked(inside): Asked<Inside>,
    Told(which): Told<WhichGateway>,
) -> Result<Json<Credential>, Problem> {
    let (tenant, instance) = console.agent(&agent, inside.tenant.as_deref()).await?;
    let gateway = match console.meant(&instance, which.gateway_id).await? {
        Some(gateway) => gateway,
        None => GatewayId::mint(console.timepiece.now().millis()),
    };
    let Some(secret) = console.relay.rotate(&gateway, &instance.id).await? else {
        return Err(Problem::conflict("revoked", "the credential was revoked meanwhile"));
    };
    let bots = console.real_bots(&instance.id).await?;
    let credential = Credential::new(&console, &tenant, &instance, &gateway, &secret, &bots);
    let logins = console.relay.keyring().logins(Some(&tenant.id)).await.map_err(relay::Fault::from)?;
    let has_login = logins.iter().any(|login| login.instance == instance.id);
    Ok(Json(if has_login { credential.with_portal(&console) } else { credential }))
}

/// Ends a credential for good: its sockets close, further dials are refused.
pub(crate) async fn revoke(
    State(console): State<Console>,
    Path(agent): Path<String>,
    Asked(inside): Asked<Inside>,
    Told(which): Told<WhichGateway>,
) -> Result<Json<Revoked>, Problem> {
    let (_, instance) = console.agent(&agent, inside.tenant.as_deref()).await?;
    let Some(gateway_id) = console.meant(&instance, which.gateway_id).await? else {
        return Err(Problem::absent(
            "no_such_gateway",
            format!("agent `{}` has no good credential left", instance.name),
        ));
    };
    console.relay.revoke(&gateway_id).await?;
    Ok(Json(Revoked { instance_id: instance.id, gateway_id }))
}
