//! Rare words: faster searches for several words of which one is rare.
//!
//! FTS5's `bm25` counts the texts of every word in every search, and looks up each text of the rare word in the lists
//! of the others. This module keeps the counts of common words, and takes from the index only the texts that have the
//! rare word. The caller scores these from their contents. The results and scores are those of `bm25`.

use rusqlite::{Connection, params};

use super::bm25::{Bm25, TextSums};
use super::index_file::IndexSearch;
use super::tokenizer::Tokenizer;
use super::word_counts::WordCounts;
use crate::full_text::phrase;

/// The most words of such a search.
const WORDS: usize = 16;
/// The longest word, in bytes. FTS5 cuts much longer ones.
const LONGEST_WORD: usize = 1_000;
/// The most texts that are scored from their contents.
const RARE: i64 = 2_000;
/// Scoring one text takes as long as counting this many texts.
const COST: i64 = 20;

/// A word of a search that is a single word for FTS5.
pub(super) struct SearchWord {
    /// As the index has it.
    pub folded: String,
    /// The FTS5 expression for it.
    pub expression: String,
}

/// The texts that have the rarest word of a search.
pub(in super::super) struct RareWordTexts {
    /// Numbers of the entries, in order.
    pub entries: Vec<i64>,
    pub bm25: Bm25,
}

