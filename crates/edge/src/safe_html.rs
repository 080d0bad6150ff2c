//! Markdown of agents, rendered to HTML that is safe to show.
//!
//! This module writes every tag and attribute itself and escapes every text: raw HTML is shown as text, nothing is
//! loaded from other servers, and links lead only to http, https and mail addresses. The time grows linearly with the
//! text.

use pulldown_cmark::{Alignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd, TextMergeStream};

/// Largest nesting depth of lists and quotations. Deeper content is shown at this depth.
const DEEPEST: usize = 16;

/// Longest HTML, in bytes. Beyond it readers get the unrendered text.
const LONGEST: usize = 256 * 1024;

/// The tags and attributes that a reader accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HtmlDialect {
    /// The page of this server.
    #[default]
    Page,
    /// Messages of Matrix (`org.matrix.custom.html`).
    Matrix,
}

/// HTML for this Markdown; `None` if it would be too long.
pub(crate) fn to_html(markdown: &str, dialect: HtmlDialect) -> Option<String> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = HtmlWriter { dialect, ..HtmlWriter::default() };
    for event in TextMergeStream::new(Parser::new_ext(markdown, options)) {
        page.write(event);
        if page.out.len() > LONGEST {
            return None;
        }
    }
    Some(page.out)
}

#[derive(Default)]
struct HtmlWriter {
    dialect: HtmlDialect,
    out: String,
    /// The closing tag of each open tag, innermost last.
    open: Vec<&'static str>,
    /// Depth of links and code, in which bare URLs do not become links.
    plain: usize,
    /// Targets of links that are shown as text, innermost last; `None` for real ones.
    targets: Vec<Option<String>>,
    alignments: Vec<Alignment>,
    column: usize,
    in_head: bool,
}

impl HtmlWriter {
    fn write(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.plain == 0 => self.text(&text),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => escape(&text, &mut self.out),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.out.push_str("<code>");
                escape(&text, &mut self.out);
                self.out.push_str("</code>");
            }
            // In a chat, line breaks are meant as written.
            Event::SoftBreak | Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::TaskListMarker(done) if self.dialect == HtmlDialect::Matrix => {
                self.out.push_str(if done { "☑ " } else { "☐ " });
            }
            Event::TaskListMarker(done) => {
                let checked = if done { " checked" } else { "" };
                self.out.push_str(&format!("<input type=\"checkbox\" disabled{checked}> "));
            }
            Event::FootnoteReference(name) => escape(&name, &mut self.out),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let (begin, end) = match tag {
            Tag::Paragraph | Tag::HtmlBlock => ("<p>", "</p>"),
            Tag::Heading { level, .. } if self.dialect == HtmlDialect::Matrix => HEADINGS[level as usize - 1],
            // Levels 1 and 2 are for the page's own headings.
            Tag::Heading { level, .. } => match level as usize {
                1 => ("<h3>", "</h3>"),
                2 => ("<h4>", "</h4>"),
                3 => ("<h5>", "</h5>"),
                _ => ("<h6>", "</h6>"),
            },
            Tag::BlockQuote(_) => ("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(CodeBlockKind::Fenced(language))
                if self.dialect == HtmlDialect::Matrix && is_language(&language) =>
            {
                self.plain += 1;
                self.out.push_str(&format!("<pre><code class=\"language-{language}\">"));
                ("", "</code></pre>")
            }
            Tag::CodeBlock(_) => {
                self.plain += 1;
                ("<pre><code>", "</code></pre>")
            }
            Tag::List(Some(first)) if self.open.len() < DEEPEST => {
                self.out.push_str(&format!("<ol start=\"{first}\">"));
                ("", "</ol>")
            }
            Tag::List(_) => ("<ul>", "</ul>"),
            Tag::Item => ("<li>", "</li>"),
            Tag::Table(alignments) => {
                self.alignments = alignments;
                if self.dialect == HtmlDialect::Matrix {
                    self.alignments.clear();
                    self.out.push_str("<table>");
                    self.open.push("</tbody></table>");
                    return;
                }
                ("<div class=\"table\"><table>", "</tbody></table></div>")
            }
            Tag::TableHead => {
                (self.in_head, self.column) = (true, 0);
                ("<thead><tr>", "</tr></thead><tbody>")
            }
            Tag::TableRow => {
                self.column = 0;
                ("<tr>", "</tr>")
            }
            Tag::TableCell => self.cell(),
            Tag::Emphasis => ("<em>", "</em>"),
            Tag::Strong => ("<strong>", "</strong>"),
            Tag::Strikethrough => ("<del>", "</del>"),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => return self.link(&dest_url),
            _ => ("", ""),
        };
        let shown = self.open.len() < DEEPEST || !is_container(end);
        self.out.push_str(if shown { begin } else { "" });
        self.open.push(if shown { end } else { "" });
    }

