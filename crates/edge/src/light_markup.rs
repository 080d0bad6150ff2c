//! Conversion of agents' Markdown to the light markup of phone messengers, and to plain text.
//!
//! Only the marks are replaced; all other text stays as it was written. Headings become bold lines, links show their
//! target, tables become code, and code blocks lose their language. Light markup has no escape character, so that a
//! backslash before a mark is removed.

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

/// The marks of one dialect. An empty mark leaves the words without it.
#[derive(Clone, Copy, Debug)]
pub struct LightMarkup {
    pub bold: &'static str,
    pub italic: &'static str,
    pub struck: &'static str,
    /// Whether code is marked with backticks.
    pub code: bool,
}

impl LightMarkup {
    /// WhatsApp: `*bold*`, `_italic_`, `~struck~` and backticks.
    pub const WHATSAPP: LightMarkup = LightMarkup { bold: "*", italic: "_", struck: "~", code: true };
    /// No marks at all.
    pub const PLAIN: LightMarkup = LightMarkup { bold: "", italic: "", struck: "", code: false };

    /// Converts a text. If nothing would be left, the text is returned as it was.
    pub fn convert(&self, text: &str) -> String {
        let mut walk =
            MarkWalk { markup: self, text, edits: Vec::new(), bold: 0, links: Vec::new(), covered: 0 };
        let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            walk.step(event, range.start, range.end);
        }
        let converted = apply(text, walk.edits);
        if converted.trim().is_empty() { text.to_owned() } else { converted }
    }
}

/// The replacement of a part of the text.
struct MarkEdit {
    start: usize,
    end: usize,
    with: String,
}

struct MarkWalk<'a> {
    markup: &'a LightMarkup,
    text: &'a str,
    edits: Vec<MarkEdit>,
    /// Open marks of bold text. Only the outermost is written.
    bold: usize,
    /// The targets of open links, and where their words begin.
    links: Vec<(String, usize)>,
    /// End of the last plain text, for finding backslashes between texts.
    covered: usize,
}

impl MarkWalk<'_> {
    fn edit(&mut self, start: usize, end: usize, with: impl Into<String>) {
        self.edits.push(MarkEdit { start, end, with: with.into() });
    }

    fn step(&mut self, event: Event<'_>, start: usize, end: usize) {
        match event {
            Event::Start(tag) => self.open(&tag, start, end),
            Event::End(tag) => self.close(tag, end),
            Event::Text(_) => {
                if start > self.covered && self.text.as_bytes().get(start - 1) == Some(&b'\\') {
                    self.edit(start - 1, start, "");
                }
                self.covered = end;
            }
            Event::Code(_) if !self.markup.code => {
                let ticks = self.run_at(start, b'`');
                self.edit(start, start + ticks, "");
                self.edit(end - ticks, end, "");
            }
            _ => {}
        }
    }

    fn open(&mut self, tag: &Tag<'_>, start: usize, end: usize) {
        match tag {
            Tag::Strong => {
                self.bold += 1;
                let mark = if self.bold == 1 { self.markup.bold } else { "" };
                self.marks(start, end, 2, mark);
            }
            Tag::Emphasis => self.marks(start, end, 1, self.markup.italic),
            Tag::Strikethrough => self.marks(start, end, self.run_at(start, b'~').min(2), self.markup.struck),
            Tag::Heading { .. } => {
                self.bold += 1;
                self.heading(start, end);
            }
            Tag::CodeBlock(CodeBlockKind::Fenced(_)) => self.fence(start, end),
            Tag::Table(_) if self.markup.code => {
                self.edit(start, start, "```\n");
                let newline = if self.text[..end].ends_with('\n') { "" } else { "\n" };
                self.edit(end, end, format!("{newline}```\n"));
            }
            Tag::Link { link_type, dest_url, .. } | Tag::Image { link_type, dest_url, .. } => {
                self.link(*link_type, dest_url, start, end);
            }
            _ => {}
        }
    }

    fn close(&mut self, tag: TagEnd, end: usize) {
        match tag {
            TagEnd::Strong | TagEnd::Heading(_) => self.bold = self.bold.saturating_sub(1),
            TagEnd::Link | TagEnd::Image => {
                let Some((target, words)) = self.links.pop().filter(|(target, _)| !target.is_empty()) else {
                    return;
                };
                // The words end at the last bracket before the target.
                let Some(bracket) = self.text[words..end].rfind("](").map(|at| words + at) else { return };
                let shown = &self.text[words..bracket];
                let after = if shown == target { String::new() } else { format!(" ({target})") };
                self.edit(bracket, end, after);
            }
            _ => {}
        }
    }

    /// Replaces the marks at both ends of a range.
    fn marks(&mut self, start: usize, end: usize, length: usize, mark: &'static str) {
        if end >= start + 2 * length {
            self.edit(start, start + length, mark);
            self.edit(end - length, end, mark);
        }
    }

    fn heading(&mut self, start: usize, end: usize) {
        let line = &self.text[start..end];
        let body = line.trim_end();
        let (words_start, words_end) = match body.starts_with('#') {
            true => {
                let words = body.trim_start_matches('#');
                let inner = words.trim_start();
                let closing = inner.trim_end_matches('#').trim_end();
                let from = body.len() - inner.len();
                (from, from + closing.len())
            }
            // The line below the words underlines them.
            false => (0, body.rfind('\n').map_or(body.len(), |newline| body[..newline].trim_end().len())),
        };
        if words_start < words_end {
            self.edit(start, start + words_start, self.markup.bold);
            self.edit(start + words_end, start + body.len(), self.markup.bold);
        }
    }

    fn fence(&mut self, start: usize, end: usize) {
        let block = &self.text[start..end];
        let first_line = block.find('\n').unwrap_or(block.len());
        let Some(at) = block[..first_line].find(['`', '~']) else { return };
        if self.markup.code {
            // Only backticks are marks, and a word beside them would be shown as code.
            self.edit(start + at, start + first_line, "```");
            let last = block.trim_end().rfind('\n').filter(|last| *last >= first_line);
            if let Some(last) = last
                && block[last + 1..].trim_start().starts_with("~~~")
            {
                let from = start + last + 1;
                self.edit(from, start + block.trim_end().len(), "```");
            }
            return;
        }
        self.edit(start, start + (first_line + 1).min(block.len()), "");
        let body = block.trim_end();
        if let Some(last) = body.rfind('\n').filter(|last| *last >= first_line)
            && body[last + 1..].trim_start().starts_with(['`', '~'])
        {
            self.edit(start + last, start + body.len(), "");
        }
    }

    fn link(&mut self, kind: LinkType, target: &str, start: usize, end: usize) {
        match kind {
            LinkType::Inline => {
                let opening = if self.text[start..].starts_with('!') { 2 } else { 1 };
                self.edit(start, start + opening, "");
                self.links.push((target.to_owned(), start + opening));
            }
            LinkType::Autolink | LinkType::Email => {
                self.edit(start, start + 1, "");
                self.edit(end - 1, end, "");
                self.links.push((String::new(), start));
            }
            // Its target is elsewhere in the text, which stays as it is.
            _ => self.links.push((String::new(), start)),
        }
    }

    /// The number of equal marks from here on.
    fn run_at(&self, start: usize, mark: u8) -> usize {
        self.text.as_bytes()[start..].iter().take_while(|byte| **byte == mark).count()
    }
}

