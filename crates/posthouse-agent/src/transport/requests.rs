//! Requests that wait for their answer, over as many sockets as it takes.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;

use parking_lot::Mutex;
use posthouse_wire::{Outcome, RequestId};
use tokio::sync::{Notify, Semaphore, oneshot};
use uuid::Uuid;

/// How many may wait at a time; more callers wait for room inside their own deadline.
const ROOM: usize = 4096;

/// What the house reads (section 4). A longer line would cost us the socket.
const LONGEST_LINE: usize = 4 << 20;

/// All requests without an answer. Each keeps its id for life, so a house that already did the work
/// answers the repeat from memory instead of doing it twice.
pub(super) struct Requests {
    /// Unlike any other process's, so that ids need no randomness of their own.
    prefix: String,
    waiting: Mutex<Waiting>,
    room: Semaphore,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    by_number: BTreeMap<u64, Request>,
}

struct Request {
    line: String,
    /// It stood on a socket at least once, so it may have been carried out.
    sent: bool,
    answer: oneshot::Sender<Outcome>,
}

/// A place among the waiting; dropping it withdraws the request.
pub(super) struct Place<'a> {
    requests: &'a Requests,
    number: u64,
}

impl Requests {
    pub(super) fn new(now_ms: i64) -> Self {
        let seconds = u64::try_from(now_ms / 1000).unwrap_or(0);
        let seed = Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0));
        Self { prefix: format!("{}-", seed.simple()), waiting: Mutex::default(), room: Semaphore::new(ROOM) }
    }

    /// Waits until `deadline` for the answer to the request that `line` writes under the id it is given.
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
                return Outcome::failed(format!("too long: a request may have {LONGEST_LINE} bytes"));
            }
            waiting.by_number.insert(number, Request { line, sent: false, answer });
            Place { requests: self, number }
        };
        ready.notify_one();
        tokio::select! {
            biased;
            outcome = answered => outcome.unwrap_or_else(|_| gone(true)),
            () = deadline => late(place.leave()),
        }
    }

    /// Appends every line after number `written`, up to about `most` bytes, and moves `written` on. A new
    /// socket starts at zero and so says everything again.
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

    /// Hands an answer to whoever waits for it. Answers nobody waits for are nobody's.
    pub(super) fn settle(&self, id: &RequestId, outcome: Outcome) {
        let number = id.as_str().strip_prefix(&self.prefix).and_then(|number| number.parse().ok());
        let request = number.and_then(|number: u64| self.waiting.lock().by_number.remove(&number));
        if let Some(request) = request {
            // The asker may have left in this moment; then nobody is interested.
            let _ = request.answer.send(outcome);
        }
    }

    /// Tells everyone that no answer will come.
    pub(super) fn give_up(&self) {
        for request in std::mem::take(&mut self.waiting.lock().by_number).into_values() {
            let _ = request.answer.send(gone(request.sent));
        }
    }
}

impl Place<'_> {
    /// Withdraws the request and tells whether it had been sent.
    fn leave(&self) -> bool {
        self.requests.waiting.lock().by_number.remove(&self.number).is_some_and(|request| request.sent)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The contract's words (section 11.4): `network` only where surely nothing was done.
fn late(sent: bool) -> Outcome {
    Outcome::failed(if sent { "timed out waiting for the house" } else { "network: no line to the house" })
}

fn gone(sent: bool) -> Outcome {
    Outcome::failed(if sent {
        "timed out: the line closed before the answer came"
    } else {
        "network: the line is closed"
    })
}
