//! MarkdownV2 parser, as strict as the platform's, so that a missing escape is an error.

use super::entities::{Composed, MessageEntity};

const RESERVED: &str = "_*[]()~`>#+-=|{}.!\n";

/// Parses MarkdownV2. The error has the platform's wording, without its "can't parse entities" prefix.
pub(super) fn parse(source: &str) -> Result<Composed, String> {
    let mut reader = MarkdownParser {
        source,
        at: 0,
        out: Composed::default(),
        units: 0,
        open: Vec::new(),
        quote: QuoteState::MayBegin,
    };
    while let Some(c) = reader.peek(0) {
        reader.step(c)?;
    }
    reader.finish()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MarkupKind {
    Bold,
    Italic,
    Underline,
    Strikethrough,
    Spoiler,
    Code,
    Pre,
    Link,
    Emoji,
    Quote,
}

impl MarkupKind {
    /// Name in entities.
    fn kind(self) -> &'static str {
        match self {
            MarkupKind::Bold => "bold",
            MarkupKind::Italic => "italic",
            MarkupKind::Underline => "underline",
            MarkupKind::Strikethrough => "strikethrough",
            MarkupKind::Spoiler => "spoiler",
            MarkupKind::Code => "code",
            MarkupKind::Pre => "pre",
            MarkupKind::Link => "text_link",
            MarkupKind::Emoji => "custom_emoji",
            MarkupKind::Quote => "blockquote",
        }
    }

    /// Name in error messages.
    fn title(self, language: bool) -> &'static str {
        match self {
            MarkupKind::Bold => "Bold",
            MarkupKind::Italic => "Italic",
            MarkupKind::Underline => "Underline",
            MarkupKind::Strikethrough => "Strikethrough",
            MarkupKind::Spoiler => "Spoiler",
            MarkupKind::Code => "Code",
            MarkupKind::Pre if language => "PreCode",
            MarkupKind::Pre => "Pre",
            MarkupKind::Link => "TextUrl",
            MarkupKind::Emoji => "CustomEmoji",
            MarkupKind::Quote => "BlockQuote",
        }
    }
}

/// State for `>`, which begins or continues a quotation only at the start of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QuoteState {
    MayBegin,
    MidLine,
}

struct OpenSpan {
    span: MarkupKind,
    language: Option<String>,
    /// UTF-16 units before it in the result.
    offset: usize,
    /// Byte position in the source, for error messages.
    begins: usize,
    /// Byte position in the result.
    text_from: usize,
}

struct MarkdownParser<'a> {
    source: &'a str,
    at: usize,
    out: Composed,
    units: usize,
    open: Vec<OpenSpan>,
    quote: QuoteState,
}

