//! The sheet that MarkdownV2 is written on: it knows where lines start, and what must stand there.

use super::{RESERVED, escape_into};

/// Quotes within quotes have no form there; deeper ones show a sign, and very deep ones no more of them.
const DEEPEST_SIGNS: usize = 3;
/// Lists nested deeper than this are not indented further.
const DEEPEST_INDENT: usize = 8;

/// Text on its way out. Line ends are owed rather than written, so that none is left over at the end and
/// quoted lines get their sign exactly once.
#[derive(Default)]
pub(super) struct Sheet {
    out: String,
    /// Line ends still to be written before the next word.
    owed: usize,
    /// How deep in quotes we are, and the number of the outermost one.
    quotes: usize,
    quote: usize,
    /// The quote that the last written line belongs to; 0 is none.
    written_quote: usize,
    /// How deep in lists we are.
    pub lists: usize,
    /// A bullet was just written: the item's first words belong on its line.
    bullet: bool,
    /// Where the insides of the open entities start.
    opened: Vec<usize>,
    /// How much was written when the last closing underscore was.
    underscore: Option<usize>,
}

impl Sheet {
    pub fn finish(self) -> String {
        self.out
    }

    /// Owes at least `lines` line ends before whatever comes next, save after a bullet.
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

    /// Words, escaped. Line ends in them become line ends there.
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

    /// Inline code.
    pub fn code(&mut self, code: &str) {
        self.begin();
        self.out.push('`');
        escape_into(&mut self.out, code, "`\\");
        self.out.push('`');
    }

    /// Opens an entity.
    pub fn open(&mut self, mark: &str) {
        self.begin();
        // Two underscores would read as underline. An empty bold entity keeps the marks apart, as Telegram's
        // own manual advises.
        if mark == "_" && self.underscore == Some(self.out.len()) {
            self.out.push_str("**");
        }
        self.out.push_str(mark);
        self.opened.push(self.out.len());
    }

    /// Closes an entity, on the line of its last word. One with nothing in it was never there.
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

    /// Closes a link, which shows its target if it has nothing else to show.
    pub fn close_link(&mut self, target: &str) {
        if self.opened.pop() == Some(self.out.len()) {
            escape_into(&mut self.out, target, RESERVED);
        }
        self.out.push_str("](");
        escape_into(&mut self.out, target, ")\\");
        self.out.push(')');
    }

    /// How much is written: to learn whether anything was in between.
    pub fn length(&self) -> usize {
        self.out.len()
    }

    /// An item's bullet or number.
    pub fn bullet(&mut self, sign: &str) {
        let depth = self.lists;
        self.lists = depth.saturating_sub(1);
        self.begin();
        self.lists = depth;
        escape_into(&mut self.out, sign, RESERVED);
        self.out.push(' ');
        self.bullet = true;
    }

    /// Ends an item; an empty one too has its line.
    pub fn end_item(&mut self) {
        self.bullet = false;
        self.part(1);
    }

    /// A block of code. It stands on lines of its own and outside of quotes: Telegram lets code be part of
    /// nothing else.
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

    /// Pays the owed line ends and writes what a line starts with.
    fn begin(&mut self) {
        let quote = if self.quoted() { self.quote } else { 0 };
        let starts_line = self.owed > 0 || self.out.is_empty();
        for left in (0..std::mem::take(&mut self.owed)).rev() {
            self.out.push('\n');
            // An empty line without the sign would end the quote.
            if left > 0 && quote > 0 && quote == self.written_quote {
                self.out.push('>');
            }
        }
        if starts_line {
            // Adjoining quotes would be one; a line between them keeps them two.
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