    fn cell(&mut self) -> (&'static str, &'static str) {
        let alignment = self.alignments.get(self.column).copied().unwrap_or(Alignment::None);
        self.column += 1;
        match (self.in_head, alignment) {
            (true, Alignment::Center) => ("<th class=\"center\">", "</th>"),
            (true, Alignment::Right) => ("<th class=\"right\">", "</th>"),
            (true, _) => ("<th>", "</th>"),
            (false, Alignment::Center) => ("<td class=\"center\">", "</td>"),
            (false, Alignment::Right) => ("<td class=\"right\">", "</td>"),
            (false, _) => ("<td>", "</td>"),
        }
    }

    /// Images become links too: loading an image would reveal the reader to the image's server.
    fn link(&mut self, target: &str) {
        if self.plain == 0 && is_safe(target) {
            self.anchor(target);
            self.targets.push(None);
        } else {
            self.out.push('[');
            self.targets.push(Some(target.to_owned()));
        }
        self.plain += 1;
    }

    fn anchor(&mut self, target: &str) {
        self.out.push_str("<a href=\"");
        escape(target, &mut self.out);
        self.out.push_str(match self.dialect {
            HtmlDialect::Page => "\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">",
            HtmlDialect::Matrix => "\">",
        });
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Link | TagEnd::Image => {
                self.plain -= 1;
                match self.targets.pop().flatten() {
                    None => self.out.push_str("</a>"),
                    Some(target) => {
                        self.out.push_str("](");
                        escape(&target, &mut self.out);
                        self.out.push(')');
                    }
                }
                return;
            }
            TagEnd::CodeBlock => self.plain -= 1,
            TagEnd::TableHead => self.in_head = false,
            _ => {}
        }
        self.out.push_str(self.open.pop().unwrap_or(""));
    }

    /// Writes a text; bare URLs become links.
    fn text(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = next_address(rest) {
            escape(&rest[..at], &mut self.out);
            let address = trimmed(&rest[at..]);
            self.anchor(address);
            escape(address, &mut self.out);
            self.out.push_str("</a>");
            rest = &rest[at + address.len()..];
        }
        escape(rest, &mut self.out);
    }
}

/// The headings of Matrix by their level.
const HEADINGS: [(&str, &str); 6] = [
    ("<h1>", "</h1>"),
    ("<h2>", "</h2>"),
    ("<h3>", "</h3>"),
    ("<h4>", "</h4>"),
    ("<h5>", "</h5>"),
    ("<h6>", "</h6>"),
];

/// Whether this is the name of a programming language, which needs no escapes.
fn is_language(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'_' | b'#'))
}

/// Whether the element can be nested to any depth.
fn is_container(end: &str) -> bool {
    matches!(end, "</blockquote>" | "</ul>" | "</ol>" | "</li>" | "</em>" | "</strong>" | "</del>")
}

fn is_safe(target: &str) -> bool {
    ["http://", "https://", "mailto:"]
        .iter()
        .any(|scheme| target.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)))
}

/// Start of the next bare URL that does not follow a letter or digit.
fn next_address(text: &str) -> Option<usize> {
    text.match_indices("http").map(|(at, _)| at).find(|at| {
        let after = &text[*at..];
        let host = after.strip_prefix("https://").or_else(|| after.strip_prefix("http://"));
        host.is_some_and(|host| host.starts_with(|c: char| c.is_alphanumeric() || c == '['))
            && !text[..*at].ends_with(|c: char| c.is_alphanumeric())
    })
}

