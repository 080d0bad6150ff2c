//! CPU time, memory and file limit of a process, from the kernel.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The kernel reports the CPU time of a process in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// CPU time of the whole process, including threads that have ended. The finer count per thread lacks
/// those, and a server ends some threads whenever it is idle.
pub fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process is gone")?;
    ticks(&stat).map(|ticks| TICK * ticks).context("/proc/PID/stat contains no times")
}

/// User and system time. The name of the program, in brackets, may contain anything.
fn ticks(stat: &str) -> Option<u32> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u32>().ok()? + fields.next()?.parse::<u32>().ok()?)
}

/// CPU time of the calling thread.
pub fn own_thread_cpu() -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(Duration::from_nanos(first_number(&text).context("schedstat contains no number")?))
}

/// Resident memory in bytes.
pub fn resident(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(first_number(line).context("VmRSS contains no number")? * 1024)
}

/// Raises the limit of open files for this process and the servers it starts, and returns it.
pub fn raise_file_limit() -> anyhow::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).context("cannot raise the limit of open files")?;
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
