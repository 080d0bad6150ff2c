//! Access to panes by the `tmux` program.
//!
//! The program is run without a shell. Message texts are never arguments: tmux would read a leading `-` as a flag and
//! a trailing `;` as the end of the command.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::super::unique_names;

/// Time limit of one run. The program only talks to a server on the same machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The tmux program and the socket of its server.
pub(super) struct TmuxProgram {
    pub path: PathBuf,
    pub socket: Option<PathBuf>,
    pub patience: Duration,
}

/// A pane, by session, window and index.
pub(super) struct TmuxTarget<'a> {
    pub session: &'a str,
    pub window: u64,
    pub pane: u64,
}

impl std::fmt::Display for TmuxTarget<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}.{}", self.session, self.window, self.pane)
    }
}

/// An existing pane.
pub(super) struct TmuxPane {
    /// The tmux pane id, which stays the same when panes are moved.
    id: String,
    /// The pane is in copy mode, which would consume the keys.
    in_mode: bool,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum TmuxError {
    /// No server, no such session, no such pane, or a dead pane.
    #[error("{0}")]
    Gone(String),
    #[error("tmux did not finish in time")]
    TimedOut,
    #[error("tmux could not be run: {0}")]
    Unrun(#[from] io::Error),
    #[error("tmux {0} failed: {1}")]
    Failed(&'static str, String),
}

impl TmuxProgram {
    /// Looks up a pane.
    pub async fn find(&self, target: &TmuxTarget<'_>) -> Result<TmuxPane, TmuxError> {
        // `=` matches the exact session name. Otherwise tmux matches prefixes.
        let window = format!("={}:{}", target.session, target.window);
        let format = "#{pane_index} #{pane_id} #{pane_dead} #{pane_in_mode}";
        let listed = self.run(["list-panes", "-t", &window, "-F", format], None).await?;
        if !listed.status.success() {
            return Err(TmuxError::Gone(complaint(&listed)));
        }
        let lines = String::from_utf8_lossy(&listed.stdout);
        let index = target.pane.to_string();
        let mut panes = lines.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        match panes.find(|pane| pane.first() == Some(&index.as_str())).as_deref() {
            Some([_, id, "0", mode]) => Ok(TmuxPane { id: (*id).to_owned(), in_mode: *mode != "0" }),
            Some(_) => Err(TmuxError::Gone("the program in the pane has ended".to_owned())),
            None => Err(TmuxError::Gone(format!("can't find pane: {index}"))),
        }
    }

    /// Pastes the text as one paste, even with several lines, and presses Enter. An empty text is only Enter.
    pub async fn type_into(&self, pane: &TmuxPane, text: &str) -> Result<(), TmuxError> {
        if text.is_empty() {
            return self.press_enter(pane).await;
        }
        // Each call has its own buffer, because concurrent calls would overwrite a shared one.
        let buffer = unique_names::name("posthouse-");
        let typed = self.load_and_paste(pane, &buffer, text).await;
        if typed.is_err() {
            // The buffer may contain a private text, so it is deleted.
            let _ = self.run(["delete-buffer", "-b", &buffer], None).await;
        }
        typed
    }

    async fn load_and_paste(&self, pane: &TmuxPane, buffer: &str, text: &str) -> Result<(), TmuxError> {
        self.done("load-buffer", &["-b", buffer, "-"], Some(text)).await?;
        let id = pane.id.as_str();
        // One command sequence, which the server runs without interruption. Otherwise two concurrent texts could
        // be joined before the first Enter.
        let mut sequence = vec!["-p", "-d", "-b", buffer, "-t", id];
        if pane.in_mode {
            sequence.extend([";", "copy-mode", "-q", "-t", id]);
        }
        sequence.extend([";", "send-keys", "-t", id, "Enter"]);
        self.done("paste-buffer", &sequence, None).await
    }

    async fn press_enter(&self, pane: &TmuxPane) -> Result<(), TmuxError> {
        let id = pane.id.as_str();
        match pane.in_mode {
            true => {
                self.done("copy-mode", &["-q", "-t", id, ";", "send-keys", "-t", id, "Enter"], None).await
            }
            false => self.done("send-keys", &["-t", id, "Enter"], None).await,
        }
    }

    async fn done(
        &self,
        verb: &'static str,
        arguments: &[&str],
        input: Option<&str>,
    ) -> Result<(), TmuxError> {
        let output = self.run(std::iter::once(verb).chain(arguments.iter().copied()), input).await?;
        if output.status.success() { Ok(()) } else { Err(TmuxError::Failed(verb, complaint(&output))) }
    }

    /// Runs the program. It is killed after the time limit.
    async fn run(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        input: Option<&str>,
    ) -> Result<Output, TmuxError> {
        let mut command = Command::new(&self.path);
        if let Some(socket) = &self.socket {
            command.args([Path::new("-S"), socket]);
        }
        // If Posthouse itself runs in a pane, it must not use that tmux server by accident.
        command.args(arguments).env_remove("TMUX").env_remove("TMUX_PANE").kill_on_drop(true);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        let work = async {
            let write = async {
                if let (Some(mut stdin), Some(input)) = (stdin, input) {
                    // A program that ends without reading its input reports the reason by its status.
                    let _ = stdin.write_all(input.as_bytes()).await;
                }
            };
            // Read and write concurrently, so that long error output cannot cause a deadlock.
            tokio::join!(child.wait_with_output(), write).0
        };
        match tokio::time::timeout(self.patience, work).await {
            Ok(output) => Ok(output?),
            Err(_) => Err(TmuxError::TimedOut),
        }
    }
}

fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    match text.lines().next().unwrap_or_default().trim() {
        "" => "no reason given".to_owned(),
        // The rest of the line is a local path, which senders must not see.
        line if line.starts_with("error connecting") || line.starts_with("no server") => {
            "no tmux server is running".to_owned()
        }
        line => line.chars().take(200).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_does_not_end_is_killed() {
        let program = TmuxProgram { path: "sh".into(), socket: None, patience: Duration::from_millis(10) };
        let ended = program.run(["-c", "exec sleep 600"], None).await;
        assert!(matches!(ended, Err(TmuxError::TimedOut)));
        // The program is also killed when its caller is dropped.
        let folder = tempfile::tempdir().unwrap();
        let written = folder.path().join("pid");
        let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", written.display());
        let program = TmuxProgram { patience: Duration::from_secs(600), ..program };
        let started = async {
            while !written.exists() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::select! {
            ended = program.run(["-c", &script], None) => panic!("{ended:?}"),
            () = started => {}
        }
        let pid = std::fs::read_to_string(&written).unwrap();
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        // The process is reaped a moment after it was killed.
        while rustix::process::test_kill_process(pid).is_ok() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_a_fault_and_one_that_reads_nothing_is_not_waited_for() {
        let program = |path: &str| TmuxProgram { path: path.into(), socket: None, patience: PATIENCE };
        let ended = program("/nowhere/tmux").run(["-V"], None).await;
        assert!(matches!(ended, Err(TmuxError::Unrun(_))));
        let deaf = program("true").run(["-V"], Some(&"x".repeat(1 << 20))).await;
        assert!(deaf.unwrap().status.success());
    }
}
