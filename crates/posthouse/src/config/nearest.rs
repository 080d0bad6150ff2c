//! What somebody probably meant.

/// The known word nearest to a mistyped one, if any is near enough to be worth saying.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let worth = (typed.chars().count() / 3).max(2);
    known
        .into_iter()
        .map(|word| (distance(typed, word), word))
        .min()
        .filter(|(distance, _)| *distance <= worth)
        .map(|(_, word)| word)
}

/// How many letters must be put in, taken out, changed or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, against) in other.iter().enumerate() {
            let changed = last[column] + usize::from(letter != against);
            let mut least = changed.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && *letter == other[column - 1] && one[row - 1] == *against;
            if swapped {
                least = least.min(before_last[column - 1] + 1);
            }
            current.push(least);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_the_word_that_was_meant() {
        let known = ["relay.ack_lease", "relay.settle", "server.listen"];
        assert_eq!(nearest("relay.ack_leese", known), Some("relay.ack_lease"));
        assert_eq!(nearest("relay.acklease", known), Some("relay.ack_lease"));
        assert_eq!(nearest("server.lisetn", known), Some("server.listen"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!((distance("", "abc"), distance("abc", "abc"), distance("ab", "ba")), (3, 0, 1));
    }
}
