//! Mutations: the rule about changes without authorisation, and the list of words in the names of tools that change
//! something.

use super::{Check, FindingPlace};
use crate::syntax::blanks::first_word;
use crate::syntax::tree::{OpKind, SkillOp};

/// Words in the name of a tool that show that it changes something.
const CHANGING: [&str; 27] = [
    "write",
    "update",
    "delete",
    "remove",
    "set",
    "create",
    "insert",
    "put",
    "patch",
    "destroy",
    "archive",
    "prune",
    "deploy",
    "expire",
    "consolidate",
    "purge",
    "reset",
    "rotate",
    "move",
    "rename",
    "drop",
    "truncate",
    "upsert",
    "overwrite",
    "clear",
    "wipe",
    "finalize",
];

/// Whether the name of a tool shows that it changes something. The comparison is case-sensitive.
pub fn is_mutating_tool(name: &str) -> bool {
    name.split('_').any(|part| CHANGING.contains(&part))
}

/// What an operation changes, in words.
fn change(op: &SkillOp) -> Option<String> {
    match &op.kind {
        OpKind::Dispatch(dispatch) => {
            let tool = first_word(&dispatch.body).0;
            is_mutating_tool(tool).then(|| format!("tool '{tool}' changes something"))
        }
        OpKind::FileWrite(write) => Some(format!("a file is written: '{}'", write.path.text())),
        _ => None,
    }
}

/// Checks only operations outside of blocks. A run checks all of them.
pub fn check(check: &mut Check<'_>) {
    let tree = check.tree;
    if tree.header.autonomous == Some(true) {
        return;
    }
    for target in &tree.targets {
        for op in target.ops.iter().filter(|op| op.approved().is_none_or(str::is_empty)) {
            if let Some(message) = change(op) {
                check.report("unconfirmed-mutation", FindingPlace::op(&target.name, op), message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_between_underscores_says_that_a_tool_changes_something() {
        for name in ["data_write", "update_row", "row_update", "set", "a_delete_b"] {
            assert!(is_mutating_tool(name), "{name}");
        }
        for name in ["updates", "Update", "settle", "get_row", "un-set", "reset:all", ""] {
            assert!(!is_mutating_tool(name), "{name}");
        }
    }
}
