//! `posthouse config`: what is in force, and why.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::json;

use super::paper::{Paper, aligned};
use super::reach::Reach;
use crate::config::{Config, example};

/// Which configuration.
#[derive(Args)]
pub struct File {
    /// The configuration file; without it, posthouse.toml in --dir
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl File {
    fn path(&self, reach: &Reach) -> anyhow::Result<PathBuf> {
        match (&self.config, &reach.dir) {
            (Some(file), _) => Ok(file.clone()),
            (None, Some(dir)) => Ok(dir.join("posthouse.toml")),
            (None, None) => bail!("which house? name its file with --config or its folder with --dir"),
        }
    }

    pub fn load(&self, reach: &Reach) -> anyhow::Result<Config> {
        Ok(Config::load(&self.path(reach)?)?)
    }
}

#[derive(Subcommand)]
pub enum Command {
    /// Says whether the house would start with these settings, else what is wrong and on which line
    #[command(after_help = "Example:\n  posthouse config check --dir /srv/post")]
    Check {
        #[command(flatten)]
        file: File,
    },
    /// Prints every setting in force and where it came from; never a secret
    #[command(after_help = "Examples:\n  posthouse config print --dir /srv/post\n  \
        posthouse config print --example > posthouse.toml")]
    Print {
        #[command(flatten)]
        file: File,
        /// Print a whole file with every setting explained, at its default
        #[arg(long)]
        example: bool,
    },
}

impl Command {
    pub fn act(self, paper: &Paper, reach: &Reach) -> anyhow::Result<()> {
        match self {
            Command::Check { file } => {
                let path = file.path(reach)?;
                let config = Config::load(&path)?;
                // What the house reads at its very start must be there too.
                config.vault_key()?;
                paper.done(&json!({ "file": path, "ok": true }), &format!("{} is fine", path.display()))
            }
            Command::Print { example: true, .. } => {
                if paper.json {
                    return paper.value(&json!({ "example": example() }));
                }
                paper.text(&example())
            }
            Command::Print { file, .. } => {
                let printed = file.load(reach)?.printed();
                if paper.json {
                    return paper.value(&json!({ "items": printed }));
                }
                let rows: Vec<Vec<String>> = printed
                    .into_iter()
                    .map(|setting| {
                        let value = setting.value.unwrap_or_else(|| "(not set)".to_owned());
                        vec![setting.key, value, format!("# {}", setting.origin)]
                    })
                    .collect();
                paper.text(&aligned(&rows))
            }
        }
    }
}
