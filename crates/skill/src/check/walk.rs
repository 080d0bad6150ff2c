//! Walks over the operations of a tree, and over their texts.

use memchr::memchr_iter;

use crate::syntax::tree::{LoopOver, OpKind, ShellCommand, SkillOp, SkillTarget, SkillTree, TextTemplate};

/// Calls `visit` with every operation, outer ones first.
pub fn every_op<'t>(ops: &'t [SkillOp], visit: &mut dyn FnMut(&'t SkillOp)) {
    for op in ops {
        visit(op);
        match &op.kind {
            OpKind::Foreach(foreach) => every_op(&foreach.body, visit),
            OpKind::If(op) => {
                for branch in &op.branches {
                    every_op(&branch.body, visit);
                }
                every_op(op.otherwise.as_deref().unwrap_or_default(), visit);
            }
            _ => {}
        }
    }
}

/// Calls `visit` with every operation of every main body.
pub fn every_main_op<'t>(tree: &'t SkillTree, visit: &mut dyn FnMut(&'t SkillTarget, &'t SkillOp)) {
    for target in &tree.targets {
        every_op(&target.ops, &mut |op| visit(target, op));
    }
}

/// Calls `visit` with every operation, those of error blocks included. The flag says whether it is one of those.
pub fn every_op_with_errors<'t>(
    tree: &'t SkillTree,
    visit: &mut dyn FnMut(&'t SkillTarget, &'t SkillOp, bool),
) {
    for target in &tree.targets {
        every_op(&target.ops, &mut |op| visit(target, op, false));
        every_op(target.error_block.as_deref().unwrap_or_default(), &mut |op| visit(target, op, true));
    }
}

/// Calls `visit` with the texts of an operation that rules about references look at: of an `if` the first condition, of
/// calls that touch files, agents and skills the whole line.
pub fn texts(tree: &SkillTree, op: &SkillOp, visit: &mut dyn FnMut(&TextTemplate)) {
    match &op.kind {
        OpKind::Set(op) => visit(&op.value),
        OpKind::Append(op) => visit(&op.value),
        OpKind::Emit(op) => visit(&op.text),
        OpKind::Reason(text) => visit(text),
        OpKind::Dispatch(dispatch) => match &dispatch.call {
            Some(call) => visit(&call.rest),
            None => visit(&TextTemplate::parse(&*dispatch.body)),
        },
        OpKind::Shell(op) => match &op.command {
            ShellCommand::Words(command) | ShellCommand::Unsafe(command) => visit(command),
            ShellCommand::Argv(words) => words.iter().for_each(visit),
        },
        OpKind::FileRead(_)
        | OpKind::FileWrite(_)
        | OpKind::Notify(_)
        | OpKind::Exchange(_)
        | OpKind::Inline(_) => {
            visit(&TextTemplate::parse(op.range.of(tree.source())).at(Some(op.range.start)));
        }
        OpKind::Foreach(foreach) => match &foreach.over {
            LoopOver::Text(text) => visit(text),
            _ => visit(&TextTemplate::parse(&*foreach.list)),
        },
        OpKind::If(op) => {
            if let Some(branch) = op.branches.first() {
                visit(&TextTemplate::parse(&*branch.text).at(Some(branch.range.start)));
            }
        }
    }
}

/// The value of `$set` and `$append`.
pub fn set_value(op: &SkillOp) -> Option<&TextTemplate> {
    match &op.kind {
        OpKind::Set(op) => Some(&op.value),
        OpKind::Append(op) => Some(&op.value),
        _ => None,
    }
}

/// Whether a text holds the beginning of a reference.
pub fn has_dollar_bracket(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr_iter(b'$', bytes).any(|at| matches!(bytes.get(at + 1), Some(b'(' | b'{')))
}

/// The first UTF-16 units of a text. A character that would be cut is left out.
pub fn first_units(text: &str, count: usize) -> &str {
    let mut units = 0;
    for (at, c) in text.char_indices() {
        units += c.len_utf16();
        if units > count {
            return &text[..at];
        }
    }
    text
}
