//! `/manage/*`: an agent manages who reaches it on shared bots (contract section 17.7).
//!
//! The agent is the one of the credential. An `instanceId` in a body is not read.

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CACHE_CONTROL;
use http_kit::{ClientAddress, read_body};
use identity::{AgentCredential, Authentication, Principal};
use ledger::{AgentPrincipals, AuthorPolicy, BotRef, ClaimFilter};
use posthouse_wire::{InstanceId, Platform, UserId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::RelayDoor;
use super::contract_error::ContractError;
use crate::Fault;

/// Largest body: the longest list of authors, with room for escapes.
const LARGEST: usize = 256 * 1024;
/// The longest id or name in a body, in bytes.
const LONGEST: usize = 256;
/// Most authors on an allow list.
const ALLOWED: usize = 1000;
/// Most links and claims that the status shows.
const SHOWN: u32 = 1000;

#[derive(Deserialize)]
struct LinkRequest {
    platform: Option<Platform>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthorRequest {
    platform: Platform,
    user_id: UserId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScopeRequest {
    platform: Platform,
    scope_id: String,
    channel_id: Option<String>,
}

#[derive(Deserialize)]
struct PrincipalRequest {
    platform: Option<Platform>,
    policy: String,
    #[serde(default)]
    allow: Vec<UserId>,
}

/// An authenticated call: the agent it is for, and its body.
struct ManageCall {
    agent: InstanceId,
    body: axum::body::Body,
}

impl ManageCall {
    /// Recognises the caller. This is the only place where a credential becomes an agent.
    async fn open(door: &RelayDoor, request: Request) -> Result<Self, ContractError> {
        let (head, body) = request.into_parts();
        let authenticator = &door.relay.0.identity.authenticator;
        let address = head.extensions.get().map(|ClientAddress(address)| *address);
        let checked = authenticator.manager(&head.headers, address).await;
        match ContractError::known(checked, &door.relay.0.identity.quotas, &head).await? {
            Principal::Agent { agent, by: AgentCredential::Gateway(_) | AgentCredential::Issuer(_) } => {
                Ok(Self { agent: agent.id.clone(), body })
            }
            caller => Err(ContractError::refused(&Authentication::Known(caller))),
        }
    }

    /// The caller and the body.
    async fn read<T: DeserializeOwned>(
        door: &RelayDoor,
        request: Request,
        shape: &'static str,
    ) -> Result<(InstanceId, T), ContractError> {
        let Self { agent, body } = Self::open(door, request).await?;
        let body = read_body(body, LARGEST).await?;
        let read = serde_json::from_slice(&body).map_err(|_| ContractError::malformed(shape))?;
        Ok((agent, read))
    }
}

pub(super) async fn link(State(door): State<RelayDoor>, request: Request) -> Result<Response, ContractError> {
    let shape = "the body must be JSON, with platform as a text if it is given";
    let (agent, LinkRequest { platform }) = ManageCall::read(&door, request, shape).await?;
    platform.iter().try_for_each(|platform| check(platform.as_str()))?;
    let codes = door.relay.0.identity.gate.link_codes();
    let minted = codes.mint(&agent, platform.as_ref()).await.map_err(Fault::from)?;
    let Some(code) = minted else {
        return Err(ContractError::new(StatusCode::UNAUTHORIZED, "this agent was removed"));
    };
    let answer = json!({
        "code": code.code,
        "expiresAt": code.expires.seconds(),
        "instructions": format!("Send this to the bot as a direct message, within ten minutes: /link {}", code.code),
    });
    Ok(([(CACHE_CONTROL, "no-store")], Json(answer)).into_response())
}

const AUTHOR: &str = "the body must be JSON with platform and userId";

pub(super) async fn unlink(
    State(door): State<RelayDoor>,
    request: Request,
) -> Result<Response, ContractError> {
    let (agent, AuthorRequest { platform, user_id }) = ManageCall::read(&door, request, AUTHOR).await?;
    let links = door.relay.0.identity.gate.links();
    let removals = door.relay.route_removals();
    removals.take_away(links.unlink(&agent, &platform, &user_id), |_| vec![agent.clone()]).await?;
    Ok(done())
}

pub(super) async fn dm_default(
    State(door): State<RelayDoor>,
    request: Request,
) -> Result<Response, ContractError> {
    let (agent, AuthorRequest { platform, user_id }) = ManageCall::read(&door, request, AUTHOR).await?;
    let links = door.relay.0.identity.gate.links();
    match links.set_dm_default(&agent, &platform, &user_id).await.map_err(Fault::from)? {
        true => Ok(done()),
        false => Err(ContractError::new(StatusCode::NOT_FOUND, "this user is not linked to this agent")),
    }
}

const SCOPE: &str = "the body must be JSON with platform, scopeId and, for one channel, channelId";

impl ScopeRequest {
    /// The chat or scope, and whether it must be a chat.
    fn place(&self) -> Result<(&str, bool), ContractError> {
        let place = self.channel_id.as_ref().unwrap_or(&self.scope_id);
        [self.platform.as_str(), &self.scope_id, place].into_iter().try_for_each(check)?;
        Ok((place, self.channel_id.is_some()))
    }
}

pub(super) async fn scope(
    State(door): State<RelayDoor>,
    request: Request,
) -> Result<Response, ContractError> {
    let (agent, asked) = ManageCall::read::<ScopeRequest>(&door, request, SCOPE).await?;
    let (place, chats_only) = asked.place()?;
    let on: Vec<BotRef> = bots_used_by(&door, &agent).await?;
    let on: Vec<BotRef> = on.into_iter().filter(|on| on.platform == asked.platform).collect();
    let claims = door.relay.0.identity.gate.claims();
    match claims.claim(&agent, &on, place, chats_only).await.map_err(Fault::from)? {
        true => Ok(done()),
        // One answer for a place that is taken, unknown or not proven: nobody learns which places others have.
        false => Err(ContractError::new(StatusCode::CONFLICT, "not_claimable")),
    }
}

pub(super) async fn release(
    State(door): State<RelayDoor>,
    request: Request,
) -> Result<Response, ContractError> {
    let (agent, asked) = ManageCall::read::<ScopeRequest>(&door, request, SCOPE).await?;
    let (place, _) = asked.place()?;
    let claims = door.relay.0.identity.gate.claims();
    let removals = door.relay.route_removals();
    removals.take_away(claims.release(&agent, &asked.platform, place), |_| vec![agent.clone()]).await?;
    Ok(done())
}

pub(super) async fn principal(
    State(door): State<RelayDoor>,
    request: Request,
) -> Result<Response, ContractError> {
    let shape = "the body must be JSON with policy and, if wanted, platform and allow";
    let (agent, asked) = ManageCall::read::<PrincipalRequest>(&door, request, shape).await?;
    let PrincipalRequest { platform, policy, allow: allowed } = asked;
    let policy: AuthorPolicy = policy
        .parse()
        .map_err(|()| ContractError::malformed("policy must be owner-only, allow-list or any"))?;
    if allowed.len() > ALLOWED || allowed.iter().any(|user| check(user.as_str()).is_err()) {
        return Err(ContractError::malformed("allow may hold 1000 ids of 256 bytes each"));
    }
    platform.iter().try_for_each(|platform| check(platform.as_str()))?;
    let policies = door.relay.0.identity.gate.policies();
    let principals = AgentPrincipals { platform, policy, allowed };
    match policies.declare(&agent, principals).await.map_err(Fault::from)? {
        true => Ok(done()),
        false => Err(ContractError::malformed("an agent can declare policies for at most 32 platforms")),
    }
}

pub(super) async fn deprovision(
    State(door): State<RelayDoor>,
    request: Request,
) -> Result<Response, ContractError> {
    let ManageCall { agent, body } = ManageCall::open(&door, request).await?;
    read_body(body, LARGEST).await?;
    let identity = &door.relay.0.identity;
    let ending = identity.accounts.deprovision(identity.gate.claims(), &agent);
    let removed = door.relay.route_removals().take_away(ending, |_| vec![agent.clone()]).await?;
    Ok(Json(json!({ "ok": true, "bindingsRemoved": removed })).into_response())
}

pub(super) async fn status(
    State(door): State<RelayDoor>,
    request: Request,
) -> Result<Response, ContractError> {
    let ManageCall { agent, .. } = ManageCall::open(&door, request).await?;
    let (relay, gate) = (&door.relay, &door.relay.0.identity.gate);
    let presence = relay.connections().presence(&agent);
    let unread = relay.inboxes().records().size(&agent).await.map_err(Fault::from)?;
    let bindings = gate.links().list(Some(&agent), None, SHOWN).await.map_err(Fault::from)?;
    let filter = ClaimFilter { instance: Some(agent.clone()), on: None };
    let claims = gate.claims().list(filter, None, SHOWN).await.map_err(Fault::from)?;
    let principals = gate.policies().of(&agent).await.map_err(Fault::from)?;
    let relevance = gate.relevance().of(&agent).await.map_err(Fault::from)?;
    let bindings = bindings.into_iter().map(|link| {
        json!({
            "platform": link.on.platform,
            "bot": link.on.bot,
            "userId": link.user,
            "dmDefault": link.dm_default,
            "linkedAt": link.linked.seconds(),
        })
    });
    let scopes = claims.into_iter().map(|claim| {
        json!({
            "platform": claim.on.platform,
            "bot": claim.on.bot,
            "kind": claim.kind,
            "value": claim.value,
            "live": claim.live,
        })
    });
    let principals = principals.into_iter().map(|principals| {
        json!({
            "platform": principals.platform,
            "policy": principals.policy.as_str(),
            "allow": principals.allowed,
        })
    });
    let policy = relevance.into_iter().map(|(platform, policy)| {
        let shown = json!({
            "requireAddress": policy.require_address,
            "freeResponseScopes": policy.free_scopes,
            "allowOtherBots": policy.allow_other_bots,
        });
        (platform.to_string(), shown)
    });
    let answer = json!({
        "instanceId": agent,
        "connected": presence.connected,
        "idle": presence.idle,
        "buffered": unread.entries,
        "bindings": bindings.collect::<Vec<Value>>(),
        "scopes": scopes.collect::<Vec<Value>>(),
        "principal": principals.collect::<Vec<Value>>(),
        "policy": policy.collect::<serde_json::Map<String, Value>>(),
    });
    Ok(Json(answer).into_response())
}

async fn bots_used_by(door: &RelayDoor, agent: &InstanceId) -> Result<Vec<BotRef>, ContractError> {
    Ok(door.relay.0.roster.bots_used_by(agent).await.map_err(Fault::from)?)
}

fn done() -> Response {
    Json(json!({ "ok": true })).into_response()
}

fn check(text: &str) -> Result<(), ContractError> {
    if text.is_empty() || text.len() > LONGEST || text.chars().any(char::is_control) {
        return Err(ContractError::malformed("names and ids must be texts of 1 to 256 bytes"));
    }
    Ok(())
}
