//! Command line part of `bench skills`: time from exec to the first byte, and memory.

use std::process::Stdio;

use anyhow::{Context, ensure};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::super::fixtures::BenchFolder;
use super::super::process;
use super::super::report::{Report, at_most};
use super::super::stopwatch::Stopwatch;
use super::{SMALL, millis};

const TIMES: usize = 21;

pub async fn measure(bench_folder: &BenchFolder, report: &mut Report) -> anyhow::Result<()> {
    let file = bench_folder.path().join("small.skill.md");
    std::fs::write(&file, SMALL)?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let (mut times, mut resident) = (Vec::new(), 0);
    for _ in 0..TIMES {
        let watch = Stopwatch::start();
        // Watching keeps the process, so that its memory can be read after the first byte.
        let mut child = Command::new(&program)
            .args(["skill", "lint", "--watch"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let mut stdout = child.stdout.take().context("no standard output")?;
        let read = stdout.read(&mut [0]).await?;
        times.push(watch.elapsed());
        ensure!(read == 1, "`skill lint` printed nothing");
        resident = resident.max(process::resident(child.id().context("the command has ended")?)?);
        child.kill().await?;
    }
    times.sort_unstable();
    report.judged("start", "exec to first byte, median", millis(times[TIMES / 2]), "ms", at_most(15.0));
    let mebibytes = resident as f64 / f64::from(1 << 20);
    report.judged("start", "resident after the first byte", mebibytes, "MiB", at_most(20.0));
    Ok(())
}
