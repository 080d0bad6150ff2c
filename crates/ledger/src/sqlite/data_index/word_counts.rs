//! Counts of common words: in how many texts of an index each occurs.
//!
//! FTS5 counts the texts of every word in every search. That takes 35 ms for a word in 500,000 texts. Texts never change
//! and are added in order, so a count stays right for all texts up to the last one counted.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::rare_word::SearchWord;

/// Counts of rarer words are not kept: counting takes less than a quarter of a millisecond.
const COMMON: i64 = 2_000;
/// Counts that are kept for one index.
const KEPT: usize = 2_048;

#[derive(Default)]
pub(super) struct WordCounts {
    counts: HashMap<String, WordCount>,
}

#[derive(Clone, Copy, Default)]
struct WordCount {
    texts: i64,
    /// The number of the last text that was counted.
    up_to: i64,
}

impl WordCounts {
    /// The number of texts that have a word. `indexed` is the number of the last text in the index.
    pub fn texts_with(&mut self, db: &Connection, word: &SearchWord, indexed: i64) -> rusqlite::Result<i64> {
        let known = self.counts.get(&word.folded).copied().unwrap_or_default();
        if known.up_to == indexed {
            return Ok(known.texts);
        }
        let new: i64 = db
            .prepare_cached("SELECT count(*) FROM texts WHERE texts MATCH ?1 AND rowid > ?2")?
            .query_row(params![word.expression, known.up_to], |row| row.get(0))?;
        let texts = known.texts + new;
        if texts >= COMMON {
            self.keep(&word.folded, WordCount { texts, up_to: indexed });
        }
        Ok(texts)
    }

    /// Forgets all counts, because texts were removed.
    pub fn clear(&mut self) {
        self.counts.clear();
    }

    fn keep(&mut self, word: &str, count: WordCount) {
        if self.counts.len() >= KEPT && !self.counts.contains_key(word) {
            // The rarest word takes the least time to count again.
            let rarest = self.counts.iter().min_by_key(|(_, count)| count.texts);
            if let Some(rarest) = rarest.map(|(word, _)| word.clone()) {
                self.counts.remove(&rarest);
            }
        }
        self.counts.insert(word.to_owned(), count);
    }
}
