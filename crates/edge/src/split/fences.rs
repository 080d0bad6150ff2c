//! Code fences in a text that is to be split.
//!
//! Every line that starts with three backticks opens or closes a fence. The vectors count like this, and agents write
//! like this. Indented fences inside a list item count too. A line such as "```ls``` lists files" is inline code and
//! not a fence: it gets a space in front, so that no reader counts it as one.

use std::borrow::Cow;
use unicode_segmentation::UnicodeSegmentation;

/// The text in the form that is cut, with the positions of its fences in order.
pub(super) struct FencedText<'a> {
    pub text: Cow<'a, str>,
    fences: Vec<Fence>,
}

/// One fence: the opening line starts at `open`, its content at `body`, the closing line reaches from `close`
/// to `end`.
pub(super) struct Fence {
    open: usize,
    pub body: usize,
    close: usize,
    pub end: usize,
    /// The line that opens it again in the next chunk.
    pub reopen: String,
    /// The line that closes it before a cut.
    pub closer: String,
    /// Whether the closing line is backticks alone, so that nothing is lost by skipping it.
    pub bare: bool,
}

impl FencedText<'_> {
    fn near(&self, at: usize) -> Option<&Fence> {
        let later = self.fences.partition_point(|fence| fence.open <= at);
        self.fences[..later].last()
    }

    /// The fence whose content `at` lies in.
    pub fn around(&self, at: usize) -> Option<&Fence> {
        self.near(at).filter(|fence| fence.body <= at && at <= fence.close)
    }

    /// The fence whose opening line starts at `at`.
    pub fn opening_at(&self, at: usize) -> Option<&Fence> {
        self.near(at).filter(|fence| fence.open == at)
    }

    /// The fence whose closing line starts at `at`.
    pub fn closing_at(&self, at: usize) -> Option<&Fence> {
        self.near(at).filter(|fence| fence.close == at)
    }

    /// Moves a cut out of the fence lines. A fence that would open without content moves to the next chunk, and a
    /// closing line is not cut but written again.
    pub fn outside_fence_lines(&self, at: usize, end: usize) -> usize {
        match self.near(end) {
            Some(fence) if fence.open < end && end <= fence.body && at < fence.body => fence.open,
            Some(fence) if fence.close < end && end < fence.end => fence.close.max(at),
            _ => end,
        }
    }
}

struct FenceLine<'a> {
    indent: &'a str,
    ticks: &'a str,
    info: &'a str,
}

fn fence_line(line: &str) -> Option<FenceLine<'_>> {
    let inner = line.trim_start_matches([' ', '\t']);
    let info = inner.trim_start_matches('`');
    let ticks = &inner[..inner.len() - info.len()];
    let indent = &line[..line.len() - inner.len()];
    (ticks.len() >= 3 && !info.contains('`')).then_some(FenceLine { indent, ticks, info: info.trim() })
}

/// Whether the text beside a fence is more than the name of a language.
fn is_remark(info: &str) -> bool {
    info.contains(char::is_whitespace) || info.len() > 32
}

/// The measure of the widest cluster of more than four bytes. Such a cluster has characters that are not ASCII, and at most
/// one ASCII character on each side of them, so that most of an ordinary text is skipped.
fn widest_cluster(text: &str, measure: &dyn Fn(&str) -> usize) -> usize {
    let (bytes, mut widest, mut from) = (text.as_bytes(), 0, 0);
    while let Some(start) = bytes[from..].iter().position(|byte| !byte.is_ascii()).map(|at| from + at) {
        let mut end = start;
        // Up to two ASCII characters in a row, or the end.
        while end < bytes.len() && !(bytes[end].is_ascii() && bytes.get(end + 1).is_none_or(u8::is_ascii)) {
            end += 1;
        }
        from = (end + 1).min(bytes.len());
        let long = text[start.saturating_sub(1)..from].graphemes(true).filter(|cluster| cluster.len() > 4);
        widest = long.map(measure).max().unwrap_or(0).max(widest);
    }
    widest
}

