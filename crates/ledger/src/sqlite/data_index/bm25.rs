//! BM25: the score of a text for some words, with the constants and the formula of FTS5's function of that name.

use rusqlite::{Connection, OptionalExtension};

use super::tokenizer::Tokenizer;
use crate::data::summary_of;

const K1: f64 = 1.2;
const B: f64 = 0.75;
/// The least weight of a word. As in FTS5, a word in half of all texts or more has it.
const LEAST_WEIGHT: f64 = 1e-6;
/// The row of FTS5's own table that has the sums over all texts.
const SUMS: i64 = 1;

/// Sums over all texts of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextSums {
    pub texts: i64,
    /// Words of all texts, repeats included.
    words: i64,
}

impl TextSums {
    /// The sums that FTS5 keeps. They are part of its file format: the number of rows, and the words of each column.
    pub fn read(db: &Connection) -> rusqlite::Result<Option<Self>> {
        let block: Option<Vec<u8>> = db
            .prepare_cached("SELECT block FROM texts_data WHERE id = ?1")?
            .query_row([SUMS], |row| row.get(0))
            .optional()?;
        Ok(block.and_then(|block| {
            let mut numbers = block.as_slice();
            let texts = number(&mut numbers)?;
            let words = number(&mut numbers)?.checked_add(number(&mut numbers)?)?;
            (texts > 0).then_some(Self { texts, words })
        }))
    }
}

/// Reads a number in SQLite's format of variable length.
fn number(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    for at in 0..9 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        if at == 8 {
            value = (value << 8) | u64::from(*first);
            break;
        }
        value = (value << 7) | u64::from(first & 0x7f);
        if first & 0x80 == 0 {
            break;
        }
    }
    i64::try_from(value).ok()
}

/// Scores texts for these words.
#[derive(Clone, Debug)]
pub(in super::super) struct Bm25 {
    /// Each word, folded, with its weight. A word can occur twice.
    words: Vec<(String, f64)>,
    average_length: f64,
}

/// The result of scoring one text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum TextScore {
    /// It has all words. The smaller the score, the better.
    Match(f64),
    NoMatch,
    /// Its words are not known, so only the index can score it.
    Unknown,
}

impl Bm25 {
    /// `words` are folded, each with the number of texts that have it.
    pub(super) fn new(sums: TextSums, words: impl IntoIterator<Item = (String, i64)>) -> Self {
        let weight = |texts: i64| {
            let weight = (((sums.texts - texts) as f64 + 0.5) / (texts as f64 + 0.5)).ln();
            if weight <= 0.0 { LEAST_WEIGHT } else { weight }
        };
        Self {
            words: words.into_iter().map(|(word, texts)| (word, weight(texts))).collect(),
            average_length: sums.words as f64 / sums.texts as f64,
        }
    }

    /// The score of a text. The index has the first line of a text as a column of its own, so words in it count twice.
    pub fn score(&self, content: &str, tokenizer: &Tokenizer) -> rusqlite::Result<TextScore> {
        let (mut length, mut repeats) = (0_u32, vec![0_u32; self.words.len()]);
        for column in [&summary_of(content), content] {
            let is_split = tokenizer.split(column, |found| {
                length += 1;
                for ((word, _), repeats) in self.words.iter().zip(&mut repeats) {
                    *repeats += u32::from(word == found);
                }
            })?;
            if !is_split {
                return Ok(TextScore::Unknown);
            }
        }
        if repeats.contains(&0) {
            return Ok(TextScore::NoMatch);
        }
        // Computed in the same order as in FTS5, so that no digit differs.
        let mut score = 0.0;
        for ((_, weight), repeats) in self.words.iter().zip(repeats) {
            let repeats = f64::from(repeats);
            score += weight
                * ((repeats * (K1 + 1.0))
                    / (repeats + K1 * (1.0 - B + B * f64::from(length) / self.average_length)));
        }
        Ok(TextScore::Match(-score))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_format_of_sqlite() {
        let read = |mut bytes: &[u8]| number(&mut bytes);
        assert_eq!(read(&[0x07]), Some(7));
        assert_eq!(read(&[0x81, 0x00]), Some(128));
        assert_eq!(read(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xff]), Some(255));
        assert_eq!(read(&[0xff; 9]), None, "larger than any sum");
        assert_eq!(read(&[0x81]), None);
    }
}
