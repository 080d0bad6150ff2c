//! Terminal prompts for secrets and confirmations.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use posthouse_wire::Secret;

/// Whether standard input is a terminal, so that a person can answer.
pub fn somebody_there() -> bool {
    std::io::stdin().is_terminal()
}

/// Asks a yes/no question. Only `y` and `yes` mean yes.
pub fn confirm(question: &str) -> anyhow::Result<bool> {
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .context("there is no terminal for the question")?;
    write!(&terminal, "{question} [y/N] ")?;
    let mut line = String::new();
    BufReader::new(&terminal).read_line(&mut line)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Asks for a secret without echoing it.
pub fn secret(prompt: &str) -> anyhow::Result<Secret> {
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .context("there is no terminal for the question")?;
    let silence = Silence::over(&terminal)?;
    write!(&terminal, "{prompt}: ")?;
    let mut line = String::new();
    let read = BufReader::new(&terminal).read_line(&mut line);
    drop(silence);
    writeln!(&terminal)?;
    read?;
    let secret = Secret::new(line.trim());
    if secret.is_empty() {
        bail!("nothing was typed");
    }
    Ok(secret)
}

/// Switches the echo of a terminal off until dropped.
struct Silence<'a>(&'a File);

impl<'a> Silence<'a> {
    fn over(terminal: &'a File) -> anyhow::Result<Self> {
        stty(terminal, "-echo")
            .context("cannot switch off the echo of the terminal: use a file for the secret")?;
        Ok(Self(terminal))
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        let _ = stty(self.0, "echo");
    }
}

fn stty(terminal: &File, how: &str) -> anyhow::Result<()> {
    let status = Command::new("stty")
        .arg(how)
        .stdin(terminal.try_clone()?)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("stty failed");
    }
    Ok(())
}
