//! Output of commands: tables for people, JSON for programs.

use std::io::{ErrorKind, Write};

use posthouse_time::Moment;
use serde_json::Value;

/// Output format.
pub struct Output {
    pub json: bool,
}

impl Output {
    pub fn text(&self, text: &str) -> anyhow::Result<()> {
        match std::io::stdout().lock().write_all(text.as_bytes()) {
            // The reader of a pipe may close it early, as `head` does.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => Ok(written?),
        }
    }

    pub fn value(&self, value: &Value) -> anyhow::Result<()> {
        self.text(&format!("{value:#}\n"))
    }

    /// Prints JSON, or one sentence.
    pub fn done(&self, answer: &Value, sentence: &str) -> anyhow::Result<()> {
        if self.json { self.value(answer) } else { self.text(&format!("{sentence}\n")) }
    }

    /// Prints a list, one line per item. `columns` are headings with the field below them.
    pub fn list(&self, items: Vec<Value>, columns: &[(&str, &str)], none: &str) -> anyhow::Result<()> {
        if self.json {
            return self.value(&super::admin_client::listed(items));
        }
        if items.is_empty() {
            return self.text(&format!("{none}\n"));
        }
        let mut rows = vec![columns.iter().map(|(heading, _)| (*heading).to_owned()).collect::<Vec<_>>()];
        rows.extend(items.iter().map(|item| columns.iter().map(|(_, name)| cell(&item[*name])).collect()));
        self.text(&aligned(&rows))
    }

    /// Prints one item, one line per field.
    pub fn card(&self, item: &Value, parts: &[(&str, &str)]) -> anyhow::Result<()> {
        if self.json {
            return self.value(item);
        }
        let rows: Vec<Vec<String>> =
            parts.iter().map(|(heading, name)| vec![(*heading).to_owned(), cell(&item[*name])]).collect();
        self.text(&aligned(&rows))
    }
}

/// A value as text for a table.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        // One line per cell, and no control characters: a peer's text must not move the cursor.
        Value::String(text) => {
            without_control_characters(&text.lines().collect::<Vec<_>>().join(" ").replace('\t', " "))
        }
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(" "),
        Value::Object(parts) => match (parts.get("platform"), parts.get("id")) {
            (Some(platform), Some(id)) => format!("{}:{}", cell(platform), cell(id)),
            _ => value.to_string(),
        },
    }
}

/// A time in milliseconds as text.
pub fn at(ms: &Value) -> String {
    ms.as_i64().map_or_else(|| "-".to_owned(), |ms| Moment::from_millis(ms).to_string())
}

/// Replaces control characters in a foreign text, so that it cannot move the cursor of a terminal.
pub fn without_control_characters(text: &str) -> String {
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().map(|c| if harmless(c) { c } else { '\u{fffd}' }).collect()
}

/// Quotes any text as one word for a POSIX shell.
pub fn for_a_shell(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@".contains(c);
    match !value.is_empty() && value.chars().all(plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', r"'\''")),
    }
}

/// Columns as wide as their widest cell, without spaces at the ends of lines.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max())
        .map(Option::unwrap_or_default)
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_line_up_whatever_the_script() {
        let rows =
            [["NAME", "UNREAD"], ["zoë", "3"], ["heron-1", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(aligned(&rows), "NAME     UNREAD\nzoë      3\nheron-1\n");
    }

    #[test]
    fn a_text_cannot_move_the_cursor_of_a_terminal() {
        assert_eq!(without_control_characters("a\tb\n\u{1b}[2Jc\r"), "a\tb\n\u{fffd}[2Jc\u{fffd}");
    }

    #[test]
    fn values_read_as_words() {
        for (value, word) in [
            (json!(null), "-"),
            (json!(true), "yes"),
            (json!(""), "-"),
            (
                json!([{ "platform": "telegram", "id": "7001" }, { "platform": "discord", "id": "d" }]),
                "telegram:7001 discord:d",
            ),
            (json!("a\u{1b}[2Jb"), "a\u{fffd}[2Jb"),
            (json!("over\r\ntwo\nlines\n"), "over two lines"),
        ] {
            assert_eq!(cell(&value), word);
        }
    }
}
