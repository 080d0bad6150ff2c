//! Tables as a code block with aligned columns, for dialects without tables.

use super::options;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// Largest padded column width. A longer cell shifts the rest of its row.
const WIDEST: usize = 40;
const FRONT: &str = "x ";

/// Draws a table from its source. It does not use the parser's rows, because the parser cuts rows that have more cells
/// than the head.
pub(crate) fn draw(source: &str) -> String {
    let lines = source.lines().map(|line| line.trim_start_matches([' ', '\t', '>']));
    let mut rows: Vec<Vec<String>> = lines.filter(|line| !line.trim().is_empty()).map(cells).collect();
    // The second line only marks the first as the head.
    if rows.len() > 1 {
        rows.remove(1);
    }
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count()).min(WIDEST);
        }
    }
    let mut drawn = String::new();
    for (index, row) in rows.iter().enumerate() {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        drawn.push_str(padded.collect::<Vec<_>>().join(" | ").trim_end());
        drawn.push('\n');
        if index == 0 {
            drawn.push_str(&widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("-+-"));
            drawn.push('\n');
        }
    }
    drawn
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.peek() == Some(&'|') => push(&mut cells, letters.next()),
            '|' if letters.peek().is_some() => cells.push(String::new()),
            '|' => {}
            _ => push(&mut cells, Some(letter)),
        }
    }
    cells.iter().map(|cell| plain(cell.trim())).collect()
}

fn push(cells: &mut [String], letter: Option<char>) {
    if let Some(cell) = cells.last_mut() {
        cell.extend(letter);
    }
}

/// The text of a cell without markup, because a code block would show the markup literally.
fn plain(cell: &str) -> String {
    let mut words = String::new();
    let mut targets: Vec<(String, usize)> = Vec::new();
    // With a word in front, no cell is parsed as a list, a heading or a rule.
    let line = format!("{FRONT}{cell}");
    for event in Parser::new_ext(&line, options()) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                targets.push((dest_url.into_string(), words.len()));
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                if let Some((target, since)) = targets.pop()
                    && words[since..] != target
                {
                    words.push_str(&format!(" ({target})"));
                }
            }
            Event::Text(text) | Event::Code(text) | Event::Html(text) => words.push_str(&text),
            Event::InlineHtml(html) if html.starts_with("<br") => words.push(' '),
            Event::InlineHtml(html) => words.push_str(&html),
            Event::SoftBreak | Event::HardBreak => words.push(' '),
            _ => {}
        }
    }
    words.strip_prefix(FRONT.trim_end()).unwrap_or(&words).trim().to_owned()
}
