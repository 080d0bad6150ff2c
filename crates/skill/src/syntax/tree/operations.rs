//! Operations of a target: one type for each kind, with everything split that does not depend on variables.

use super::arguments::ToolCall;
use super::condition::Condition;
use super::text_template::{Reference, TextTemplate};
use crate::syntax::source_range::SourceRange;

/// One operation with its place.
#[derive(Clone, Debug)]
pub struct SkillOp {
    pub kind: OpKind,
    /// Number of its first line in the whole text, from 1.
    pub line: usize,
    /// Its text without indentation. For `if` and `foreach` it is the first line of the block.
    pub range: SourceRange,
}

#[derive(Clone, Debug)]
pub enum OpKind {
    Set(SetOp),
    Append(AppendOp),
    Emit(EmitOp),
    /// `? text`, a deprecated form of `emit`.
    Reason(TextTemplate),
    Dispatch(Box<DispatchOp>),
    Shell(Box<ShellOp>),
    FileRead(Box<FileReadOp>),
    FileWrite(Box<FileWriteOp>),
    Notify(Box<NotifyOp>),
    Exchange(Box<ExchangeOp>),
    Inline(Box<InlineOp>),
    Foreach(Box<ForeachOp>),
    If(Box<IfOp>),
}

impl OpKind {
    /// The word for this kind in errors and traces.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Set(_) => "$set",
            Self::Append(_) => "$append",
            Self::Emit(_) => "emit",
            Self::Reason(_) => "?",
            Self::Dispatch(_) => "$",
            Self::Shell(_) => "shell",
            Self::FileRead(_) => "file_read",
            Self::FileWrite(_) => "file_write",
            Self::Notify(_) => "notify",
            Self::Exchange(_) => "exchange",
            Self::Inline(_) => "inline",
            Self::Foreach(_) => "foreach",
            Self::If(_) => "if",
        }
    }
}

impl SkillOp {
    /// The lists of operations inside this one: the body of a loop, or every branch.
    pub fn blocks(&self) -> impl Iterator<Item = &[SkillOp]> {
        let (branches, otherwise, body) = match &self.kind {
            OpKind::If(op) => (op.branches.as_slice(), op.otherwise.as_deref(), None),
            OpKind::Foreach(op) => ([].as_slice(), None, Some(op.body.as_slice())),
            _ => ([].as_slice(), None, None),
        };
        branches.iter().map(|branch| branch.body.as_slice()).chain(otherwise).chain(body)
    }

    /// The variable that `->` names, with its fallback.
    pub fn binding(&self) -> Option<&ResultBinding> {
        match &self.kind {
            OpKind::Dispatch(op) => Some(&op.binding),
            OpKind::Shell(op) => Some(&op.binding),
            OpKind::FileRead(op) => Some(&op.binding),
            OpKind::FileWrite(op) => Some(&op.binding),
            OpKind::Notify(op) => Some(&op.binding),
            OpKind::Exchange(op) => Some(&op.binding),
            OpKind::Inline(op) => Some(&op.binding),
            _ => None,
        }
    }

    /// The reason in `approved="…"`. An empty one does not count as an approval.
    pub fn approved(&self) -> Option<&str> {
        match &self.kind {
            OpKind::Emit(op) => op.approved.as_deref(),
            OpKind::Dispatch(op) => op.approved.as_deref(),
            OpKind::Shell(op) => op.approved.as_deref(),
            OpKind::FileWrite(op) => op.approved.as_deref(),
            OpKind::Notify(op) => op.approved.as_deref(),
            OpKind::Exchange(op) => op.approved.as_deref(),
            OpKind::Inline(op) => op.approved.as_deref(),
            _ => None,
        }
    }
}

/// The trailer `-> VARIABLE (fallback: VALUE)`. Both parts are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultBinding {
    pub variable: Option<Box<str>>,
    /// The processed literal. References in it are not resolved.
    pub fallback: Option<Box<str>>,
}

/// `$set VARIABLE = value`
#[derive(Clone, Debug)]
pub struct SetOp {
    pub variable: Box<str>,
    pub value: TextTemplate,
}

/// `$append VARIABLE value`
#[derive(Clone, Debug)]
pub struct AppendOp {
    pub variable: Box<str>,
    pub value: TextTemplate,
}

/// `emit(text="…")`
#[derive(Clone, Debug)]
pub struct EmitOp {
    pub text: TextTemplate,
    pub approved: Option<Box<str>>,
}

