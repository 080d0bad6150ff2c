//! Response bodies on their way to a peer. Their bytes count against the byte budget until they are written or dropped,
//! because a peer that reads slowly keeps them in memory.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http_kit::Problem;
use hyper::body::{Frame, SizeHint};

use super::budget::{BodySender, BudgetRefusal, ByteBudget, ReservedBytes};

/// Bodies up to this size are not counted: the number of connections bounds them.
const SMALL: u64 = 16 * 1024;

/// Counts the body of a response for the peer that asked. Without room, the response is replaced by a refusal.
///
/// A body of unknown size is a stream. It is made piece by piece as the peer reads, and its source has limits of its own.
/// Only for a request that `is_repeatable`, the refusal says when to repeat it: others have had their effect.
pub fn counted(
    response: Response,
    is_repeatable: bool,
    peer: impl FnOnce() -> BodySender,
    budget: &ByteBudget,
) -> Response {
    let size = response.body().size_hint().exact().filter(|size| *size > SMALL);
    let Some(size) = size else { return response };
    let (peer, size) = (peer(), usize::try_from(size).unwrap_or(usize::MAX));
    if size > budget.share(&peer) {
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "answer_too_large", TOO_LARGE)
            .into_response();
    }
    let mut reserved = budget.of(peer);
    match reserved.more(size) {
        Ok(()) => response.map(|body| Body::new(AnswerBody { body, reserved: Arc::new(reserved) })),
        Err(refusal) => refused(refusal, is_repeatable),
    }
}

const TOO_LARGE: &str =
    "the request was served, but its answer is larger than this server sends: ask for less";

fn refused(refusal: BudgetRefusal, is_repeatable: bool) -> Response {
    let (status, code, detail) = match refusal {
        BudgetRefusal::OfSender => (
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_unsent_answers",
            "the request was served, but its answer does not fit beside the answers that you have not read yet: \
             read those first, or ask for less",
        ),
        BudgetRefusal::OfServer => (
            StatusCode::SERVICE_UNAVAILABLE,
            "overloaded",
            "the request was served, but there is no room for its answer",
        ),
    };
    let problem = Problem::new(status, code, detail);
    if is_repeatable { problem.retry_after(1).into_response() } else { problem.into_response() }
}

/// A body whose bytes are reserved.
struct AnswerBody {
    body: Body,
    reserved: Arc<ReservedBytes>,
}

/// A piece of such a body. The bytes are returned after the last piece is dropped, wherever that is.
struct AnswerPiece {
    bytes: Bytes,
    _reserved: Arc<ReservedBytes>,
}

impl AsRef<[u8]> for AnswerPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let counted = |bytes| Bytes::from_owner(AnswerPiece { bytes, _reserved: Arc::clone(&self.reserved) });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(counted))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
