//! The relay's doors: `/relay`, and those where credentials are exchanged for tokens.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State, WebSocketUpgrade};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, StatusCode};

use crate::auth::{Caller, Verdict};
use crate::metrics::Why;
use crate::seats::UNAUTHORIZED;
use crate::{Egress, LastWord, Relay, oauth, socket};

/// The largest message taken. A stock agent sends each line as one message, so this is past the longest
/// line: one that is merely too long is read and refused in words (contract section 4).
const LARGEST: usize = 8 * 1024 * 1024;

#[derive(Clone)]
struct Door {
    relay: Relay,
    egress: Arc<dyn Egress>,
}

/// The socket's door, and the tokens'. Built last, from the relay and from what carries its actions.
pub fn routes(relay: &Relay, egress: Arc<dyn Egress>) -> Router {
    Router::new()
        .route("/relay", get(dial))
        .with_state(Door { relay: relay.clone(), egress })
        .merge(oauth::routes(relay))
}

async fn dial(
    State(door): State<Door>,
    caller: Option<Extension<Caller>>,
    last_word: Option<Extension<LastWord>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let caller = caller.map(|Extension(caller)| caller);
    let verdict = match door.relay.judge(&headers, caller).await {
        Ok(verdict) => verdict,
        Err(fault) => {
            tracing::error!(%fault, "could not judge a dial");
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
    };
    // The buffers are what an idle socket weighs; the codec's own default is 128 KiB a socket.
    let upgrade = upgrade
        .read_buffer_size(2048)
        // Only a threshold: frames fed together leave in one write, and an idle socket holds nothing.
        .write_buffer_size(32 * 1024)
        .max_write_buffer_size(8 * 1024 * 1024)
        .max_message_size(LARGEST)
        .max_frame_size(LARGEST);
    let refused = |why| door.relay.0.metrics.dials_refused.get_or_create(&Why { why }).inc();
    match verdict {
        Verdict::Welcome(holder) => {
            let Door { relay, egress } = door;
            upgrade.on_upgrade(move |stream| socket::serve(relay, egress, holder, stream))
        }
        Verdict::Refused { reason, pause } => {
            refused(reason);
            let timepiece = door.relay.0.timepiece.clone();
            // Before the answer, for which a stock agent waits ten seconds; between it and the close it
            // would already have said hello.
            timepiece.after(pause).await;
            // 101, and 4401 in the same breath: the only refusal that a stock agent understands (section 3.2).
            let said =
                last_word.map(|Extension(last_word)| last_word.close(UNAUTHORIZED.0, reason)).is_some();
            upgrade.on_upgrade(move |mut stream| async move {
                if said {
                    socket::await_goodbye(&mut stream, &timepiece).await;
                } else {
                    socket::say_goodbye(&mut stream, &timepiece, UNAUTHORIZED.0, reason).await;
                }
            })
        }
        Verdict::Barred => {
            refused("barred");
            StatusCode::TOO_MANY_REQUESTS.into_response()
        }
    }
}
