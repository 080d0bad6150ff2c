//! HTTP routes of the relay: `/relay` for agents' WebSockets, enrolment of gateways, their policies, files, and
//! `/manage` for who reaches an agent on shared bots.

mod contract_error;
mod enroll;
mod manage;
mod media;
mod policy;
mod provision;
mod sleep;
mod socket;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use http_kit::{Endpoint, Operation, operations, router};

use crate::{Egress, Relay};

#[derive(Clone)]
struct RelayDoor {
    relay: Relay,
    egress: Arc<dyn Egress>,
}

const ENDPOINTS: &[Endpoint<RelayDoor>] = &[
    Endpoint::closed("GET", "/relay", || get(socket::dial)),
    Endpoint::closed("POST", "/relay/enroll", || post(enroll::enroll)),
    Endpoint::closed("POST", "/relay/provision", || post(provision::provision)),
    Endpoint::closed("POST", "/relay/policy", || post(policy::declare)),
    Endpoint::closed("POST", "/relay/media", || post(media::upload)),
    Endpoint::open("GET", "/relay/media/{id}", || get(media::download)),
    Endpoint::closed("POST", "/manage/link", || post(manage::link)),
    Endpoint::closed("POST", "/manage/unlink", || post(manage::unlink)),
    Endpoint::closed("POST", "/manage/scope", || post(manage::scope)),
    Endpoint::closed("POST", "/manage/scope/release", || post(manage::release)),
    Endpoint::closed("POST", "/manage/principal", || post(manage::principal)),
    Endpoint::closed("POST", "/manage/dm-default", || post(manage::dm_default)),
    Endpoint::closed("POST", "/manage/deprovision", || post(manage::deprovision)),
    Endpoint::closed("GET", "/manage/status", || get(manage::status)),
    Endpoint::open("POST", "/relay/sleep", || post(sleep::sleep)),
];

/// The operations of the relay.
pub const OPERATIONS: &[Operation] = &operations::<RelayDoor, { ENDPOINTS.len() }>(ENDPOINTS);

/// The OpenAPI fragment of the operations, written by hand.
pub const OPENAPI: &str = include_str!("openapi.json");

/// Builds the routes, from the relay and the egress that carries out its actions.
pub fn routes(relay: &Relay, egress: Arc<dyn Egress>) -> Router {
    router("", ENDPOINTS).with_state(RelayDoor { relay: relay.clone(), egress })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_described_and_nothing_else_is() {
        let wrong = http_kit::openapi::check_fragment(OPENAPI, &[], OPERATIONS);
        assert_eq!(wrong, Vec::<String>::new());
    }
}
