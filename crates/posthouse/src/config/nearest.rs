//! Suggestions for mistyped names.

/// The known name that is nearest to a mistyped one, if any is near enough.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let worth = (typed.chars().count() / 3).max(2);
    known
        .into_iter()
        .map(|word| (strsim::osa_distance(typed, word), word))
        .min()
        .filter(|(distance, _)| *distance <= worth)
        .map(|(_, word)| word)
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
    }
}
