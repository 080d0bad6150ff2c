//! Building blocks of every HTTP API of the server: error responses, bounded request bodies, strict reading of fields and
//! queries, credential headers, limits per client, paging, work that outlives its caller, and the OpenAPI document.
//!
//! It depends on no other crate of this project. Tenants and principals cross this border as text.

mod body;
mod client_address;
mod completion;
mod fields;
pub mod openapi;
mod operation;
mod paging;
mod problem;
mod query;
mod request_limits;
mod sole_header;

pub use body::{BoundedBody, BoundedForm, UnreadBody, UnreadForm, read_body};
pub use client_address::{ClientAddress, network};
pub use completion::{ShuttingDown, completed};
pub use fields::{Fields, LONGEST_LABEL, clamped, unfit};
pub use operation::{Endpoint, Operation, operations, router};
pub use paging::{Page, PageSize, decode_cursor, encode_cursor};
pub use problem::Problem;
pub use query::{QueryReader, opaque};
pub use request_limits::{OverLimit, RequestControl, RequestLimits};
pub use sole_header::sole_header;
