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

/// Asks for a text that may be seen.
pub fn text(question: &str) -> anyhow::Result<String> {
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .context("there is no terminal for the question")?;
    write!(&terminal, "{question}: ")?;
    let mut line = String::new();
    BufReader::new(&terminal).read_line(&mut line)?;
    match line.trim() {
        "" => bail!("nothing was typed"),
        typed => Ok(typed.to_owned()),
    }
}

/// Asks for a secret without echoing it.
pub fn secret(prompt: &str) -> anyhow::Result<Secret> {
    match typed_secret(&format!("{prompt}: "))? {
        Some(secret) => Ok(secret),
        None => bail!("nothing was typed"),
    }
}

/// Asks for a secret that can be left out.
pub fn optional_secret(prompt: &str) -> anyhow::Result<Option<Secret>> {
    typed_secret(&format!("{prompt} (press Enter to leave it out): "))
}

fn typed_secret(prompt: &str) -> anyhow::Result<Option<Secret>> {
    let typed = rpassword::prompt_password(prompt)
        .context("there is no terminal for the question: use a file for the secret")?;
    let secret = Secret::new(typed.trim());
    Ok((!secret.is_empty()).then_some(secret))
}