/// `$ connector.tool name=value … -> VARIABLE`, or `execute_skill(…)`.
#[derive(Clone, Debug)]
pub struct DispatchOp {
    pub connector: Option<Box<str>>,
    /// The tool and its arguments as written, without connector and trailer.
    pub body: Box<str>,
    /// `None` if the body does not begin with the name of a tool. That is an error when the operation runs.
    pub call: Option<ToolCall>,
    pub binding: ResultBinding,
    pub approved: Option<Box<str>>,
}

/// `shell(command="…")`, `shell(command="…", unsafe=true)` or `shell(argv=["…"])`
#[derive(Clone, Debug)]
pub struct ShellOp {
    pub command: ShellCommand,
    pub binding: ResultBinding,
    pub approved: Option<Box<str>>,
}

#[derive(Clone, Debug)]
pub enum ShellCommand {
    /// Split into words after references are replaced.
    Words(TextTemplate),
    /// Run by `bash -c`. `$$(` and `$${` are already the literal texts `$(` and `${`.
    Unsafe(TextTemplate),
    /// The program and its arguments. It is never empty.
    Argv(Vec<TextTemplate>),
}

/// `file_read(path="…", encoding="…")`
#[derive(Clone, Debug)]
pub struct FileReadOp {
    pub path: TextTemplate,
    /// As written; only `utf8` and `base64` are known.
    pub encoding: Option<Box<str>>,
    pub binding: ResultBinding,
}

/// `file_write(path="…", content="…")`
#[derive(Clone, Debug)]
pub struct FileWriteOp {
    pub path: TextTemplate,
    pub content: TextTemplate,
    /// Only its variable can be given. The operation binds no value to it.
    pub binding: ResultBinding,
    pub approved: Option<Box<str>>,
}

/// `notify(agent="…", message="…", connectors=["…"], event_type="…", correlation_id="…")`
#[derive(Clone, Debug)]
pub struct NotifyOp {
    pub agent: TextTemplate,
    pub message: Option<TextTemplate>,
    pub connectors: Option<Vec<String>>,
    pub event_type: Option<TextTemplate>,
    pub correlation_id: Option<TextTemplate>,
    pub binding: ResultBinding,
    pub approved: Option<Box<str>>,
}

/// `exchange(agent="…", message="…", timeout=…, connectors=["…"], event_type="…", correlation_id="…") -> VARIABLE`
#[derive(Clone, Debug)]
pub struct ExchangeOp {
    pub agent: TextTemplate,
    pub message: Option<TextTemplate>,
    /// Seconds.
    pub timeout: Option<TextTemplate>,
    pub connectors: Option<Vec<String>>,
    pub event_type: Option<TextTemplate>,
    pub correlation_id: Option<TextTemplate>,
    pub binding: ResultBinding,
    pub approved: Option<Box<str>>,
}

/// `inline(skill="…")`
#[derive(Clone, Debug)]
pub struct InlineOp {
    pub skill: Box<str>,
    pub binding: ResultBinding,
    pub approved: Option<Box<str>>,
}

/// `foreach VARIABLE in list:`
#[derive(Clone, Debug)]
pub struct ForeachOp {
    pub variable: Box<str>,
    /// The expression as written.
    pub list: Box<str>,
    pub over: LoopOver,
    pub body: Vec<SkillOp>,
}

/// What a loop goes over.
#[derive(Clone, Debug)]
pub enum LoopOver {
    /// `$(REF)` alone: the value itself. A filter is part of the name here, so such a name resolves to nothing.
    Value(Reference),
    /// `[a, b]`: texts without their quotes. References in them are not resolved.
    Elements(Vec<Box<str>>),
    /// Anything else, `${REF}` included: resolved to a text, which may be a JSON array.
    Text(TextTemplate),
}

/// `if condition:` with its `elif` and `else` blocks.
#[derive(Clone, Debug)]
pub struct IfOp {
    /// The `if` and every `elif`. It is never empty.
    pub branches: Vec<IfBranch>,
    /// The `else` block. An empty block is `Some`.
    pub otherwise: Option<Vec<SkillOp>>,
}

#[derive(Clone, Debug)]
pub struct IfBranch {
    pub condition: Condition,
    /// The condition as written.
    pub text: Box<str>,
    pub range: SourceRange,
    pub body: Vec<SkillOp>,
}
