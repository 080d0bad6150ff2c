//! Request bodies on their way to a handler. Nothing is read before the handler asks for it, and the bytes
//! of an unfinished body count against the byte budget.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_kit::RequestLimits;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use posthouse_time::Timepiece;
use posthouse_wire::TenantId;

use super::budget::{BodySender, BudgetRefusal, ByteBudget, ReservedBytes};
use crate::server::{PeerConnection, Timer, timer};

/// Memory of a piece besides its bytes: a handler that collects a body keeps a list of pieces, and a peer
/// may send one byte in each.
const PIECE: usize = 64;

/// Why the listener answers instead of the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFault {
    TooSlow,
    BrokenOff,
    /// The sender, or the server, has too many unfinished bytes.
    BudgetRefusal(BudgetRefusal),
    /// The principal or its tenant has too many connections.
    OverLimit,
}

impl fmt::Display for BodyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BodyFault::TooSlow => "the request body took too long to arrive",
            BodyFault::BrokenOff => "the request body is incomplete or cannot be read",
            BodyFault::BudgetRefusal(_) => "too many unfinished request bodies",
            BodyFault::OverLimit => "too many connections of this principal",
        })
    }
}

impl std::error::Error for BodyFault {}

/// One request as the listener sees it; the handler reaches it through `RequestControl`.
pub struct RequestState {
    address: IpAddr,
    connection: Arc<PeerConnection>,
    principal: Mutex<Option<(Arc<str>, Option<TenantId>)>>,
    streamed: AtomicBool,
    /// The body has been read to its end.
    whole: AtomicBool,
    fault: Mutex<Option<BodyFault>>,
}

impl RequestState {
    pub fn new(address: IpAddr, connection: Arc<PeerConnection>) -> Arc<Self> {
        Arc::new(Self {
            address,
            connection,
            principal: Mutex::default(),
            streamed: AtomicBool::new(false),
            whole: AtomicBool::new(false),
            fault: Mutex::default(),
        })
    }

    /// The first fault of the body or the limits, if there was one.
    pub fn fault(&self) -> Option<BodyFault> {
        *self.fault.lock()
    }

    /// Whether the whole body has been read.
    pub fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Relaxed)
    }

    fn fails(&self, fault: BodyFault) -> BodyFault {
        *self.fault.lock().get_or_insert(fault)
    }

    /// Whose bytes the bodies of this request and of its response are.
    pub fn sender(&self) -> BodySender {
        match &*self.principal.lock() {
            Some((principal, tenant)) => BodySender::Principal(Arc::clone(principal), tenant.clone()),
            None => BodySender::address(self.address),
        }
    }
}

impl RequestLimits for RequestState {
    fn proven(&self, principal: &str, tenant: Option<&str>) -> bool {
        let proven = self.connection.proven(principal, tenant);
        if proven.is_none() {
            self.fails(BodyFault::OverLimit);
            return false;
        }
        *self.principal.lock() = proven;
        true
    }

    fn is_at_capacity(&self) -> bool {
        self.connection.is_at_capacity()
    }

    fn stream_body(&self) {
        self.streamed.store(true, Ordering::Relaxed);
    }
}

/// Limits for bodies.
#[derive(Clone)]
pub struct BodyLimits {
    pub timepiece: Timepiece,
    /// Timeout of one body; of each piece, if a handler reads it as a stream.
    pub within: Duration,
    /// Bytes of all bodies that are not complete yet.
    pub unfinished: ByteBudget,
    /// Bytes of all response bodies that are not written yet.
    pub unsent: ByteBudget,
}

/// The body as a handler gets it.
pub struct RequestBody {
    incoming: Incoming,
    request: Arc<RequestState>,
    budget: ByteBudget,
    /// None until a piece arrives that is not the last one.
    reserved: Option<ReservedBytes>,
    timepiece: Timepiece,
    within: Duration,
    /// None while the body arrives as fast as it is read.
    deadline: Option<Timer>,
}

impl RequestBody {
    pub fn new(incoming: Incoming, request: Arc<RequestState>, limits: &BodyLimits) -> Self {
        let BodyLimits { timepiece, within, unfinished, .. } = limits.clone();
        Self { incoming, request, budget: unfinished, reserved: None, timepiece, within, deadline: None }
    }

    fn is_streamed(&self) -> bool {
        self.request.streamed.load(Ordering::Relaxed)
    }

    fn ends(&mut self) {
        // The body is complete: from here on the handler's own limits apply.
        self.reserved = None;
        self.request.whole.store(true, Ordering::Relaxed);
    }

    /// Counts a piece of an unfinished body.
    fn count(&mut self, piece: usize) -> Result<(), BudgetRefusal> {
        let (request, budget) = (&self.request, &self.budget);
        let reserved = self.reserved.get_or_insert_with(|| budget.of(request.sender()));
        reserved.more(piece + PIECE)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyFault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
        let this = &mut *self;
        if this.is_streamed() {
            // The previous piece has been consumed.
            this.reserved = None;
        }
        let Poll::Ready(frame) = Pin::new(&mut this.incoming).poll_frame(context) else {
            let deadline = this.deadline.get_or_insert_with(|| timer(&this.timepiece, this.within));
            ready!(deadline.as_mut().poll(context));
            return Poll::Ready(Some(Err(this.request.fails(BodyFault::TooSlow))));
        };
        if this.is_streamed() {
            this.deadline = None;
        }
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(_)) => return Poll::Ready(Some(Err(this.request.fails(BodyFault::BrokenOff)))),
            None => {
                this.ends();
                return Poll::Ready(None);
            }
        };
        if this.incoming.is_end_stream() {
            this.ends();
        } else if let Err(full) = this.count(frame.data_ref().map_or(0, Bytes::len)) {
            return Poll::Ready(Some(Err(this.request.fails(BodyFault::BudgetRefusal(full)))));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
