//! Streamed answers of stock agents: joining the first part of a text with its rest.
//!
//! A stock agent sends the first part with a cursor at the end. If it cannot edit that message, it sends the rest as
//! another message.

/// Joins the beginning of a text with its rest.
///
/// Stock agents trim the rest, so whether it began with a blank has to be guessed. Models emit a word together with
/// the blank before it far more often than they split a word.
pub(crate) fn joined(begun: &str, rest: &str) -> String {
    // The agent gave up its first message and repeats the whole text.
    if rest.starts_with(begun) {
        return rest.to_owned();
    }
    let blank = match (begun.chars().next_back(), rest.chars().next()) {
        (Some(last), Some(first)) if needs_blank(last, first) => " ",
        _ => "",
    };
    format!("{begun}{blank}{rest}")
}

fn needs_blank(last: char, first: char) -> bool {
    // Scripts that do not separate words by blanks have no letter case either.
    let is_word = |c: char| c.is_lowercase() || c.is_uppercase();
    if last.is_ascii_digit() && first.is_ascii_digit() {
        return false;
    }
    let begins_word = is_word(first) || first.is_ascii_digit() || "([{\"'*_`#".contains(first);
    let ends_word = is_word(last) || last.is_ascii_digit() || ".,;:!?)]}\"'*_`".contains(last);
    begins_word && ends_word
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn the_rest_follows_its_beginning_with_the_blank_that_was_cut_off() {
        assert_eq!(joined("word0 word1", "word2 word3"), "word0 word1 word2 word3");
        assert_eq!(joined("word0 word1 ", "word2"), "word0 word1 word2");
        assert_eq!(joined("It is so.", "And"), "It is so. And");
        assert_eq!(joined("costs 12", "345"), "costs 12345");
        assert_eq!(joined("done", ", really"), "done, really");
        assert_eq!(joined("line one\n", "line two"), "line one\nline two");
        assert_eq!(joined("今日は", "晴れ"), "今日は晴れ");
    }

    #[test]
    fn a_text_that_is_said_all_over_again_is_taken_as_it_is() {
        assert_eq!(joined("word0 word1", "word0 word1 word2"), "word0 word1 word2");
    }
}
