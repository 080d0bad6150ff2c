//! The house's settings: `posthouse.toml`, then the environment.
//!
//! The file describes the house alone (listeners, storage, limits, platform addresses). Tenants, agents,
//! bots and routes live in the ledger: no fact has two homes.

mod catalog;
mod cidrs;
mod fault;
mod nearest;
mod printing;
mod reading;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use errand::Cidr;
use posthouse_time::Span;
use posthouse_wire::Secret;
use serde::{Deserialize, Serialize};

pub use fault::Fault;
pub use printing::{FRESH, example};
pub use reading::Origin;

/// Everything that can be set, each plane's part as its own struct.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub server: Server,
    pub storage: Storage,
    pub vault: Vault,
    pub relay: relay::Config,
    pub clock: clock::Config,
    pub post: post::Config,
    pub platforms: edge::Config,
    pub errand: Errand,
    pub metrics: Metrics,
    pub log: Log,
    /// Where each value that is not a default came from.
    #[serde(skip)]
    origins: reading::Origins,
}

/// `[server]`
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Where the house listens. Default 127.0.0.1:7678.
    pub listen: SocketAddr,
    /// The one address that is handed out, without a trailing slash; its path is what everything is
    /// mounted under. Default http:// and the listener.
    pub public_url: Option<String>,
    /// Whose `X-Forwarded-*` counts. Default nobody's.
    #[serde(with = "cidrs")]
    pub trusted_proxies: Vec<Cidr>,
    /// Certificate files, when the house itself speaks TLS. Default none.
    pub tls: Option<Tls>,
    /// Connections held at once; further ones are closed at once. Default 15000.
    pub max_connections: usize,
    /// How long a request's headers may take. Default 10s.
    pub header_timeout: Span,
    /// How long a request's body may take. Default 15s.
    pub body_timeout: Span,
}

/// `[server.tls]`
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// The certificate with its chain, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// `[storage]`
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// The folder of the ledger. Default the folder of the configuration file.
    pub dir: PathBuf,
}

/// `[vault]`
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Vault {
    /// The file that holds the vault's keys, the current one first. Default vault.key.
    pub key_file: PathBuf,
    /// The text of such a file, from the environment alone.
    #[serde(skip)]
    pub key: Option<Secret>,
}

/// `[errand]`
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Errand {
    /// Private addresses that URLs named by others may lead to. Default none.
    #[serde(with = "cidrs")]
    pub allow_cidrs: Vec<Cidr>,
    /// Whether such URLs may be plain http. Default false.
    pub allow_http: bool,
    /// For the lookup, the connection and the TLS handshake together. Default 3s.
    pub connect_timeout: Span,
    /// For one call from start to end. Default 10s.
    pub timeout: Span,
}

/// `[metrics]`
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// Whether /metrics answers without the admin token. Default false.
    pub open: bool,
}

/// `[log]`
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Lines for people, or JSON for programs. Default text.
    pub format: LogFormat,
    /// The least grave line that is written; also takes filters such as `info,relay=debug`. Default info.
    pub level: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7678)),
            public_url: None,
            trusted_proxies: Vec::new(),
            tls: None,
            max_connections: 15_000,
            header_timeout: Span::seconds(10),
            body_timeout: Span::seconds(15),
        }
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self { dir: PathBuf::from(".") }
    }
}

impl Default for Vault {
    fn default() -> Self {
        Self { key_file: PathBuf::from("vault.key"), key: None }
    }
}

impl Default for Errand {
    fn default() -> Self {
        Self {
            allow_cidrs: Vec::new(),
            allow_http: false,
            connect_timeout: Span::seconds(3),
            timeout: Span::seconds(10),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".to_owned() }
    }
}

impl Config {
    /// Reads the file, then the process's environment over it, and checks the whole.
    pub fn load(file: &Path) -> Result<Self, Fault> {
        reading::read(file, std::env::vars_os())
    }

