//! Conversion of agents' Markdown (roughly CommonMark) to Telegram's MarkdownV2.
//!
//! - The output always parses as MarkdownV2: everything that is not markup is escaped.
//! - Forms that MarkdownV2 lacks are replaced: headings by bold text, tables by aligned code, list items by bullets.
//! - No text is left out. A text whose conversion would show nothing is sent as it was written.

mod walk;
mod writer;

use crate::markdown_source::disarm_definitions;

/// Characters that must be escaped outside of code, including the backslash.
const RESERVED: &str = "_*[]()~`>#+-=|{}.!\\";

/// Converts `text` to MarkdownV2.
pub fn to_markdown_v2(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let converted = disarm_definitions(text.clone()).map(|text| walk::convert(&text));
    match converted {
        Some(converted) if visible(&converted).any(|letter| !letter.is_whitespace()) => converted,
        _ => escaped(&text),
    }
}

/// The length that Telegram counts for a result of [`to_markdown_v2`]: UTF-16 units of the visible text, without
/// markup and link targets.
pub fn visible_units(markdown_v2: &str) -> usize {
    visible(markdown_v2).map(char::len_utf16).sum()
}

fn escape_into(out: &mut String, text: &str, reserved: &str) {
    for letter in text.chars() {
        if reserved.contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    escape_into(&mut out, text, RESERVED);
    out
}

/// The characters that remain after the entities are parsed. The input must be well formed.
fn visible(markdown_v2: &str) -> impl Iterator<Item = char> {
    let mut rest = markdown_v2;
    let mut code = "";
    let mut line_start = true;
    std::iter::from_fn(move || {
        loop {
            let letter = rest.chars().next()?;
            let at_line_start = std::mem::replace(&mut line_start, letter == '\n');
            let after = &rest[letter.len_utf8()..];
            if letter == '\\' {
                let literal = after.chars().next()?;
                rest = &after[literal.len_utf8()..];
                return Some(literal);
            }
            rest = match letter {
                '`' if !code.is_empty() => {
                    let closed = rest.strip_prefix(std::mem::take(&mut code)).unwrap_or(after);
                    line_start = false;
                    closed
                }
                '`' if rest.starts_with("```") => {
                    code = "```";
                    rest.split_once('\n').map_or("", |(_, body)| body)
                }
                '`' => {
                    code = "`";
                    after
                }
                _ if !code.is_empty() => {
                    rest = after;
                    return Some(letter);
                }
                '_' | '*' | '~' | '[' => after,
                '>' if at_line_start => after,
                ']' => past_target(after),
                _ => {
                    rest = after;
                    return Some(letter);
                }
            };
        }
    })
}

/// The text after `(target)`. The first unescaped closing parenthesis ends the target.
fn past_target(rest: &str) -> &str {
    let mut escaping = false;
    for (index, letter) in rest.char_indices() {
        match letter {
            _ if escaping => escaping = false,
            '\\' => escaping = true,
            ')' => return &rest[index + 1..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests;
