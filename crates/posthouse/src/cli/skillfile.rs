//! `posthouse skillfile`: commands of the reference runtime's command line, over the same home folder.
//!
//! Names, options, files and exit codes are those of the reference: 1 for a failure or a finding, 64 for wrong usage, 66
//! for a skill, a key or a trace that some commands do not find. The words of messages are our own.

mod approval;
mod execute;
mod init;
mod stored_skills;
mod traces;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use posthouse_time::Timepiece;
use serde_json::{Value, json};
use skill::check::{Severity, render_plain};
use skill::tree::SkillTree;
use skill::{ContentHash, Provenance, compare_provenance};

use self::traces::HealthFilter;
use super::Exit;
use super::output::{Output, without_control_characters};
use super::skill::compile::RenderingArgs;
use super::skill::given_skill::GivenSkill;
use super::skill::lint;
use super::skill_home::SkillHome;

/// Exit code for wrong usage.
pub const USAGE: u8 = 64;
/// Exit code of some commands for a skill that is not found.
const NO_INPUT: u8 = 66;
/// Exit code for a failure that the reference does not expect.
const UNEXPECTED: u8 = 2;

#[derive(Subcommand)]
pub enum Command {
    /// Creates the home folder with examples; what exists stays as it is
    #[command(after_help = "Example:\n  posthouse skillfile init")]
    Init,
    /// Runs a skill over the home folder, without tool connectors and models
    #[command(
        after_help = "Prints the rendered template, or the lines that the skill emitted. Exit code 1: the skill did \
        not run, or has failed. `posthouse skill run` also uses connectors.json.\n\nExample:\n  \
        posthouse skillfile execute tide-watch --input HARBOUR=Bergen --trace on"
    )]
    Execute(execute::ExecuteArgs),
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
    /// Shows a stored skill, signs it, and stores it as Approved; exit code 66 if there is no key or no skill
    #[command(after_help = "Example:\n  posthouse skillfile approve tide-watch")]
    Approve {
        /// The skill
        name: String,
    },
    /// Lists Approved skills without a valid signature; signs them with --apply
    #[command(after_help = "Example:\n  posthouse skillfile reapprove --apply")]
    Reapprove {
        /// Only this skill
        name: Option<String>,
        /// Sign them
        #[arg(long)]
        apply: bool,
    },
    /// Deletes a stored skill with its history; exit code 1 if another skill uses it
    #[command(after_help = "Example:\n  posthouse skillfile delete tide-watch --force")]
    Delete {
        /// The skill
        name: String,
        /// Delete it even if other skills use it
        #[arg(long, short)]
        force: bool,
    },
    /// Lists the programs that the stored skills start
    #[command(after_help = "Example:\n  posthouse skillfile shell-audit --json")]
    ShellAudit,
    /// Shows recorded runs of a skill, newest first
    #[command(after_help = "Example:\n  posthouse skillfile fires tide-watch --limit 5 --human")]
    Fires {
        /// The skill
        skill: String,
        /// At most this many
        #[arg(long, value_name = "COUNT", default_value_t = 20)]
        limit: usize,
        /// Print a line for each run instead of JSON
        #[arg(long)]
        human: bool,
    },
    /// Runs the skill of a recorded run again, only to show what it would do now
    #[command(after_help = "Example:\n  posthouse skillfile replay bc9e3e02-7b52-4f66-9d00-8bfb5f95f464")]
    Replay {
        /// The id of the trace, as `fires` prints it
        trace: String,
        /// Only `current`, the default
        #[arg(long, value_name = "MODE", default_value = "current")]
        connectors: String,
    },
    /// Shows statistics of recorded runs
    #[command(after_help = "Example:\n  posthouse skillfile health --skill tide-watch --human")]
    Health {
        /// Only runs of this skill
        #[arg(long)]
        skill: Option<String>,
        /// Only calls of this tool connector
        #[arg(long)]
        connector: Option<String>,
        /// Only runs since this time, in milliseconds; by default those of a day
        #[arg(long, value_name = "MS")]
        since_ms: Option<i64>,
        /// Print text instead of JSON
        #[arg(long)]
        human: bool,
    },
    /// Not here: `posthouse serve` runs a server
    #[command(after_help = "Example:\n  posthouse serve --dir ./posthouse-data")]
    Serve(OtherServer),
    /// Not here: `posthouse up` runs a server with its pages
    #[command(after_help = "Example:\n  posthouse up")]
    Dashboard(OtherServer),
}

/// The arguments of a command that Posthouse has under another name. They are not looked at.
#[derive(Args)]
pub struct OtherServer {
    /// Anything; it is not looked at
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<std::ffi::OsString>,
}

impl Command {
    pub async fn act(self, output: &Output) -> anyhow::Result<()> {
        let home = SkillHome::of_environment()?;
        match self {
            Command::Init => init::init(output, &home).await,
            Command::Execute(execute) => execute.act(output, &home).await,
            Command::Approve { name } => approval::approve(output, &home, &name).await,
            Command::Reapprove { name, apply } => {
                approval::reapprove(output, &home, name.as_deref(), apply).await
            }
            Command::Delete { name, force } => stored_skills::delete(output, &home, &name, force).await,
            Command::ShellAudit => stored_skills::shell_audit(output, &home),
            Command::Fires { skill, limit, human } => traces::fires(output, &home, &skill, limit, human),
            Command::Replay { trace, connectors } => traces::replay(output, &home, &trace, &connectors).await,
            Command::Health { skill, connector, since_ms, human } => {
                let filter = HealthFilter { skill, connector, since_ms };
                traces::health(output, &home, &filter, human)
            }
            Command::Serve(_) => Err(failure(elsewhere("posthouse serve --dir DIR"))),
            Command::Dashboard(_) => Err(failure(elsewhere("posthouse up"))),
            Command::Lint { skill, .. } => lint(output, &home.read(&skill, 1)?).await,
            Command::Compile { skill, rendering, sidecar } => {
                let sidecar = sidecar.unwrap_or_else(|| sidecar_of(&skill));
                compile(output, &home.read(&skill, 1)?, &rendering, &sidecar).await
            }
            Command::Audit { provenance } => audit(output, &home, &provenance),
            Command::List { status } => stored_skills::list(output, &home, status.as_deref()),
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

/// The reference serves one home; the server of this project has its own folder, and reads the home as a store.
fn elsewhere(instead: &str) -> String {
    format!(
        "use `{instead}` instead: it runs skills at their times and on events, serves their tools, and has pages; \
         `posthouse tenant change TENANT --skill-store` gives it the skills of this folder"
    )
}

fn missing_skill(home: &SkillHome, name: &str) -> Exit {
    Exit { code: NO_INPUT, words: format!("skill '{name}' not found in {}", home.skills().display()) }
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
