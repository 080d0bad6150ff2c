//! `POST /relay/sleep?t=TOKEN`: a gateway asks to be stopped (contract section 16.6).

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http_kit::{ClientAddress, RequestControl};
use identity::{QuotaKind, SleepCaller};
use serde_json::json;

use super::RelayDoor;
use super::contract_error::ContractError;
use crate::Fault;
use crate::sleep_calls::SleepResult;

/// One text for every reason, so that the answer does not reveal what exists.
const NOT_FOUND: ContractError = ContractError::new(StatusCode::NOT_FOUND, "not found");
const BARRED: ContractError =
    ContractError::new(StatusCode::TOO_MANY_REQUESTS, "too many wrong credentials came from this address");
const STAYS_AWAKE: ContractError =
    ContractError::new(StatusCode::CONFLICT, "messages wait for this agent, or it is connected");
const NOT_STOPPED: ContractError =
    ContractError::new(StatusCode::BAD_GATEWAY, "the stop URL did not accept the call");

/// The body is not read: the contract has none.
pub(super) async fn sleep(
    State(door): State<RelayDoor>,
    request: Request,
) -> Result<Response, ContractError> {
    let (head, _) = request.into_parts();
    let address = head.extensions.get().map(|ClientAddress(address)| *address);
    let parameters = head.uri.query().unwrap_or_default().split('&');
    let token = parameters.filter_map(|parameter| parameter.strip_prefix("t=")).next().unwrap_or_default();
    let caller = door.relay.0.identity.sleep_urls.caller(token, address).await.map_err(Fault::from)?;
    let asker = match caller {
        SleepCaller::Known(asker) => asker,
        SleepCaller::Unknown => return Err(NOT_FOUND),
        SleepCaller::Barred => return Err(BARRED),
    };
    let principal = format!("agent:{}", asker.instance);
    RequestControl::proven(&head.extensions, &principal, Some(asker.tenant.as_str()))?;
    let quotas = &door.relay.0.identity.quotas;
    quotas.take(QuotaKind::Request, &asker.tenant, Some(&asker.instance)).await?;
    match door.relay.0.sleep_calls.stop(asker).await? {
        SleepResult::Stopped => Ok((StatusCode::ACCEPTED, Json(json!({ "ok": true }))).into_response()),
        SleepResult::StaysAwake => Err(STAYS_AWAKE),
        SleepResult::Failed => Err(NOT_STOPPED),
    }
}
