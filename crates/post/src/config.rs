//! The post's settings.

use std::path::PathBuf;

use http::HeaderName;
use posthouse_time::Span;
use serde::{Deserialize, Serialize};

/// `[post]` in the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether connectors may type into terminal panes of this machine. Default false.
    pub tmux: bool,
    /// The program that types into them, by its name or as an absolute path. Default `tmux`.
    pub tmux_program: PathBuf,
    /// Sockets of tmux servers that connectors may name, besides the usual one. Default none.
    pub tmux_sockets: Vec<PathBuf>,
    /// Folders of this machine below which connectors may drop files. Default none.
    pub drop_dirs: Vec<PathBuf>,
    /// How long a wake waits for a connected agent to take it, unless the call says. Default 2s.
    pub wake_wait: Span,
    /// Open questions that one tenant may have. Default 1000.
    pub open_exchanges: u32,
    /// The header in which a fronting host names its own caller. Default `X-Agent-Id`.
    pub caller_header: String,
    /// Whether agents that are not of our SDK are told, in a first line, what a text is and from whom. A text
    /// that begins with `/` always gets it, or it would be taken for a command. Default true.
    pub preamble: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tmux: false,
            tmux_program: PathBuf::from("tmux"),
            tmux_sockets: Vec::new(),
            drop_dirs: Vec::new(),
            wake_wait: Span::seconds(2),
            open_exchanges: 1000,
            caller_header: "X-Agent-Id".to_owned(),
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
        if HeaderName::from_bytes(self.caller_header.as_bytes()).is_err() {
            return Err(format!("post.caller_header: `{}` can be no header", self.caller_header));
        }
        // Anything else would depend on where the house was started.
        let program = &self.tmux_program;
        if !program.is_absolute() && program.file_name() != Some(program.as_os_str()) {
            let shown = program.display();
            return Err(format!("post.tmux_program: `{shown}` is neither a bare name nor an absolute path"));
        }
        if let Some(socket) = self.tmux_sockets.iter().find(|socket| !socket.is_absolute()) {
            return Err(format!("post.tmux_sockets: {} is no absolute path", socket.display()));
        }
        if let Some(dir) = self.drop_dirs.iter().find(|dir| !dir.is_absolute()) {
            return Err(format!("post.drop_dirs: {} is no absolute path", dir.display()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_a_name_or_a_whole_path_and_sockets_are_whole_paths() {
        let program = |name: &str| Config { tmux_program: name.into(), ..Config::default() }.check();
        for good in ["tmux", "tmux-3.4", "/usr/bin/tmux"] {
            assert_eq!(program(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", "./tmux", "bin/tmux", "tmux/"] {
            assert!(program(bad).is_err_and(|why| why.contains("post.tmux_program")), "{bad}");
        }
        let socket = |path: &str| Config { tmux_sockets: vec![path.into()], ..Config::default() }.check();
        assert_eq!(socket("/run/agents/tmux"), Ok(()));
        assert!(socket("agents/tmux").is_err_and(|why| why.contains("post.tmux_sockets")));
    }
}