impl MarkdownParser<'_> {
    fn rest(&self) -> &str {
        &self.source[self.at..]
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest().chars().nth(ahead)
    }

    fn follows(&self, text: &str) -> bool {
        self.rest().starts_with(text)
    }

    fn keep(&mut self, c: char) {
        self.out.text.push(c);
        self.units += c.len_utf16();
        self.quote = if c == '\n' { QuoteState::MayBegin } else { QuoteState::MidLine };
    }

    fn step(&mut self, c: char) -> Result<(), String> {
        if c == '\\'
            && let Some(escaped) = self.peek(1).filter(|next| ('\u{1}'..='\u{7e}').contains(next))
        {
            self.at += 2;
            self.keep(escaped);
            self.quote = QuoteState::MidLine;
            return Ok(());
        }
        let innermost = self.open.last().map(|open| open.span);
        let verbatim = matches!(innermost, Some(MarkupKind::Code | MarkupKind::Pre));
        let reserved = if verbatim { c == '`' } else { RESERVED.contains(c) };
        if !reserved {
            self.at += c.len_utf8();
            self.keep(c);
            return Ok(());
        }
        if self.quotation_ends(c) {
            return self.close_quotation();
        }
        match innermost {
            Some(span) if self.ends(span) => self.close(),
            _ if verbatim => {
                // A single backtick inside a pre block is text.
                self.at += 1;
                self.keep(c);
                Ok(())
            }
            _ => self.begin(c),
        }
    }

    fn ends(&self, span: MarkupKind) -> bool {
        match span {
            MarkupKind::Bold => self.follows("*"),
            MarkupKind::Italic => self.follows("_") && !self.follows("__"),
            MarkupKind::Underline => self.follows("__"),
            MarkupKind::Strikethrough => self.follows("~"),
            MarkupKind::Spoiler => self.follows("||"),
            MarkupKind::Code => self.follows("`"),
            MarkupKind::Pre => self.follows("```"),
            MarkupKind::Link | MarkupKind::Emoji => self.follows("]"),
            MarkupKind::Quote => false,
        }
    }

    fn begin(&mut self, c: char) -> Result<(), String> {
        let begins = self.at;
        let mut language = None;
        let quoting = self.open.iter().any(|open| open.span == MarkupKind::Quote);
        let (span, taken) = match c {
            '\n' => {
                self.at += 1;
                self.keep('\n');
                return Ok(());
            }
            '>' if quoting && self.quote == QuoteState::MayBegin => {
                self.at += 1;
                self.quote = QuoteState::MidLine;
                return Ok(());
            }
            '>' if !quoting && self.quote == QuoteState::MayBegin => (MarkupKind::Quote, 1),
            // An empty bold begins a new quotation right after another one.
            '*' if !quoting && self.quote == QuoteState::MayBegin && self.follows("**>") => {
                (MarkupKind::Quote, 3)
            }
            '*' => (MarkupKind::Bold, 1),
            '_' if self.follows("__") => (MarkupKind::Underline, 2),
            '_' => (MarkupKind::Italic, 1),
            '~' => (MarkupKind::Strikethrough, 1),
            '|' if self.follows("||") => (MarkupKind::Spoiler, 2),
            '[' => (MarkupKind::Link, 1),
            '!' if self.follows("![") => (MarkupKind::Emoji, 2),
            '`' if self.follows("```") => (MarkupKind::Pre, 3),
            '`' => (MarkupKind::Code, 1),
            _ => {
                return Err(format!(
                    "Character '{c}' is reserved and must be escaped with the preceding '\\'"
                ));
            }
        };
        self.at += taken;
        if span == MarkupKind::Pre {
            language = self.language();
        }
        self.quote = QuoteState::MidLine;
        let (offset, text_from) = (self.units, self.out.text.len());
        self.open.push(OpenSpan { span, language, offset, begins, text_from });
        Ok(())
    }

    /// The word after an opening fence, and the line end after it.
    fn language(&mut self) -> Option<String> {
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_ascii_whitespace() || c == '`').unwrap_or(rest.len());
        let named = end > 0 && end < rest.len() && !rest[end..].starts_with('`');
        let language = named.then(|| rest[..end].to_owned());
        if named {
            self.at += end;
        }
        for line_end in ["\r\n", "\n\r", "\n", "\r"] {
            if self.follows(line_end) {
                self.at += line_end.len();
                break;
            }
        }
        language
    }

    fn close(&mut self) -> Result<(), String> {
        let open = self.open.pop().expect("only called while a span is open");
        self.quote = QuoteState::MidLine;
        self.at += match open.span {
            MarkupKind::Underline | MarkupKind::Spoiler => 2,
            MarkupKind::Pre => 3,
            _ => 1,
        };
        let mut entity = MessageEntity::new(open.span.kind(), open.offset, self.units - open.offset);
        entity.language = open.language;
        match open.span {
            MarkupKind::Link => {
                let target = match self.target()? {
                    Some(target) => target,
                    None => self.out.text[open.text_from..].to_owned(),
                };
                // A link whose target is not a URL becomes plain text, without an error.
                if !target.contains("://") && !target.contains('.') {
                    return Ok(());
                }
                entity.url = Some(target);
            }
            MarkupKind::Emoji => {
                let target = self.target()?.unwrap_or_default();
                let id = target.strip_prefix("tg://emoji?id=").filter(|id| id.parse::<u64>().is_ok());
                entity.custom_emoji_id =
                    Some(id.ok_or("Custom emoji entity must contain a tg://emoji URL")?.to_owned());
            }
            _ => {}
        }
        if entity.length > 0 {
            self.out.entities.push(entity);
        }
        Ok(())
    }

    /// The parenthesis after a link's text.
    fn target(&mut self) -> Result<Option<String>, String> {
        if !self.follows("(") {
            return Ok(None);
        }
        self.at += 1;
        let begins = self.at;
        let mut target = String::new();
        loop {
            match self.peek(0) {
                None => return Err(format!("Can't find end of a URL at byte offset {begins}")),
                Some(')') => break,
                Some('\\') if self.peek(1).is_some_and(|next| next.is_ascii() && next != '\u{7f}') => {
                    target.extend(self.peek(1));
                    self.at += 2;
                }
                Some(c) => {
                    target.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
        self.at += 1;
        Ok(Some(target))
    }

    /// A quotation ends with the line that is not followed by another `>`. A `||` before that collapses it.
    fn quotation_ends(&self, c: char) -> bool {
        let quoting = self.open.iter().any(|open| open.span == MarkupKind::Quote);
        let innermost = self.open.last().is_some_and(|open| open.span == MarkupKind::Quote);
        match c {
            '\n' => quoting && !self.rest()[1..].starts_with('>'),
            '|' => innermost && (self.rest() == "||" || self.follows("||\n") && !self.follows("||\n>")),
            _ => false,
        }
    }

    fn close_quotation(&mut self) -> Result<(), String> {
        let hidden = self.follows("||");
        self.at += if hidden { 2 } else { 0 };
        self.end_quotation(hidden)?;
        if self.follows("\n") {
            self.at += 1;
            self.keep('\n');
        }
        Ok(())
    }

    fn end_quotation(&mut self, hidden: bool) -> Result<(), String> {
        if self.open.last().is_none_or(|open| open.span != MarkupKind::Quote) {
            return Err(self.unclosed());
        }
        let open = self.open.pop().expect("just looked at it");
        let kind = if hidden { "expandable_blockquote" } else { "blockquote" };
        if self.units > open.offset {
            self.out.entities.push(MessageEntity::new(kind, open.offset, self.units - open.offset));
        }
        Ok(())
    }

    fn unclosed(&self) -> String {
        let open = self.open.last().expect("only called while a span is open");
        let title = open.span.title(open.language.is_some());
        format!("Can't find end of {title} entity at byte offset {}", open.begins)
    }

    fn finish(mut self) -> Result<Composed, String> {
        if self.open.last().is_some_and(|open| open.span == MarkupKind::Quote) {
            self.end_quotation(false)?;
        }
        if !self.open.is_empty() {
            return Err(self.unclosed());
        }
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(source: &str) -> (String, Vec<(&'static str, usize, usize)>) {
        let composed = parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        let spans = composed.entities.iter().map(|e| (e.kind, e.offset, e.length)).collect();
        (composed.text, spans)
    }

    #[test]
    fn spans_are_taken_out_of_the_text_and_counted_in_utf16() {
        for (source, text, expected) in [
            ("plain", "plain", vec![]),
            ("🦉 *bold*", "🦉 bold", vec![("bold", 3, 4)]),
            (
                "_i_ __u__ ~s~ ||h||",
                "i u s h",
                vec![("italic", 0, 1), ("underline", 2, 1), ("strikethrough", 4, 1), ("spoiler", 6, 1)],
            ),
            ("*a _b_*", "a b", vec![("italic", 2, 1), ("bold", 0, 3)]),
            ("__*x* y__", "x y", vec![("bold", 0, 1), ("underline", 0, 3)]),
            ("`a.b*\\`\\\\`", "a.b*`\\", vec![("code", 0, 6)]),
            ("```rust\nlet a = 1.0; // `x`\n```", "let a = 1.0; // `x`\n", vec![("pre", 0, 20)]),
            ("```\nx\n```", "x\n", vec![("pre", 0, 2)]),
            ("[here](https://e.example/a\\)b)", "here", vec![("text_link", 0, 4)]),
            ("[here](nowhere)", "here", vec![]),
            (">a\n>b\nc", "a\nb\nc", vec![("blockquote", 0, 3)]),
            (">a\n>b||\nc", "a\nb\nc", vec![("expandable_blockquote", 0, 3)]),
            ("1\\. \\_x\\_ \\! \\\\", "1. _x_ ! \\", vec![]),
            ("**", "", vec![]),
        ] {
            assert_eq!(spans(source), (text.to_owned(), expected), "{source}");
        }
        let link = parse("[here](https://e.example/a\\)b)").unwrap();
        assert_eq!(link.entities[0].url.as_deref(), Some("https://e.example/a)b"));
        assert_eq!(parse("```rust\nx```").unwrap().entities[0].language.as_deref(), Some("rust"));
    }

    #[test]
    fn every_reserved_character_must_be_escaped() {
        for c in ".!>#+-=|{}()]".chars() {
            let source = format!("a{c}");
            let expected = format!("Character '{c}' is reserved and must be escaped with the preceding '\\'");
            assert_eq!(parse(&source), Err(expected), "{source}");
            assert_eq!(parse(&format!("a\\{c}")).unwrap().text, source);
        }
    }

    #[test]
    fn what_is_opened_must_be_closed() {
        for (source, name, at) in [
            ("a *b", "Bold", 2),
            ("_x", "Italic", 0),
            ("__x", "Underline", 0),
            ("~x", "Strikethrough", 0),
            ("||x", "Spoiler", 0),
            ("é `x", "Code", 3),
            ("```\nx", "Pre", 0),
            ("```rs\nx", "PreCode", 0),
            ("[x", "TextUrl", 0),
            (">*x\ny*", "Bold", 1),
            ("*_x*_", "Italic", 4),
        ] {
            assert_eq!(
                parse(source),
                Err(format!("Can't find end of {name} entity at byte offset {at}")),
                "{source}"
            );
        }
        assert_eq!(parse("[x](http://e").unwrap_err(), "Can't find end of a URL at byte offset 4");
    }
}
