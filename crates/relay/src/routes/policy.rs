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

pub(super) async fn declare(
    State(door): State<RelayDoor>,
    request: Request,
) -> Result<Response, ContractError> {
    let (head, body) = request.into_parts();
    let identity = &door.relay.0.identity;
    let address = head.extensions.get().map(|ClientAddress(address)| *address);
    let checked = identity.authenticator.connecting_agent(&head.headers, address).await;
    let caller = ContractError::known(checked, &identity.quotas, &head).await?;
    let Some(owner) = caller.gateway() else {
        return Err(ContractError::refused(&Authentication::Known(caller)));
    };
    let DeclaredRelevance { platform, require_address, free_response_scopes, allow_other_bots } =
        DeclaredRelevance::read(&read_body(body, LARGEST).await?).map_err(ContractError::malformed)?;
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