    /// Relations between settings that must hold, in words.
    pub fn check(&self) -> Result<(), String> {
        if let Some(url) = &self.server.public_url {
            is_base_url(url).map_err(|why| format!("server.public_url {why}"))?;
        }
        is_base_url(&self.platforms.telegram.api_base_url)
            .map_err(|why| format!("platforms.telegram.api_base_url {why}"))?;
        if let Some(Tls { cert, key }) = &self.server.tls
            && (cert.as_os_str().is_empty() || key.as_os_str().is_empty())
        {
            return Err("server.tls needs both cert and key".to_owned());
        }
        if self.server.max_connections == 0 {
            return Err("server.max_connections must be at least 1".to_owned());
        }
        for (name, span) in [
            ("server.header_timeout", self.server.header_timeout),
            ("server.body_timeout", self.server.body_timeout),
            ("errand.connect_timeout", self.errand.connect_timeout),
            ("errand.timeout", self.errand.timeout),
        ] {
            if span.0.is_zero() {
                return Err(format!("{name} must be longer than nothing"));
            }
        }
        if self.errand.connect_timeout > self.errand.timeout {
            return Err("errand.connect_timeout must not be longer than errand.timeout".to_owned());
        }
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(&self.log.level) {
            return Err(format!("log.level: {error}"));
        }
        self.relay.check()?;
        self.clock.check()?;
        self.post.check()
    }

    pub fn storage_dir(&self) -> &Path {
        &self.storage.dir
    }

    /// The vault's keys: from the environment, else from their file.
    pub fn vault_key(&self) -> anyhow::Result<Secret> {
        if let Some(key) = &self.vault.key {
            return Ok(key.clone());
        }
        let file = &self.vault.key_file;
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the vault key {}", file.display()))?;
        Ok(Secret::new(text))
    }

    /// The one address that is handed out, given where the house really listens.
    pub fn public_url(&self, at: SocketAddr) -> String {
        self.server.public_url.clone().unwrap_or_else(|| self.listening_url(at))
    }

    /// Where an operator on this machine finds the house. The public address may lead through somebody's
    /// proxy, or nowhere yet; only a certificate makes it necessary, since that is for its name.
    pub fn local_url(&self, at: SocketAddr) -> String {
        match self.server.tls {
            Some(_) => self.public_url(at),
            None => self.listening_url(at) + &self.prefix(),
        }
    }

    fn listening_url(&self, at: SocketAddr) -> String {
        // Listening everywhere is no place to call; this machine is.
        let ip = match at.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        let scheme = if self.server.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", SocketAddr::new(ip, at.port()))
    }

    /// The path that everything is mounted under; empty at the root.
    pub fn prefix(&self) -> String {
        let url = self.server.public_url.as_deref().unwrap_or_default();
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        rest.find('/').map_or_else(String::new, |at| rest[at..].to_owned())
    }

    pub fn errand(&self) -> errand::Config {
        errand::Config {
            allow_cidrs: self.errand.allow_cidrs.clone(),
            allow_http: self.errand.allow_http,
            connect_timeout: self.errand.connect_timeout.0,
            timeout: self.errand.timeout.0,
            ..errand::Config::default()
        }
    }

    /// Lets errands reach this machine, for a house that somebody tries out.
    pub fn allow_loopback_errands(&mut self) {
        self.errand.allow_cidrs.extend(Cidr::loopback());
        self.errand.allow_http = true;
    }
}

/// An address that paths are appended to.
fn is_base_url(url: &str) -> Result<(), &'static str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let rest = rest.ok_or("must begin with http:// or https://")?;
    if rest.is_empty() || rest.starts_with(['/', ':']) {
        return Err("names no host");
    }
    if rest.ends_with('/') {
        return Err("must not end with a slash");
    }
    if rest.contains(['?', '#', '@', '{', '}', '*'])
        || rest.contains(char::is_whitespace)
        || rest.contains("//")
    {
        return Err("must be scheme, host, port and path alone");
    }
    Ok(())
}
