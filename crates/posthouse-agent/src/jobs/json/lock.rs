//! File locks of the stock agent: `flock` on a file beside the jobs.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::jobs::Fault;

/// Shortest and longest pause between attempts. A change takes a few milliseconds.
const NAPS: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(1));

/// Takes the lock, which is held until the file is dropped. Fails after `patience`. It polls, because a
/// blocking wait could not be given up.
pub(super) fn lock(path: &Path, patience: Duration) -> Result<File, Fault> {
    let file = open(path)?;
    let (mut nap, mut waited) = (NAPS.0, Duration::ZERO);
    while !take(&file)? {
        if waited >= patience {
            return Err(Fault::Locked);
        }
        std::thread::sleep(nap);
        waited += nap;
        nap = (nap * 2).min(NAPS.1);
    }
    Ok(file)
}

/// `None` while another process holds the lock.
pub(super) fn try_lock(path: &Path) -> Result<Option<File>, Fault> {
    let file = open(path)?;
    Ok(take(&file)?.then_some(file))
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

fn take(file: &File) -> Result<bool, Fault> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(error) => Err(Fault::Io(format!("lock: {error}"))),
    }
}
