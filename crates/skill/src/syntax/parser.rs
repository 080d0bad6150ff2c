//! The parser: from the text of a skill to its tree.
//!
//! It reads one logical line after another and never fails. Mistakes are collected with their place, and parsing goes
//! on with the next line. Lines outside of targets are the body template; lines of targets are operations.

mod arguments;
mod blocks;
mod call_lines;
mod calls;
mod conditions;
mod dispatch;
mod json_template;
mod operations;
mod template;

use std::collections::HashSet;

pub(crate) use self::arguments::words as argument_words;
use self::blocks::Blocks;
use self::call_lines::CallLines;
use self::template::TemplateLines;
use super::blanks::{is_blank, is_line_end, is_word, trim};
use super::header::{NameUse, SkillHeader, reserved_word};
use super::lines::{HeaderLine, LogicalLine, logical_lines};
use super::parse_error::{ParseError, ParseErrorKind};
use super::source_range::SourceRange;
use super::tree::{SkillTarget, SkillTree};

/// Each block is indented by this many more spaces than the line that opens it.
const STEP: usize = 4;
/// Messages quote at most this many characters of a line.
const QUOTED: usize = 60;
/// How many lines the message about tabs names.
const TAB_LINES: usize = 3;

impl SkillTree {
    /// Parses the text of a skill. Mistakes are in [`SkillTree::errors`].
    pub fn parse(source: &str) -> Self {
        let mut parser = Parser::new(source);
        parser.refuse_tabs();
        parser.read_lines();
        parser.finish()
    }
}

/// Where the lines begin in which every blank may count: those of the body template and of calls over several lines.
pub(crate) fn verbatim_lines(source: &str) -> HashSet<usize> {
    let mut parser = Parser::new(source);
    parser.read_lines();
    parser.call_lines.joined.into_iter().chain(parser.template.starts()).collect()
}

struct Parser<'s> {
    source: &'s str,
    lines: Vec<LogicalLine<'s>>,
    header: SkillHeader,
    tree: SkillTree,
    /// The target whose body is open.
    current: Option<usize>,
    blocks: Blocks,
    template: TemplateLines<'s>,
    call_lines: CallLines,
    /// Whether a line of the current target is reported because of its indentation.
    has_misfit: bool,
    /// Whether the line that left the current target is reported, so that the next line needs no report of its own.
    left_target: bool,
    /// The target that `default:` names.
    entry: Option<(String, SourceRange)>,
}

/// One line of a target, without its indentation and the blanks at its end.
#[derive(Clone, Copy)]
struct BodyLine<'s> {
    text: &'s str,
    indent: usize,
    number: usize,
    range: SourceRange,
}

impl<'s> Parser<'s> {
    fn new(source: &'s str) -> Self {
        Self {
            source,
            lines: logical_lines(source).collect(),
            header: SkillHeader::default(),
            tree: SkillTree::default(),
            current: None,
            blocks: Blocks::default(),
            template: TemplateLines::default(),
            call_lines: CallLines::default(),
            has_misfit: false,
            left_target: false,
            entry: None,
        }
    }

