//! Shell commands of skills: programs in their own process group, with bounded output and a given environment.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use posthouse_time::Timepiece;
use skill::{CommandRequest, ErrorClass, HostFault};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::process_group::ProcessGroup;

/// Commands that run at once. Further ones wait, inside the time limit of their operation.
const AT_ONCE: usize = 16;
/// Characters of standard error that an error shows.
const SHOWN_ERROR: usize = 200;
/// Bytes of standard error that are kept. The rest is read and dropped, so that the command does not block.
const KEPT_ERROR: usize = 4096;
/// How long the output is read after the command has ended. A process that it left behind may hold the pipe open.
const DRAIN: Duration = Duration::from_millis(500);

/// The environment of every command: programs are looked up here, and nothing else of the server's environment is
/// visible.
pub const CLEAN_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs commands.
pub struct Commands {
    environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
    places: Semaphore,
    timepiece: Timepiece,
}

impl Commands {
    /// Commands get exactly this environment. Without a folder they run in the folder of this process.
    pub fn new(
        environment: Vec<(OsString, OsString)>,
        folder: Option<PathBuf>,
        timepiece: Timepiece,
    ) -> Self {
        Self { environment, folder, places: Semaphore::new(AT_ONCE), timepiece }
    }

    /// Commands see only a search path, and run in the root folder.
    pub fn clean(timepiece: Timepiece) -> Self {
        Self::new(vec![("PATH".into(), CLEAN_PATH.into())], Some("/".into()), timepiece)
    }

    /// Runs a command and returns its standard output. Dropping the future kills the command with its children.
    pub async fn run(&self, request: CommandRequest) -> Result<String, HostFault> {
        let _place = self.places.acquire().await.map_err(|_| failed("the server is shutting down"))?;
        let mut command = Command::new(&request.program);
        command.args(&request.arguments).env_clear().envs(self.environment.iter().cloned());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = ProcessGroup::start(&mut command)
            .map_err(|error| failed(format!("'{}' could not be started: {error}", request.program)))?;
        let (Some(stdout), Some(stderr)) = (group.child().stdout.take(), group.child().stderr.take()) else {
            return Err(failed("the output of the command cannot be read"));
        };
        let (mut output, mut complaint) = (Vec::new(), Vec::new());
        // One byte more than allowed tells the executor that the output is too large.
        let reading = async {
            tokio::join!(
                read_at_most(stdout, &mut output, request.output_limit + 1),
                drain(stderr, &mut complaint)
            )
        };
        let (is_whole, status) = {
            tokio::pin!(reading);
            tokio::select! {
                (is_whole, ()) = &mut reading => {
                    // Output that is too long ends the command: nobody wants the rest.
                    if !is_whole {
                        group.kill();
                    }
                    (is_whole, group.child().wait().await)
                }
                status = group.child().wait() => {
                    group.kill();
                    let rest = self.timepiece.within(DRAIN, &mut reading).await;
                    (rest.is_ok_and(|(is_whole, ())| is_whole), status)
                }
            }
        };
        group.kill();
        let status = status.map_err(|error| failed(format!("the command was lost: {error}")))?;
        if !is_whole && output.len() > request.output_limit {
            // The executor names the limit.
            return Ok(String::from_utf8_lossy(&output).into_owned());
        }
        if status.success() {
            return Ok(String::from_utf8_lossy(&output).into_owned());
        }
        let how = match status.code() {
            Some(code) => format!("ended with status {code}"),
            None => "was killed".to_owned(),
        };
        let complaint = String::from_utf8_lossy(&complaint);
        let shown: String = complaint.trim().chars().take(SHOWN_ERROR).collect();
        Err(failed(format!("the command {how}: {shown}")))
    }
}

/// Reads up to `limit` bytes. False if there may be more.
async fn read_at_most(mut from: impl AsyncRead + Unpin, into: &mut Vec<u8>, limit: usize) -> bool {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return true,
            Ok(read) => {
                let room = limit - into.len();
                into.extend_from_slice(&buffer[..read.min(room)]);
                if into.len() >= limit {
                    return false;
                }
            }
        }
    }
}

async fn drain(mut from: impl AsyncRead + Unpin, into: &mut Vec<u8>) {
    let mut buffer = vec![0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let room = KEPT_ERROR.saturating_sub(into.len());
        into.extend_from_slice(&buffer[..read.min(room)]);
    }
}

fn failed(message: impl Into<String>) -> HostFault {
    HostFault::new(ErrorClass::OpError, message)
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, test_kill_process};

    use super::*;

    fn command(script: &str) -> CommandRequest {
        CommandRequest {
            program: "sh".to_owned(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            timeout: Duration::from_secs(10),
            output_limit: 1024,
        }
    }

    fn commands() -> Commands {
        Commands::clean(Timepiece::wall())
    }

    async fn until_gone(process: &str) {
        let process = Pid::from_raw(process.trim().parse().unwrap()).unwrap();
        while test_kill_process(process).is_ok() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_command_returns_its_output_and_a_failed_one_its_complaint() {
        assert_eq!(commands().run(command("echo hello")).await.unwrap(), "hello\n");
        let fault = commands().run(command("echo broken >&2; exit 3")).await.unwrap_err();
        assert_eq!(fault.class, ErrorClass::OpError);
        assert!(fault.message.contains("status 3") && fault.message.contains("broken"), "{}", fault.message);
        let missing = CommandRequest { program: "/no/such/program".to_owned(), ..command("") };
        assert!(commands().run(missing).await.unwrap_err().message.contains("could not be started"));
    }

    #[tokio::test]
    async fn a_command_sees_only_a_search_path() {
        let seen = commands().run(command("env")).await.unwrap();
        let mut names: Vec<&str> = seen.lines().filter_map(|line| line.split('=').next()).collect();
        // The shell itself sets these.
        names.retain(|name| !matches!(*name, "PWD" | "SHLVL" | "_"));
        assert_eq!(names, ["PATH"]);
    }

    #[tokio::test]
    async fn a_command_that_prints_for_ever_is_ended_at_the_limit() {
        let output = commands().run(command("while :; do echo yes; done")).await.unwrap();
        assert_eq!(output.len(), 1025, "one byte more than the limit, which the executor reports");
    }

    #[tokio::test]
    async fn a_process_that_a_command_left_behind_is_killed_when_the_command_ends() {
        let process = commands().run(command("sleep 1000 & echo $!")).await.unwrap();
        until_gone(&process).await;
    }

    #[tokio::test]
    async fn a_command_that_is_dropped_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("process");
        let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let commands = commands();
        let mut running = Box::pin(commands.run(command(&script)));
        let process = loop {
            let _ = futures_util::poll!(&mut running);
            match std::fs::read_to_string(&file) {
                Ok(process) if process.ends_with('\n') => break process,
                _ => tokio::task::yield_now().await,
            }
        };
        drop(running);
        until_gone(&process).await;
    }
}
