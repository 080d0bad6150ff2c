//! What every HTTP API of the server needs once: error responses, bounded request bodies, limits per client, paging,
//! work that outlives its caller, and the OpenAPI document.
//!
//! It depends on no other crate of this project. Tenants and principals cross this border as text.

mod body;
mod client_address;
mod problem;
mod request_limits;

pub use body::{BoundedBody, BoundedForm, UnreadBody, UnreadForm, read_body};
pub use client_address::{ClientAddress, network};
pub use problem::Problem;
pub use request_limits::{OverLimit, RequestControl, RequestLimits};
