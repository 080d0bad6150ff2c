//! Asking on a terminal for what must not stand on a command line.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use posthouse_wire::Secret;

/// Whether there is somebody to ask.
pub fn somebody_there() -> bool {
    std::io::stdin().is_terminal()
}

/// Asks for a secret; what is typed is not shown.
pub fn secret(prompt: &str) -> anyhow::Result<Secret> {
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .context("there is no terminal to ask on")?;
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

/// A terminal that shows nothing of what is typed, until dropped.
struct Silence<'a>(&'a File);

impl<'a> Silence<'a> {
    fn over(terminal: &'a File) -> anyhow::Result<Self> {
        stty(terminal, "-echo").context("cannot keep the terminal from showing what is typed: use a file")?;
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
