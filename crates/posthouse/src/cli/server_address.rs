//! Address and admin token of the server, from options, environment or its folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use posthouse_wire::Secret;
use reqwest::Url;

use crate::config::Config;
use crate::key_files::read_key_file;

/// Default folder of `posthouse up`.
const DEFAULT_DIR: &str = "posthouse-data";

#[derive(Args)]
pub struct ServerOptions {
    /// URL of the server; not needed with --dir
    #[arg(
        long,
        global = true,
        env = "POSTHOUSE_URL",
        hide_env_values = true,
        value_name = "URL",
        help_heading = "Global options"
    )]
    pub url: Option<String>,
    /// File with the admin token (POSTHOUSE_ADMIN_TOKEN can hold the token itself)
    #[arg(
        long,
        global = true,
        env = "POSTHOUSE_ADMIN_TOKEN_FILE",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub admin_token_file: Option<PathBuf>,
    /// Folder of the server, which contains its URL and its admin token
    #[arg(
        long,
        global = true,
        env = "POSTHOUSE_DIR",
        hide_env_values = true,
        value_name = "DIR",
        help_heading = "Global options"
    )]
    pub dir: Option<PathBuf>,
}

impl ServerOptions {
    /// The folder that `up` serves.
    pub fn dir_or_default(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIR))
    }

    /// The folder of --dir, otherwise the default folder of `up` if it exists.
    fn folder(&self) -> Option<PathBuf> {
        let made = || Some(PathBuf::from(DEFAULT_DIR)).filter(|dir| dir.join("posthouse.toml").exists());
        self.dir.clone().or_else(made)
    }

    /// Whether a server was named.
    pub fn is_given(&self) -> bool {
        self.url.is_some() || self.folder().is_some()
    }

    /// The options of this command line that name the server. Values from the environment are left out,
    /// because they need not be repeated.
    pub fn words(&self) -> Vec<String> {
        let dir = self.dir.as_ref().map(|dir| dir.display().to_string());
        let token = self.admin_token_file.as_ref().map(|file| file.display().to_string());
        let said = [
            ("--url", "POSTHOUSE_URL", self.url.clone()),
            ("--admin-token-file", "POSTHOUSE_ADMIN_TOKEN_FILE", token),
            ("--dir", "POSTHOUSE_DIR", dir),
        ];
        let typed = said.into_iter().filter_map(|(flag, variable, value)| {
            value
                .filter(|value| std::env::var(variable).ok().as_ref() != Some(value))
                .map(|value| [flag.to_owned(), value])
        });
        typed.flatten().collect()
    }

    /// The URL of the running server.
    pub fn url(&self) -> anyhow::Result<Url> {
        let address = self.address()?;
        let url = Url::parse(&address).with_context(|| format!("`{address}` is not a URL"))?;
        if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
            bail!("`{address}` is not an http or https URL");
        }
        Ok(url)
    }

    /// The URL of the running server as it is written, without a trailing slash.
    fn address(&self) -> anyhow::Result<String> {
        if let Some(url) = &self.url {
            return Ok(url.trim_end_matches('/').to_owned());
        }
        let Some(dir) = self.folder() else {
            bail!("no server given: use --dir DIR, or --url URL and --admin-token-file FILE");
        };
        if let Some(url) = noted_url(&dir) {
            return Ok(url);
        }
        // The server writes its URL beside its ledger, which may be in another folder.
        let config = Config::load(&dir.join("posthouse.toml"))?;
        match noted_url(config.storage_dir()) {
            Some(url) => Ok(url),
            None => bail!(
                "the server in {0} is not running: start it with `posthouse serve --dir {0}`",
                dir.display()
            ),
        }
    }

    pub fn token(&self) -> anyhow::Result<Secret> {
        if let Some(file) = &self.admin_token_file {
            return read_admin_token(file);
        }
        if let Ok(token) = std::env::var("POSTHOUSE_ADMIN_TOKEN") {
            return Ok(Secret::new(token.trim()));
        }
        match self.folder() {
            Some(dir) => read_admin_token(&dir.join("admin.token")),
            None => bail!("no admin token: use --admin-token-file or --dir, or set POSTHOUSE_ADMIN_TOKEN"),
        }
    }
}

fn noted_url(dir: &Path) -> Option<String> {
    let text = std::fs::read_to_string(dir.join("house.url")).ok()?;
    Some(text.trim().trim_end_matches('/').to_owned()).filter(|url| !url.is_empty())
}

/// Reads the admin token. Its file must not be readable by every user of the machine.
fn read_admin_token(file: &Path) -> anyhow::Result<Secret> {
    let read = read_key_file(file)?;
    if let Some(warning) = &read.warning {
        eprintln!("posthouse: {warning}");
    }
    secret_of(file, &read.text)
}

/// Reads a secret from a file that the user named for one command.
pub fn read_secret(file: &Path) -> anyhow::Result<Secret> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    secret_of(file, &text)
}

/// Removes the line break that editors put at the end of a file.
fn secret_of(file: &Path, text: &str) -> anyhow::Result<Secret> {
    let secret = text.trim_end_matches(['\n', '\r']);
    if secret.is_empty() {
        bail!("{} is empty", file.display());
    }
    Ok(Secret::new(secret))
}
