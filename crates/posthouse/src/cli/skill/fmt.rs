//! `posthouse skill fmt`: formats skills without a change of meaning.

use std::path::Path;

use anyhow::{Context, bail};
use clap::Args;
use posthouse_agent::post::NewSkill;
use serde_json::json;
use skill::{format_skill, gate_line};

use super::given_skill::{GivenLibrary, GivenSkill, SkillArgs};
use crate::cli::Exit;
use crate::cli::output::Output;
use crate::cli::server_address::ServerOptions;

#[derive(Args)]
pub struct FmtArgs {
    #[command(flatten)]
    skill: SkillArgs,
    /// Change nothing; fail if the skill is not formatted
    #[arg(long)]
    check: bool,
    /// Format a signed skill, although its signature then no longer passes
    #[arg(long)]
    force: bool,
}

impl FmtArgs {
    pub async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        let file = self.skill.file();
        let text = self.skill.read(server).await?;
        let formatted = format_skill(&text.source);
        let is_changed = formatted != text.source;
        let answer =
            json!({ "skill": text.label, "formatted": !is_changed || !self.check, "changed": is_changed });
        if self.check {
            let words = if is_changed { "is not formatted" } else { "is formatted" };
            output.done(&answer, &format!("{} {words}", text.label))?;
            return match is_changed {
                true => Err(Exit { code: 1, words: format!("{} is not formatted", text.label) }.into()),
                false => Ok(()),
            };
        }
        let is_signed = gate_line(&text.source).is_some_and(|line| line.token.is_some());
        if is_changed && is_signed && !self.force {
            bail!(
                "{} is signed, and formatting would break its signature; use --force and approve it again",
                text.label
            );
        }
        match (&file, &text.library) {
            (Some(file), _) if is_changed => write(file, &formatted)?,
            (None, GivenLibrary::Server(_)) if is_changed => return store(output, text, formatted).await,
            // Standard input goes to standard output, changed or not.
            (None, GivenLibrary::Folder { .. }) => return output.text(&formatted),
            _ => {}
        }
        let words = if is_changed { "formatted" } else { "unchanged:" };
        output.done(&answer, &format!("{words} {}", text.label))
    }
}

/// Replaces a file as a whole, so that a failure half way leaves the old one.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", file.display());
    // The file behind a link is replaced, not the link.
    let file = file.canonicalize().with_context(failed)?;
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = file.with_file_name(name);
    let permissions = std::fs::metadata(&file).with_context(failed)?.permissions();
    std::fs::write(&beside, text).with_context(failed)?;
    let placed =
        std::fs::set_permissions(&beside, permissions).and_then(|()| std::fs::rename(&beside, &file));
    placed.inspect_err(|_| drop(std::fs::remove_file(&beside))).with_context(failed)
}

/// Writes a stored skill back, unless somebody else has changed it.
async fn store(output: &Output, text: GivenSkill, formatted: String) -> anyhow::Result<()> {
    let GivenLibrary::Server(program) = &text.library else { return Ok(()) };
    let new = NewSkill { source: formatted, if_version: text.version, ..NewSkill::default() };
    let written = program.post.write_skill(&text.label, &new).await;
    let written = written.map_err(|fault| program.error(fault))?;
    output.done(&json!(written), &format!("formatted {}: version {}", text.label, written.version))
}
