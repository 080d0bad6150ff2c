//! The arguments of a tool call: `name=value` pairs, separated before any reference is resolved.

use super::text_template::TextTemplate;
use crate::syntax::source_range::SourceRange;

/// The tool of a `$` operation and its arguments.
#[derive(Clone, Debug)]
pub struct ToolCall {
    pub tool: Box<str>,
    /// Everything after the tool as one text. `json_parse` reads this and not the arguments.
    pub rest: TextTemplate,
    /// Arguments in the order of their first appearance. A repeated name has its last value. Words without `=` are not
    /// here.
    pub arguments: Vec<ToolArgument>,
    /// Arguments that a later one of the same name replaces. Their references must resolve, too.
    pub overwritten: Vec<ToolArgument>,
}

impl ToolCall {
    pub fn argument(&self, name: &str) -> Option<&ToolArgument> {
        self.arguments.iter().find(|argument| &*argument.name == name)
    }
}

#[derive(Clone, Debug)]
pub struct ToolArgument {
    pub name: Box<str>,
    pub value: ArgumentValue,
    /// The word `name=value` in the source.
    pub range: SourceRange,
}

#[derive(Clone, Debug)]
pub enum ArgumentValue {
    /// Text that is JSON before references are resolved. They are resolved in its strings.
    Json(JsonTemplate),
    /// Text in quotes: always a string. Escapes are processed, so they never touch what a reference brings in.
    Quoted(TextTemplate),
    /// Text without quotes: resolved first, then read as a literal (`true`, `null`, a number, JSON, quoted text) or as
    /// a string.
    Bare(TextTemplate),
}

impl ArgumentValue {
    /// The text of a value that is not JSON.
    pub fn text(&self) -> Option<&TextTemplate> {
        match self {
            Self::Quoted(text) | Self::Bare(text) => Some(text),
            Self::Json(_) => None,
        }
    }
}

/// JSON whose strings may hold references. Names of members are never resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonTemplate {
    Null,
    Bool(bool),
    Number(f64),
    Text(TextTemplate),
    List(Vec<JsonTemplate>),
    /// Members in the order of their first appearance. A repeated name has its last value.
    Object(Vec<(Box<str>, JsonTemplate)>),
}
