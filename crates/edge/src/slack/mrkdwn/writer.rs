//! Writer of mrkdwn: knows where lines start, and writes quote signs and indentation there.

/// Lists nested deeper than this are not indented further.
const DEEPEST_INDENT: usize = 8;
/// Slack shows marks only at the borders of words. This character of no width is such a border.
const BORDER: char = '\u{200b}';

/// The output. Line ends are not written at once but counted in `owed`, so that none is left over at the end.
#[derive(Default)]
pub(super) struct MrkdwnWriter {
    out: String,
    /// Line ends to write before the next word.
    owed: usize,
    /// The current depths of quotes and lists.
    pub quotes: usize,
    pub lists: usize,
    /// The quote of the last written line is still open.
    in_quote: bool,
    /// A bullet was just written, so the item's first words go on its line.
    bullet: bool,
    /// The start of the content of each open mark.
    opened: Vec<usize>,
    /// The output length just after the last closing mark.
    closed: Option<usize>,
}

pub(super) fn escape_into(out: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            letter => out.push(letter),
        }
    }
}

impl MrkdwnWriter {
    pub fn finish(self) -> String {
        self.out
    }

    /// Requests at least `lines` line ends before the next output, except after a bullet.
    pub fn part(&mut self, lines: usize) {
        if !self.bullet && !self.out.is_empty() {
            self.owed = self.owed.max(lines);
        }
    }

    /// Writes escaped text, with its line ends.
    pub fn say(&mut self, words: &str) {
        for (index, line) in words.split('\n').enumerate() {
            if index > 0 {
                self.bullet = false;
                self.part(1);
            }
            let Some(first) = line.chars().next() else { continue };
            self.begin();
            if self.closed == Some(self.out.len()) && first.is_alphanumeric() {
                self.out.push(BORDER);
            }
            escape_into(&mut self.out, line);
        }
    }

    /// Writes inline code. Code with a backtick cannot be marked as such.
    pub fn code(&mut self, code: &str) {
        if code.contains('`') {
            return self.say(code);
        }
        self.open("`");
        escape_into(&mut self.out, code);
        self.close("`");
    }

    pub fn open(&mut self, mark: &str) {
        self.begin();
        if self.out.ends_with(char::is_alphanumeric) {
            self.out.push(BORDER);
        }
        self.out.push_str(mark);
        self.opened.push(self.out.len());
    }

    /// Closes a mark on the line of its last word. An empty mark is removed.
    pub fn close(&mut self, mark: &str) {
        if self.opened.pop() == Some(self.out.len()) {
            self.out.truncate(self.out.len() - mark.len());
            return;
        }
        // Slack does not show a mark that follows a space.
        let words = self.out.trim_end_matches(' ').len();
        let spaces = self.out.split_off(words);
        self.out.push_str(mark);
        self.closed = Some(self.out.len());
        self.out.push_str(&spaces);
    }

    pub fn link(&mut self, target: &str, label: &str) {
        self.begin();
        self.out.push('<');
        // A bar would end the target.
        escape_into(&mut self.out, &target.replace('|', "%7C"));
        if !label.is_empty() && label != target {
            self.out.push('|');
            escape_into(&mut self.out, &label.replace('|', "¦"));
        }
        self.out.push('>');
    }

    /// Writes the bullet or number of a list item.
    pub fn bullet(&mut self, sign: &str) {
        let depth = self.lists;
        self.lists = depth.saturating_sub(1);
        self.begin();
        self.lists = depth;
        self.out.push_str(sign);
        self.out.push(' ');
        self.bullet = true;
    }

    /// Ends a list item or a quote. An empty item has a line too.
    pub fn end_item(&mut self) {
        self.bullet = false;
        self.part(1);
    }

    /// Writes a code block, on its own lines and outside of quotes.
    pub fn block(&mut self, code: &str) {
        let (quotes, lists) = (std::mem::take(&mut self.quotes), std::mem::take(&mut self.lists));
        self.bullet = false;
        self.part(1);
        self.begin();
        self.out.push_str("```\n");
        // Three backticks inside would end the block.
        let code = code.strip_suffix('\n').unwrap_or(code).replace("```", "`\u{200b}``");
        escape_into(&mut self.out, &code);
        self.out.push_str("\n```");
        self.part(1);
        (self.quotes, self.lists) = (quotes, lists);
    }

    /// Writes the owed line ends and the start of the line.
    fn begin(&mut self) {
        let starts_line = self.owed > 0 || self.out.is_empty();
        let is_quoted = self.quotes > 0;
        for left in (0..std::mem::take(&mut self.owed)).rev() {
            self.out.push('\n');
            // An empty line without the sign would end the quote.
            if left > 0 && is_quoted && self.in_quote {
                self.out.push('>');
            }
        }
        if starts_line {
            if is_quoted {
                self.out.push_str("> ");
            }
            self.in_quote = is_quoted;
            self.out.push_str(&"    ".repeat(self.lists.min(DEEPEST_INDENT)));
        }
        self.bullet = false;
    }
}
