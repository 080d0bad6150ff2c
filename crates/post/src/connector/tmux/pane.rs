//! Panes, by way of the tmux program. It is run directly, and no text ever stands on its command line: one that
//! begins with `-` would be taken for a flag, and a `;` at its end for the end of the command.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::super::fresh;

/// How long one run of the program may take. It hands over to a server on the same machine and ends.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The program, and the server that it speaks to.
pub(super) struct Program {
    pub path: PathBuf,
    pub socket: Option<PathBuf>,
    pub patience: Duration,
}

/// A place in a session.
pub(super) struct Target<'a> {
    pub session: &'a str,
    pub window: u64,
    pub pane: u64,
}

impl std::fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}.{}", self.session, self.window, self.pane)
    }
}

/// A pane that is there.
pub(super) struct Pane {
    /// By which it is known even if panes are moved about.
    id: String,
    /// Somebody scrolls in it, and keys would go to the scrolling.
    in_mode: bool,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// No server, no such session, or nothing alive in that place of it.
    #[error("{0}")]
    Gone(String),
    #[error("tmux did not end in time")]
    TimedOut,
    #[error("tmux could not be run: {0}")]
    Unrun(#[from] io::Error),
    #[error("tmux {0} failed: {1}")]
    Failed(&'static str, String),
}

impl Program {
    /// Looks the place up.
    pub async fn find(&self, target: &Target<'_>) -> Result<Pane, Trouble> {
        // The equals sign asks for this very session, not for one whose name begins so.
        let window = format!("={}:{}", target.session, target.window);
        let format = "#{pane_index} #{pane_id} #{pane_dead} #{pane_in_mode}";
        let listed = self.run(["list-panes", "-t", &window, "-F", format], None).await?;
        if !listed.status.success() {
            return Err(Trouble::Gone(complaint(&listed)));
        }
        let lines = String::from_utf8_lossy(&listed.stdout);
        let index = target.pane.to_string();
        let mut panes = lines.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        match panes.find(|pane| pane.first() == Some(&index.as_str())).as_deref() {
            Some([_, id, "0", mode]) => Ok(Pane { id: (*id).to_owned(), in_mode: *mode != "0" }),
            Some(_) => Err(Trouble::Gone("what ran in the pane has ended".to_owned())),
            None => Err(Trouble::Gone(format!("can't find pane: {index}"))),
        }
    }

    /// Pastes the text as one paste, whatever lines it has, and presses Enter.
    pub async fn type_into(&self, pane: &Pane, text: &str) -> Result<(), Trouble> {
        // A buffer of its own for each call: a shared one might be pasted by somebody else, or hold somebody else's.
        let buffer = fresh::name("posthouse-");
        let typed = self.load_and_paste(pane, &buffer, text).await;
        if typed.is_err() {
            // What may have been loaded is somebody's text and must not stay.
            let _ = self.run(["delete-buffer", "-b", &buffer], None).await;
        }
        typed
    }

    async fn load_and_paste(&self, pane: &Pane, buffer: &str, text: &str) -> Result<(), Trouble> {
        self.done("load-buffer", &["-b", buffer, "-"], Some(text)).await?;
        let id = pane.id.as_str();
        // One sequence, which the server runs without a break: two texts at once must not share an Enter.
        let mut sequence = vec!["-p", "-d", "-b", buffer, "-t", id];
        if pane.in_mode {
            sequence.extend([";", "copy-mode", "-q", "-t", id]);
        }
        sequence.extend([";", "send-keys", "-t", id, "Enter"]);
        self.done("paste-buffer", &sequence, None).await
    }

    async fn done(&self, verb: &'static str, arguments: &[&str], input: Option<&str>) -> Result<(), Trouble> {
        let output = self.run(std::iter::once(verb).chain(arguments.iter().copied()), input).await?;
        if output.status.success() { Ok(()) } else { Err(Trouble::Failed(verb, complaint(&output))) }
    }

    /// One run. A program that does not end is killed.
    async fn run(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        input: Option<&str>,
    ) -> Result<Output, Trouble> {
        let mut command = Command::new(&self.path);
        if let Some(socket) = &self.socket {
            command.args([Path::new("-S"), socket]);
        }
        // Inside a pane of its own the house must not speak to the server around it by accident.
        command.args(arguments).env_remove("TMUX").env_remove("TMUX_PANE").kill_on_drop(true);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        let work = async {
            let write = async {
                if let (Some(mut stdin), Some(input)) = (stdin, input) {
                    // One that ends without reading says why by its status.
                    let _ = stdin.write_all(input.as_bytes()).await;
                }
            };
            // Both at once: a program that complains at length must not wait for us while we wait for it.
            tokio::join!(child.wait_with_output(), write).0
        };
        match tokio::time::timeout(self.patience, work).await {
            Ok(output) => Ok(output?),
            Err(_) => Err(Trouble::TimedOut),
        }
    }
}

fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    match text.lines().next().unwrap_or_default().trim() {
        "" => "no reason given".to_owned(),
        // The rest of the line is a path of this machine, which is no business of whoever sent the text.
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
        let program = Program { path: "sh".into(), socket: None, patience: Duration::from_millis(10) };
        let ended = program.run(["-c", "exec sleep 600"], None).await;
        assert!(matches!(ended, Err(Trouble::TimedOut)));
        // Whatever ends our patience ends the program; here it is the one who asked that went away.
        let folder = tempfile::tempdir().unwrap();
        let written = folder.path().join("pid");
        let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", written.display());
        let program = Program { patience: Duration::from_secs(600), ..program };
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
        // Reaped a moment after it was killed.
        while rustix::process::test_kill_process(pid).is_ok() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_a_fault_and_one_that_reads_nothing_is_not_waited_for() {
        let program = |path: &str| Program { path: path.into(), socket: None, patience: PATIENCE };
        let ended = program("/nowhere/tmux").run(["-V"], None).await;
        assert!(matches!(ended, Err(Trouble::Unrun(_))));
        let deaf = program("true").run(["-V"], Some(&"x".repeat(1 << 20))).await;
        assert!(deaf.unwrap().status.success());
    }
}
