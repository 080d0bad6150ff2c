//! Child processes in a process group of their own, which is killed as a whole.

use std::io;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// A child process that leads its own process group. Dropping it kills every process of the group.
pub struct ProcessGroup {
    child: Child,
    id: Option<Pid>,
}

impl ProcessGroup {
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { child, id })
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Asks all processes of the group to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills all processes of the group. Those that the first process started and left behind are among them.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // An error means that no process of the group is left.
            let _ = kill_process_group(id, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