    /// Tabs in front of a line are one error, wherever they are, the text around a fence included.
    fn refuse_tabs(&mut self) {
        if !self.source.contains('\t') {
            return;
        }
        let (mut start, mut found) = (0, Vec::new());
        for (index, line) in self.source.split('\n').enumerate() {
            let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
            if indent.contains('\t') {
                found.push((index + 1, SourceRange::new(start, start + indent.len())));
            }
            start += line.len() + 1;
        }
        let Some((line, range)) = found.first().copied() else { return };
        let shown: Vec<String> = found.iter().take(TAB_LINES).map(|(number, _)| number.to_string()).collect();
        let more = found.len().saturating_sub(TAB_LINES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!(
            "line {}{more} is indented with tabs; indent with spaces, 4 for each block",
            shown.join(", ")
        );
        self.error(line, range, ParseErrorKind::Indentation, message);
    }

    fn read_lines(&mut self) {
        let mut index = 0;
        while let Some(line) = self.lines.get(index) {
            let raw = line.text.strip_suffix('\n').unwrap_or(line.text);
            let text = raw.trim_end_matches(is_blank);
            let range = SourceRange::new(line.start, line.start + text.len());
            let number = line.number;
            if text.is_empty() {
                if self.current.is_none() {
                    self.template.blank(raw, range.start);
                }
            } else if text.starts_with('#') {
                if let Some(line) = HeaderLine::read(line) {
                    self.header.read(&line);
                }
            } else if text.starts_with(is_blank) {
                index += self.indented(index, raw, text);
            } else {
                self.column_zero(index, raw, text, number, range);
            }
            index += 1;
        }
    }

    /// Reads a line that is not indented: the header of a target, `default:`, `else:`, or template text.
    fn column_zero(&mut self, index: usize, raw: &'s str, text: &'s str, number: usize, range: SourceRange) {
        if text == "else:" {
            return self.error_block(number, range);
        }
        if ["if", "elif"]
            .iter()
            .any(|word| text.strip_prefix(word).is_some_and(|rest| rest.starts_with(is_blank)))
        {
            let message = "`if` and `elif` stand only in the body of a target".to_owned();
            return self.error(number, range, ParseErrorKind::Structure, message);
        }
        let Some((name, behind)) = target_header(text) else {
            return self.template.text(raw, range.start);
        };
        if name != "default" && !self.next_is_indented(index) {
            if trim(behind).is_empty() {
                self.tree.ambiguous_template_lines.push(number);
            }
            return self.template.text(raw, range.start);
        }
        self.template.is_behind_targets = true;
        self.close_blocks(0);
        let behind = trim(behind);
        let names = strip_needs(behind).unwrap_or(behind);
        let dependencies: Vec<String> = dependency_names(names).map(str::to_owned).collect();
        if name == "default" {
            self.entry = dependencies.into_iter().next().map(|name| (name, range));
            self.tree.has_default = true;
            self.current = None;
            return;
        }
        self.refuse_reserved(name, NameUse::Target, number, range);
        let target = SkillTarget {
            name: name.to_owned(),
            dependencies,
            line: number,
            range,
            ..SkillTarget::default()
        };
        self.open_target(target);
    }

    /// Whether the next line that is not blank is indented.
    fn next_is_indented(&self, index: usize) -> bool {
        let below = self.lines[index + 1..].iter().find(|line| !trim(line.text).is_empty());
        below.is_some_and(|line| line.text.starts_with(is_blank))
    }

    fn open_target(&mut self, target: SkillTarget) {
        let index = match self.tree.by_name.get(&target.name) {
            // The later body replaces the earlier one, in its place.
            Some(index) => {
                self.tree.targets[*index] = target;
                *index
            }
            None => {
                self.tree.by_name.insert(target.name.clone(), self.tree.targets.len());
                self.tree.targets.push(target);
                self.tree.targets.len() - 1
            }
        };
        self.current = Some(index);
        (self.has_misfit, self.left_target) = (false, false);
        self.blocks.open_body();
    }

    /// Opens the error block of the current target.
    fn error_block(&mut self, number: usize, range: SourceRange) {
        let message = match self.current {
            Some(target) if self.blocks.is_in_error_block() => {
                format!("target '{}' has an `else:` block already", excerpt(&self.tree.targets[target].name))
            }
            Some(_) if !self.blocks.is_empty() => {
                self.close_blocks(0);
                return self.blocks.open_error_block();
            }
            _ => "`else:` has no target body above it".to_owned(),
        };
        self.error(number, range, ParseErrorKind::Structure, message);
    }

    /// Reads an indented line. Returns how many of the lines below belong to it.
    fn indented(&mut self, index: usize, raw: &'s str, text: &'s str) -> usize {
        let LogicalLine { number, start, .. } = self.lines[index];
        let stripped = text.trim_start_matches(is_blank);
        let begin = start + text.len() - stripped.len();
        let range = SourceRange::new(begin, start + text.len());
        let Some(target) = self.current.filter(|_| !self.blocks.is_empty()) else {
            if self.current.is_some() && self.left_target {
                self.left_target = false;
            } else if self.template.is_behind_targets {
                let message = format!(
                    "'{}' is indented but belongs to no target; put it below the header of a target (`name:`)",
                    excerpt(stripped)
                );
                self.error(number, range, ParseErrorKind::Structure, message);
            } else {
                self.template.text(raw, start);
            }
            return 0;
        };
        let indent = raw.len() - raw.trim_start_matches(' ').len();
        let line = BodyLine { text: stripped, indent, number, range };
        if self.continue_if(target, line) {
            return 0;
        }
        self.close_blocks(indent);
        match self.blocks.depth() {
            None => {
                // Tabs are reported already.
                if !self.has_misfit && !raw[..raw.len() - raw.trim_start().len()].contains('\t') {
                    let message = format!(
                        "'{}' is indented by {indent}; lines of a target are indented by at least {STEP}",
                        excerpt(stripped)
                    );
                    self.error(number, range, ParseErrorKind::Structure, message);
                    self.left_target = true;
                }
                0
            }
            Some(depth) if depth != indent => {
                let name = excerpt(&self.tree.targets[target].name);
                let message =
                    format!("this line of target '{name}' is indented by {indent}, but its block by {depth}");
                self.error(number, range, ParseErrorKind::Indentation, message);
                self.has_misfit = true;
                0
            }
            Some(_) => self.operation(index, target, line),
        }
    }

    /// Closes the blocks that are deeper than an indentation. At 0 that is all of them.
    fn close_blocks(&mut self, indent: usize) {
        if let Some(target) = self.current {
            self.blocks.close(indent, &mut self.tree.targets[target]);
        }
    }

    fn finish(mut self) -> SkillTree {
        self.close_blocks(0);
        let mut tree = self.tree;
        self.header.finish();
        tree.errors = std::mem::take(&mut self.header.errors);
        tree.header = self.header;
        tree.source = self.source.into();
        if let Some((name, range)) = self.entry {
            if !tree.by_name.contains_key(&name) {
                let line = super::source_range::LineTable::of(self.source).place(range.start).line;
                let message = format!("`default: {name}` names a target that does not exist");
                tree.errors.push(ParseError { line, range, kind: ParseErrorKind::Structure, message });
            }
            tree.entry = Some(name);
        } else {
            tree.entry = tree.targets.last().map(|target| target.name.clone());
        }
        if let Some((line, range)) = self.template.second_region(self.source) {
            let message =
                "the body template stands above and below the targets; keep it in one place".to_owned();
            tree.errors.push(ParseError { line, range, kind: ParseErrorKind::Structure, message });
        }
        tree.template = self.template.finish(self.source);
        tree
    }

    fn error(&mut self, line: usize, range: SourceRange, kind: ParseErrorKind, message: String) {
        self.header.errors.push(ParseError { line, range, kind, message });
    }

    fn refuse_reserved(&mut self, name: &str, used_as: NameUse, line: usize, range: SourceRange) {
        if let Some(message) = reserved_word(name, used_as) {
            self.error(line, range, ParseErrorKind::ReservedWord, message);
        }
    }
}

/// The name and the rest of a line `name: rest`.
fn target_header(text: &str) -> Option<(&str, &str)> {
    let (name, behind) = text.split_once(':')?;
    let name = name.trim_end_matches(is_blank);
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_header = begins && name.chars().all(|c| is_word(c) || c == '-') && !behind.contains(is_line_end);
    is_header.then_some((name, behind))
}

/// What follows `needs:` at the beginning of a text.
fn strip_needs(text: &str) -> Option<&str> {
    text.strip_prefix("needs")?.trim_start_matches(is_blank).strip_prefix(':')
}

fn dependency_names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| is_blank(c) || c == ',').filter(|name| !name.is_empty())
}

/// The beginning of a text, for messages.
pub(crate) fn excerpt(text: &str) -> &str {
    text.char_indices().nth(QUOTED).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests;
