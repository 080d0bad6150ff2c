//! What the kernel says about a process.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The kernel tells a process's CPU time in hundredths of a second, whatever it counts in itself.
const TICK: Duration = Duration::from_millis(10);

/// CPU time of the whole process. Threads that have ended are in it, which the finer count of each
/// thread is not: a house ends some of its threads whenever it falls quiet.
pub fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process is gone")?;
    ticks(&stat).map(|ticks| TICK * ticks).context("/proc/PID/stat holds no times")
}

/// User and system time. The name of the program, in brackets, may hold anything.
fn ticks(stat: &str) -> Option<u32> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u32>().ok()? + fields.next()?.parse::<u32>().ok()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 150 0 0 0 12 30 0 0 20 0 1 0 100 1000 10 1";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("7 (short) S 1"), None);
    }
}
