//! Keeps the line: dials, holds, and dials again until told otherwise.

use std::pin::pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::backoff::{Backoff, End, Next};
use super::dial::Target;
use super::line::Line;
use super::socket::{self, Pulse};
use super::{Fault, Standing};

/// Runs until `stop`, which leaves the standing to whoever stopped it, or until revoked.
pub(super) async fn keep(line: Arc<Line>, target: Arc<Target>, stop: CancellationToken) {
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
                tracing::error!(gateway.id = %line.settings.gateway, "the house revoked our credential");
                *line.last_fault.lock() = Fault::Revoked;
                line.standing.send_replace(Standing::Revoked);
                line.requests.give_up();
                return;
            }
            Next::DialAfter(pause) => pause,
        };
        tracing::warn!(gateway.id = %line.settings.gateway, "{}; dialing again in {pause:?}", fault(&end));
        // Set before anyone can see that we wait, so that a clock wound in that moment counts in full.
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

async fn try_once(line: &Line, target: &Target, pulse: &Pulse, stop: &CancellationToken) -> End {
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
