//! Generated corpus: texts of 50 words from a vocabulary of 50,000, in which the frequency of a word is the inverse of
//! its rank (Zipf).

/// Number of words in the vocabulary, and in a text.
const VOCABULARY: usize = 50_000;
const LENGTH: usize = 50;
const COMMONEST: u64 = 50;

/// A source of texts that are the same in every run.
pub struct Corpus {
    /// For each rank, the sum of the frequencies up to it.
    sums: Vec<f64>,
    state: u64,
}

impl Corpus {
    pub fn new(seed: u64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=VOCABULARY)
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        Self { sums, state: seed }
    }

    pub fn text(&mut self) -> String {
        let words: Vec<String> = (0..LENGTH).map(|_| spelled(self.rank())).collect();
        words.join(" ")
    }

    /// Two different words of the fifty commonest.
    pub fn two_common_words(&mut self) -> String {
        let first = self.below(COMMONEST);
        let second = (first + 1 + self.below(COMMONEST - 1)) % COMMONEST;
        format!("{} {}", spelled(first as usize), spelled(second as usize))
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// The rank of the next word of a text.
    fn rank(&mut self) -> usize {
        let total = self.sums.last().copied().unwrap_or_default();
        let at = (self.next() >> 11) as f64 / (1_u64 << 53) as f64 * total;
        self.sums.partition_point(|sum| *sum < at).min(VOCABULARY - 1)
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The word of a rank: syllables, so that words look like words. Two different ranks have different words.
fn spelled(rank: usize) -> String {
    const SYLLABLES: [&str; 16] =
        ["ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "wu", "za"];
    let mut word = String::new();
    let mut rest = rank;
    loop {
        word.push_str(SYLLABLES[rest % 16]);
        rest /= 16;
        if rest == 0 {
            return word;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_rank_has_its_own_word() {
        let words: HashSet<String> = (0..VOCABULARY).map(spelled).collect();
        assert_eq!(words.len(), VOCABULARY);
    }

    #[test]
    fn the_first_word_is_twice_as_frequent_as_the_second() {
        let mut corpus = Corpus::new(7);
        let mut counts = [0_u32; 2];
        for _ in 0..200_000 {
            if let Some(count) = counts.get_mut(corpus.rank()) {
                *count += 1;
            }
        }
        let ratio = f64::from(counts[0]) / f64::from(counts[1]);
        assert!((1.8..2.2).contains(&ratio), "{counts:?}");
        assert_eq!(corpus.text().split(' ').count(), LENGTH);
    }
}
