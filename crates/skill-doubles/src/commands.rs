//! Commands of the standard host: programs of this machine, without secrets in their environment. `sleep` waits for the
//! clock of the test.

use std::process::{Command, Stdio};
use std::time::Duration;

use skill::{CommandRequest, ErrorClass, HostFault};

use crate::hand_clock::HandClock;

/// Environment variables that no command sees.
const SECRETS: &str = "SKILLSCRIPT_SECRET_";
const SHOWN_OF_STDERR: usize = 200;

pub async fn run(clock: &HandClock, command: &CommandRequest) -> Result<String, HostFault> {
    if command.program == "sleep" {
        let seconds = command.arguments.first().and_then(|seconds| seconds.parse().ok()).unwrap_or(0.0);
        clock.sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default()).await;
        return Ok(String::new());
    }
    let failed = |message: String| HostFault::new(ErrorClass::OpError, message);
    let mut child = Command::new(&command.program);
    child.args(&command.arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with(SECRETS) {
            child.env_remove(name);
        }
    }
    let output = child.output().map_err(|e| failed(format!("cannot start '{}': {e}", command.program)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let shown: String = stderr.trim().chars().take(SHOWN_OF_STDERR).collect();
    let code = output.status.code().map_or_else(|| "null".to_owned(), |code| code.to_string());
    Err(failed(format!("command '{}' exited with code {code}: {shown}", command.program)))
}