/// Writes the page. Fences are balanced; fence lines that cannot fit the limit are removed.
pub(super) fn lay_out<'a>(text: &'a str, limit: usize, measure: &dyn Fn(&str) -> usize) -> FencedText<'a> {
    if !text.contains("```") {
        return FencedText { text: Cow::Borrowed(text), fences: Vec::new() };
    }
    // A chunk must hold the fence lines and at least one cluster. Only long clusters need to be measured, and without a
    // limit none.
    let widest = if limit == usize::MAX { 0 } else { widest_cluster(text, measure) };
    // A cluster over the limit is cut anyway.
    let widest = if widest > limit { 4 } else { widest.max(4) };
    let roomy = |open: &str, closer: &str| {
        let cost = measure(&format!("{open}\n{closer}")) + 2;
        cost + widest <= limit && cost * 2 <= limit
    };
    let mut page =
        Layout { text: String::with_capacity(text.len() + 64), fences: Vec::new(), state: FenceState::Text };
    for line in text.split('\n') {
        match (fence_line(line), std::mem::replace(&mut page.state, FenceState::Text)) {
            (Some(fence), FenceState::Text) => page.open(line, &fence, &roomy),
            (Some(fence), FenceState::Inside) => page.close(&fence, &roomy),
            (Some(fence), FenceState::Unfenced) => page.remark(fence.info),
            (None, state) => {
                page.line(line);
                page.state = state;
            }
        }
    }
    if matches!(page.state, FenceState::Inside) {
        page.close(&FenceLine { indent: "", ticks: "```", info: "" }, &roomy);
    }
    FencedText { text: Cow::Owned(page.text), fences: page.fences }
}

enum FenceState {
    Text,
    Inside,
    /// Inside a fence whose lines were removed because they do not fit the limit.
    Unfenced,
}

struct Layout {
    text: String,
    fences: Vec<Fence>,
    state: FenceState,
}

impl Layout {
    /// Adds a line that is not a fence line.
    fn line(&mut self, line: &str) {
        self.start_line();
        if line.starts_with("```") {
            self.text.push(' ');
        }
        self.text.push_str(line);
    }

    /// Ends the previous line and returns the start of the new one.
    fn start_line(&mut self) -> usize {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.len()
    }

    /// Adds the text beside the backticks of a fence line, unless it is just a language.
    fn remark(&mut self, info: &str) {
        if is_remark(info) {
            self.line(info);
        }
    }

    fn open(&mut self, line: &str, fence: &FenceLine<'_>, roomy: &dyn Fn(&str, &str) -> bool) {
        let indent = &fence.indent[..fence.indent.len().min(8)];
        let language = fence.info.split_whitespace().next().unwrap_or_default();
        let plain = format!("{indent}```");
        // A word that is too long for a language is treated as a remark.
        let short = if is_remark(language) { plain.clone() } else { format!("{plain}{language}") };
        let closer = format!("{indent}{}", fence.ticks);
        let (opening, reopen, closer) = if roomy(line, &closer) {
            (line.trim_end().to_owned(), format!("{closer}{language}"), closer)
        } else if roomy(&short, &plain) {
            self.remark(fence.info);
            (short.clone(), short, plain)
        } else {
            self.remark(fence.info);
            self.state = FenceState::Unfenced;
            return;
        };
        let open = self.start_line();
        self.text.push_str(&opening);
        let body = self.text.len() + 1;
        self.fences.push(Fence {
            open,
            body,
            close: usize::MAX,
            end: usize::MAX,
            reopen,
            closer,
            bare: true,
        });
        self.state = FenceState::Inside;
    }

    fn close(&mut self, line: &FenceLine<'_>, roomy: &dyn Fn(&str, &str) -> bool) {
        let close = self.start_line();
        let Some(fence) = self.fences.last_mut() else { return };
        let indent = &fence.closer[..fence.closer.len() - fence.closer.trim_start().len()];
        let written = format!("{indent}{}{}", line.ticks, line.info);
        let whole = roomy(&fence.reopen, &written);
        fence.bare = !whole || line.info.is_empty();
        self.text.push_str(if whole { &written } else { &fence.closer });
        (fence.close, fence.end) = (close, self.text.len());
        if !whole && !line.info.is_empty() {
            self.line(line.info);
        }
    }
}
