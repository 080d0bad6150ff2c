//! Managed cron as data: what an agent asks of the portal, what the portal asks of the agent, and the
//! proofs between them.

mod fire;
mod fire_at;
mod policy;
mod provision;
mod stamp;

pub use fire::{FireBody, FireClaims, Fired, PURPOSE, audience};
pub use fire_at::{BadTime, FireAt};
pub use policy::{Missed, Overlap, Policy};
pub use provision::{ArmedJob, BadField, Cancel, Listing, Proof, Provision, Provisioned};
pub use stamp::{CRON_KEY, SIGNATURE, Stamp, cron_key_message};