/// The URL at the start of the text, without trailing punctuation of the sentence.
fn trimmed(text: &str) -> &str {
    let end = text.find(|c: char| c.is_whitespace() || c.is_control() || "<>\"'`".contains(c));
    let address = &text[..end.unwrap_or(text.len())];
    // A closing parenthesis belongs to the URL if it was opened inside it.
    let outer = if address.contains('(') { "" } else { ")" };
    address.trim_end_matches(|c: char| ".,;:!?*_".contains(c) || outer.contains(c))
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    fn html(markdown: &str) -> Option<String> {
        to_html(markdown, HtmlDialect::Page)
    }

    fn shown(markdown: &str) -> String {
        html(markdown).expect("not too long")
    }

    #[test]
    fn what_agents_write_becomes_what_they_mean() {
        for (markdown, expected) in [
            ("# Title\n\ntext", "<h3>Title</h3><p>text</p>"),
            ("one\ntwo", "<p>one<br>two</p>"),
            (
                "**b** *i* ~~s~~ `a<b`",
                "<p><strong>b</strong> <em>i</em> <del>s</del> <code>a&lt;b</code></p>",
            ),
            ("- a\n  1. b\n- c", "<ul><li>a<ol start=\"1\"><li>b</li></ol></li><li>c</li></ul>"),
            (
                "- [x] done\n- [ ] open",
                "<ul><li><input type=\"checkbox\" disabled checked> done</li>\
                 <li><input type=\"checkbox\" disabled> open</li></ul>",
            ),
            ("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"),
            ("> quoted", "<blockquote><p>quoted</p></blockquote>"),
            ("```rust\nlet a = 1 < 2;\n```", "<pre><code>let a = 1 &lt; 2;\n</code></pre>"),
            ("```\nstill open", "<pre><code>still open</code></pre>"),
            (
                "| a | b |\n|---|--:|\n| 1 | 2 |",
                "<div class=\"table\"><table><thead><tr><th>a</th><th class=\"right\">b</th></tr></thead><tbody>\
                 <tr><td>1</td><td class=\"right\">2</td></tr></tbody></table></div>",
            ),
            ("a_b_c", "<p>a_b_c</p>"),
        ] {
            assert_eq!(shown(markdown), expected, "{markdown}");
        }
    }

    #[test]
    fn links_lead_to_http_https_and_mail_alone() {
        let link = |target: &str, inside: &str| {
            format!(
                "<p><a href=\"{target}\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">{inside}</a></p>"
            )
        };
        assert_eq!(shown("[l](https://e.example/x?a=1&b=2)"), link("https://e.example/x?a=1&amp;b=2", "l"));
        assert_eq!(shown("[m](mailto:a@e.example)"), link("mailto:a@e.example", "m"));
        assert_eq!(
            shown("https://e.example/a_b_c"),
            link("https://e.example/a_b_c", "https://e.example/a_b_c")
        );
        assert_eq!(
            shown("(see http://e.example/x.)"),
            link("http://e.example/x", "http://e.example/x")
                .replace("<p>", "<p>(see ")
                .replace("</p>", ".)</p>")
        );
        // A picture would be loaded from another server, so it becomes a link.
        assert_eq!(shown("![pic](https://e.example/p.png)"), link("https://e.example/p.png", "pic"));
        for unsafe_one in
            ["javascript:alert(1)", "data:text/html,x", "//e.example", "vbscript:x", "file:///etc"]
        {
            assert_eq!(shown(&format!("[j]({unsafe_one})")), format!("<p>[j]({unsafe_one})</p>"));
        }
        assert!(!shown("<javascript:alert(1)>").contains("<a"));
        assert!(!shown("[a](JaVaScRiPt:alert)").contains("<a"));
    }

    #[test]
    fn nothing_an_agent_writes_becomes_markup() {
        for markdown in [
            "<img src=x onerror=alert(1)>",
            "<script>alert(1)</script>",
            "a <b onclick=x>b</b>",
            "[a](https://e.example/\"onmouseover=alert(1))",
            "![\"><script>](https://e.example/\"><script>)",
            "`<i>`\n\n    <i>\n\n```<i>\n<i>",
            "| <i> |\n|---|\n| <script> |",
            "&lt;script&gt; &#60;script&#62;",
        ] {
            let written = shown(markdown);
            for tag in written.split('<').skip(1) {
                let name = tag.trim_start_matches('/').split([' ', '>']).next().unwrap();
                let known =
                    ["p", "a", "code", "pre", "div", "table", "thead", "tbody", "tr", "th", "td", "br"];
                assert!(known.contains(&name), "{name} in {written}");
            }
            assert!(!written.contains("onerror=a") || written.contains("&lt;img"), "{written}");
        }
    }

    /// A heading for which the page's old pattern needed cubic time, and other texts that are hard for parsers. Each is
    /// rendered in linear time, or this test would not end.
    #[test]
    fn the_longest_hostile_text_is_rendered_or_shown_as_it_is() {
        let fits = |part: &str| part.repeat(32_000 / part.chars().count());
        for hostile in [
            format!("# {}x", " ".repeat(31_990)),
            format!("# {}", fits(" #")),
            fits(">"),
            fits("- "),
            fits("["),
            fits("!["),
            fits("*a **a "),
            fits("`a ``"),
            fits("|a"),
            format!("|{}\n|{}\n{}", "a|".repeat(500), "-|".repeat(500), fits("|")),
            fits("<a "),
            fits("http"),
            fits("\\"),
            fits("[a]: b\n"),
        ] {
            if let Some(written) = html(&hostile) {
                assert!(written.len() <= LONGEST + 1024, "{}", &hostile[..20]);
            }
        }
        let deep = shown(&format!("{}deep", ">".repeat(5_000)));
        assert_eq!(deep.matches("<blockquote>").count(), deep.matches("</blockquote>").count());
        assert!(deep.matches("<blockquote>").count() <= DEEPEST && deep.contains("deep"));
    }

    #[test]
    fn messages_of_matrix_have_only_the_tags_that_its_clients_accept() {
        let matrix = |markdown: &str| to_html(markdown, HtmlDialect::Matrix).unwrap();
        for (markdown, expected) in [
            ("# Title", "<h1>Title</h1>"),
            ("- [x] done", "<ul><li>☑ done</li></ul>"),
            ("```rust\nlet a;\n```", "<pre><code class=\"language-rust\">let a;\n</code></pre>"),
            ("```a\"b\nlet a;\n```", "<pre><code>let a;\n</code></pre>"),
            ("[l](https://e.example)", "<p><a href=\"https://e.example\">l</a></p>"),
            (
                "| a |\n|--:|\n| 1 |",
                "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>",
            ),
            ("<b>raw</b>", "<p>&lt;b&gt;raw&lt;/b&gt;</p>"),
        ] {
            assert_eq!(matrix(markdown), expected, "{markdown}");
        }
    }
}
