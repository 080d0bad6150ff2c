//! Discord's Markdown dialect: rewrites what Discord does not support.
//!
//! Discord supports most of Markdown, but no tables and no headings below the third level.

/// Rewrites tables as code blocks and small headings as bold lines, outside of code blocks.
pub(super) fn to_discord(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 16);
    let mut fence: Option<&str> = None;
    let lines: Vec<&str> = text.split('\n').collect();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let marker = fence_of(line);
        match (fence, marker) {
            (None, Some(opened)) => fence = Some(opened),
            (Some(open), Some(closed)) if closed.starts_with(open) && line.trim() == closed => fence = None,
            _ => {}
        }
        let rows = if fence.is_none() && marker.is_none() { table_rows(&lines[at..]) } else { 0 };
        if rows > 0 {
            written.push_str("```\n");
            for row in &lines[at..at + rows] {
                written.push_str(row);
                written.push('\n');
            }
            written.push_str("```");
            at += rows;
        } else {
            match small_heading(line).filter(|_| fence.is_none()) {
                Some(heading) => {
                    written.push_str("**");
                    written.push_str(heading);
                    written.push_str("**");
                }
                None => written.push_str(line),
            }
            at += 1;
        }
        if at < lines.len() {
            written.push('\n');
        }
    }
    written
}

/// The marker with which a line opens or closes a code block.
fn fence_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let length = line.len() - line.trim_start_matches('`').len();
    (length >= 3).then(|| &line[..length])
}

/// A heading below the third level, without its marks.
fn small_heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let heading = text.strip_prefix(' ')?.trim().trim_matches('*');
    ((4..=6).contains(&level) && !heading.is_empty()).then_some(heading)
}

/// The number of lines of the table that begins here: a row, a line of dashes, and rows.
fn table_rows(lines: &[&str]) -> usize {
    let is_row = |line: &&str| line.trim().starts_with('|') && line.trim().len() > 1;
    let is_rule = |line: &str| {
        line.contains('-') && line.trim().chars().all(|letter| matches!(letter, '|' | '-' | ':' | ' '))
    };
    if lines.len() < 2 || !is_row(&lines[0]) || !is_row(&lines[1]) || !is_rule(lines[1]) {
        return 0;
    }
    lines.iter().take_while(|line| is_row(line)).count()
}

#[cfg(test)]
mod tests {
    use super::to_discord;

    #[test]
    fn what_discord_knows_stays_as_it_is() {
        for text in [
            "",
            "plain",
            "**b** *i* ~~s~~ `c`",
            "# one\n### three\n",
            "```rs\n#### x\n| a |\n| - |\n```\n",
            "| alone |",
        ] {
            assert_eq!(to_discord(text), text);
        }
    }

    #[test]
    fn small_headings_become_bold_and_tables_become_code() {
        assert_eq!(to_discord("#### Deep\ntext"), "**Deep**\ntext");
        assert_eq!(to_discord("####x"), "####x");
        let table = "before\n| a | b |\n|---|:-:|\n| 1 | 2 |\nafter";
        assert_eq!(to_discord(table), "before\n```\n| a | b |\n|---|:-:|\n| 1 | 2 |\n```\nafter");
    }
}
