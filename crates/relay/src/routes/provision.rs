//! `POST /relay/provision`: a gateway without a credential gets one when it starts (contract section 17.4).

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CACHE_CONTROL;
use http_kit::{ClientAddress, read_body};
use identity::ProvisionedGateway;
use posthouse_wire::enrolment::{ProvisionAnswer, ProvisionCall};

use super::RelayDoor;
use super::contract_error::ContractError;
use crate::metrics::ReasonLabel;

/// Largest body: the most route keys of the greatest length, with room for escapes.
const LARGEST: usize = 256 * 1024;
/// The longest name or id, in bytes.
const LONGEST: usize = 256;
/// Most route keys of one call, and the longest in bytes.
const KEYS: usize = 256;
const LONGEST_KEY: usize = 256;

/// One text for every reason, so that the answer does not reveal what exists.
const NOT_PROVISIONED: ContractError = ContractError::new(
    StatusCode::FORBIDDEN,
    "the bot, the agent or this gateway is not available to the tenant of the token",
);

pub(super) async fn provision(
    State(door): State<RelayDoor>,
    request: Request,
) -> Result<Response, ContractError> {
    let (head, body) = request.into_parts();
    let identity = &door.relay.0.identity;
    let address = head.extensions.get().map(|ClientAddress(address)| *address);
    let checked = identity.authenticator.enroller(&head.headers, address).await;
    let caller = ContractError::known(checked, &identity.quotas, &head).await?;
    let call = read(&read_body(body, LARGEST).await?)?;
    // The route keys replace earlier ones, so the agent may lose places.
    let provisioning = identity.gateway_provisioning.provision(&caller, &call);
    let losing = |done: &Option<ProvisionedGateway>| done.iter().map(|done| done.instance.clone()).collect();
    let provisioned = door.relay.0.route_removals.take_away(provisioning, losing).await;
    let count = |why| door.relay.0.metrics.provisionings.get_or_create(&ReasonLabel { why }).inc();
    let Some(provisioned) = provisioned? else {
        count("refused");
        tracing::debug!(caller = caller.limit_key(), "a gateway could not provision itself");
        return Err(NOT_PROVISIONED);
    };
    count("provisioned");
    let refused = provisioned.warnings.first().map(String::as_str);
    let wake_calls = &door.relay.0.wake_calls;
    wake_calls.was_named(&provisioned.tenant, &provisioned.instance, refused);
    for warning in &provisioned.warnings {
        tracing::warn!(gateway.id = %provisioned.gateway, "a gateway provisioned itself, but: {warning}");
    }
    let answer = ProvisionAnswer {
        secret: provisioned.secret,
        delivery_key: provisioned.delivery_key,
        tenant: provisioned.tenant,
        gateway_id: provisioned.gateway,
        route_keys: provisioned.route_keys,
        secret_issued: true,
        warnings: provisioned.warnings,
    };
    Ok(([(CACHE_CONTROL, "no-store")], Json(answer)).into_response())
}

fn read(body: &[u8]) -> Result<ProvisionCall, ContractError> {
    let call: ProvisionCall = serde_json::from_slice(body).map_err(|_| {
        ContractError::malformed("the body must be JSON with gatewayId, platform, botId and routeKeys")
    })?;
    let is_text = |text: &str| text.len() <= LONGEST && !text.chars().any(char::is_control);
    let named = [call.gateway_id.as_str(), call.platform.as_str()];
    if named.iter().any(|text| text.trim().is_empty() || !is_text(text)) {
        return Err(ContractError::malformed(
            "gatewayId and platform must be texts of 1 to 256 bytes without control characters",
        ));
    }
    if !is_text(&call.bot_id) || call.instance_id.as_deref().is_some_and(|text| !is_text(text)) {
        return Err(ContractError::malformed("botId and instanceId must be texts of at most 256 bytes"));
    }
    if call.route_keys.len() > KEYS || call.route_keys.iter().any(|key| key.len() > LONGEST_KEY) {
        return Err(ContractError::malformed("routeKeys may hold 256 keys of 256 bytes each"));
    }
    Ok(call)
}
