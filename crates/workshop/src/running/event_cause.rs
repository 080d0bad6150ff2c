//! The cause of an event: the message that led to it, as the sender of the event names it.

use http::HeaderMap;
use http_kit::Problem;
use post::{Caller, Post};
use posthouse_wire::DispatchId;
use posthouse_wire::delivery::is_dispatch_id;

/// Header with the dispatch id of the message that led to an event.
const CAUSE: &str = "Posthouse-Cause";

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
