//! Events that start skills: what becomes of one, and the message that led to it.

use http::HeaderMap;
use http_kit::Problem;
use post::{Caller, Post};
use posthouse_wire::delivery::is_dispatch_id;
use posthouse_wire::{DispatchId, RunId};

/// Header with the dispatch id of the message that led to an event.
const CAUSE: &str = "Posthouse-Cause";

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    Queued(RunId),
    /// No skill of the tenant has a trigger for it.
    Unknown,
    /// The parameters are not exactly the variables of the skill.
    Mismatch {
        declared: Vec<String>,
        missing: Vec<String>,
        extra: Vec<String>,
    },
    TooLarge,
    /// The tenant has too many runs that wait.
    QueueFull,
}

/// The message that led to an event, as the sender says. It must concern the sender, so that nobody writes into the trace
/// of a message of others.
pub(super) async fn named_cause(
    post: &Post,
    by: &Caller,
    headers: &HeaderMap,
) -> Result<Option<DispatchId>, Problem> {
    let mut values = headers.get_all(CAUSE).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let unknown = || Problem::unprocessable("unknown_cause", format!("`{CAUSE}` names no message of yours"));
    let id = value.to_str().ok().filter(|id| is_dispatch_id(id) && values.next().is_none());
    let id = DispatchId::from(id.ok_or_else(unknown)?);
    match post.receipts().concerns(by, &id).await? {
        true => Ok(Some(id)),
        false => Err(unknown()),
    }
}
