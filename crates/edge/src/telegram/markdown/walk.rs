//! Walk over the events of the Markdown parser; writes each with the `MarkdownWriter`.

use super::writer::MarkdownWriter;
use crate::markdown_source::{options, table};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, LinkType, Parser, Tag, TagEnd};

/// Number of bytes before a block that are searched for an empty line.
const LOOK_BACK: usize = 64;
/// The text for a thematic break.
const RULE: &str = "———";

/// Converts text without link definitions.
pub(super) fn convert(text: &str) -> String {
    let mut walk = Walk { text, ..Walk::default() };
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        walk.step(event, range);
    }
    walk.writer.finish()
}

/// An open link. Images are treated as links too.
struct OpenLink {
    target: String,
    /// Length of the output when it was opened.
    since: usize,
    /// Whether Telegram accepts the target; if not, the target is shown as text.
    usable: bool,
}

#[derive(Default)]
struct Walk<'a> {
    text: &'a str,
    writer: MarkdownWriter,
    bold: usize,
    italic: usize,
    struck: usize,
    /// The current link, and the number of open links and images. Only the outermost is written as a link.
    link: Option<OpenLink>,
    links: usize,
    /// The next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    /// The text beside the fence, and the content, of the current code block.
    code: Option<(String, String)>,
    /// Inside a table, which is drawn from its source text.
    in_table: bool,
}

impl<'a> Walk<'a> {
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
            Event::Code(code) => self.writer.code(&code),
            Event::InlineHtml(html) if is_line_break(&html) => self.line_break(),
            Event::Html(words) | Event::InlineHtml(words) => self.say(&words),
            Event::SoftBreak | Event::HardBreak => self.line_break(),
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
                self.embolden();
            }
            Tag::BlockQuote(_) => {
                self.block(range.start);
                self.writer.enter_quote();
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
                self.writer.block("", &table::draw(&self.text[range]));
                self.in_table = true;
            }
            Tag::Emphasis => {
                self.italic += 1;
                if self.italic == 1 {
                    self.writer.open("_");
                }
            }
            Tag::Strong => self.embolden(),
            Tag::Strikethrough => {
                self.struck += 1;
                if self.struck == 1 {
                    self.writer.open("~");
                }
            }
            Tag::Link { dest_url, link_type, .. } => {
                let bare = matches!(link_type, LinkType::Autolink | LinkType::Email);
                self.enter_link(dest_url, bare);
            }
            Tag::Image { dest_url, .. } => self.enter_link(dest_url, false),
            _ => self.block(range.start),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) | TagEnd::Strong => {
                self.bold -= 1;
                if self.bold == 0 {
                    self.writer.close("*");
                }
            }
            TagEnd::Emphasis => {
                self.italic -= 1;
                if self.italic == 0 {
                    self.writer.close("_");
                }
            }
            TagEnd::Strikethrough => {
                self.struck -= 1;
                if self.struck == 0 {
                    self.writer.close("~");
                }
            }
            TagEnd::BlockQuote(_) => self.writer.leave_quote(),
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.writer.lists -= 1;
            }
            TagEnd::Item => self.writer.end_item(),
            TagEnd::Link | TagEnd::Image => self.leave_link(),
            _ => {}
        }
        if !matches!(
            tag,
            TagEnd::Link | TagEnd::Image | TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough
        ) {
            self.writer.part(1);
        }
    }

    fn embolden(&mut self) {
        self.bold += 1;
        if self.bold == 1 {
            self.writer.open("*");
        }
    }

    /// Keeps the distance to the previous block as in the source: an empty line, or none.
    fn block(&mut self, start: usize) {
        let back = &self.text.as_bytes()[start.saturating_sub(LOOK_BACK)..start];
        let blank = back.iter().rev().take_while(|byte| b" \t\n>".contains(byte));
        self.writer.part(if blank.filter(|byte| **byte == b'\n').count() > 1 { 2 } else { 1 });
    }

    fn say(&mut self, words: &str) {
        if self.must_stay_on_line() {
            self.writer.say(&words.replace('\n', " "));
        } else {
            self.writer.say(words);
        }
    }

    fn line_break(&mut self) {
        self.writer.say(if self.must_stay_on_line() { " " } else { "\n" });
    }

    /// Whether line ends must become spaces. In a quote an entity must not span lines, because the quote would end
    /// inside the entity.
    fn must_stay_on_line(&self) -> bool {
        self.writer.quoted() && self.bold + self.italic + self.struck + self.links > 0
    }

    fn end_code(&mut self) {
        let Some((beside, code)) = self.code.take() else { return };
        if code.trim().is_empty() {
            // The code is on the line of the fence, or the text is not finished yet.
            self.writer.say(beside.trim());
        } else {
            self.writer.block(language(&beside), &code);
        }
    }

    fn enter_link(&mut self, target: CowStr<'a>, bare: bool) {
        self.links += 1;
        if self.links > 1 || bare {
            return;
        }
        let usable = is_usable(&target);
        if usable {
            self.writer.open("[");
        }
        self.link = Some(OpenLink { target: target.into_string(), since: self.writer.length(), usable });
    }

    fn leave_link(&mut self) {
        self.links -= 1;
        if self.links > 0 {
            return;
        }
        let Some(link) = self.link.take() else { return };
        let silent = self.writer.length() == link.since;
        match link {
            OpenLink { target, usable: true, .. } => self.writer.close_link(&target),
            OpenLink { target, .. } if target.is_empty() => {}
            OpenLink { target, .. } if silent => self.say(&target),
            OpenLink { target, .. } => self.say(&format!(" ({target})")),
        }
    }
}

fn is_line_break(html: &str) -> bool {
    matches!(html, "<br>" | "<br/>" | "<br />")
}

/// Whether Telegram makes a link of this target. It drops targets that it cannot parse.
fn is_usable(target: &str) -> bool {
    let scheme = target.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https" | "tg"))
        && !target.contains(|letter: char| letter.is_whitespace() || letter.is_control())
}

/// The language after the backticks. It cannot be escaped there, so it is dropped if it contains special characters.
fn language(beside: &str) -> &str {
    let word = beside.split_whitespace().next().unwrap_or_default();
    if word.contains(['`', '\\']) || word.contains(char::is_control) { "" } else { word }
}
