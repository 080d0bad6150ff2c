//! Server settings: `posthouse.toml`, overridden by environment variables.
//!
//! The file holds settings of the server only (listeners, storage, limits, platform addresses). Tenants,
//! agents, bots and routes are in the ledger. No setting is in both places.

mod catalog;
mod cidrs;
mod fault;
mod nearest;
mod printing;
mod reading;
mod retired;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use errand::Cidr;
use posthouse_time::Span;
use posthouse_wire::Secret;
use serde::{Deserialize, Serialize};

use crate::key_files::read_key_file;

pub use fault::Fault;
pub use printing::{FRESH, example};
pub use reading::ValueOrigin;

/// All settings. Each plane has its own struct.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub server: ServerSection,
    pub storage: StorageSection,
    pub vault: VaultSection,
    pub identity: identity::Config,
    pub limits: identity::LimitValues,
    pub relay: relay::Config,
    pub clock: clock::Config,
    pub post: post::Config,
    pub workshop: workshop::Config,
    pub platforms: edge::Config,
    pub errand: ErrandSection,
    pub metrics: MetricsSection,
    pub log: LogSection,
    /// Origin of each value that is not a default.
    #[serde(skip)]
    origins: reading::Origins,
    /// Retired settings that are still set.
    #[serde(skip)]
    retired: Vec<retired::RetiredSetting>,
}

/// `[server]`
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSection {
    /// Address that the server listens on. Default 127.0.0.1:7678.
    pub listen: SocketAddr,
    /// The public URL of the server, without a trailing slash. All paths are mounted below its path.
    /// Default http:// and the listener.
    pub public_url: Option<String>,
    /// Proxies whose `X-Forwarded-*` headers are trusted. Default none.
    #[serde(with = "cidrs")]
    pub trusted_proxies: Vec<Cidr>,
    /// Certificate files, if the server itself terminates TLS. Default none.
    pub tls: Option<TlsSection>,
    /// Maximum number of connections; further ones get 503. One tenant may hold three quarters of them. The
    /// limit of open files may allow fewer. Default 15000.
    pub max_connections: usize,
    /// Additional connections for health, administration and 503 answers. Default 64.
    pub reserved_connections: usize,
    /// Connections of one address (IPv6: one /64) before authentication; at most a quarter of all. Default
    /// 512.
    pub max_connections_per_address: usize,
    /// Connections of one credential, agent, bot or invitation; at most half of all. Default 1024.
    pub max_connections_per_principal: usize,
    /// Timeout for the headers of a request. Default 10s.
    pub header_timeout: Span,
    /// Timeout for the body of a request. Default 15s.
    pub body_timeout: Span,
    /// How long a peer may read nothing before its connection is closed. Default 30s.
    pub write_timeout: Span,
    /// Memory for unfinished request bodies in bytes, in all. One address may use an eighth of it, one
    /// principal a quarter. Default 67108864.
    pub unfinished_body_bytes: usize,
    /// Memory for responses that are not written yet in bytes, in all, in the same shares. Default 268435456.
    pub unsent_answer_bytes: usize,
}

/// `[server.tls]`
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSection {
    /// The certificate with its chain, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// `[storage]`
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StorageSection {
    /// The folder of the ledger. Default the folder of the configuration file.
    pub dir: PathBuf,
    /// Storage limit of one tenant in bytes: unread messages, receipts, questions and chat rooms.
    /// `posthouse tenant change` sets another limit for one tenant. Default 4294967296.
    pub tenant_bytes: i64,
    /// Limit on the bytes of one tenant's files: uploads of its agents and attachments of messages. `posthouse tenant
    /// change` sets another limit for one tenant. Default 1073741824.
    pub media_bytes: i64,
    /// Limit on the bytes of one tenant's data in the server's own store. `posthouse tenant change` sets another limit
    /// for one tenant. Default 10737418240.
    pub data_bytes: i64,
}

/// `[vault]`
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VaultSection {
    /// The file with the vault's keys, the current one first. Default vault.key.
    pub key_file: PathBuf,
    /// The text of such a file. It can only be set by the environment.
    #[serde(skip)]
    pub key: Option<Secret>,
}

/// `[errand]`
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ErrandSection {
    /// Private addresses that the server may call when others name the URL. Default none.
    #[serde(with = "cidrs")]
    pub allow_cidrs: Vec<Cidr>,
    /// Whether such URLs may use plain http. Default false.
    pub allow_http: bool,
    /// Timeout for one call from start to end. Default 10s.
    pub timeout: Span,
}

/// `[metrics]`
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsSection {
    /// Whether /metrics works without the admin token. Default false.
    pub open: bool,
}

/// `[log]`
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSection {
    /// Text for people, or JSON for programs. Default text.
    pub format: LogFormat,
    /// The lowest level that is logged, or filters such as `info,relay=debug`. Default info.
    pub level: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7678)),
            public_url: None,
            trusted_proxies: Vec::new(),
            tls: None,
            max_connections: 15_000,
            reserved_connections: 64,
            max_connections_per_address: 512,
            max_connections_per_principal: 1024,
            header_timeout: Span::seconds(10),
            body_timeout: Span::seconds(15),
            write_timeout: Span::seconds(30),
            unfinished_body_bytes: 64 << 20,
            unsent_answer_bytes: 256 << 20,
        }
    }
}

