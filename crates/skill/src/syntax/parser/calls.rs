//! Parsing of calls such as `shell(command="ls") -> R (fallback: "none")`.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::super::blanks::{is_blank, trim};
use super::super::literal::Literal;
use super::super::parse_error::ParseErrorKind;
use super::super::quotes::comma_parts;
use super::super::source_range::SourceRange;
use super::super::tree::{
    ArgumentValue, DispatchOp, EmitOp, ExchangeOp, FileReadOp, FileWriteOp, InlineOp, NotifyOp, OpKind,
    ResultBinding, ShellCommand, ShellOp, TextTemplate, ToolCall,
};
use super::arguments::{ArgumentList, argument_value};
use super::dispatch::fallback;
use super::operations::identifier;
use super::{BodyLine, Parser, excerpt};

const CALLS: [&str; 8] =
    ["emit", "inline", "execute_skill", "shell", "file_read", "file_write", "notify", "exchange"];

/// The name of the call with which a line begins.
pub(super) fn call_name(text: &str) -> Option<&str> {
    let (name, rest) = identifier(text)?;
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    (begins && rest.trim_start_matches(is_blank).starts_with('(')).then_some(name)
}

/// The arguments and the trailer of a call.
struct ParsedCall<'s> {
    /// Names and values in the order in which they are written. The last value of a name counts.
    values: Vec<(&'s str, CallValue<'s>)>,
    binding: ResultBinding,
    approved: Option<Box<str>>,
}

/// The processed value of an argument.
struct CallValue<'s> {
    text: Cow<'s, str>,
    /// Where it begins in the source, if it stands there unchanged.
    origin: Option<usize>,
}

impl<'s> ParsedCall<'s> {
    fn value(&self, name: &str) -> Option<&CallValue<'s>> {
        self.values.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.value(name).map(|value| &*value.text)
    }

    fn template(&self, name: &str) -> Option<TextTemplate> {
        self.value(name).map(|value| TextTemplate::parse(&*value.text).at(value.origin))
    }

    /// The template of an argument that is empty if it is not there.
    fn template_or_empty(&self, name: &str) -> TextTemplate {
        self.template(name).unwrap_or_default()
    }
}

/// A mistake in a call.
struct CallMistake {
    kind: ParseErrorKind,
    range: SourceRange,
    message: String,
}

impl<'s> Parser<'s> {
    /// Reads a call. Returns how many of the lines below belong to it.
    pub(super) fn call(&mut self, index: usize, name: &'s str, mut line: BodyLine<'s>) -> usize {
        let open = line.range.start + line.text.find('(').unwrap_or_default();
        let Some((close, below)) = self.call_lines.closing(self.source, &self.lines, index, open) else {
            let message = format!("the parentheses of `{name}(…)` do not balance");
            self.refuse(line, ParseErrorKind::MalformedCall, message);
            return 0;
        };
        let last = &self.lines[index + below];
        let end = last.start + last.text.trim_end_matches(is_blank).len();
        line.range.end = end;
        line.text = line.range.of(self.source);
        let mut mistakes = Vec::new();
        let read = self.read_call(name, SourceRange::new(open + 1, close), line, &mut mistakes);
        let kind = read.and_then(|call| call_op(name, call, line, &mut mistakes));
        for mistake in mistakes {
            self.error(line.number, mistake.range, mistake.kind, mistake.message);
        }
        if let Some(kind) = kind {
            self.add(line, kind);
        }
        below
    }

    fn read_call(
        &self,
        name: &str,
        inside: SourceRange,
        line: BodyLine<'s>,
        mistakes: &mut Vec<CallMistake>,
    ) -> Option<ParsedCall<'s>> {
        // Most calls have one argument.
        let values = Vec::with_capacity(1);
        let mut call = ParsedCall { values, binding: ResultBinding::default(), approved: None };
        for (start, part) in comma_parts(inside.of(self.source)) {
            let start = inside.start + start;
            let Some((argument, written)) = part.split_once('=') else {
                mistakes.push(CallMistake {
                    kind: ParseErrorKind::MalformedCall,
                    range: SourceRange::new(start, start + part.len()),
                    message: format!("'{}' in `{name}(…)` is not `name=value`", excerpt(part)),
                });
                continue;
            };
            let value = trim(written);
            let origin = start + part.len() - written.trim_start_matches(is_blank).len();
            let literal = Literal::read(value);
            let value =
                CallValue { text: literal.text, origin: literal.offset.map(|offset| origin + offset) };
            call.values.push((trim(argument), value));
        }
        if !mistakes.is_empty() {
            return None;
        }
        let behind = SourceRange::new(inside.end + 1, line.range.end);
        let Some(binding) = trailer(behind.of(self.source)) else {
            let shown = excerpt(trim(behind.of(self.source)));
            let message = format!("'{shown}' behind `{name}(…)` is not `-> NAME` or `(fallback: \"value\")`");
            mistakes.push(CallMistake { kind: ParseErrorKind::MalformedCall, range: behind, message });
            return None;
        };
        call.binding = binding;
        call.approved = call.text("approved").map(Into::into);
        Some(call)
    }
}

