//! What the kernel says about a process.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// CPU time of all threads that are alive, to the nanosecond.
pub fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).context("the process is gone")? {
        // A thread that ends meanwhile takes its count along; what it did since is little.
        if let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) {
            nanos += first_number(&text).context("schedstat holds no number")?;
        }
    }
    Ok(Duration::from_nanos(nanos))
}

/// CPU time of the calling thread.
pub fn own_thread_cpu() -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(first_number(&text).context("schedstat holds no number")?))
}

/// Resident memory in bytes.
pub fn resident(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(first_number(line).context("VmRSS holds no number")? * 1024)
}

/// Allows this process, and the houses it starts, as many open files as may be; returns how many.
pub fn raise_file_limit() -> anyhow::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).context("the limit of open files cannot be raised")?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}
