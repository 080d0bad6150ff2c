//! Parsing of `$` operations: connector, tool, arguments, binding and fallback.

use memchr::{memchr_iter, memmem};

use super::super::blanks::{is_blank, is_word, trim};
use super::super::literal::Literal;
use super::super::source_range::SourceRange;
use super::super::tree::{DispatchOp, OpKind, ResultBinding, TextTemplate, ToolCall};
use super::arguments::tool_arguments;
use super::operations::identifier;
use super::{BodyLine, Parser};

const APPROVED: &str = "approved";

impl<'s> Parser<'s> {
    pub(super) fn dispatch_op(&mut self, line: BodyLine<'s>) {
        let text = trim(&line.text[1..]);
        let (body, binding) = split_binding(text);
        let (connector, body) = split_connector(body);
        let origin = SourceRange::of_part(body, line.text, line.range.start).start;
        let op = DispatchOp {
            connector: connector.map(Into::into),
            body: body.into(),
            call: tool_call(body, origin),
            binding,
            approved: approved(body).map(Into::into),
        };
        self.add(line, OpKind::Dispatch(Box::new(op)));
    }
}

/// Separates the trailer `-> NAME (fallback: VALUE)`. The first arrow that begins a complete trailer counts.
fn split_binding(text: &str) -> (&str, ResultBinding) {
    for at in memchr_iter(b'>', text.as_bytes()) {
        let (Some(before), behind) = (text[..at].strip_suffix('-'), &text[at + 1..]) else { continue };
        let body = before.trim_end_matches(is_blank);
        if body.is_empty() || body.len() == before.len() || !behind.starts_with(is_blank) {
            continue;
        }
        let Some((variable, rest)) = identifier(behind.trim_start_matches(is_blank)) else { continue };
        let fallback = match fallback(rest) {
            _ if rest.is_empty() => None,
            Some(value) if rest.starts_with(is_blank) => Some(Literal::read(value).text.as_ref().into()),
            _ => continue,
        };
        return (trim(body), ResultBinding { variable: Some(variable.into()), fallback });
    }
    (text, ResultBinding::default())
}

/// The value in `(fallback: VALUE)`.
pub(super) fn fallback(text: &str) -> Option<&str> {
    let inside = trim(text).strip_prefix('(')?.strip_suffix(')')?;
    let value = inside.strip_prefix("fallback")?.trim_start_matches(is_blank).strip_prefix(':')?;
    let trimmed = value.trim_start_matches(is_blank);
    // A single blank may be the value.
    let value = if trimmed.is_empty() { value } else { trimmed };
    (!value.is_empty()).then_some(value)
}

/// The connector before the first dot, if the text begins with one.
fn split_connector(text: &str) -> (Option<&str>, &str) {
    let end = text.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-'));
    let connector = end.map_or("", |end| &text[..end]);
    let begins = connector.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let rest = text[connector.len()..].strip_prefix('.').filter(|_| begins);
    match rest.filter(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')) {
        Some(rest) => (Some(connector), rest),
        None => (None, text),
    }
}

fn tool_call(body: &str, origin: usize) -> Option<ToolCall> {
    let length = body.find(|c| !is_word(c) && c != ':' && c != '-').unwrap_or(body.len());
    if !body.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    let rest = body[length..].trim_start_matches(is_blank);
    let begin = origin + body.len() - rest.len();
    let arguments = tool_arguments(rest, begin);
    Some(ToolCall {
        tool: body[..length].into(),
        rest: TextTemplate::parse(rest).at(Some(begin)),
        arguments: arguments.list,
        overwritten: arguments.overwritten,
    })
}

/// The reason in `approved="reason"`, anywhere in the operation.
fn approved(body: &str) -> Option<&str> {
    memmem::find_iter(body.as_bytes(), APPROVED).find_map(|at| {
        if body[..at].ends_with(is_word) {
            return None;
        }
        let rest = body[at + APPROVED.len()..].trim_start_matches(is_blank).strip_prefix('=')?;
        let rest = rest.trim_start_matches(is_blank);
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        rest[1..].split_once(quote).map(|(reason, _)| reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_arrow_with_a_complete_trailer_counts() {
        let split = |text| {
            let (body, binding) = split_binding(text);
            (body, binding.variable.as_deref().unwrap_or("-").to_owned(), binding.fallback.map(String::from))
        };
        assert_eq!(split("t a=\"x -> Y\" -> R"), ("t a=\"x -> Y\"", "R".to_owned(), None));
        assert_eq!(split("t -> R (fallback: \"a) b\")"), ("t", "R".to_owned(), Some("a) b".to_owned())));
        assert_eq!(split("t\n  a=1\n  ->\tR"), ("t\n  a=1", "R".to_owned(), None));
        for text in ["t -> R # why", "t->R", "-> R", "t -> 1", "t -> R(fallback: 1)", "t -> R (fallback:)"] {
            assert_eq!(split(text), (text, "-".to_owned(), None));
        }
    }

    #[test]
    fn a_connector_is_lower_case_and_a_name_follows_its_dot() {
        assert_eq!(split_connector("tools.echo a=1"), (Some("tools"), "echo a=1"));
        assert_eq!(split_connector("a-b_1.Tool"), (Some("a-b_1"), "Tool"));
        for text in ["Tools.echo", "tools.1", "tools", "1a.b", ".b", "a b.c"] {
            assert_eq!(split_connector(text), (None, text));
        }
    }

    #[test]
    fn approved_is_found_anywhere_but_not_inside_of_a_word() {
        assert_eq!(approved("t a=1 approved = 'yes \"you\"'"), Some("yes \"you\""));
        assert_eq!(approved("t pre_approved=\"no\" approved=\"\""), Some(""));
        assert_eq!(approved("t approved=yes"), None);
    }
}