/// The trailer `-> NAME (fallback: VALUE)` of a call.
fn trailer(text: &str) -> Option<ResultBinding> {
    let mut rest = trim(text);
    let mut binding = ResultBinding::default();
    if let Some(behind) = rest.strip_prefix("->") {
        let (variable, behind) = identifier(behind.trim_start_matches(is_blank))?;
        binding.variable = Some(variable.into());
        rest = behind;
    }
    if !trim(rest).is_empty() {
        binding.fallback = Some(Literal::read(fallback(rest)?).text.as_ref().into());
    }
    Some(binding)
}

/// The operation that a call is. A call with a mistake is none.
fn call_op(
    name: &str,
    call: ParsedCall<'_>,
    line: BodyLine<'_>,
    mistakes: &mut Vec<CallMistake>,
) -> Option<OpKind> {
    let mut refuse = |message: String| {
        mistakes.push(CallMistake { kind: ParseErrorKind::Structure, range: line.range, message });
    };
    match name {
        "emit" => {
            if let Some(variable) = &call.binding.variable {
                refuse(format!("`emit` has no result to bind; remove `-> {variable}`"));
                return None;
            }
            let text = call.template_or_empty("text");
            Some(OpKind::Emit(EmitOp { text, approved: call.approved }))
        }
        "inline" => {
            let skill = call.text("skill").unwrap_or_default().into();
            Some(OpKind::Inline(Box::new(InlineOp { skill, binding: call.binding, approved: call.approved })))
        }
        "execute_skill" => execute_skill(call, line).map_err(refuse).ok(),
        "shell" => {
            let command = shell_command(&call).map_err(refuse).ok()?;
            Some(OpKind::Shell(Box::new(ShellOp { command, binding: call.binding, approved: call.approved })))
        }
        "file_read" => Some(OpKind::FileRead(Box::new(FileReadOp {
            path: call.template_or_empty("path"),
            encoding: call.text("encoding").map(Into::into),
            binding: call.binding,
        }))),
        "file_write" => Some(OpKind::FileWrite(Box::new(FileWriteOp {
            path: call.template_or_empty("path"),
            content: call.template_or_empty("content"),
            binding: ResultBinding { fallback: None, ..call.binding },
            approved: call.approved,
        }))),
        "notify" => {
            let connectors = connectors(name, &call).unwrap_or_else(|message| {
                refuse(message);
                None
            });
            Some(OpKind::Notify(Box::new(NotifyOp {
                agent: call.template_or_empty("agent"),
                message: call.template("message"),
                connectors,
                event_type: call.template("event_type"),
                correlation_id: call.template("correlation_id"),
                binding: call.binding,
                approved: call.approved,
            })))
        }
        "exchange" => {
            let connectors = connectors(name, &call).map_err(&mut refuse).ok()?;
            let agent = call.template_or_empty("agent");
            // A session can be woken, but only an agent can be asked.
            if agent.constant().is_some_and(|address| address.contains('@')) {
                refuse(
                    "`exchange(…)` asks an agent, not a session; remove `@` and what follows it".to_owned(),
                );
                return None;
            }
            Some(OpKind::Exchange(Box::new(ExchangeOp {
                agent,
                message: call.template("message"),
                timeout: call.template("timeout"),
                connectors,
                event_type: call.template("event_type"),
                correlation_id: call.template("correlation_id"),
                binding: call.binding,
                approved: call.approved,
            })))
        }
        _ => {
            refuse(format!(
                "`{name}(…)` is no call; there are {}; use `$ {name} …` for a tool",
                CALLS.join(", ")
            ));
            None
        }
    }
}

/// The connectors that a message is restricted to.
fn connectors(name: &str, call: &ParsedCall<'_>) -> Result<Option<Vec<String>>, String> {
    let listed = call.text("connectors").map(serde_json::from_str::<Vec<String>>);
    listed
        .transpose()
        .map_err(|_| format!("`connectors` of `{name}(…)` is a JSON list of texts: `connectors=[\"a\"]`"))
}

