//! Settings of the post (`[post]`).

use std::path::PathBuf;

use http::HeaderName;
use posthouse_time::Span;
use serde::{Deserialize, Serialize};

/// `[post]` in the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Allow connectors to type into tmux panes of this machine. Default false.
    pub tmux: bool,
    /// The tmux program: a name to look up in `PATH`, or an absolute path. Default `tmux`.
    pub tmux_program: PathBuf,
    /// Sockets of tmux servers that connectors may use, besides the default server of the user. Default none.
    pub tmux_sockets: Vec<PathBuf>,
    /// Folders of this machine below which connectors may write files. Default none.
    pub drop_dirs: Vec<PathBuf>,
    /// Time that a wake waits for a connected agent to accept it, unless the request sets its own. Default 2s.
    pub wake_wait: Span,
    /// The largest number of open questions of one tenant. Default 1000.
    pub open_exchanges: u32,
    /// The header in which a program names the caller that it acts for. Default `X-Agent-Id`.
    pub caller_header: String,
    /// Put a first line with kind and sender before every text to agents that do not use our SDK. A text that begins
    /// with `/` always gets this line, because the agent would run it as a command otherwise. Default true.
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
    /// Checks conditions on the settings that their types do not express.
    pub fn check(&self) -> Result<(), String> {
        if self.wake_wait > Span::seconds(60) {
            return Err("post.wake_wait must be at most 60s".to_owned());
        }
        if HeaderName::from_bytes(self.caller_header.as_bytes()).is_err() {
            return Err(format!("post.caller_header: `{}` is not a valid header name", self.caller_header));
        }
        // A relative path would depend on the working directory of the server.
        let program = &self.tmux_program;
        if !program.is_absolute() && program.file_name() != Some(program.as_os_str()) {
            let shown = program.display();
            return Err(format!("post.tmux_program: `{shown}` must be a bare name or an absolute path"));
        }
        if let Some(socket) = self.tmux_sockets.iter().find(|socket| !socket.is_absolute()) {
            return Err(format!("post.tmux_sockets: {} is not an absolute path", socket.display()));
        }
        if let Some(dir) = self.drop_dirs.iter().find(|dir| !dir.is_absolute()) {
            return Err(format!("post.drop_dirs: {} is not an absolute path", dir.display()));
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
