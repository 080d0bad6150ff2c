//! Managed cron as data: arm requests of agents, fires to agents, and the signatures of both.
//!
//! The contract calls the server "portal".

mod fire;
mod fire_at;
mod policy;
mod provision;
mod stamp;

pub use fire::{FireBody, FireClaims, Fired, PURPOSE, audience};
pub use fire_at::{BadTime, FireAt};
pub use policy::{Missed, Overlap, Policy};
pub use provision::{ArmList, ArmedJob, BadField, Cancel, FireProof, Provision, Provisioned};
pub use stamp::{CRON_KEY, SIGNATURE, Stamp, cron_key_message};