/// The texts to score, if one word is rare and others are common.
pub(super) fn rare_word_texts(
    db: &Connection,
    counts: &mut WordCounts,
    tokenizer: &Tokenizer,
    words: &[String],
    search: &IndexSearch,
    indexed: i64,
) -> rusqlite::Result<Option<RareWordTexts>> {
    let (Some(words), Some(sums)) = (single_words(words, tokenizer)?, TextSums::read(db)?) else {
        return Ok(None);
    };
    let mut counted = Vec::with_capacity(words.len());
    for word in &words {
        counted.push(counts.texts_with(db, word, indexed)?);
    }
    let Some((rarest, texts)) = words.iter().zip(counted.iter().copied()).min_by_key(|(_, texts)| *texts)
    else {
        return Ok(None);
    };
    if texts > RARE || texts.saturating_mul(COST) > counted.iter().sum() {
        return Ok(None);
    }
    let (tags, now) = search.tags_and_now();
    let entries = db
        .prepare_cached(&format!(
            "SELECT rowid FROM texts WHERE {} AND texts MATCH ?3 ORDER BY rowid",
            search.condition()
        ))?
        .query_map(params![tags, now, rarest.expression], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let bm25 = Bm25::new(sums, words.into_iter().map(|word| word.folded).zip(counted));
    Ok(Some(RareWordTexts { entries, bm25 }))
}

/// The words of a search. `None` if FTS5 splits one of them into several words, or into none.
fn single_words(words: &[String], tokenizer: &Tokenizer) -> rusqlite::Result<Option<Vec<SearchWord>>> {
    if words.len() < 2 || words.len() > WORDS || words.iter().any(|word| word.len() > LONGEST_WORD) {
        return Ok(None);
    }
    words
        .iter()
        .map(|word| {
            let folded = tokenizer.single_word(word)?;
            Ok(folded.map(|folded| SearchWord { folded, expression: phrase(word) }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use posthouse_time::Timepiece;

    use super::super::bm25::TextScore;
    use super::super::index_file::{IndexHits, IndexRow, PruneTimes, TenantIndex};
    use super::*;

    const NEVER: PruneTimes = PruneTimes { wall: 0, ledger: 0 };

    /// An index with the texts that the ledger would have.
    struct Fixture {
        index: TenantIndex,
        texts: HashMap<i64, String>,
        tokenizer: Tokenizer,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                index: TenantIndex::new(None, "ten"),
                texts: HashMap::new(),
                tokenizer: Tokenizer::default(),
            }
        }

        /// Texts of different lengths, all with `sea`, a third with `Été`, one in fifty with `ferry`.
        fn add(&mut self, numbers: std::ops::Range<i64>, now: PruneTimes) {
            let rows: Vec<IndexRow> = numbers
                .map(|seq| {
                    let mut content = "sea ".repeat(usize::try_from(seq % 4 + 1).unwrap());
                    content.push_str(&"and words\nthat differ ".repeat(usize::try_from(seq % 7).unwrap()));
                    content.push_str(if seq % 3 == 0 { "\u{c9}te\u{301} " } else { "winter " });
                    content.push_str(if seq % 50 == 0 { "Ferry ferry" } else { "train" });
                    self.texts.insert(seq, content.clone());
                    IndexRow {
                        seq,
                        id: [0; 16],
                        content,
                        tags: (seq % 100 == 0).then(|| r#"["hundred"]"#.to_owned()),
                        expiry: (seq % 10 == 0).then_some((10, 10)),
                    }
                })
                .collect();
            self.index.add(&rows, now).unwrap();
        }

        fn search(&mut self, text: &str, tag: Option<&str>, by_words: bool) -> IndexHits {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let search = IndexSearch {
                expression: Some(words.iter().map(|word| phrase(word)).collect::<Vec<_>>().join(" ")),
                words: by_words.then_some(words),
                any_tag: tag.map(|tag| format!("[\"{tag}\"]")),
                before: None,
                now: 5,
                limit: 5_000,
            };
            self.index.search(&search, &self.tokenizer, &Timepiece::wall()).unwrap()
        }

        /// The entries and scores by the index alone, and by their texts.
        fn both_ways(&mut self, text: &str, tag: Option<&str>) -> [Vec<(i64, f64)>; 2] {
            let IndexHits::Hits(hits) = self.search(text, tag, false) else { panic!("{text}") };
            let mut by_index: Vec<_> = hits.iter().map(|hit| (hit.seq, hit.score.unwrap())).collect();
            by_index.sort_by_key(|(seq, _)| *seq);
            let IndexHits::RareWord(rare) = self.search(text, tag, true) else {
                panic!("{text} has no rare word")
            };
            let score = |seq: &i64| match rare.bm25.score(&self.texts[seq], &self.tokenizer).unwrap() {
                TextScore::Match(score) => Some((*seq, score)),
                TextScore::NoMatch => None,
                TextScore::Unknown => panic!("{:?} was not scored", self.texts[seq]),
            };
            let by_text = rare.entries.iter().filter_map(score).collect();
            [by_index, by_text]
        }
    }

    #[test]
    fn texts_with_a_rare_word_get_the_scores_of_the_index_to_the_last_digit() {
        let mut fixture = Fixture::new();
        fixture.add(1..2_500, NEVER);
        let check = |fixture: &mut Fixture, when: &str| {
            for (text, tag) in [
                ("sea ferry", None),
                ("FERRY sea sea", None),
                ("ferry \u{e9}t\u{e9} sea", None),
                ("sea ferry", Some("hundred")),
                ("sea ferry", Some("other")),
                ("sea nothing", None),
            ] {
                let [by_index, by_text] = fixture.both_ways(text, tag);
                assert_eq!(by_index, by_text, "{text} {tag:?} {when}");
                assert_eq!(by_index.is_empty(), text.contains("nothing") || tag == Some("other"), "{text}");
            }
        };
        check(&mut fixture, "at first");
        fixture.add(2_500..4_000, NEVER);
        check(&mut fixture, "after more texts were added");
        // Every tenth entry has expired and is removed, so all counts and sums change.
        fixture.add(4_000..4_001, PruneTimes { wall: 20, ledger: 20 });
        fixture.add(4_001..4_101, NEVER);
        let [by_index, by_text] = fixture.both_ways("sea ferry", None);
        assert_eq!(by_index, by_text, "after texts were removed");
        assert_eq!(by_index.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [4_050, 4_100]);
    }

    #[test]
    fn only_searches_with_a_rare_word_beside_a_common_one_are_scored_by_texts() {
        let mut fixture = Fixture::new();
        fixture.add(1..2_500, NEVER);
        let long = "x".repeat(LONGEST_WORD + 1);
        for text in ["sea", "ferry", "sea winter", "sea-ferry ferry", "- ferry", &format!("sea {long}")] {
            assert!(matches!(fixture.search(text, None, true), IndexHits::Hits(_)), "{text}");
        }
    }
}
