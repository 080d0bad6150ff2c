//! Lookup and check in one step. The client asks here whenever it opens a connection, and connects to what it
//! is told: no other lookup comes between the check and the call, and a kept connection stays where it went.

use crate::{Cidr, address};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use tracing::debug;

/// What a lookup finds.
pub type LookupResult = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Who knows the addresses of a host.
pub trait Lookup: Send + Sync {
    /// All addresses of `host`.
    fn lookup(&self, host: &str) -> LookupResult;
}

/// The system's own resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str) -> LookupResult {
        let host = host.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A lookup that answers with allowed addresses or not at all.
pub(crate) struct Checked {
    pub lookup: Arc<dyn Lookup>,
    pub allowed: Arc<[Cidr]>,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.lookup.lookup(name.as_str());
        let allowed = Arc::clone(&self.allowed);
        Box::pin(async move {
            let found = found.await?;
            if found.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "no address").into());
            }
            // All or nothing: a name with one address inside and one outside was made to be tried until it hits.
            for found in &found {
                address::admit(*found, &allowed).inspect_err(|_| {
                    debug!(host = name.as_str(), address = %found, "refused to call an address that is not public");
                })?;
            }
            // The client puts the port in.
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}
