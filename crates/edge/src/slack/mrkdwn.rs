//! Conversion of agents' Markdown to Slack's `mrkdwn`.
//!
//! - Only `&`, `<` and `>` are escaped. So no text of an agent can become a mention, which would notify people.
//! - Forms that mrkdwn lacks are replaced: headings by bold lines, tables by aligned code, list items by bullets.
//! - No text is left out. A text whose conversion would show nothing is sent as it was written.

mod writer;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Parser, Tag, TagEnd};

use crate::markdown_source::{disarm_definitions, options, table};
use writer::MrkdwnWriter;

/// The text for a thematic break.
const RULE: &str = "———";
/// Number of bytes before a block that are searched for an empty line.
const LOOK_BACK: usize = 64;
/// Schemes of links. Any other target, such as `!channel` or `@U1`, would mean something else to Slack.
const LINK_SCHEMES: [&str; 4] = ["http://", "https://", "mailto:", "tel:"];

/// Converts `text` to mrkdwn.
pub(super) fn to_mrkdwn(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let converted = disarm_definitions(text.clone()).map(|text| convert(&text));
    match converted {
        Some(converted)
            if converted.contains(|letter: char| letter.is_alphanumeric() || !letter.is_ascii()) =>
        {
            converted
        }
        _ => escaped(&text),
    }
}

/// A text without markup: everything that Slack could read as a mention or link is escaped.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    writer::escape_into(&mut out, text);
    out
}

fn convert(text: &str) -> String {
    let mut walk = MrkdwnWalk { text, ..MrkdwnWalk::default() };
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        walk.step(event, range);
    }
    walk.writer.finish()
}

/// An open link or image. Its label is written without markup.
struct OpenTarget {
    target: String,
    label: String,
}

#[derive(Default)]
struct MrkdwnWalk<'a> {
    text: &'a str,
    writer: MrkdwnWriter,
    /// The number of open elements of each kind. Slack cannot nest two of the same.
    bold: usize,
    italic: usize,
    struck: usize,
    /// The outermost open link, and the number of open links and images.
    link: Option<OpenTarget>,
    links: usize,
    /// The next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    /// The content of the current code block, after the text beside its fence.
    code: Option<(String, String)>,
    in_table: bool,
}

impl<'a> MrkdwnWalk<'a> {
    fn step(&mut self, event: Event<'a>, range: std::ops::Range<usize>) {
        match event {
            Event::End(TagEnd::Table) => self.in_table = false,
            _ if self.in_table => {}
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag),
            Event::Text(words) => match &mut self.code {
                Some((_, code)) => code.push_str(&words),
                None => self.say(&words),
            },
            Event::Code(code) => match &mut self.link {
                Some(link) => link.label.push_str(&code),
                None => self.writer.code(&code),
            },
            Event::InlineHtml(html) if matches!(&*html, "<br>" | "<br/>" | "<br />") => self.say("\n"),
            Event::Html(words) | Event::InlineHtml(words) => self.say(&words),
            Event::SoftBreak | Event::HardBreak => self.say("\n"),
            Event::Rule => {
                self.block(range.start);
                self.writer.say(RULE);
                self.writer.part(1);
            }
            // The extensions for these are not enabled.
            Event::InlineMath(words) | Event::DisplayMath(words) | Event::FootnoteReference(words) => {
                self.say(&words);
            }
            Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: Tag<'a>, range: std::ops::Range<usize>) {
        match tag {
            Tag::Heading { .. } => {
                self.block(range.start);
                self.open("*");
            }
            Tag::BlockQuote(_) => {
                self.block(range.start);
                self.writer.quotes += 1;
                self.writer.part(1);
            }
            Tag::CodeBlock(kind) => {
                self.block(range.start);
                let beside = match kind {
                    CodeBlockKind::Fenced(info) => info.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((beside, String::new()));
            }
            Tag::List(first) => {
                self.block(range.start);
                self.lists.push(first);
                self.writer.lists += 1;
            }
            Tag::Item => {
                self.block(range.start);
                let sign = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let sign = format!("{number}.");
                        *number = number.saturating_add(1);
                        sign
                    }
                    _ => "•".to_owned(),
                };
                self.writer.bullet(&sign);
            }
            Tag::Table(_) => {
                self.block(range.start);
                self.writer.block(&table::draw(&self.text[range]));
                self.in_table = true;
            }
            Tag::Emphasis => self.open("_"),
            Tag::Strong => self.open("*"),
            Tag::Strikethrough => self.open("~"),
            Tag::Link { link_type: LinkType::Autolink | LinkType::Email, .. } => self.links += 1,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links += 1;
                if self.links == 1 {
                    self.link = Some(OpenTarget { target: dest_url.into_string(), label: String::new() });
                }
            }
            _ => self.block(range.start),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => self.close("*"),
            TagEnd::Strong => return self.close("*"),
            TagEnd::Emphasis => return self.close("_"),
            TagEnd::Strikethrough => return self.close("~"),
            TagEnd::Link | TagEnd::Image => return self.leave_link(),
            TagEnd::BlockQuote(_) => {
                self.writer.quotes -= 1;
                self.writer.end_item();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.writer.lists -= 1;
            }
            TagEnd::Item => self.writer.end_item(),
            _ => {}
        }
        self.writer.part(1);
    }

    fn depth(&mut self, mark: &str) -> &mut usize {
        match mark {
            "*" => &mut self.bold,
            "_" => &mut self.italic,
            _ => &mut self.struck,
        }
    }

    fn open(&mut self, mark: &'static str) {
        let depth = self.depth(mark);
        *depth += 1;
        // The label of a link has no markup.
        if *depth == 1 && self.link.is_none() {
            self.writer.open(mark);
        }
    }

    fn close(&mut self, mark: &'static str) {
        let depth = self.depth(mark);
        *depth -= 1;
        if *depth == 0 && self.link.is_none() {
            self.writer.close(mark);
        }
    }

    fn say(&mut self, words: &str) {
        match &mut self.link {
            // A link is on one line.
            Some(link) => link.label.push_str(&words.replace('\n', " ")),
            None => self.writer.say(words),
        }
    }

    fn leave_link(&mut self) {
        self.links -= 1;
        if self.links > 0 {
            return;
        }
        let Some(OpenTarget { target, label }) = self.link.take() else { return };
        match (is_link(&target), label.trim().is_empty()) {
            (true, _) => self.writer.link(&target, label.trim()),
            (false, true) => self.writer.say(&target),
            (false, false) if target.is_empty() => self.writer.say(&label),
            (false, false) => self.writer.say(&format!("{label} ({target})")),
        }
    }

    fn end_code(&mut self) {
        let Some((beside, code)) = self.code.take() else { return };
        if code.trim().is_empty() {
            // The code is on the line of the fence, or the text is not finished yet.
            self.writer.say(beside.trim());
        } else {
            self.writer.block(&code);
        }
    }

    /// Keeps the distance to the previous block as in the source: an empty line, or none.
    fn block(&mut self, start: usize) {
        let back = &self.text.as_bytes()[start.saturating_sub(LOOK_BACK)..start];
        let blank = back.iter().rev().take_while(|byte| b" \t\n>".contains(byte));
        self.writer.part(if blank.filter(|byte| **byte == b'\n').count() > 1 { 2 } else { 1 });
    }
}

/// Whether Slack makes a link of this target.
fn is_link(target: &str) -> bool {
    let lower = target.to_ascii_lowercase();
    LINK_SCHEMES.iter().any(|scheme| lower.starts_with(scheme))
        && !target.contains(|letter: char| letter.is_whitespace() || letter.is_control())
}

#[cfg(test)]
mod tests;
