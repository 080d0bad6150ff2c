//! Settings of outgoing calls.

use crate::Cidr;
use std::time::Duration;

/// Allowed addresses, timeouts and size limits of outgoing calls.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses that may be called although they are not public (loopback, private networks). Default: none.
    pub allow_cidrs: Vec<Cidr>,
    /// Whether plain http URLs may be called, on any host. Default: no.
    pub allow_http: bool,
    /// Time limit for DNS lookup, connection and TLS handshake together. Default: 3 s.
    pub connect_timeout: Duration,
    /// Time limit for a whole call, unless the call sets its own. Default: 10 s.
    pub timeout: Duration,
    /// Maximum number of bytes read from a response body, unless the call sets its own limit. Default: 64 KiB.
    pub max_answer: usize,
    /// How long an idle connection is kept for the next call to the same host. Default: 30 s.
    pub keep_idle: Duration,
    /// Idle connections kept per host. It matches the number of concurrent calls to one host. Default: 16.
    pub max_idle_per_host: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            allow_cidrs: Vec::new(),
            allow_http: false,
            connect_timeout: Duration::from_secs(3),
            timeout: Duration::from_secs(10),
            max_answer: 64 * 1024,
            keep_idle: Duration::from_secs(30),
            max_idle_per_host: 16,
        }
    }
}

impl Config {
    /// The default, with loopback addresses and plain http allowed. For a server on a developer's own machine.
    pub fn loopback() -> Self {
        Self { allow_cidrs: Cidr::loopback().to_vec(), allow_http: true, ..Self::default() }
    }
}
