//! `POST /relay/policy`: a gateway declares which messages of groups it wants (contract section 17.6).

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http_kit::{ClientAddress, read_body};
use identity::Authentication;
use ledger::{PLATFORMS_OF_AN_AGENT, RelevancePolicy};
use posthouse_wire::relevance::DeclaredRelevance;
use serde_json::json;

use super::RelayDoor;
use super::contract_error::ContractError;
use crate::Fault;

/// Largest body: the most scopes of the longest ids, with room for escapes.
const LARGEST: usize = 256 * 1024;
/// Most free scopes of one policy, and the longest id of one in bytes.
const SCOPES: usize = 256;
const LONGEST_SCOPE: usize = 256;
/// The longest name of a platform, in bytes.
const LONGEST_PLATFORM: usize = 64;

pub(super) async fn declare(
    State(door): State<RelayDoor>,
    request: Request,
) -> Result<Response, ContractError> {
    let (head, body) = request.into_parts();
    let identity = &door.relay.0.identity;
    let address = head.extensions.get().map(|ClientAddress(address)| *address);
    let checked = identity.authenticator.connecting_agent(&head.headers, address).await;
    let caller = ContractError::known(checked, &head)?;
    let Some(owner) = caller.gateway() else {
        return Err(ContractError::refused(&Authentication::Known(caller)));
    };
    let DeclaredRelevance { platform, require_address, free_response_scopes, allow_other_bots } =
        read(&read_body(body, LARGEST).await?)?;
    let policy = RelevancePolicy { require_address, free_scopes: free_response_scopes, allow_other_bots };
    let relevance = identity.gate.relevance();
    match relevance.declare(&owner.instance, &platform, policy).await.map_err(Fault::from)? {
        // Stock gateways take every other status for a failure.
        true => Ok(Json(json!({ "ok": true })).into_response()),
        false => Err(ContractError::malformed(TOO_MANY)),
    }
}

const TOO_MANY: &str = "an agent can declare policies for at most 32 platforms";
const _: () = assert!(PLATFORMS_OF_AN_AGENT == 32, "the text names the number");

fn read(body: &[u8]) -> Result<DeclaredRelevance, ContractError> {
    let declared: DeclaredRelevance = serde_json::from_slice(body).map_err(|_| {
        ContractError::malformed(
            "the body must be JSON with platform, requireAddress, freeResponseScopes and allowOtherBots",
        )
    })?;
    let platform = declared.platform.as_str();
    if platform.is_empty() || platform.len() > LONGEST_PLATFORM || platform.chars().any(char::is_control) {
        return Err(ContractError::malformed("platform must be a text of 1 to 64 bytes"));
    }
    let scopes = &declared.free_response_scopes;
    if scopes.len() > SCOPES || scopes.iter().any(|scope| scope.len() > LONGEST_SCOPE) {
        return Err(ContractError::malformed("freeResponseScopes may hold 256 ids of 256 bytes each"));
    }
    Ok(declared)
}
