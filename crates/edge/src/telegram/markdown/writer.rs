//! Writer of MarkdownV2: knows where lines start, and writes quote signs and indentation there.

use super::{RESERVED, escape_into};

/// MarkdownV2 has no nested quotes. Each deeper level is shown as an escaped `>`, up to this many.
const DEEPEST_SIGNS: usize = 3;
/// Lists nested deeper than this are not indented further.
const DEEPEST_INDENT: usize = 8;

/// The output. Line ends are not written at once but counted in `owed`, so that none is left over at the end and quoted
/// lines get their sign exactly once.
#[derive(Default)]
pub(super) struct MarkdownWriter {
    out: String,
    /// Line ends to write before the next word.
    owed: usize,
    /// The current depth of quotes, and the number of the outermost one.
    quotes: usize,
    quote: usize,
    /// The quote of the last written line; 0 is none.
    written_quote: usize,
    /// The current depth of lists.
    pub lists: usize,
    /// A bullet was just written, so the item's first words go on its line.
    bullet: bool,
    /// The start of the content of each open entity.
    opened: Vec<usize>,
    /// The output length just after the last closing underscore.
    underscore: Option<usize>,
}

impl MarkdownWriter {
    pub fn finish(self) -> String {
        self.out
    }

    /// Requests at least `lines` line ends before the next output, except after a bullet.
    pub fn part(&mut self, lines: usize) {
        if !self.bullet && !self.out.is_empty() {
            self.owed = self.owed.max(lines);
        }
    }

    pub fn enter_quote(&mut self) {
        self.quotes += 1;
        if self.quotes == 1 {
            self.quote += 1;
        }
        self.bullet = false;
        self.part(1);
    }

    pub fn leave_quote(&mut self) {
        self.quotes -= 1;
        self.bullet = false;
        self.part(1);
    }

    pub fn quoted(&self) -> bool {
        self.quotes > 0
    }

    /// Writes escaped text, with its line ends.
    pub fn say(&mut self, words: &str) {
        for (index, line) in words.split('\n').enumerate() {
            if index > 0 {
                self.bullet = false;
                self.part(1);
            }
            if !line.is_empty() {
                self.begin();
                escape_into(&mut self.out, line, RESERVED);
            }
        }
    }

    /// Writes inline code.
    pub fn code(&mut self, code: &str) {
        self.begin();
        self.out.push('`');
        escape_into(&mut self.out, code, "`\\");
        self.out.push('`');
    }

    /// Opens an entity.
    pub fn open(&mut self, mark: &str) {
        self.begin();
        // Two underscores would be read as underline. An empty bold entity separates them, as Telegram's manual
        // advises.
        if mark == "_" && self.underscore == Some(self.out.len()) {
            self.out.push_str("**");
        }
        self.out.push_str(mark);
        self.opened.push(self.out.len());
    }

    /// Closes an entity on the line of its last word. An empty entity is removed.
    pub fn close(&mut self, mark: &str) {
        if self.opened.pop() == Some(self.out.len()) {
            self.out.truncate(self.out.len() - mark.len());
            return;
        }
        self.out.push_str(mark);
        if mark == "_" {
            self.underscore = Some(self.out.len());
        }
    }

    /// Closes a link. A link without text shows its target.
    pub fn close_link(&mut self, target: &str) {
        if self.opened.pop() == Some(self.out.len()) {
            escape_into(&mut self.out, target, RESERVED);
        }
        self.out.push_str("](");
        escape_into(&mut self.out, target, ")\\");
        self.out.push(')');
    }

    /// Length of the output, to find out whether anything was written in between.
    pub fn length(&self) -> usize {
        self.out.len()
    }

    /// Writes the bullet or number of a list item.
    pub fn bullet(&mut self, sign: &str) {
        let depth = self.lists;
        self.lists = depth.saturating_sub(1);
        self.begin();
        self.lists = depth;
        escape_into(&mut self.out, sign, RESERVED);
        self.out.push(' ');
        self.bullet = true;
    }

    /// Ends a list item. An empty item has a line too.
    pub fn end_item(&mut self) {
        self.bullet = false;
        self.part(1);
    }

    /// Writes a code block, on its own lines and outside of quotes: in Telegram a code block cannot be inside another
    /// entity.
    pub fn block(&mut self, language: &str, code: &str) {
        let (quotes, lists) = (std::mem::take(&mut self.quotes), std::mem::take(&mut self.lists));
        self.bullet = false;
        self.part(1);
        self.begin();
        self.out.push_str("```");
        self.out.push_str(language);
        self.out.push('\n');
        escape_into(&mut self.out, code.strip_suffix('\n').unwrap_or(code), "`\\");
        self.out.push_str("\n```");
        self.part(1);
        (self.quotes, self.lists) = (quotes, lists);
    }

    /// Writes the owed line ends and the start of the line.
    fn begin(&mut self) {
        let quote = if self.quoted() { self.quote } else { 0 };
        let starts_line = self.owed > 0 || self.out.is_empty();
        for left in (0..std::mem::take(&mut self.owed)).rev() {
            self.out.push('\n');
            // An empty line without the quote sign would end the quote.
            if left > 0 && quote > 0 && quote == self.written_quote {
                self.out.push('>');
            }
        }
        if starts_line {
            // An empty line separates two quotes, which would otherwise become one.
            if quote > 0
                && self.written_quote > 0
                && quote != self.written_quote
                && !self.out.ends_with("\n\n")
            {
                self.out.push('\n');
            }
            if quote > 0 {
                self.out.push('>');
                self.out.push_str(&"\\> ".repeat(self.quotes.min(DEEPEST_SIGNS + 1) - 1));
            }
            self.written_quote = quote;
            self.out.push_str(&"  ".repeat(self.lists.min(DEEPEST_INDENT)));
        }
        self.bullet = false;
    }
}
