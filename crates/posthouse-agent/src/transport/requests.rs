//! Requests that wait for their result, across as many sockets as it takes.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;

use parking_lot::Mutex;
use posthouse_wire::{Outcome, RequestId};
use tokio::sync::{Notify, Semaphore, oneshot};
use uuid::Uuid;

/// Most requests that wait at a time. Further callers wait for room within their own deadline.
const ROOM: usize = 4096;

/// Longest text line that the server reads (section 4). It closes the socket on a longer one.
const LONGEST_LINE: usize = 4 << 20;

/// All requests without a result. Each keeps its id for its whole life, so that a server that has already
/// carried it out answers the repeat from memory.
pub(super) struct Requests {
    /// Unique to this process, so that request ids need no randomness of their own.
    prefix: String,
    waiting: Mutex<OpenRequests>,
    room: Semaphore,
}

#[derive(Default)]
struct OpenRequests {
    last: u64,
    by_number: BTreeMap<u64, OpenRequest>,
}

struct OpenRequest {
    line: String,
    /// Written to a socket at least once, so it may have been carried out.
    sent: bool,
    answer: oneshot::Sender<Outcome>,
}

/// Registration of one waiting request. Dropping it withdraws the request.
pub(super) struct RequestGuard<'a> {
    requests: &'a Requests,
    number: u64,
}

impl Requests {
    pub(super) fn new(now_ms: i64) -> Self {
        let seconds = u64::try_from(now_ms / 1000).unwrap_or(0);
        let seed = Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0));
        Self { prefix: format!("{}-", seed.simple()), waiting: Mutex::default(), room: Semaphore::new(ROOM) }
    }

    /// Sends the request that `line` builds for a new id, and waits for its result until `deadline`.
    pub(super) async fn ask(
        &self,
        ready: &Notify,
        deadline: impl Future<Output = ()>,
        line: impl FnOnce(RequestId) -> String,
    ) -> Outcome {
        let mut deadline = pin!(deadline);
        let _room = tokio::select! {
            biased;
            room = self.room.acquire() => room,
            () = &mut deadline => return late(false),
        };
        let (answer, answered) = oneshot::channel();
        let place = {
            let mut waiting = self.waiting.lock();
            waiting.last += 1;
            let number = waiting.last;
            let line = line(RequestId::from(format!("{}{number}", self.prefix)));
            if line.len() > LONGEST_LINE {
                return Outcome::failed(format!("too long: a request may have at most {LONGEST_LINE} bytes"));
            }
            waiting.by_number.insert(number, OpenRequest { line, sent: false, answer });
            RequestGuard { requests: self, number }
        };
        ready.notify_one();
        tokio::select! {
            biased;
            outcome = answered => outcome.unwrap_or_else(|_| gone(true)),
            () = deadline => late(place.leave()),
        }
    }

    /// Appends every request after number `written`, up to about `most` bytes, and advances `written`. A
    /// new socket starts at zero and so sends all of them again.
    pub(super) fn write_after(&self, written: &mut u64, batch: &mut String, most: usize) {
        let mut waiting = self.waiting.lock();
        for (number, request) in waiting.by_number.range_mut(*written + 1..) {
            batch.push_str(&request.line);
            request.sent = true;
            *written = *number;
            if batch.len() >= most {
                break;
            }
        }
    }

    /// Passes a result to the caller that waits for it. Other results are ignored.
    pub(super) fn settle(&self, id: &RequestId, outcome: Outcome) {
        let number = id.as_str().strip_prefix(&self.prefix).and_then(|number| number.parse().ok());
        let request = number.and_then(|number: u64| self.waiting.lock().by_number.remove(&number));
        if let Some(request) = request {
            // Fails only if the caller has just stopped waiting.
            let _ = request.answer.send(outcome);
        }
    }

    /// Fails every waiting request.
    pub(super) fn give_up(&self) {
        for request in std::mem::take(&mut self.waiting.lock().by_number).into_values() {
            let _ = request.answer.send(gone(request.sent));
        }
    }
}

impl RequestGuard<'_> {
    /// Withdraws the request and returns whether it had been sent.
    fn leave(&self) -> bool {
        self.requests.waiting.lock().by_number.remove(&self.number).is_some_and(|request| request.sent)
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The contract's prefixes (section 11.4): `network` only if the action was certainly not carried out.
fn late(sent: bool) -> Outcome {
    Outcome::failed(if sent {
        "timed out waiting for the server"
    } else {
        "network: no connection to the server"
    })
}

fn gone(sent: bool) -> Outcome {
    Outcome::failed(if sent {
        "timed out: the connection closed before the result arrived"
    } else {
        "network: the connection is closed"
    })
}
