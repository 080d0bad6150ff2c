//! Findings as text: the way a compiler shows them, and as plain lines.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::{Finding, Severity};
use crate::syntax::tree::{LineTable, SourceRange};

/// Findings with line, column, the text with a mark below it, the rule and the remedy. `path` names the text; with
/// `is_styled` the result has colours for a terminal.
pub fn render_findings(source: &str, path: &str, findings: &[Finding], is_styled: bool) -> String {
    let table = LineTable::of(source);
    let renderer = if is_styled { Renderer::styled() } else { Renderer::plain() };
    let shown: Vec<String> =
        findings.iter().map(|finding| render_one(&renderer, source, &table, path, finding)).collect();
    shown.join("\n\n")
}

fn render_one(
    renderer: &Renderer,
    source: &str,
    table: &LineTable<'_>,
    path: &str,
    finding: &Finding,
) -> String {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Info => Level::INFO,
    };
    let title = level.primary_title(printable(&finding.message)).id(finding.rule);
    let group = match finding.range {
        Some(range) => {
            let (lines, first) = lines_around(source, table, range);
            let text = lines.of(source);
            let start = range.start.saturating_sub(lines.start).min(text.len());
            let end = range.end.saturating_sub(lines.start).clamp(start, text.len());
            let snippet = Snippet::source(printable(text)).line_start(first).path(path);
            title.element(snippet.annotation(AnnotationKind::Primary.span(start..end)))
        }
        None => Group::with_title(title),
    };
    renderer.render(&[group.element(Level::HELP.message(finding.remedy))])
}

/// The whole lines of a range, and the number of the first one.
fn lines_around(source: &str, table: &LineTable<'_>, range: SourceRange) -> (SourceRange, usize) {
    let (first, last) = (table.place(range.start).line, table.place(range.end).line);
    let lines = SourceRange::new(table.line(first).start, table.line(last).end);
    (SourceRange::new(lines.start, lines.end.clamp(lines.start, source.len())), first)
}

/// The text with a space for each control character except line ends, so that a skill cannot steer the terminal. Every
/// replaced character has one byte, so places stay.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_control() && c != '\n' { ' ' } else { c }).collect()
}

/// Findings as `[severity] rule (in block): message` with the remedy below, and a line that counts them.
pub fn render_plain(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "OK: no findings.".to_owned();
    }
    let mut text = String::new();
    for finding in findings {
        let block = finding.block.as_ref().map(|block| format!(" (in {block})")).unwrap_or_default();
        text.push_str(&format!(
            "[{}] {}{block}: {}\n  → {}\n",
            finding.severity,
            finding.rule,
            printable(&finding.message),
            finding.remedy
        ));
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    text.push_str(&format!(
        "\n{} error(s), {} warning(s), {} info.",
        count(Severity::Error),
        count(Severity::Warning),
        count(Severity::Info)
    ));
    text
}
