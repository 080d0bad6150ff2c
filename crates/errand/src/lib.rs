//! Calls to URLs that others named: wake pokes, callbacks, webhooks, media.
//!
//! Whoever may name a URL that we call may try to make us call something of ours. So:
//! - every address a host resolves to is checked, and the connection goes to a checked address: there is no
//!   second lookup in between. One address that is not allowed refuses the host;
//! - only public addresses are allowed, save those the operator lists in [`Config::allow_cidrs`]; plain http only
//!   with [`Config::allow_http`];
//! - redirects are answers and are not followed, proxies of the environment are not asked, time and size are
//!   bounded, credentials in URLs are refused;
//! - no error text carries a URL, whose path or query may be a secret.
//!
//! The process must have installed a rustls crypto provider as its default before the first call.

mod address;
mod call;
mod cidr;
mod config;
mod fault;
mod resolve;
mod runner;
mod target;

pub use call::{Answer, Call};
pub use cidr::{Cidr, CidrFault};
pub use config::Config;
pub use fault::{Fault, Refusal};
pub use reqwest::Url;
pub use resolve::{Lookup, LookupResult, SystemLookup};
pub use runner::Errand;