fn shell_command(call: &ParsedCall<'_>) -> Result<ShellCommand, String> {
    let is_unsafe = call.text("unsafe") == Some("true");
    let Some(argv) = call.text("argv") else {
        let command = call.template_or_empty("command");
        return Ok(if is_unsafe {
            let origin = call.value("command").and_then(|value| value.origin);
            ShellCommand::Unsafe(TextTemplate::parse_unsafe(command.text()).at(origin))
        } else {
            ShellCommand::Words(command)
        });
    };
    if call.text("command").is_some() {
        return Err("`shell(…)` takes `command` or `argv`, not both".to_owned());
    }
    if is_unsafe {
        return Err("`argv` runs no shell, so `unsafe=true` has no meaning; remove it".to_owned());
    }
    match serde_json::from_str::<Vec<String>>(argv) {
        Ok(words) if !words.is_empty() => {
            Ok(ShellCommand::Argv(words.into_iter().map(TextTemplate::parse).collect()))
        }
        _ => {
            Err("`argv` is a JSON list of texts with at least one: `argv=[\"program\", \"argument\"]`"
                .to_owned())
        }
    }
}

/// `execute_skill(name="child", key="value")` is `$ execute_skill skill_name="child" key="value"`.
fn execute_skill(call: ParsedCall<'_>, line: BodyLine<'_>) -> Result<OpKind, String> {
    let (name, alias) = (call.text("name"), call.text("skill_name"));
    if name.is_some() && alias.is_some() && name != alias {
        return Err("`name` and `skill_name` mean the same; give one of them".to_owned());
    }
    let skill = name.or(alias).unwrap_or_default();
    let skill_value = call.value(if name.is_some() { "name" } else { "skill_name" });
    let origin = skill_value.and_then(|value| value.origin);
    let mut rest = format!("skill_name=\"{skill}\"");
    let mut arguments = ArgumentList::default();
    arguments.add("skill_name", ArgumentValue::Quoted(TextTemplate::parse(skill).at(origin)), line.range);
    // A repeated name stands at its first place with its last value.
    let last: HashMap<&str, &CallValue<'_>> =
        call.values.iter().map(|(name, value)| (*name, value)).collect();
    let mut seen = HashSet::from(["name", "skill_name", "approved"]);
    for (name, value) in call.values.iter().filter_map(|(name, _)| Some((*name, *last.get(name)?))) {
        if !seen.insert(name) {
            continue;
        }
        if value.text.starts_with(['{', '[']) {
            rest.push_str(&format!(" {name}={}", value.text));
            arguments.add(name, argument_value(&value.text, value.origin), line.range);
        } else {
            rest.push_str(&format!(" {name}=\"{}\"", value.text));
            let text = TextTemplate::parse(&*value.text).at(value.origin);
            arguments.add(name, ArgumentValue::Quoted(text), line.range);
        }
    }
    Ok(OpKind::Dispatch(Box::new(DispatchOp {
        connector: None,
        body: format!("execute_skill {rest}").into(),
        call: Some(ToolCall {
            tool: "execute_skill".into(),
            rest: TextTemplate::parse(rest),
            arguments: arguments.list,
            overwritten: arguments.overwritten,
        }),
        binding: call.binding,
        approved: call.approved,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_a_lower_case_name_and_a_parenthesis() {
        assert_eq!(call_name("emit(text=1)"), Some("emit"));
        assert_eq!(call_name("_x1  ("), Some("_x1"));
        for text in ["Emit(", "emit", "emit text", "1x(", "(x)"] {
            assert_eq!(call_name(text), None, "{text}");
        }
        assert!(CALLS.iter().all(|name| call_name(&format!("{name}(")) == Some(*name)));
    }

    #[test]
    fn a_trailer_binds_falls_back_or_both() {
        let read = |text| {
            trailer(text).map(|found| {
                (found.variable.map(String::from).unwrap_or_default(), found.fallback.map(String::from))
            })
        };
        assert_eq!(read(" -> R"), Some(("R".to_owned(), None)));
        assert_eq!(read("->R(fallback: \"(x)\")"), Some(("R".to_owned(), Some("(x)".to_owned()))));
        assert_eq!(read(" (fallback : [])"), Some((String::new(), Some("[]".to_owned()))));
        for text in ["=> R", "-> R x", "-> 1", "# note", "(fallback)", "-> R (fallback:)"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
