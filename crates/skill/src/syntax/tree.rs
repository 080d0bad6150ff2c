//! The syntax tree of a skill: header, targets, operations and the body template.
//!
//! ```text
//! SkillTree
//! ├── header: SkillHeader             the `# Key: value` lines
//! ├── targets: [SkillTarget]          in the order of their first declaration
//! │   ├── dependencies: [String]
//! │   ├── ops: [SkillOp]              OpKind: Set, Append, Emit, Reason, Dispatch, Shell, FileRead,
//! │   │                               FileWrite, Notify, Exchange, Inline, Foreach (with ops), If (with branches)
//! │   └── error_block: [SkillOp]      the `else:` of the target
//! ├── entry: String                   the target with which a run begins
//! ├── template: TextTemplate          text outside of targets
//! └── errors: [ParseError]
//! ```
//!
//! - Everything is parsed once. A [`TextTemplate`] is a text with its references found and split, a [`Condition`] is a
//!   tree of comparisons, and the arguments of a tool call are separated ([`ToolArgument`]). A run splits no text
//!   again.
//! - Literals are processed: quotes are removed, escapes are replaced, triple-quoted text is dedented.
//! - Every operation has the range of its text in the source. The tree keeps the source, so [`SkillTree::body`] shows
//!   the text of an operation as the trace, lint and the renderer name it.
//! - A text with mistakes has a tree as well. It lacks what could not be read, and [`SkillTree::errors`] says why. Such
//!   a skill must not run.
//! - Blocks nest at most [`MAX_BLOCKS`] deep and conditions 64, so walking a tree recursively is safe.

mod arguments;
mod condition;
mod operations;
mod text_template;

use std::collections::HashMap;

pub use self::arguments::{ArgumentValue, JsonTemplate, ToolArgument, ToolCall};
pub use self::condition::{Comparison, Condition, Operand};
pub use self::operations::{
    AppendOp, DispatchOp, EmitOp, ExchangeOp, FileReadOp, FileWriteOp, ForeachOp, IfBranch, IfOp, InlineOp,
    LoopOver, NotifyOp, OpKind, ResultBinding, SetOp, ShellCommand, ShellOp, SkillOp,
};
pub use self::text_template::{
    FilterCall, FilterName, Reference, ReferenceForm, SecretMarker, TextPart, TextTemplate,
};
use super::header::SkillHeader;
use super::parse_error::ParseError;
pub use super::source_range::{LineColumn, LineTable, SourceRange};

/// How deep `if` and `foreach` blocks may nest.
pub const MAX_BLOCKS: usize = 128;

/// A parsed skill.
#[derive(Clone, Debug, Default)]
pub struct SkillTree {
    /// The header. Its own list of errors is empty: all errors are in [`SkillTree::errors`].
    pub header: SkillHeader,
    /// Targets in the order of their first declaration. A target that is declared again has the body of its last
    /// declaration.
    pub targets: Vec<SkillTarget>,
    /// The target with which a run begins: the one that `default:` names, otherwise the one that is declared last.
    pub entry: Option<String>,
    /// Whether there is a `default:` line.
    pub has_default: bool,
    /// Text outside of targets, rendered at the end of a run.
    pub template: Option<TextTemplate>,
    /// Numbers of template lines that look like the header of a target: a word and a colon, without a body.
    pub ambiguous_template_lines: Vec<usize>,
    /// Lines of targets that are not operations. They are ignored when the skill runs.
    pub ignored_lines: Vec<usize>,
    /// Mistakes in the order in which the parser found them.
    pub errors: Vec<ParseError>,
    pub(super) source: Box<str>,
    pub(super) by_name: HashMap<String, usize>,
}

/// A named list of operations.
#[derive(Clone, Debug, Default)]
pub struct SkillTarget {
    pub name: String,
    /// Names of the targets that run before this one, as written.
    pub dependencies: Vec<String>,
    pub ops: Vec<SkillOp>,
    /// The `else:` block, which runs when an operation of `ops` fails. An empty block counts.
    pub error_block: Option<Vec<SkillOp>>,
    /// Number of the header line, from 1.
    pub line: usize,
    /// The header line.
    pub range: SourceRange,
}

impl SkillTree {
    /// The text that was parsed.
    pub fn source(&self) -> &str {
        &self.source
    }

    pub fn target(&self, name: &str) -> Option<&SkillTarget> {
        self.target_index(name).map(|index| &self.targets[index])
    }

    pub fn target_index(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The text by which an operation is named in traces: for `emit`, `?`, `shell` and `$` their own text, otherwise
    /// the line.
    pub fn body<'t>(&'t self, op: &'t SkillOp) -> &'t str {
        match &op.kind {
            OpKind::Emit(emit) => emit.text.text(),
            OpKind::Reason(text) => text.text(),
            OpKind::Dispatch(dispatch) => &dispatch.body,
            OpKind::Shell(shell) => match &shell.command {
                ShellCommand::Words(command) | ShellCommand::Unsafe(command) => command.text(),
                ShellCommand::Argv(_) => "",
            },
            _ => op.range.of(&self.source),
        }
    }
}
