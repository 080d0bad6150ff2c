//! Calls such as `shell(command="ls")`: their name and arguments.

use super::Effect;
use crate::syntax::blanks::{first_word, is_blank, is_word, trim};

/// A call with its arguments as they are written.
pub(super) struct SkillCall<'t> {
    name: &'t str,
    arguments: Vec<(String, String)>,
}

impl<'t> SkillCall<'t> {
    /// A call at the beginning of a line. If its parentheses do not balance, the lines below are joined until they do.
    /// The number says how many were.
    pub fn read(line: &'t str, below: &[&str]) -> Option<(Self, usize)> {
        let end = line.find(|c: char| !is_word(c))?;
        let (name, rest) = line.split_at(end);
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        let rest = rest.trim_start_matches(is_blank);
        if !is_name || !rest.starts_with('(') {
            return None;
        }
        if let Some(arguments) = call_arguments(rest) {
            return Some((Self { name, arguments }, 0));
        }
        let mut joined = rest.to_owned();
        for (count, more) in below.iter().enumerate() {
            joined.push('\n');
            joined.push_str(more);
            if let Some(arguments) = call_arguments(&joined) {
                return Some((Self { name, arguments }, count + 1));
            }
        }
        // It never ends: the parser drops this line.
        Some((Self { name: "", arguments: Vec::new() }, 0))
    }

    /// What the call touches. A call that the parser refuses touches nothing.
    pub fn effect(&self) -> Option<Effect> {
        match self.name {
            "shell" => self.shell(),
            "file_read" => self.argument("path").map(|_| Effect::FileRead),
            "file_write" => self.argument("path").and(self.argument("content")).map(|_| Effect::FileWrite),
            "notify" => self.argument("agent").map(|_| Effect::Notification),
            "execute_skill" => {
                let name = self.argument("name").or_else(|| self.argument("skill_name"));
                name.map(|_| Effect::Tool(self.name.to_owned()))
            }
            _ => None,
        }
    }

    fn shell(&self) -> Option<Effect> {
        let is_unsafe = self.argument("unsafe").is_some_and(|value| literal(value) == "true");
        match (self.argument("argv"), self.argument("command")) {
            (Some(argv), None) if !is_unsafe => {
                let argv: Vec<String> = serde_json::from_str(argv).ok()?;
                argv.into_iter().next().map(Effect::Program)
            }
            (None, Some(_)) if is_unsafe => Some(Effect::UnsafeCommand),
            (None, Some(command)) => {
                let command = literal(command);
                Some(first_word(&command).0.to_owned()).filter(|word| !word.is_empty()).map(Effect::Program)
            }
            _ => None,
        }
    }

    fn argument(&self, name: &str) -> Option<&str> {
        let mut found = self.arguments.iter().rev().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }
}

/// The arguments of the call with which a text begins. None if its parentheses do not balance. A call that something else
/// than a binding or a fallback follows is a mistake, and counts as one without arguments.
fn call_arguments(text: &str) -> Option<Vec<(String, String)>> {
    let inside = within_parentheses(text)?;
    let behind = trim(&text[inside.len() + 2..]);
    let is_whole = behind.is_empty() || behind.starts_with("->") || behind.starts_with("(fallback");
    Some(if is_whole { arguments(inside) } else { Vec::new() })
}

/// The text inside the parentheses with which a text begins. None if they do not balance.
fn within_parentheses(text: &str) -> Option<&str> {
    let mut depth = 0_u32;
    for (at, c) in Plain::of(text) {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(&text[1..at]),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// The arguments `name=value` between commas that stand outside of quotes and brackets.
fn arguments(inside: &str) -> Vec<(String, String)> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, c) in Plain::of(inside) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    let named = parts.into_iter().filter_map(|part| part.split_once('='));
    named.map(|(name, value)| (trim(name).to_owned(), trim(value).to_owned())).collect()
}

/// A value without its quotes. Escapes stay: they are not part of a first word.
fn literal(value: &str) -> String {
    for quote in ["\"\"\"", "\"", "'"] {
        let inside = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inside) = inside {
            return inside.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"");
        }
    }
    value.to_owned()
}

/// The characters of a text that stand outside of quotes, with their places.
struct Plain<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Plain<'t> {
    fn of(text: &'t str) -> Self {
        Self { text, at: 0 }
    }
}

impl Iterator for Plain<'_> {
    type Item = (usize, char);

    fn next(&mut self) -> Option<(usize, char)> {
        loop {
            let rest = self.text.get(self.at..)?;
            let c = rest.chars().next()?;
            if c != '"' && c != '\'' {
                let at = self.at;
                self.at += c.len_utf8();
                return Some((at, c));
            }
            let triple = rest.starts_with("\"\"\"");
            let width = if triple { 3 } else { 1 };
            let quote = &rest[..width];
            self.at += width + closing(&rest[width..], quote, c == '"');
        }
    }
}

/// The length of a quoted text with its closing quote. A quote that is never closed takes the rest.
fn closing(text: &str, quote: &str, escapes: bool) -> usize {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if text[at..].starts_with(quote) {
            return at + quote.len();
        }
        at += c.len_utf8();
        if escapes && c == '\\' {
            at += text[at..].chars().next().map_or(0, char::len_utf8);
        }
    }
    at
}
