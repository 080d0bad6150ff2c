//! `posthouse skillfile`: commands of the reference runtime's command line, over the same home folder.
//!
//! Names, options, files and exit codes are those of the reference: 1 for a failure or a finding, 64 for wrong usage, 66
//! for a skill that `diagram`, `sign` and `verify` do not find. The words of messages are our own.

mod home;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use posthouse_time::Timepiece;
use serde_json::{Value, json};
use skill::check::{Severity, render_plain};
use skill::tree::SkillTree;
use skill::{ContentHash, Provenance, SkillHeader, compare_provenance, status_of};

use self::home::SkillHome;
use super::Exit;
use super::output::{Output, without_control_characters};
use super::skill::compile::RenderingArgs;
use super::skill::given_skill::GivenSkill;
use super::skill::lint;

/// Exit code for wrong usage.
pub const USAGE: u8 = 64;
/// Exit code of some commands for a skill that is not found.
const NO_INPUT: u8 = 66;

#[derive(Subcommand)]
pub enum Command {
    /// Checks a skill; exit code 1 if there are errors
    #[command(after_help = "Example:\n  posthouse skillfile lint tide-watch --json")]
    Lint {
        /// A file, or a skill of the home folder
        skill: String,
        /// Print text, which is the default
        #[arg(long)]
        human: bool,
    },
    /// Renders a skill, and writes its provenance beside it
    #[command(
        after_help = "Example:\n  posthouse skillfile compile tide-watch.skill.md --input HARBOUR=Bergen"
    )]
    Compile {
        /// A file, or a skill of the home folder
        skill: String,
        #[command(flatten)]
        rendering: RenderingArgs,
        /// File for the provenance, instead of the one beside the skill
        #[arg(long, value_name = "FILE")]
        sidecar: Option<PathBuf>,
    },
    /// Compares a provenance with the data skills of the home folder; exit code 1 if one has changed
    #[command(after_help = "Example:\n  posthouse skillfile audit tide-watch.skill.provenance.json")]
    Audit {
        /// File that `compile` wrote
        provenance: PathBuf,
    },
    /// Lists the skills of the home folder
    #[command(after_help = "Example:\n  posthouse skillfile list --status Approved")]
    List {
        /// Only skills with this status
        #[arg(long)]
        status: Option<String>,
    },
    /// Prints the targets of a skill as a Mermaid diagram
    #[command(after_help = "Example:\n  posthouse skillfile diagram tide-watch")]
    Diagram {
        /// A file, or a skill of the home folder
        skill: String,
    },
    /// Prints the content hash of a skill
    #[command(after_help = "Example:\n  posthouse skillfile sign tide-watch")]
    Sign {
        /// A file, or a skill of the home folder
        skill: String,
    },
    /// Compares the content hash of a skill; exit code 1 if it is another one
    #[command(after_help = "Example:\n  posthouse skillfile verify tide-watch 0a1b2c…")]
    Verify {
        /// A file, or a skill of the home folder
        skill: String,
        /// The expected hash
        hash: String,
    },
}

impl Command {
    pub async fn act(self, output: &Output) -> anyhow::Result<()> {
        let home = SkillHome::of_environment()?;
        match self {
            Command::Lint { skill, .. } => lint(output, &home.read(&skill, 1)?).await,
            Command::Compile { skill, rendering, sidecar } => {
                let sidecar = sidecar.unwrap_or_else(|| sidecar_of(&skill));
                compile(output, &home.read(&skill, 1)?, &rendering, &sidecar).await
            }
            Command::Audit { provenance } => audit(output, &home, &provenance),
            Command::List { status } => list(output, &home, status.as_deref()),
            Command::Diagram { skill } => {
                let text = home.read(&skill, NO_INPUT)?;
                output.text(&without_control_characters(&diagram(&SkillTree::parse(&text.source))))
            }
            Command::Sign { skill } => {
                let hash = ContentHash::of(&home.read(&skill, NO_INPUT)?.source);
                output.value(&json!({
                    "skill": skill,
                    "content_hash": hash.as_str(),
                    "algorithm": "sha256",
                    "signed_at_ms": Timepiece::wall().now().millis(),
                    "version": "v1",
                }))
            }
            Command::Verify { skill, hash } => {
                let actual = ContentHash::of(&home.read(&skill, NO_INPUT)?.source);
                let verified = actual.as_str() == hash;
                output
                    .value(&json!({ "verified": verified, "expected": hash, "actual": actual.as_str() }))?;
                if verified { Ok(()) } else { Err(failure(format!("{skill} has another hash"))) }
            }
        }
    }
}

fn failure(words: String) -> anyhow::Error {
    Exit { code: 1, words }.into()
}

