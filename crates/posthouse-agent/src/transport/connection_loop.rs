//! Connection loop: connects, runs the socket, and reconnects until stopped or revoked.

use std::pin::pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::backoff::{Backoff, ConnectionEnd, ReconnectStep};
use super::connection::RelayConnection;
use super::dial::ServerAddress;
use super::socket::{self, SocketState};
use super::{ConnectionState, Fault};

/// Runs until `stop` or until the credential is revoked. After `stop`, the caller sets the state.
pub(super) async fn keep_connected(
    connection: Arc<RelayConnection>,
    address: Arc<ServerAddress>,
    stop: CancellationToken,
) {
    let mut backoff = Backoff::default();
    loop {
        connection.state.send_replace(ConnectionState::Dialing);
        let pulse = SocketState::default();
        let end = try_once(&connection, &address, &pulse, &stop).await;
        connection.frames.forget_asides();
        let next = backoff.after(&end, pulse.accepted());
        *connection.last_fault.lock() = fault(&end);
        let pause = match next {
            ReconnectStep::Stop => return,
            ReconnectStep::Revoked => {
                tracing::error!(gateway.id = %connection.settings.gateway, "credential revoked; not reconnecting");
                *connection.last_fault.lock() = Fault::Revoked;
                connection.state.send_replace(ConnectionState::Revoked);
                connection.requests.give_up();
                return;
            }
            ReconnectStep::DialAfter(pause) => pause,
        };
        tracing::warn!(gateway.id = %connection.settings.gateway, "{}; reconnecting in {pause:?}", fault(&end));
        // The timer is registered before `Waiting` becomes visible, so that a test which then advances the
        // clock reaches it.
        let mut due = pin!(connection.timepiece.after(pause));
        if futures_util::poll!(due.as_mut()).is_ready() {
            continue;
        }
        connection.state.send_replace(ConnectionState::Waiting);
        tokio::select! {
            () = stop.cancelled() => return,
            () = connection.hurry.notified() => {}
            () = due => {}
        }
    }
}

async fn try_once(
    connection: &RelayConnection,
    address: &ServerAddress,
    pulse: &SocketState,
    stop: &CancellationToken,
) -> ConnectionEnd {
    let dialed = tokio::select! {
        () = stop.cancelled() => return ConnectionEnd::Stopped,
        dialed = address.dial(&connection.settings, &connection.timepiece) => dialed,
    };
    match dialed {
        Ok(socket) => socket::hold(connection, socket, pulse, stop).await,
        Err(fault) => ConnectionEnd::Fell(fault),
    }
}

fn fault(end: &ConnectionEnd) -> Fault {
    match end {
        ConnectionEnd::Stopped => Fault::Closed,
        ConnectionEnd::Fell(fault) => fault.clone(),
        ConnectionEnd::Refused { .. } => Fault::Refused,
        ConnectionEnd::Superseded => Fault::Superseded,
    }
}
