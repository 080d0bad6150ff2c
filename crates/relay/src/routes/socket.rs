//! `GET /relay`: the WebSocket upgrade of an agent, and its refusal.

use std::sync::Arc;

use axum::extract::{Extension, State, WebSocketUpgrade};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use http_kit::{ClientAddress, RequestControl};
use identity::{Authentication, CredentialRefusal, GatewayOwner, OverQuota, QuotaKind, SocketPlace};
use posthouse_time::Timepiece;
use posthouse_wire::TenantId;

use super::RelayDoor;
use crate::connections::UNAUTHORIZED;
use crate::message_meter::READ_AT_ONCE;
use crate::metrics::ReasonLabel;
use crate::{EarlyClose, MessageMeter, socket};

/// Largest accepted message. A stock agent sends each line as one message, so this exceeds the longest line: a line
/// that is merely too long is still read, and gets an error result (contract section 4).
const LARGEST: usize = 8 * 1024 * 1024;

/// Close code and reason when the server has no room for the connection.
const TRY_AGAIN_LATER: (u16, &str) = (1013, "try again later");

pub(super) async fn dial(
    State(door): State<RelayDoor>,
    address: Option<Extension<ClientAddress>>,
    early_close: Option<Extension<EarlyClose>>,
    control: Option<Extension<RequestControl>>,
    meter: Option<Extension<MessageMeter>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let control = control.map(|Extension(control)| control);
    let early_close = early_close.map(|Extension(early_close)| early_close);
    if control.as_ref().is_some_and(|control| !control.has_room()) {
        return no_room(&door, early_close, upgrade);
    }
    let address = address.map(|Extension(ClientAddress(address))| address);
    let authenticator = &door.relay.0.identity.authenticator;
    let authentication = match authenticator.connecting_agent(&headers, address).await {
        Ok(authentication) => authentication,
        Err(fault) => {
            tracing::error!(%fault, "could not authenticate a connecting agent");
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
    };
    // The buffers determine the memory of an idle socket. The codec's default is 128 KiB per socket.
    let upgrade = upgrade
        .read_buffer_size(READ_AT_ONCE)
        // This is only a threshold: frames fed together are sent in one write, and an idle socket buffers nothing.
        .write_buffer_size(32 * 1024)
        .max_write_buffer_size(8 * 1024 * 1024)
        .max_message_size(LARGEST)
        .max_frame_size(LARGEST);
    let refused = |why| door.relay.0.metrics.dials_refused.get_or_create(&ReasonLabel { why }).inc();
    match authentication {
        Authentication::Known(principal) => {
            let allowed = control.is_none_or(|control| {
                control.allows(&principal.limit_key(), principal.tenant().map(TenantId::as_str)).is_ok()
            });
            let Some(holder) = principal.gateway().filter(|_| allowed) else {
                return no_room(&door, early_close, upgrade);
            };
            let Ok(place) = within_quota(&door, &holder).await else {
                refused("over_quota");
                let timepiece = door.relay.0.timepiece.clone();
                return closed(timepiece, early_close, upgrade, TRY_AGAIN_LATER.0, TRY_AGAIN_LATER.1);
            };
            let (components, egress) = (Arc::clone(&door.relay.0.sockets), door.egress);
            let meter = meter.map(|Extension(meter)| meter).unwrap_or_default();
            upgrade
                .on_upgrade(move |stream| socket::serve(components, egress, holder, stream, (meter, place)))
        }
        Authentication::Refused(refusal) => {
            let reason = match refusal {
                CredentialRefusal::Expired => "expired",
                _ => "unauthorized",
            };
            refused(reason);
            // 101 and 4401 in one write: the only refusal that a stock agent understands (contract section 3.2). The
            // delay for wrong credentials came before it, since a stock agent waits ten seconds for the response.
            // Between response and close, the agent would already send its hello.
            closed(door.relay.0.timepiece.clone(), early_close, upgrade, UNAUTHORIZED.0, reason)
        }
        Authentication::Barred => {
            refused("barred");
            StatusCode::TOO_MANY_REQUESTS.into_response()
        }
    }
}

/// Counts a dial as a request and as a socket of its agent and tenant.
async fn within_quota(door: &RelayDoor, holder: &GatewayOwner) -> Result<SocketPlace, OverQuota> {
    let quotas = &door.relay.0.identity.quotas;
    quotas.take(QuotaKind::Request, &holder.tenant, Some(&holder.instance)).await?;
    quotas.open_socket(&holder.tenant, &holder.instance).await
}

/// Refuses a connection because the server has no room. The agent connects again later.
fn no_room(door: &RelayDoor, early_close: Option<EarlyClose>, upgrade: WebSocketUpgrade) -> Response {
    door.relay.0.metrics.dials_refused.get_or_create(&ReasonLabel { why: "no_room" }).inc();
    closed(door.relay.0.timepiece.clone(), early_close, upgrade, TRY_AGAIN_LATER.0, TRY_AGAIN_LATER.1)
}

/// Accepts the upgrade and closes, in one write if possible.
fn closed(
    timepiece: Timepiece,
    early_close: Option<EarlyClose>,
    upgrade: WebSocketUpgrade,
    code: u16,
    reason: &'static str,
) -> Response {
    let said = early_close.map(|early_close| early_close.close(code, reason)).is_some();
    upgrade.on_upgrade(move |mut stream| async move {
        if said {
            socket::await_goodbye(&mut stream, &timepiece).await;
        } else {
            socket::say_goodbye(&mut stream, &timepiece, code, reason).await;
        }
    })
}
