//! Scanner for references and secret markers in a text.
//!
//! A text may hold very many beginnings of references that never end. The scanner remembers the result of every search
//! for an end, so its time is linear in the length of the text.

use std::collections::HashSet;

use memchr::memchr2;

use super::{
    BreakKind, FilterCall, FilterName, Reference, ReferenceForm, SecretMarker, TextBreak, TextTemplate,
};
use crate::syntax::blanks::{is_blank, trim, word_length};

/// The references, markers and escapes of a text, from left to right.
pub(super) fn breaks(text: &str, is_unsafe: bool) -> Vec<TextBreak> {
    let mut scan = TemplateScan::new(text);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(distance) = memchr2(b'$', b'{', &text.as_bytes()[at..]) {
        let start = at + distance;
        let rest = &text[start..];
        let escape = is_unsafe && (rest.starts_with("$$(") || rest.starts_with("$${"));
        let (end, what) = if escape {
            // The next dollar sign is text, and so is the bracket after it.
            found.push(TextBreak { start, end: start + 1, what: BreakKind::Escape });
            at = start + 3;
            continue;
        } else if rest.starts_with('$') {
            match scan.reference(start) {
                Some((end, reference)) => (end, BreakKind::Reference(reference)),
                None => {
                    at = start + 1;
                    continue;
                }
            }
        } else {
            match scan.secret(start) {
                Some((end, secret)) => (end, BreakKind::Secret(secret)),
                None => {
                    at = start + 1;
                    continue;
                }
            }
        };
        if found.is_empty() {
            // Most texts with a break have only this one.
            found.reserve_exact(1);
        }
        found.push(TextBreak { start, end, what });
        at = end;
    }
    found
}

/// The secret markers of a text with their texts, from left to right.
pub(super) fn secret_markers(text: &str) -> Vec<(SecretMarker, &str)> {
    let mut scan = TemplateScan::new(text);
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(distance) = text[at..].find("{{") {
        let start = at + distance;
        at = match scan.secret(start) {
            Some((end, secret)) => {
                found.push((secret, &text[start..end]));
                end
            }
            None => start + 1,
        };
    }
    found
}

struct TemplateScan<'t> {
    text: &'t str,
    /// The last end of a name that was found, for each form.
    name_ends: [Option<NameEnd>; 2],
    /// The last closing brace that was found.
    brace: Option<usize>,
    /// Places of `|` from which no chain of filters reaches its end, for each form.
    dead_ends: HashSet<(usize, u8)>,
}

/// Where a name ends, and where the blanks behind it end.
#[derive(Clone, Copy)]
struct NameEnd {
    name: usize,
    blanks: usize,
}

impl<'t> TemplateScan<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, name_ends: [None; 2], brace: None, dead_ends: HashSet::new() }
    }

    /// The reference that begins with the dollar sign at `start`, and its end.
    fn reference(&mut self, start: usize) -> Option<(usize, Reference)> {
        let (form, close) = match self.text.as_bytes().get(start + 1)? {
            b'(' => (ReferenceForm::Parentheses, b')'),
            b'{' => (ReferenceForm::Braces, b'}'),
            _ => return None,
        };
        let begin = start + 2;
        let ends = self.name_end(begin, close);
        if ends.name == begin {
            return None;
        }
        let (end, filters) = self.chain(ends.blanks, close)?;
        let mut reference = Reference::named(form, &self.text[begin..ends.name]);
        reference.filters = filters;
        Some((end, reference))
    }

    /// Where a name ends: at `|`, a blank, the closing bracket, or the end of the text.
    fn name_end(&mut self, from: usize, close: u8) -> NameEnd {
        let known = &mut self.name_ends[usize::from(close == b'}')];
        if let Some(ends) = known.filter(|ends| ends.name >= from) {
            return ends;
        }
        let is_end = |c: char| c == '|' || c == char::from(close) || is_blank(c);
        // Most names are plain words, which hold no end.
        let behind_word = from + word_length(&self.text[from..]);
        let name =
            self.text[behind_word..].find(is_end).map_or(self.text.len(), |length| behind_word + length);
        let ends = NameEnd { name, blanks: skip_blanks(self.text, name) };
        *known = Some(ends);
        ends
    }

    /// The filters from `at` to the closing bracket, and the end of the reference.
    fn chain(&mut self, mut at: usize, close: u8) -> Option<(usize, Vec<FilterCall>)> {
        let (mut filters, mut visited) = (Vec::new(), Vec::new());
        loop {
            match self.text.as_bytes().get(at) {
                Some(byte) if *byte == close => return Some((at + 1, filters)),
                Some(b'|') if !self.dead_ends.contains(&(at, close)) => {
                    visited.push((at, close));
                    if let Some((end, filter)) = filter_call(self.text, at) {
                        filters.push(filter);
                        at = end;
                        continue;
                    }
                }
                _ => {}
            }
            self.dead_ends.extend(visited);
            return None;
        }
    }

    /// The secret marker that begins with the brace at `start`, and its end.
    fn secret(&mut self, start: usize) -> Option<(usize, SecretMarker)> {
        let inside = self.text[start..].strip_prefix("{{")?.trim_start_matches(is_blank);
        let content = inside.strip_prefix("secret.")?;
        let begin = self.text.len() - content.len();
        let close = match self.brace.filter(|at| *at >= begin) {
            Some(at) => at,
            None => content.find('}').map_or(self.text.len(), |length| begin + length),
        };
        self.brace = Some(close);
        if !self.text[close..].starts_with("}}") {
            return None;
        }
        // Blanks are allowed after the name, but not before it.
        let name = self.text[begin..close].trim_end_matches(is_blank);
        let is_plain = is_identifier(name);
        Some((close + 2, SecretMarker { name: is_plain.then(|| name.into()) }))
    }
}

/// The filter that begins with the bar at `at`, and the place after it and its blanks.
fn filter_call(text: &str, at: usize) -> Option<(usize, FilterCall)> {
    let begin = skip_blanks(text, at + 1);
    let end = identifier_end(text, begin)?;
    let filter = FilterName::named(&text[begin..end]);
    let colon = skip_blanks(text, end);
    if !text[colon..].starts_with(':') {
        return Some((colon, FilterCall { filter, argument: None }));
    }
    let quote = skip_blanks(text, colon + 1);
    let argument = text[quote..].strip_prefix('"')?;
    let argument = &argument[..argument.find('"')?];
    let call = FilterCall { filter, argument: Some(TextTemplate::parse(argument)) };
    Some((skip_blanks(text, quote + argument.len() + 2), call))
}

fn skip_blanks(text: &str, from: usize) -> usize {
    text.len() - text[from..].trim_start_matches(is_blank).len()
}

/// Where the identifier ends that begins at `from`.
fn identifier_end(text: &str, from: usize) -> Option<usize> {
    let rest = &text[from..];
    let length = word_length(rest);
    (length > 0 && !rest.starts_with(|c: char| c.is_ascii_digit())).then_some(from + length)
}

fn is_identifier(text: &str) -> bool {
    identifier_end(text, 0) == Some(text.len()) && trim(text) == text
}
