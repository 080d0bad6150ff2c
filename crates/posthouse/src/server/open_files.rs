//! Limit of open files: raised at start; a connection beyond it is closed at once.

use std::fs::File;
use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// Files for everything other than connections of peers: the ledger, outgoing calls, pipes.
const OWN_FILES: u64 = 512;

/// How long to wait for a connection that was pending a moment ago.
const PATIENCE: Duration = Duration::from_millis(50);

/// Raises the soft limit to the hard one and returns the limit in force; none if there is no limit.
pub fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    getrlimit(Resource::Nofile).current
}

/// The number of connections under this limit of open files: `wanted`, or fewer.
pub fn connections_within(limit: Option<u64>, wanted: usize) -> usize {
    let Some(limit) = limit else { return wanted };
    let room = limit.saturating_sub(OWN_FILES).max(limit / 2);
    wanted.min(usize::try_from(room).unwrap_or(usize::MAX)).max(1)
}

/// Number of spare files, see [`SpareFiles`].
const SPARE: usize = 4;

/// Files held open only to be closed when the limit is reached. Then one more connection can be accepted
/// and closed at once, instead of waiting in the backlog without an answer. There are several, because
/// other code of the server may take a file in that moment.
pub struct SpareFiles(Vec<File>);

impl SpareFiles {
    pub fn new() -> Self {
        let mut spare = Self(Vec::with_capacity(SPARE));
        spare.refill();
        spare
    }

    fn refill(&mut self) {
        while self.0.len() < SPARE
            && let Ok(file) = File::open("/dev/null")
        {
            self.0.push(file);
        }
    }

    /// Whether an accept failed because no more files can be opened.
    pub fn is_needed(error: &io::Error) -> bool {
        matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
    }

    /// Closes one pending connection. False if that is not possible now.
    pub async fn close_one_pending(&mut self, listener: &TcpListener) -> bool {
        let had_one = self.0.pop().is_some();
        // The peer may have gone in the meantime, so this wait has a timeout.
        let closed = had_one && matches!(timeout(PATIENCE, listener.accept()).await, Ok(Ok(_)));
        self.refill();
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        assert_eq!(connections_within(None, 15_000), 15_000);
        assert_eq!(connections_within(Some(20_000), 15_000), 15_000);
        assert_eq!(connections_within(Some(4_096), 15_000), 3_584);
        assert_eq!(connections_within(Some(256), 15_000), 128);
    }
}
