//! `posthouse skill lint`: findings in a skill, shown the way a compiler shows them.

use std::io::IsTerminal;

use clap::Args;
use serde_json::{Value, json};
use skill::check::{CheckContext, Finding, Severity, check, render_findings};
use skill::store_facts;
use skill::tree::{LineTable, SkillTree};

use super::given_skill::{GivenSkill, SkillArgs};
use super::watch;
use crate::cli::Exit;
use crate::cli::output::Output;
use crate::cli::server_address::ServerOptions;

#[derive(Args)]
pub struct LintArgs {
    #[command(flatten)]
    skill: SkillArgs,
    /// Check the file again whenever it changes, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

impl LintArgs {
    pub async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        let file = watch::watched_file(self.watch, self.skill.file())?;
        let text = self.skill.read(server).await?;
        match file {
            Some(file) => watch::repeat(&file, text, async |text| lint(output, text).await).await,
            None => lint(output, &text).await,
        }
    }
}

async fn lint(output: &Output, text: &GivenSkill) -> anyhow::Result<()> {
    let tree = SkillTree::parse(&text.source);
    let findings = findings(text, &tree).await;
    if output.json {
        output.value(&as_json(&text.source, &findings))?;
    } else {
        output.text(&format!(
            "{}{}\n",
            shown(text, &findings, std::io::stdout().is_terminal()),
            sum(&findings)
        ))?;
    }
    match count(&findings, Severity::Error) {
        0 => Ok(()),
        errors => Err(failed(&text.label, errors)),
    }
}

/// The error of a command that stops at findings of severity error.
pub fn failed(label: &str, errors: usize) -> anyhow::Error {
    let word = if errors == 1 { "error" } else { "errors" };
    Exit { code: 1, words: format!("{label} has {errors} {word}") }.into()
}

/// The findings of a skill, with the stored skills that it names.
pub async fn findings(text: &GivenSkill, tree: &SkillTree) -> Vec<Finding> {
    let store = Some(store_facts(&text.library, tree).await);
    check(tree, &CheckContext { store, is_read_only: true, ..CheckContext::default() })
}

pub fn count(findings: &[Finding], severity: Severity) -> usize {
    findings.iter().filter(|finding| finding.severity == severity).count()
}

/// The findings with their lines and marks, each followed by an empty line.
pub fn shown(text: &GivenSkill, findings: &[Finding], is_styled: bool) -> String {
    match findings.is_empty() {
        true => String::new(),
        false => render_findings(&text.source, &text.label, findings, is_styled) + "\n\n",
    }
}

fn sum(findings: &[Finding]) -> String {
    let [errors, warnings, notes] =
        [Severity::Error, Severity::Warning, Severity::Info].map(|severity| count(findings, severity));
    match findings.is_empty() {
        true => "no findings".to_owned(),
        false => format!("{errors} errors, {warnings} warnings, {notes} notes"),
    }
}

/// Findings with the line and column of their beginning and end.
pub fn as_json(source: &str, findings: &[Finding]) -> Value {
    let table = LineTable::of(source);
    let placed = findings.iter().map(|finding| {
        let mut value = json!(finding);
        if let (Some(range), Some(fields)) = (finding.range, value.as_object_mut()) {
            fields.remove("range");
            fields.insert("start".to_owned(), json!(table.place(range.start)));
            fields.insert("end".to_owned(), json!(table.place(range.end)));
        }
        value
    });
    json!({
        "findings": placed.collect::<Vec<_>>(),
        "error_count": count(findings, Severity::Error),
        "warning_count": count(findings, Severity::Warning),
        "info_count": count(findings, Severity::Info),
    })
}
