//! Log of the server, on standard error.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::anyhow;
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat, LogSection, ValueOrigin};

pub fn start(log: &LogSection) -> anyhow::Result<()> {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(&log.level)?)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let started = match log.format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    started.map_err(|error| anyhow!("cannot start the log: {error}"))
}

/// `posthouse up` logs warnings and errors only, unless the configuration sets a level: its user wants the
/// chat page, not the log.
pub fn start_for_up(dir: &Path) -> anyhow::Result<()> {
    let file = dir.join("posthouse.toml");
    let quiet = LogSection { level: "warn".to_owned(), ..LogSection::default() };
    if !file.exists() {
        return start(&quiet);
    }
    let config = Config::load(&file)?;
    match config.origin("log.level") {
        ValueOrigin::Default => start(&LogSection { format: config.log.format, ..quiet }),
        _ => start(&config.log),
    }
}
