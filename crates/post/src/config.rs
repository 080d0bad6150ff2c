//! The post's settings.

use std::path::PathBuf;

use posthouse_time::Span;
use serde::{Deserialize, Serialize};

/// `[post]` in the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether connectors may type into terminal panes of this machine. Default false.
    pub tmux: bool,
    /// Folders of this machine below which connectors may drop files. Default none.
    pub drop_dirs: Vec<PathBuf>,
    /// How long a wake waits for a connected agent to take it, unless the call says. Default 2s.
    pub wake_wait: Span,
    /// Open questions that one tenant may have. Default 1000.
    pub open_exchanges: u32,
    /// Whether agents that are not of our SDK are told, in a first line, what a text is and from whom. A text
    /// that begins with `/` always gets it, or it would be taken for a command. Default true.
    pub preamble: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tmux: false,
            drop_dirs: Vec::new(),
            wake_wait: Span::seconds(2),
            open_exchanges: 1000,
            preamble: true,
        }
    }
}

impl Config {
    /// Relations between settings that must hold, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.wake_wait > Span::seconds(60) {
            return Err("post.wake_wait must be at most 60s".to_owned());
        }
        if let Some(dir) = self.drop_dirs.iter().find(|dir| !dir.is_absolute()) {
            return Err(format!("post.drop_dirs: {} is no absolute path", dir.display()));
        }
        Ok(())
    }
}
