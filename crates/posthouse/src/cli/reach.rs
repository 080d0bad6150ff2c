//! Where the house is and how its operator is known to it.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use posthouse_wire::Secret;

use crate::config::Config;

/// What `posthouse up` makes where nothing else is said.
const DEFAULT_DIR: &str = "posthouse-data";

#[derive(Args)]
pub struct Reach {
    /// The house's address, when it is not found by --dir
    #[arg(long, global = true, env = "POSTHOUSE_URL", hide_env_values = true, value_name = "URL")]
    pub url: Option<String>,
    /// The file that holds the admin token (or the token itself in POSTHOUSE_ADMIN_TOKEN)
    #[arg(
        long,
        global = true,
        env = "POSTHOUSE_ADMIN_TOKEN_FILE",
        hide_env_values = true,
        value_name = "FILE"
    )]
    pub admin_token_file: Option<PathBuf>,
    /// The house's folder; its address and admin token are found in it
    #[arg(long, global = true, env = "POSTHOUSE_DIR", hide_env_values = true, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

impl Reach {
    /// The folder that `up` serves.
    pub fn dir_or_default(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIR))
    }

    /// The folder that was named, else the one that `up` made here.
    fn folder(&self) -> Option<PathBuf> {
        let made = || Some(PathBuf::from(DEFAULT_DIR)).filter(|dir| dir.join("posthouse.toml").exists());
        self.dir.clone().or_else(made)
    }

    /// Whether anything says which house is meant.
    pub fn is_told(&self) -> bool {
        self.url.is_some() || self.folder().is_some()
    }

    /// The words on this command line that say which house is meant; what the environment says need not be
    /// said again.
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

    /// The address of the running house, without a trailing slash.
    pub fn address(&self) -> anyhow::Result<String> {
        if let Some(url) = &self.url {
            return Ok(url.trim_end_matches('/').to_owned());
        }
        let Some(dir) = self.folder() else {
            bail!("which house? name its folder with --dir, or say --url and --admin-token-file");
        };
        if let Some(url) = noted_url(&dir) {
            return Ok(url);
        }
        // The house notes its address beside its ledger, which may lie elsewhere.
        let config = Config::load(&dir.join("posthouse.toml"))?;
        match noted_url(config.storage_dir()) {
            Some(url) => Ok(url),
            None => bail!(
                "the house in {0} is not running: start it with `posthouse serve --dir {0}`",
                dir.display()
            ),
        }
    }

    pub fn token(&self) -> anyhow::Result<Secret> {
        if let Some(file) = &self.admin_token_file {
            return read_secret(file);
        }
        if let Ok(token) = std::env::var("POSTHOUSE_ADMIN_TOKEN") {
            return Ok(Secret::new(token.trim()));
        }
        match self.folder() {
            Some(dir) => read_secret(&dir.join("admin.token")),
            None => bail!("no admin token: say --admin-token-file or --dir, or set POSTHOUSE_ADMIN_TOKEN"),
        }
    }
}

fn noted_url(dir: &Path) -> Option<String> {
    let text = std::fs::read_to_string(dir.join("house.url")).ok()?;
    Some(text.trim().trim_end_matches('/').to_owned()).filter(|url| !url.is_empty())
}

/// A secret from a file; the line break that editors put at the end is not part of it.
pub fn read_secret(file: &Path) -> anyhow::Result<Secret> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let secret = text.trim_end_matches(['\n', '\r']);
    if secret.is_empty() {
        bail!("{} is empty", file.display());
    }
    Ok(Secret::new(secret))
}