async fn lint(output: &Output, text: &GivenSkill) -> anyhow::Result<()> {
    let findings = lint::findings(text, &SkillTree::parse(&text.source)).await;
    let count = |severity| lint::count(&findings, severity);
    if output.json {
        let shown: Vec<Value> = findings.iter().map(reference_form).collect();
        output.value(&json!({
            "findings": shown,
            "errorCount": count(Severity::Error),
            "warningCount": count(Severity::Warning),
            "infoCount": count(Severity::Info),
        }))?;
    } else {
        output.text(&(render_plain(&findings) + "\n"))?;
    }
    match count(Severity::Error) {
        0 => Ok(()),
        errors => Err(lint::failed(&text.label, errors)),
    }
}

/// A finding with the field names of the reference.
fn reference_form(finding: &skill::check::Finding) -> Value {
    let mut form = json!({ "rule": finding.rule, "severity": finding.severity, "message": finding.message });
    if let Some(block) = &finding.block {
        form["block"] = json!(block);
    }
    form["remediation"] = json!(finding.remedy);
    form
}

async fn compile(
    output: &Output,
    text: &GivenSkill,
    rendering: &RenderingArgs,
    sidecar: &Path,
) -> anyhow::Result<()> {
    let tree = SkillTree::parse(&text.source);
    let findings = lint::findings(text, &tree).await;
    let of = |severity| findings.iter().filter(move |finding| finding.severity == severity);
    if of(Severity::Error).next().is_some() {
        let errors: Vec<_> = of(Severity::Error).cloned().collect();
        eprintln!("{}", render_plain(&errors));
        return Err(lint::failed(&text.label, errors.len()));
    }
    let compiled = rendering.compile(text, tree).await?;
    output.text(&(without_control_characters(&compiled.rendered) + "\n"))?;
    if !rendering.inline_provenance {
        std::fs::write(sidecar, compiled.provenance.as_json() + "\n")
            .with_context(|| format!("cannot write {}", sidecar.display()))?;
        eprintln!("Provenance written to {}", sidecar.display());
    }
    for (index, warning) in of(Severity::Warning).enumerate() {
        let heading = if index == 0 { "\nWarnings:\n" } else { "" };
        eprintln!("{heading}  {}: {}", warning.rule, without_control_characters(&warning.message));
    }
    Ok(())
}

/// The file for the provenance: beside the skill, or in the working directory for a stored one.
fn sidecar_of(skill: &str) -> PathBuf {
    format!(
        "{}.provenance.json",
        skill.strip_suffix(".md").filter(|rest| rest.ends_with(".skill")).unwrap_or(skill)
    )
    .into()
}

fn audit(output: &Output, home: &SkillHome, file: &Path) -> anyhow::Result<()> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let provenance: Provenance =
        serde_json::from_str(&text).with_context(|| format!("{shown} is not a provenance"))?;
    let findings = compare_provenance(&provenance, &home.stored()?);
    if output.json {
        output.value(&json!({
            "audited_at": Timepiece::wall().now().to_string(),
            "provenance": provenance,
            "findings": findings,
            "is_stale": !findings.is_empty(),
        }))?;
    } else {
        let name = provenance.source_skill.name.as_deref().unwrap_or("(unnamed)");
        let mut report = format!("Audit of '{name}': {} findings\n", findings.len());
        for found in &findings {
            report.push_str(&format!(
                "  [{}] {} ({}): {}\n",
                found.severity, found.rule, found.skill_name, found.message
            ));
        }
        output.text(&without_control_characters(&report))?;
    }
    if findings.is_empty() { Ok(()) } else { Err(failure(format!("{shown} is stale"))) }
}

fn list(output: &Output, home: &SkillHome, status: Option<&str>) -> anyhow::Result<()> {
    let mut lines: Vec<String> = Vec::new();
    for (name, source) in home.stored()? {
        let own = status_of(&source).status();
        if status.is_none_or(|status| own.as_str() == status) {
            let description = SkillHeader::parse(&source).description;
            let description = description.map(|text| format!(" — {text}")).unwrap_or_default();
            lines.push(format!("  {name} [{own}]{description}\n"));
        }
    }
    lines.sort();
    if lines.is_empty() {
        return output.text(&format!("No skills found in {}.\n", home.skills().display()));
    }
    output.text(&without_control_characters(&lines.concat()))
}

fn diagram(tree: &SkillTree) -> String {
    let mut text = format!(
        "```mermaid\nflowchart TD\n  start([\"{}\"])\n",
        tree.header.name.as_deref().unwrap_or("skill")
    );
    for target in &tree.targets {
        let kinds: Vec<&str> = target.ops.iter().map(|op| op.kind.word()).collect();
        let name = &target.name;
        text.push_str(&format!("  {name}[\"{name}\\n[{}]\"]\n", kinds.join(",")));
        target.dependencies.iter().for_each(|needed| text.push_str(&format!("  {needed} --> {name}\n")));
    }
    if let Some(entry) = &tree.entry {
        text.push_str(&format!("  start --> {entry}\n"));
    }
    text + "```\n"
}
