use crate::Cidr;
use std::time::Duration;

/// What errands may reach, and how long they may take about it.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses that may be called although they are not public (loopback, private networks). Default: none.
    pub allow_cidrs: Vec<Cidr>,
    /// Whether plain http may be called, wherever it leads. Default: no.
    pub allow_http: bool,
    /// For the lookup, the connection and the TLS handshake together. Default: 3 s.
    pub connect_timeout: Duration,
    /// For one call from start to end, unless the call says otherwise. Default: 10 s.
    pub timeout: Duration,
    /// How much of an answer's body is read, unless the call says otherwise. Default: 64 KiB.
    pub max_answer: usize,
    /// How long an idle connection is kept for the next call to the same host. Default: 30 s.
    pub keep_idle: Duration,
    /// How many idle connections are kept per host: as many as go to one at once. Default: 16.
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
    /// As the default, but loopback and plain http are allowed: for a house on one's own machine.
    pub fn loopback() -> Self {
        Self { allow_cidrs: Cidr::loopback().to_vec(), allow_http: true, ..Self::default() }
    }
}
