//! Lint: mistakes and risks in a skill that can be seen without running it.
//!
//! [`check`] walks a [`SkillTree`] with every rule of [`LINT_RULES`] and returns findings with their place. It reads
//! nothing else: what it knows about stores, connectors and the operator's settings comes in a [`CheckContext`]. A rule
//! that lacks its part of the context stays silent.
//!
//! - Findings are sorted by severity, rule and block. A skill with a finding of severity error does not compile.
//! - [`skills_to_look_up`] names the stored skills that the caller has to know about before it checks a tree.
//! - [`render_findings`] shows findings the way a compiler does, and [`render_plain`] as lines of text.

mod appends;
mod connectors;
mod context;
mod credentials;
mod exchange;
mod grammar;
mod header;
mod mutations;
mod render;
mod results;
mod rules;
mod secrets;
mod shell;
mod skills;
mod template;
mod tool_arguments;
mod variables;
mod walk;

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use foldhash::HashMap;
use serde::Serialize;

pub use self::context::{CheckContext, ConnectorFacts, StoreFacts, StoredSkillFacts, ToolSchema};
pub use self::mutations::is_mutating_tool;
pub use self::render::{render_findings, render_plain};
use self::results::VarOrigin;
pub use self::rules::{LINT_RULES, LintRule};
pub use self::skills::{called_skills, calls_computed_skill, skills_to_look_up};
use self::variables::Names;
use crate::syntax::excerpt;
use crate::syntax::tree::{SkillOp, SkillTree, SourceRange};

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The skill does not compile.
    Error,
    /// The skill probably does not do what its author means.
    Warning,
    /// The author should know.
    Info,
}

impl fmt::Display for Severity {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        })
    }
}

/// One result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Id of the rule.
    pub rule: &'static str,
    pub severity: Severity,
    pub message: String,
    /// The target that the finding is about, or `(frontmatter)`. Of a long name it has the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// What to do.
    pub remedy: &'static str,
    /// The text that the finding is about, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<SourceRange>,
}

/// Checks a tree with every rule.
pub fn check(tree: &SkillTree, context: &CheckContext) -> Vec<Finding> {
    let mut check =
        Check { tree, context, names: Names::of(tree), origins: OnceCell::new(), findings: Vec::new() };
    grammar::check(&mut check);
    variables::check(&mut check);
    skills::check(&mut check);
    connectors::check(&mut check);
    tool_arguments::check(&mut check);
    appends::check(&mut check);
    results::check(&mut check);
    credentials::check(&mut check);
    secrets::check(&mut check);
    shell::check(&mut check);
    mutations::check(&mut check);
    exchange::check(&mut check);
    header::check(&mut check);
    template::check(&mut check);
    let mut findings = check.findings;
    findings.sort_by(|a, b| (a.severity, a.rule, &a.block).cmp(&(b.severity, b.rule, &b.block)));
    findings
}

/// A check in progress.
struct Check<'t> {
    tree: &'t SkillTree,
    context: &'t CheckContext,
    names: Names<'t>,
    /// What set each variable, once a rule has asked for it.
    origins: OnceCell<Rc<HashMap<&'t str, VarOrigin<'t>>>>,
    findings: Vec<Finding>,
}

/// Where a finding is.
#[derive(Clone, Copy)]
struct FindingPlace<'t> {
    block: Option<&'t str>,
    range: Option<SourceRange>,
}

impl<'t> FindingPlace<'t> {
    /// The whole skill.
    const SKILL: Self = Self { block: None, range: None };

    fn range(range: SourceRange) -> Self {
        Self { block: None, range: Some(range) }
    }

    fn block(name: &'t str) -> Self {
        Self { block: Some(name), range: None }
    }

    fn op(target: &'t str, op: &SkillOp) -> Self {
        Self { block: Some(target), range: Some(op.range) }
    }

    /// A more exact range, if it is known.
    fn at(self, range: Option<SourceRange>) -> Self {
        Self { range: range.or(self.range), ..self }
    }
}

impl<'t> Check<'t> {
    fn origins(&self) -> Rc<HashMap<&'t str, VarOrigin<'t>>> {
        self.origins.get_or_init(|| Rc::new(results::origins(self.tree, &self.names))).clone()
    }

    fn report(&mut self, rule: &'static str, place: FindingPlace<'_>, message: String) {
        let severity = LintRule::named(rule).map_or(Severity::Error, |rule| rule.severity);
        self.report_as(rule, severity, place, message);
    }

    fn report_as(
        &mut self,
        rule: &'static str,
        severity: Severity,
        place: FindingPlace<'_>,
        message: String,
    ) {
        let remedy = LintRule::named(rule).map_or("", |rule| rule.remedy);
        let block = place.block.map(|name| excerpt(name).to_owned());
        self.findings.push(Finding { rule, severity, message, block, remedy, range: place.range });
    }
}

#[cfg(test)]
mod tests;
