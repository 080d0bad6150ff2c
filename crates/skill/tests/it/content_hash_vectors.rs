//! Recorded content hashes and versions.

use skill::ContentHash;

use crate::recorded::{contract, list, text};

#[test]
fn the_content_hash_covers_the_text_as_it_is_stored() {
    for case in list(&contract("content-hash.json")["cases"]) {
        let hash = ContentHash::of(text(&case, "body"));
        assert_eq!(hash.as_str(), text(&case, "content_hash"), "{case}");
        assert_eq!(hash.version(), text(&case, "version"), "{case}");
    }
}
