//! Connection loop: connects, runs the socket, and reconnects until stopped or revoked.

use std::pin::pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::backoff::{Backoff, End, Next};
use super::connection::Connection;
use super::dial::Target;
use super::socket::{self, Pulse};
use super::{Fault, Standing};

/// Runs until `stop` or until the credential is revoked. After `stop`, the caller sets the standing.
pub(super) async fn keep(line: Arc<Connection>, target: Arc<Target>, stop: CancellationToken) {
    let mut backoff = Backoff::default();
    loop {
        line.standing.send_replace(Standing::Dialing);
        let pulse = Pulse::default();
        let end = try_once(&line, &target, &pulse, &stop).await;
        line.outbox.forget_asides();
        let next = backoff.after(&end, pulse.accepted());
        *line.last_fault.lock() = fault(&end);
        let pause = match next {
            Next::Stop => return,
            Next::Revoked => {
                tracing::error!(gateway.id = %line.settings.gateway, "credential revoked; not reconnecting");
                *line.last_fault.lock() = Fault::Revoked;
                line.standing.send_replace(Standing::Revoked);
                line.requests.give_up();
                return;
            }
            Next::DialAfter(pause) => pause,
        };
        tracing::warn!(gateway.id = %line.settings.gateway, "{}; reconnecting in {pause:?}", fault(&end));
        // The timer is registered before `Waiting` becomes visible, so that a test which then advances the
        // clock reaches it.
        let mut due = pin!(line.timepiece.after(pause));
        if futures_util::poll!(due.as_mut()).is_ready() {
            continue;
        }
        line.standing.send_replace(Standing::Waiting);
        tokio::select! {
            () = stop.cancelled() => return,
            () = line.hurry.notified() => {}
            () = due => {}
        }
    }
}

async fn try_once(line: &Connection, target: &Target, pulse: &Pulse, stop: &CancellationToken) -> End {
    let dialed = tokio::select! {
        () = stop.cancelled() => return End::Stopped,
        dialed = target.dial(&line.settings, &line.timepiece) => dialed,
    };
    match dialed {
        Ok(socket) => socket::hold(line, socket, pulse, stop).await,
        Err(fault) => End::Fell(fault),
    }
}

fn fault(end: &End) -> Fault {
    match end {
        End::Stopped => Fault::Closed,
        End::Fell(fault) => fault.clone(),
        End::Refused { .. } => Fault::Refused,
        End::Superseded => Fault::Superseded,
    }
}
