//! The measured server, in a process of its own.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::process;
use super::stopwatch::Stopwatch;

/// Limit from exec to ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Limit from SIGTERM to the end.
const END_WITHIN: Duration = Duration::from_secs(10);
/// Limit until everything is acknowledged.
const SETTLE_WITHIN: Duration = Duration::from_secs(120);
/// Raised so that the benchmark does not measure the quotas: one tenant makes most of its load.
const UNLIMITED: [&str; 10] = [
    "POSTHOUSE_LIMITS__MESSAGES_PER_MINUTE",
    "POSTHOUSE_LIMITS__AGENT_MESSAGES_PER_MINUTE",
    "POSTHOUSE_LIMITS__SOCKETS",
    "POSTHOUSE_LIMITS__AGENT_SOCKETS",
    "POSTHOUSE_LIMITS__ACTIONS_PER_MINUTE",
    "POSTHOUSE_LIMITS__AGENT_ACTIONS_PER_MINUTE",
    "POSTHOUSE_LIMITS__REQUESTS_PER_MINUTE",
    "POSTHOUSE_LIMITS__AGENT_REQUESTS_PER_MINUTE",
    "POSTHOUSE_LIMITS__PROGRAM_REQUESTS_PER_MINUTE",
    "POSTHOUSE_LIMITS__AGENT_PROGRAM_REQUESTS_PER_MINUTE",
];
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A running server; killed on drop, ended gracefully by [`ServerProcess::stop`].
pub struct ServerProcess {
    child: Child,
    /// Kept open, so that the server never writes to a closed pipe.
    _stdout: ChildStdout,
    log: PathBuf,
    admin_token: String,
    pub url: String,
    /// From exec to the line that says it is ready.
    pub ready_after: Duration,
}

impl ServerProcess {
    /// `settings` are environment variables such as `POSTHOUSE_RELAY__SETTLE`. They can also set the limits of tenants,
    /// which are so high otherwise that no load reaches them.
    pub async fn start(folder: &Path, settings: &[(&str, String)]) -> anyhow::Result<Self> {
        let log = folder.join("server.log");
        let mut command =
            Command::new(std::env::current_exe().context("cannot find the path of this program")?);
        for (name, _) in std::env::vars_os() {
            // The server is measured with default settings, not with those of this shell.
            if name.to_string_lossy().starts_with("POSTHOUSE_") {
                command.env_remove(&name);
            }
        }
        command
            .args(["serve", "--config"])
            .arg(folder.join("posthouse.toml"))
            .env("POSTHOUSE_SERVER__LISTEN", "127.0.0.1:0")
            .envs(UNLIMITED.map(|name| (name, "4000000000")))
            .envs(settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?);
        let watch = Stopwatch::start();
        let mut child = command.spawn().context("the server did not start")?;
        let stdout = child.stdout.take().context("the child has no pipe")?;
        let mut guard = StartingServer(Some(child));
        let reading = tokio::task::spawn_blocking(move || {
            let (mut stdout, mut line) = (BufReader::new(stdout), String::new());
            stdout.read_line(&mut line).map(|_| (line, watch.elapsed(), stdout.into_inner()))
        });
        let (line, ready_after, stdout) = tokio::time::timeout(READY_WITHIN, reading)
            .await
            .context("the server did not become ready")???;
        let Some(url) = line.trim().strip_prefix("posthouse is ready at ") else {
            bail!("the server ended before it was ready:\n{}", last_words(&log));
        };
        let admin_token = std::fs::read_to_string(folder.join("admin.token"))?.trim().to_owned();
        let child = guard.0.take().context("the child is missing")?;
        Ok(Self { child, _stdout: stdout, log, admin_token, url: url.to_owned(), ready_after })
    }

    pub fn cpu(&self) -> anyhow::Result<Duration> {
        process::cpu(self.child.id())
    }

    pub fn resident(&self) -> anyhow::Result<u64> {
        process::resident(self.child.id())
    }

    /// `host:port`.
    pub fn address(&self) -> anyhow::Result<&str> {
        let rest = self.url.strip_prefix("http://").context("the server does not use plain http")?;
        Ok(rest.split('/').next().unwrap_or(rest))
    }

    /// The value of one metric of the server.
    pub async fn metric(&self, name: &str) -> anyhow::Result<u64> {
        let mut stream = TcpStream::connect(self.address()?).await?;
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            self.address()?,
            self.admin_token
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "the server returned no metrics");
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.with_context(|| format!("the server has no metric {name}"))?.trim().parse().context("a count")
    }

    /// Waits until agents have acknowledged `count` entries since the start, and the server has stored
    /// that.
    pub async fn acknowledged(&self, count: u64) -> anyhow::Result<()> {
        let watch = Stopwatch::start();
        loop {
            let noted = self.metric("posthouse_relay_entries_acknowledged_total").await?;
            if noted >= count {
                return Ok(());
            }
            ensure!(watch.elapsed() < SETTLE_WITHIN, "only {noted} of {count} entries were acknowledged");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Ends the server gracefully.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).context("the server ended too early")?;
        let watch = Stopwatch::start();
        while watch.elapsed() < END_WITHIN {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "the server ended with {status}:\n{}", last_words(&self.log));
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        bail!("the server did not end within {} s", END_WITHIN.as_secs())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A child that is not ready yet.
struct StartingServer(Option<Child>);

impl Drop for StartingServer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            end(child);
        }
    }
}

fn end(child: &mut Child) {
    // Both calls do nothing if the child has ended and was waited for.
    let _ = child.kill();
    let _ = child.wait();
}

fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
