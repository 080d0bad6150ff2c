//! Stored skills and known values: what compiling a skill asks for, whether or not it will run.

use async_trait::async_trait;

use super::host::{HostFault, LoadedSkill, SkillHost};
use crate::approval::ApprovalVerdict;
use crate::syntax::VarRequirement;

/// Where a skill finds the skills that it names. Every [`SkillHost`] is a library.
#[async_trait]
pub trait SkillLibrary: Send + Sync {
    /// The stored skill of this name.
    async fn stored_skill(&self, name: &str) -> Result<Option<LoadedSkill>, HostFault>;

    /// Whether the text of a stored skill may be used.
    fn approval_verdict(&self, source: &str) -> ApprovalVerdict;

    /// The value that a `# Requires:` line asks for, if it is known.
    async fn known_value(&self, requirement: &VarRequirement) -> Option<String>;
}

#[async_trait]
impl<H: SkillHost + ?Sized> SkillLibrary for H {
    async fn stored_skill(&self, name: &str) -> Result<Option<LoadedSkill>, HostFault> {
        self.load_skill(name).await
    }

    fn approval_verdict(&self, source: &str) -> ApprovalVerdict {
        self.check_approval(source)
    }

    async fn known_value(&self, requirement: &VarRequirement) -> Option<String> {
        self.required_variable(requirement).await
    }
}
