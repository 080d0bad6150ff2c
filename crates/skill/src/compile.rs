//! Compiled skills: a prepared skill rendered as steps that an agent or a person can follow, and its provenance.
//!
//! References to declared variables are replaced by their values. Other references are values of a run, so they stay as
//! they are written. A skill whose filters fail on its declared values does not compile.

mod declared_values;
mod prompt;
mod prose;
mod provenance;

use self::declared_values::DeclaredValues;
pub use self::provenance::{Provenance, ProvenanceFinding, SourceSkill, compare_provenance};
use crate::run::{PreparedSkill, RunError, RunLimits, too_large};
use crate::syntax::{OutputKind, SkillOutput};

/// The form of a rendered skill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenderFormat {
    /// Numbered steps with one bullet for each operation.
    #[default]
    Prompt,
    /// A paragraph of sentences for each target.
    Prose,
}

/// Renders a skill. The text has at most as many bytes as a value of a run may have.
pub fn render_skill(skill: &PreparedSkill, format: RenderFormat) -> Result<String, RunError> {
    let values = DeclaredValues::of(skill);
    match format {
        RenderFormat::Prompt => prompt::render(skill, &values),
        RenderFormat::Prose => prose::render(skill, &values),
    }
}

/// The declared outputs with the values of declared variables in their targets. Without a declaration it is `text`.
pub fn resolved_outputs(skill: &PreparedSkill) -> Result<Vec<SkillOutput>, RunError> {
    let values = DeclaredValues::of(skill);
    let declared = &skill.tree.header.outputs;
    if declared.is_empty() {
        return Ok(vec![SkillOutput { kind: OutputKind::Text, target: None }]);
    }
    let resolve = |output: &SkillOutput| {
        let target = output.target.as_deref().map(|target| values.text(target)).transpose()?;
        Ok(SkillOutput { kind: output.kind, target })
    };
    declared.iter().map(resolve).collect()
}

/// A rendered text that refuses to grow beyond the limit of a value.
struct BoundedText {
    text: String,
    limit: usize,
}

impl BoundedText {
    fn new() -> Self {
        Self { text: String::new(), limit: RunLimits::default().value }
    }

    fn push(&mut self, part: &str) -> Result<(), RunError> {
        if self.text.len() + part.len() > self.limit {
            return Err(too_large("the rendered skill", self.limit));
        }
        self.text.push_str(part);
        Ok(())
    }

    /// Adds a line. Lines are separated by a line end, so the last one has none.
    fn line(&mut self, parts: &[&str]) -> Result<(), RunError> {
        if !self.text.is_empty() {
            self.push("\n")?;
        }
        parts.iter().try_for_each(|part| self.push(part))
    }
}
