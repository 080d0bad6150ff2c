//! `POST /relay/enroll`: a gateway gets its credential for a single-use token (contract section 17.1).

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CACHE_CONTROL;
use http_kit::{ClientAddress, read_body};
use identity::EnrolledGateway;
use posthouse_wire::enrolment::{EnrollRequest, EnrollResponse};

use super::RelayDoor;
use super::contract_error::ContractError;
use crate::metrics::ReasonLabel;

/// Largest body. A token and a name are far smaller.
const LARGEST: usize = 16 * 1024;

/// One text for every reason, so that the answer does not reveal what exists.
const NOT_VALID: ContractError =
    ContractError::new(StatusCode::FORBIDDEN, "the enrollment token is not valid");

pub(super) async fn enroll(
    State(door): State<RelayDoor>,
    request: Request,
) -> Result<Response, ContractError> {
    let (head, body) = request.into_parts();
    let identity = &door.relay.0.identity;
    let address = head.extensions.get().map(|ClientAddress(address)| *address);
    let checked = identity.authenticator.enroller(&head.headers, address).await;
    let caller = ContractError::known(checked, &identity.quotas, &head).await?;
    let wanted = EnrollRequest::read(&read_body(body, LARGEST).await?).map_err(ContractError::malformed)?;
    let token = wanted.enrollment_token.expose();
    // Route keys of the token replace earlier ones of the gateway, so the agent may lose places.
    let enrolling = identity.gateway_enrolment.enrol(&caller, token, &wanted.gateway_id);
    let losing = |done: &Option<EnrolledGateway>| done.iter().map(|done| done.instance.clone()).collect();
    let enrolled = door.relay.0.route_removals.take_away(enrolling, losing).await;
    let count = |why| door.relay.0.metrics.enrolments.get_or_create(&ReasonLabel { why }).inc();
    let Some(enrolled) = enrolled? else {
        count("refused");
        tracing::debug!(caller = caller.limit_key(), "an enrolment token was refused");
        return Err(NOT_VALID);
    };
    count("enrolled");
    let answer = EnrollResponse {
        secret: enrolled.secret,
        delivery_key: enrolled.delivery_key,
        tenant: enrolled.tenant,
        gateway_id: enrolled.gateway,
    };
    Ok(([(CACHE_CONTROL, "no-store")], Json(answer)).into_response())
}
