//! Skills in a SQLite file of the reference runtime.

use serde_json::{Map, Value, json};
use skill::Status;
use workshop::{METADATA_BYTES, SkillFilter, SkillStore, StoreOptions, TAG_BYTES, TAGS};

use crate::conformance::{by, plain};
use crate::fixtures::{Stores, granted, opened, refused};

fn bag(value: Value) -> Option<Map<String, Value>> {
    value.as_object().cloned()
}

#[tokio::test]
async fn the_file_opens_again_and_another_file_is_refused_in_words() {
    let stores = Stores::open().await;
    granted(stores.sqlite.store("note", "text", by("ann")).await);
    let again = opened(stores.folder.path().join("skills.db"), &stores.clock).await.unwrap();
    assert_eq!(granted(again.load("note", None).await).source, "text");
    let text = stores.folder.path().join("text.db");
    std::fs::write(&text, "not a database, and long enough to be seen as none".repeat(30)).unwrap();
    assert!(opened(text, &stores.clock).await.err().unwrap().contains("not a SQLite database"));
}

#[tokio::test]
async fn two_programs_can_write_to_one_file() {
    let stores = Stores::open().await;
    let other = opened(stores.folder.path().join("skills.db"), &stores.clock).await.unwrap();
    for number in 0..5 {
        granted(stores.sqlite.store("note", &format!("a {number}"), plain()).await);
        granted(other.store("note", &format!("b {number}"), plain()).await);
    }
    assert_eq!(granted(stores.sqlite.versions("note").await).len(), 10);
    assert_eq!(granted(stores.sqlite.load("note", None).await).source, "b 4");
}

#[tokio::test]
async fn tags_are_found_in_the_header_and_in_the_metadata_bag() {
    let stores = Stores::open().await;
    for store in [&stores.sqlite as &dyn SkillStore, &stores.own] {
        let options = StoreOptions { metadata_bag: bag(json!({"tags": ["Red"], "size": 1})), ..by("ann") };
        granted(store.store("note", "# Tags: blue\n", options).await);
        // Without a bag, the earlier one stays.
        granted(store.store("note", "# Tags: blue\n# Status: Approved\n", plain()).await);
        let meta = granted(store.metadata("note").await);
        assert_eq!((meta.status, &meta.metadata_bag.unwrap()["size"]), (Status::Approved, &json!(1)));
        for (tags, found) in [(json!("red"), 1), (json!(["red", "blue"]), 1), (json!(["red", "green"]), 0)] {
            let filter: SkillFilter = serde_json::from_value(json!({"tag": tags})).unwrap();
            assert_eq!(granted(store.query(&filter).await).len(), found, "{tags}");
        }
    }
}

#[tokio::test]
async fn a_metadata_bag_over_its_size_is_refused() {
    let stores = Stores::open().await;
    for store in [&stores.sqlite as &dyn SkillStore, &stores.own] {
        for large in [
            json!({"text": "x".repeat(METADATA_BYTES)}),
            json!({"tags": vec!["x"; TAGS + 1]}),
            json!({"tags": ["x".repeat(TAG_BYTES + 1)]}),
        ] {
            let options = StoreOptions { metadata_bag: bag(large), ..plain() };
            assert_eq!(refused(store.store("note", "text", options).await).reason.code(), "too_large");
        }
        assert_eq!(refused(store.metadata("note").await).reason.code(), "skill_not_found");
    }
}
