//! Parsing of the body template: the lines outside of targets.

use super::super::blanks::is_blank;
use super::super::source_range::{LineTable, SourceRange};
use super::super::tree::TextTemplate;

#[derive(Default)]
pub struct TemplateLines<'s> {
    /// The lines with the blanks at their ends, without line ends, and where they begin.
    lines: Vec<(&'s str, usize)>,
    /// Whether a target or `default:` is above the current line.
    pub is_behind_targets: bool,
    has_text_above: bool,
    /// The first line of text below a target.
    text_below: Option<SourceRange>,
}

impl<'s> TemplateLines<'s> {
    pub fn blank(&mut self, raw: &'s str, start: usize) {
        self.lines.push((raw, start));
    }

    pub fn text(&mut self, raw: &'s str, start: usize) {
        self.lines.push((raw, start));
        if self.is_behind_targets {
            let end = start + raw.trim_end_matches(is_blank).len();
            self.text_below.get_or_insert(SourceRange::new(start, end));
        } else {
            self.has_text_above = true;
        }
    }

    /// Where the lines begin.
    pub fn starts(&self) -> impl Iterator<Item = usize> {
        self.lines.iter().map(|(_, start)| *start)
    }

    /// The place of text below the targets, if there is also text above them.
    pub fn second_region(&self, source: &str) -> Option<(usize, SourceRange)> {
        let range = self.text_below.filter(|_| self.has_text_above)?;
        Some((LineTable::of(source).place(range.start).line, range))
    }

    /// The template without empty lines around it.
    pub fn finish(self, source: &str) -> Option<TextTemplate> {
        let is_empty = |line: &&(&str, usize)| line.0.is_empty();
        let above = self.lines.iter().take_while(is_empty).count();
        let below = self.lines.iter().rev().take_while(is_empty).count();
        let lines = self.lines.get(above..self.lines.len() - below).filter(|lines| !lines.is_empty())?;
        let text: Vec<&str> = lines.iter().map(|(raw, _)| *raw).collect();
        let text = text.join("\n");
        let start = lines[0].1;
        // Lines of targets may be between those of the template.
        let origin = source[start..].starts_with(&text).then_some(start);
        Some(TextTemplate::parse(text).at(origin))
    }
}
