//! Terminal prompts for secrets and confirmations.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, IsTerminal, Write};

use anyhow::{Context, bail};
use posthouse_wire::Secret;

/// Whether standard input is a terminal, so that a person can answer.
pub fn is_interactive() -> bool {
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
    let typed = rpassword::prompt_password(format!("{prompt}: "))
        .context("there is no terminal for the question: use a file for the secret")?;
    let secret = Secret::new(typed.trim());
    if secret.is_empty() {
        bail!("nothing was typed");
    }
    Ok(secret)
}