/// Applies the replacements. One that overlaps an earlier one is left out.
fn apply(text: &str, mut edits: Vec<MarkEdit>) -> String {
    edits.sort_by_key(|edit| (edit.start, edit.end));
    let mut written = String::with_capacity(text.len() + 16);
    let mut done = 0;
    for edit in edits {
        let fits = edit.start >= done && text.is_char_boundary(edit.start) && text.is_char_boundary(edit.end);
        if fits {
            written.push_str(&text[done..edit.start]);
            written.push_str(&edit.with);
            done = edit.end;
        }
    }
    written.push_str(&text[done..]);
    written
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::LightMarkup;

    fn whatsapp(text: &str) -> String {
        LightMarkup::WHATSAPP.convert(text)
    }

    fn plain(text: &str) -> String {
        LightMarkup::PLAIN.convert(text)
    }

    #[test]
    fn marks_become_those_of_whatsapp() {
        for (written, shown) in [
            ("**b** and *i* and _j_ and ~~s~~", "*b* and _i_ and _j_ and ~s~"),
            ("***both***", "_*both*_"),
            ("# Title\n\nText", "*Title*\n\nText"),
            ("## A **bold** title ##\n", "*A bold title*\n"),
            ("Title\n=====\nText", "*Title*\nText"),
            ("[docs](https://x.example/a_b)", "docs (https://x.example/a_b)"),
            ("<https://x.example>", "https://x.example"),
            ("![cat](https://x.example/c.png)", "cat (https://x.example/c.png)"),
            ("```rust\nlet x = 1;\n```\nafter", "```\nlet x = 1;\n```\nafter"),
            ("~~~\ncode\n~~~", "```\ncode\n```"),
            ("`a*b*c` stays", "`a*b*c` stays"),
            ("2 \\* 3 \\_ 4", "2 * 3 _ 4"),
            ("- one\n- two\n\n> quote", "- one\n- two\n\n> quote"),
            ("| a | b |\n|---|---|\n| 1 | 2 |\n", "```\n| a | b |\n|---|---|\n| 1 | 2 |\n```\n"),
            ("plain é 🦉", "plain é 🦉"),
        ] {
            assert_eq!(whatsapp(written), shown);
        }
    }

    #[test]
    fn plain_text_has_no_marks() {
        for (written, shown) in [
            ("**b** *i* ~~s~~ `c`", "b i s c"),
            ("# Title\ntext", "Title\ntext"),
            ("```rs\nlet x = 1;\n```\nafter", "let x = 1;\nafter"),
            ("[docs](https://x.example)", "docs (https://x.example)"),
            ("**", "**"),
        ] {
            assert_eq!(plain(written), shown);
        }
    }

    proptest! {
        #[test]
        fn no_letter_or_digit_is_lost(text in "[a-z0-9*_~`#>\\[\\]()! \\n|\\\\é🦉-]{0,80}") {
            let words = |text: &str| text.chars().filter(|letter| letter.is_alphanumeric()).count();
            // A code block may lose its language, and a link its title.
            if !text.contains("``") && !text.contains("~~~") && !text.contains("](") {
                prop_assert!(words(&whatsapp(&text)) >= words(&text));
                prop_assert!(words(&plain(&text)) >= words(&text));
            }
        }
    }
}
