//! `posthouse config`: settings in force and their origin.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::json;

use super::output::{Output, aligned};
use super::server_address::ServerOptions;
use crate::config::{Config, example};

/// The configuration file to read.
#[derive(Args)]
pub struct ConfigFile {
    /// The configuration file; by default posthouse.toml in --dir
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl ConfigFile {
    fn path(&self, server: &ServerOptions) -> anyhow::Result<PathBuf> {
        match (&self.config, &server.dir) {
            (Some(file), _) => Ok(file.clone()),
            (None, Some(dir)) => Ok(dir.join("posthouse.toml")),
            (None, None) => bail!("no server given: use --config FILE or --dir DIR"),
        }
    }

    pub fn load(&self, server: &ServerOptions) -> anyhow::Result<Config> {
        Ok(Config::load(&self.path(server)?)?)
    }
}

#[derive(Subcommand)]
pub enum Command {
    /// Checks whether the server would start with these settings; otherwise prints the error with its line
    #[command(after_help = "Example:\n  posthouse config check --dir /srv/post")]
    Check {
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Prints every setting in force and its origin; never prints a secret
    #[command(after_help = "Examples:\n  posthouse config print --dir /srv/post\n  \
        posthouse config print --example > posthouse.toml")]
    Print {
        #[command(flatten)]
        file: ConfigFile,
        /// Print a complete file with every setting explained, at its default
        #[arg(long)]
        example: bool,
    },
}

impl Command {
    pub fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        match self {
            Command::Check { file } => {
                let path = file.path(server)?;
                let config = Config::load(&path)?;
                // The vault key is checked too, because the server reads it at its start.
                let (_, warning) = config.vault_key()?;
                for warning in config.warnings().chain(warning) {
                    eprintln!("posthouse: {warning}");
                }
                output.done(&json!({ "file": path, "ok": true }), &format!("{} is valid", path.display()))
            }
            Command::Print { example: true, .. } => {
                if output.json {
                    return output.value(&json!({ "example": example() }));
                }
                output.text(&example())
            }
            Command::Print { file, .. } => {
                let printed = file.load(server)?.printed();
                if output.json {
                    return output.value(&json!({ "items": printed }));
                }
                let rows: Vec<Vec<String>> = printed
                    .into_iter()
                    .map(|setting| {
                        let value = setting.value.unwrap_or_else(|| "(not set)".to_owned());
                        vec![setting.key, value, format!("# {}", setting.origin)]
                    })
                    .collect();
                output.text(&aligned(&rows))
            }
        }
    }
}
