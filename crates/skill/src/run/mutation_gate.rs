//! The mutation gate: an operation that changes something needs an approval by the skill's author.

use std::sync::Arc;

use super::run_error::{ErrorClass, RunError};
use crate::check::is_mutating_tool;
use crate::syntax::blanks::is_blank;
use crate::syntax::tree::{OpKind, SkillOp, SkillTree};

/// Refuses a change without `# Autonomous: true` and without `approved="reason"`.
pub fn check_mutation(tree: &SkillTree, op: &SkillOp, target: &Arc<str>) -> Result<(), RunError> {
    let what = match &op.kind {
        OpKind::Dispatch(dispatch) => {
            let tool = dispatch.body.split(is_blank).next().unwrap_or_default();
            if !is_mutating_tool(tool) {
                return Ok(());
            }
            format!("`$ {tool}`")
        }
        OpKind::FileWrite(write) => format!("`file_write(path=\"{}\")`", write.path.text()),
        _ => return Ok(()),
    };
    if tree.header.autonomous == Some(true) || op.approved().is_some_and(|reason| !reason.is_empty()) {
        return Ok(());
    }
    let message = format!("{what} in target '{target}' changes something and its author has not approved it");
    let remedy =
        "Add `approved=\"reason\"` to the operation, or `# Autonomous: true` to the header of the skill";
    Err(RunError::new(ErrorClass::UnconfirmedMutation, message).of(op.kind.word()).with_remedy(remedy))
}
