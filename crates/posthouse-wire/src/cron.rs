//! Managed cron as data: arm requests of agents, fires to agents, and the signatures of both.
//!
//! The contract calls the server "portal".

mod fire;
mod fire_at;
mod policy;
mod provision;
mod timed_signature;

pub use fire::{FireBody, FireClaims, Fired, PURPOSE, audience};
pub use fire_at::{BadTime, FireAt};
pub use policy::{Missed, Overlap, Policy};
pub use provision::{ArmList, ArmedJob, BadField, Cancel, FireProof, Provision, Provisioned};
pub use timed_signature::{CRON_KEY, SIGNATURE, TimedSignature, cron_key_message};
