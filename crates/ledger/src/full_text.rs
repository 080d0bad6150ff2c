//! Texts of searches, and their full-text expressions for SQLite's FTS5.

/// The most words that a search may have.
pub const WORDS_OF_A_SEARCH: usize = 256;

/// The prefix of a search whose rest is an FTS5 expression.
const RAW: &str = "raw:";

/// What a search looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextQuery {
    /// Everything, newest first: the text has no words.
    Newest,
    /// All of these words. A word with punctuation in it is a phrase.
    Words(Vec<String>),
    /// An expression in the syntax of FTS5.
    Raw(String),
}

impl TextQuery {
    /// Reads the text of a search. Words are separated by white space, so `OR` is a word, and quotes have no meaning. A
    /// text that begins with `raw:` is an expression.
    pub fn read(text: &str) -> Self {
        if let Some(expression) = text.strip_prefix(RAW) {
            return Self::Raw(expression.trim_matches(is_space).to_owned());
        }
        let words: Vec<String> =
            text.split(is_space).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        if words.is_empty() { Self::Newest } else { Self::Words(words) }
    }

    /// The FTS5 expression. None if there is nothing to match, or if SQLite would not read the expression as one: it
    /// ends a text at a zero byte, and reads one that begins with `*` as a command.
    pub(crate) fn expression(&self) -> Option<String> {
        match self {
            Self::Newest => None,
            Self::Words(words) => Some(words.iter().map(|word| phrase(word)).collect::<Vec<_>>().join(" ")),
            Self::Raw(expression) => {
                let is_readable = !expression.contains('\0') && !expression.starts_with('*');
                is_readable.then(|| expression.clone())
            }
        }
    }
}

/// A word as a quoted phrase, in which nothing but a quote has a meaning.
pub(crate) fn phrase(word: &str) -> String {
    format!("\"{}\"", word.replace('"', "\"\"").replace('\0', " "))
}

/// White space as the reference runtime sees it: that of JavaScript's regular expressions.
fn is_space(character: char) -> bool {
    character == '\u{feff}' || (character.is_whitespace() && character != '\u{85}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_becomes_a_quoted_phrase() {
        let expression = |text| TextQuery::read(text).expression();
        assert_eq!(expression("harbour OR \"sea\"").unwrap(), r#""harbour" "OR" """sea""""#);
        assert_eq!(expression("a\0b").unwrap(), r#""a b""#);
        assert_eq!(expression("raw: harbour OR sea ").unwrap(), "harbour OR sea");
        assert_eq!(TextQuery::read(" \t\u{feff}\n"), TextQuery::Newest);
        for unreadable in ["raw:a\0b", "raw: *reads", " "] {
            assert_eq!(expression(unreadable), None, "{unreadable:?}");
        }
    }
}
