//! Outgoing HTTP calls to URLs that others named: wake calls, callbacks, webhooks, media.
//!
//! Anyone who may name a URL can try to make the server call its own internal network (SSRF). Therefore:
//! - Every address that a host resolves to is checked, and the connection goes to a checked address, without a
//!   second lookup in between. One address that is not allowed is enough to refuse the host.
//! - Only public addresses are allowed, except those that the operator lists in [`Config::allow_cidrs`]. Plain http
//!   requires [`Config::allow_http`].
//! - Redirects count as responses and are not followed. Proxies from the environment are ignored. Time and size are
//!   bounded. Credentials in URLs are refused.
//! - Lookups run on their own threads, with a limit per tenant, so that a hanging name server delays only the tenant
//!   that uses it.
//! - No error text contains a URL, because its path or query may be a secret.
//!
//! The process must have installed a rustls crypto provider as its default before the first call.

mod address;
mod call;
mod cidr;
mod config;
mod fault;
mod lookup_threads;
mod resolve;
mod runner;
mod target;

pub use call::{CallResponse, OutgoingCall};
pub use cidr::{Cidr, CidrFault};
pub use config::Config;
pub use fault::{Fault, UrlRefusal};
pub use lookup_threads::SystemLookup;
pub use reqwest::Url;
pub use resolve::{Lookup, LookupResult};
pub use runner::{Errand, OpenCall};
