//! Admin API: single-use tokens with which gateways enrol. A token appears only in the answer that makes it.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use http_kit::Page;
use ledger::EnrollToken;
use posthouse_time::Moment;
use posthouse_wire::{EnrollTokenId, GatewayId, InstanceId, TenantId};
use serde::{Deserialize, Serialize};

use crate::account_names::AccountNames;
use crate::agents::ShownIdentity;
use crate::audit::{CreatedResponse, made};
use crate::extract::{JsonBody, PAGE, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::Console;

/// Lifetime of a token unless another one is asked for, and the longest one, in seconds.
const DAY: u64 = 24 * 3600;
const LONGEST: u64 = 30 * DAY;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnrollTokensQuery {
    tenant: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewEnrollToken {
    tenant: String,
    /// Name or id of the agent whose credential the token gives out.
    agent: String,
    /// Lifetime in seconds.
    #[serde(default)]
    ttl_seconds: Option<u64>,
    /// The wake URL of the gateway that redeems it.
    #[serde(default)]
    wake_url: Option<String>,
    /// `PLATFORM:ID` of the bots that the gateway may speak for. Empty: every bot of the agent.
    #[serde(default)]
    gateway_bots: Vec<String>,
    /// Chats and scopes that the gateway claims on shared bots.
    #[serde(default)]
    route_keys: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct MadeEnrollToken {
    /// The token, shown once.
    token: String,
    #[serde(flatten)]
    record: ShownEnrollToken,
}

#[derive(Serialize)]
pub(crate) struct ShownEnrollToken {
    id: EnrollTokenId,
    tenant: String,
    tenant_id: TenantId,
    agent: String,
    instance_id: InstanceId,
    /// `open`, `used`, `revoked` or `expired`.
    state: &'static str,
    created_at: String,
    expires_at: String,
    used_at: Option<String>,
    /// The credential that it gave out.
    gateway_id: Option<GatewayId>,
    /// What the gateway gets with its credential.
    wake_url: Option<String>,
    gateway_bots: Vec<ShownIdentity>,
    route_keys: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct RevokedEnrollToken {
    id: EnrollTokenId,
}

fn shown(token: EnrollToken, tenant: String, agent: String, now: Moment) -> ShownEnrollToken {
    let state = match &token {
        EnrollToken { used: Some(_), .. } => "used",
        EnrollToken { revoked: Some(_), .. } => "revoked",
        _ if token.expires <= now => "expired",
        _ => "open",
    };
    ShownEnrollToken {
        id: token.id,
        tenant,
        tenant_id: token.tenant,
        agent,
        instance_id: token.instance,
        state,
        created_at: token.created.to_string(),
        expires_at: token.expires.to_string(),
        used_at: token.used.map(|at| at.to_string()),
        gateway_id: token.gateway,
        wake_url: token.setup.wake_url,
        gateway_bots: token.setup.bots.into_iter().map(ShownIdentity::from).collect(),
        route_keys: token.setup.route_keys,
    }
}

pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<EnrollTokensQuery>,
) -> Result<Json<Page<ShownEnrollToken>>, AdminProblem> {
    let only = match &which.tenant {
        Some(name) => Some(console.tenant(name).await?.id),
        None => None,
    };
    let names = AccountNames::read(&console, only.as_ref()).await?;
    let tokens = console.identity.gateway_enrolment.tokens(only.as_ref()).await?;
    let page = Page::of_sorted(
        tokens,
        |token| token.id.to_string(),
        which.after.as_deref(),
        PAGE.clamp(which.limit),
    );
    let now = console.timepiece.now();
    Ok(Json(page.map(|token| {
        let (tenant, agent) = (names.tenant(&token.tenant), names.agent(&token.instance));
        shown(token, tenant, agent, now)
    })))
}

pub(crate) async fn create(
    State(console): State<Console>,
    JsonBody(new): JsonBody<NewEnrollToken>,
) -> Result<CreatedResponse<MadeEnrollToken>, AdminProblem> {
    let seconds = new.ttl_seconds.unwrap_or(DAY);
    if !(1..=LONGEST).contains(&seconds) {
        let detail = format!("ttl_seconds must be between 1 and {LONGEST} (30 days)");
        return Err(AdminProblem::unfit("bad_ttl", detail));
    }
    let (tenant, instance) = console.agent(&new.agent, Some(&new.tenant)).await?;
    let setup = console.enroll_setup(&instance.id, new.wake_url, &new.gateway_bots, new.route_keys).await?;
    let enrolment = &console.identity.gateway_enrolment;
    let lifetime = Duration::from_secs(seconds);
    let made_token = enrolment.create_token(&tenant.id, &instance.id, lifetime, setup).await?;
    // The agent may have been removed meanwhile.
    let Some((record, token)) = made_token else {
        return Err(AdminProblem::absent("no_such_agent", format!("there is no agent `{}`", new.agent)));
    };
    let about = format!("{} for {}/{}", record.id, tenant.name, instance.name);
    let record = shown(record, tenant.name, instance.name, console.timepiece.now());
    Ok(made(about, MadeEnrollToken { token: token.expose().to_owned(), record }))
}

pub(crate) async fn revoke(
    State(console): State<Console>,
    Path(id): Path<EnrollTokenId>,
) -> Result<Json<RevokedEnrollToken>, AdminProblem> {
    match console.identity.gateway_enrolment.revoke_token(&id).await? {
        true => Ok(Json(RevokedEnrollToken { id })),
        false => Err(AdminProblem::absent(
            "no_such_enroll_token",
            format!("there is no unused enrolment token `{id}`"),
        )),
    }
}
