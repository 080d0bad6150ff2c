//! DNS lookup and address check in one step.
//!
//! The HTTP client calls this resolver whenever it opens a connection, and connects to the addresses it returns. So
//! no other lookup comes between the check and the call, and a kept connection stays at its checked address.

use crate::{Cidr, address};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use tracing::debug;

/// Future of a lookup: the addresses of a host.
pub type LookupResult = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// A resolver of host names.
pub trait Lookup: Send + Sync {
    /// All addresses of `host`.
    fn lookup(&self, host: &str) -> LookupResult;
}

/// A resolver that returns allowed addresses only, and fails if any address is not allowed.
pub(crate) struct CheckedResolver {
    pub lookup: Arc<dyn Lookup>,
    pub allowed: Arc<[Cidr]>,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.lookup.lookup(name.as_str());
        let allowed = Arc::clone(&self.allowed);
        Box::pin(async move {
            let found = found.await?;
            if found.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "no address").into());
            }
            // One forbidden address refuses the whole host: a name with an internal and a public address is typical of
            // an attack that retries until the internal one is chosen.
            for found in &found {
                address::admit(*found, &allowed).inspect_err(|_| {
                    debug!(host = name.as_str(), address = %found, "refused to call an address that is not public");
                })?;
            }
            // The client sets the port.
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}
