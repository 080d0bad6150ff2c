//! Shared parts of the stand-ins: server, control API, transcript, faults, webhook deliveries.
//!
//! A stand-in is a type with the state of its platform that implements [`StandInPlatform`]. [`StandIn`] runs it. The
//! Telegram stand-in is older and has its own copy of some of these parts, with numeric ids.

mod clock;
mod control;
mod faults;
pub(crate) mod form;
mod handle;
mod platform;
mod rate;
mod recent;
mod server;
mod state;
mod transcript;
mod webhooks;

pub(crate) use self::{
    control::{Control, ControlAnswer},
    platform::{ApiCall, CallSubject, RefusedCall, json_response, respond},
    rate::SlidingWindow,
    recent::Recent,
    state::Harness,
    webhooks::{OutgoingRequest, ReceiverAnswer},
};
pub use self::{
    faults::{CallFault, CallFaultKind, CallFaultState},
    handle::StandIn,
    platform::StandInPlatform,
    state::HarnessSettings,
    transcript::{PlatformRow, RowFilter},
    webhooks::DeliveryAttempt,
};