impl Default for StorageSection {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("."),
            tenant_bytes: ledger::TENANT_BYTES,
            media_bytes: ledger::MEDIA_BYTES,
            data_bytes: ledger::DATA_BYTES,
        }
    }
}

impl Default for VaultSection {
    fn default() -> Self {
        Self { key_file: PathBuf::from("vault.key"), key: None }
    }
}

impl Default for ErrandSection {
    fn default() -> Self {
        Self { allow_cidrs: Vec::new(), allow_http: false, timeout: Span::seconds(10) }
    }
}

impl Default for LogSection {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".to_owned() }
    }
}

impl Config {
    /// Reads the file, then the environment over it, and checks the result.
    pub fn load(file: &Path) -> Result<Self, Fault> {
        reading::read(file, std::env::vars_os())
    }

    /// Checks relations between settings.
    pub fn check(&self) -> Result<(), String> {
        if let Some(url) = &self.server.public_url {
            is_base_url(url).map_err(|why| format!("server.public_url {why}"))?;
        }
        for (name, url) in [
            ("discord", &self.platforms.discord.api_base_url),
            ("matrix", &self.platforms.matrix.api_base_url),
            ("feishu", &self.platforms.feishu.api_base_url),
            ("slack", &self.platforms.slack.api_base_url),
            ("telegram", &self.platforms.telegram.api_base_url),
            ("twilio", &self.platforms.twilio.api_base_url),
            ("wecom", &self.platforms.wecom.api_base_url),
            ("whatsapp_cloud", &self.platforms.whatsapp_cloud.api_base_url),
        ] {
            is_base_url(url).map_err(|why| format!("platforms.{name}.api_base_url {why}"))?;
        }
        if let Some(TlsSection { cert, key }) = &self.server.tls
            && (cert.as_os_str().is_empty() || key.as_os_str().is_empty())
        {
            return Err("server.tls needs both cert and key".to_owned());
        }
        for (name, number) in [
            ("server.max_connections", self.server.max_connections),
            ("server.reserved_connections", self.server.reserved_connections),
            ("server.max_connections_per_address", self.server.max_connections_per_address),
            ("server.max_connections_per_principal", self.server.max_connections_per_principal),
        ] {
            if number == 0 {
                return Err(format!("{name} must be at least 1"));
            }
        }
        for (name, span) in [
            ("server.header_timeout", self.server.header_timeout),
            ("server.body_timeout", self.server.body_timeout),
            ("server.write_timeout", self.server.write_timeout),
            ("errand.timeout", self.errand.timeout),
        ] {
            if span.0.is_zero() {
                return Err(format!("{name} must be longer than 0s"));
            }
        }
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(&self.log.level) {
            return Err(format!("log.level: {error}"));
        }
        self.identity.check(self.server.public_url.as_deref())?;
        self.relay.check()?;
        self.clock.check()?;
        self.post.check()?;
        self.workshop.check()
    }

    pub fn storage_dir(&self) -> &Path {
        &self.storage.dir
    }

    /// The vault's keys, from the environment or from their file. The second value is a warning about
    /// permissions that are too wide.
    pub fn vault_key(&self) -> anyhow::Result<(Secret, Option<String>)> {
        if let Some(key) = &self.vault.key {
            return Ok((key.clone(), None));
        }
        let read = read_key_file(&self.vault.key_file).context("the vault key cannot be used")?;
        Ok((Secret::new(read.text), read.warning))
    }

    /// The public URL, given the address that the server really listens on.
    pub fn public_url(&self, at: SocketAddr) -> String {
        self.server.public_url.clone().unwrap_or_else(|| self.listening_url(at))
    }

    /// The URL for commands on this machine. The public URL may lead through a proxy, or not work yet. It
    /// is used only with TLS, because the certificate is for its name.
    pub fn local_url(&self, at: SocketAddr) -> String {
        match self.server.tls {
            Some(_) => self.public_url(at),
            None => self.listening_url(at) + &self.prefix(),
        }
    }

    fn listening_url(&self, at: SocketAddr) -> String {
        // The unspecified address cannot be called; the loopback address can.
        let ip = match at.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        let scheme = if self.server.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", SocketAddr::new(ip, at.port()))
    }

    /// The path that everything is mounted below; empty at the root.
    pub fn prefix(&self) -> String {
        let url = self.server.public_url.as_deref().unwrap_or_default();
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        rest.find('/').map_or_else(String::new, |at| rest[at..].to_owned())
    }

    pub fn errand(&self) -> errand::Config {
        errand::Config {
            allow_cidrs: self.errand.allow_cidrs.clone(),
            allow_http: self.errand.allow_http,
            timeout: self.errand.timeout.0,
            ..errand::Config::default()
        }
    }

    /// Lets errands reach this machine, for a server that somebody tries out.
    pub fn allow_loopback_errands(&mut self) {
        self.errand.allow_cidrs.extend(Cidr::loopback());
        self.errand.allow_http = true;
    }
}

/// Checks a URL that paths are appended to.
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
        return Err("must consist of scheme, host, port and path only");
    }
    Ok(())
}
