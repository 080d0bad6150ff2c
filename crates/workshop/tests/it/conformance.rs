//! One suite for all skill stores, with the example of a remote store in Python.

use futures_util::future::join_all;
use posthouse_time::Timepiece;
use serde_json::json;
use skill::{Status, status_of};
use workshop::{BODY_BYTES, CONNECTOR_TYPE, SkillFilter, SkillStore, StoreOptions};

use crate::endpoints::{PythonStore, RemoteFixture};
use crate::fixtures::{START, Stores, granted, refused};

/// Runs each test over every store.
macro_rules! over_all_stores {
    ($($name:ident)*) => {
        /// Runs the whole suite over a store, a new one for each case.
        pub async fn passes<S: SkillStore>(open: impl Fn(Timepiece) -> S) {
            $(behaviour::$name(&open(Timepiece::wound(START))).await;)*
        }
    $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let stores = Stores::open().await;
            let python = PythonStore::start();
            let remote = RemoteFixture::open(&stores.ledger, &stores.clock).await;
            let remote = remote.skills(&"ten_acme".into(), &python.url).await;
            for store in stores.all().into_iter().chain([&remote as &dyn SkillStore]) {
                println!("{}", store.implementation());
                behaviour::$name(store).await;
            }
        }
    )*};
}

over_all_stores! {
    what_is_missing_is_refused_in_the_words_of_the_contract
    a_bad_name_is_refused_when_writing_and_not_found_when_reading
    a_skill_is_loaded_as_it_was_stored
    status_and_text_agree_after_every_write
    a_forced_draft_beats_everything
    the_author_is_locked
    filters_work_alone_and_together
    a_bad_pattern_is_refused
    a_text_over_its_size_is_refused_and_loses_nothing
    a_deleted_skill_leaves_nothing_and_its_name_is_free
    the_token_moves_with_every_change
    writers_at_the_same_time_are_all_in_the_history
    of_two_writers_with_the_same_version_one_is_refused
    a_change_of_status_is_in_the_history
}

pub fn by(author: &str) -> StoreOptions {
    StoreOptions { author: Some(author.to_owned()), ..StoreOptions::default() }
}

pub fn plain() -> StoreOptions {
    StoreOptions::default()
}

fn filter(value: serde_json::Value) -> SkillFilter {
    serde_json::from_value(value).unwrap()
}

async fn names(store: &dyn SkillStore, value: serde_json::Value) -> Vec<String> {
    granted(store.query(&filter(value)).await).into_iter().map(|skill| skill.name).collect()
}

mod behaviour {
    use super::*;

    pub async fn what_is_missing_is_refused_in_the_words_of_the_contract(store: &dyn SkillStore) {
        let refusals = [
            refused(store.load("ghost", None).await),
            refused(store.load("ghost", Some("0123456789ab")).await),
            refused(store.metadata("ghost").await),
            refused(store.versions("ghost").await),
            refused(store.delete("ghost").await),
            refused(store.update_status("ghost", Status::Approved, None).await),
        ];
        for refusal in refusals {
            assert_eq!(refusal.to_string(), "Skill not found: 'ghost'");
            assert_eq!(
                (refusal.reason.class(), refusal.reason.code()),
                ("SkillNotFoundError", "skill_not_found")
            );
            assert_eq!(
                (refusal.connector_type(), refusal.implementation),
                (CONNECTOR_TYPE, store.implementation())
            );
        }
        granted(store.store("note", "text", plain()).await);
        for version in ["000000000000", "", "../note", "%"] {
            let refusal = refused(store.load("note", Some(version)).await);
            assert_eq!(refusal.reason.class(), "VersionNotFoundError", "{version}");
        }
    }

    pub async fn a_bad_name_is_refused_when_writing_and_not_found_when_reading(store: &dyn SkillStore) {
        for name in ["", "..", "../evil", "a/b", "/etc/passwd", ".x", "a\0", "x\n", "é", &"x".repeat(129)] {
            let refusal = refused(store.store(name, "text", plain()).await);
            assert_eq!(refusal.reason.class(), "StorageConflictError", "{name:?}");
            for refusal in [
                refused(store.load(name, None).await),
                refused(store.metadata(name).await),
                refused(store.versions(name).await),
                refused(store.delete(name).await),
                refused(store.update_status(name, Status::Draft, None).await),
            ] {
                assert_eq!(refusal.reason.class(), "SkillNotFoundError", "{name:?}");
            }
        }
        assert!(granted(store.query(&SkillFilter::default()).await).is_empty());
    }

    pub async fn a_skill_is_loaded_as_it_was_stored(store: &dyn SkillStore) {
        let body = "# Skill: note\r\n# Description: keeps\r\n# Status: draft\r\n# Tags: Blue\r\n# Type: data\r\n\r\n\u{1F600}";
        let stored = granted(store.store("note", body, by("ann")).await);
        let loaded = granted(store.load("note", None).await);
        assert_eq!((loaded.source.as_str(), &loaded.version), (body, &stored.version));
        assert_eq!(loaded.content_hash, skill::ContentHash::of(body).as_str());
        let meta = granted(store.metadata("note").await);
        assert_eq!(meta, loaded.metadata);
        assert_eq!(
            (meta.summary.description.as_deref(), meta.author.as_deref()),
            (Some("keeps"), Some("ann"))
        );
        assert_eq!(meta.summary.tags, ["blue"]);
        assert_eq!(granted(store.load("note", Some(&stored.version)).await), loaded);
        assert_eq!(granted(store.query(&SkillFilter::default()).await), [meta]);
    }

    pub async fn status_and_text_agree_after_every_write(store: &dyn SkillStore) {
        let given = StoreOptions { status: Some(Status::Disabled), ..plain() };
        let stored = granted(store.store("note", "# Skill: note\n# Status: Approved\n\ntext", given).await);
        assert_eq!(stored.status, Status::Disabled);
        let loaded = granted(store.load("note", None).await);
        assert_eq!(loaded.source, "# Skill: note\n# Status: Disabled\n\ntext");
        // A text without a status has the previous one.
        granted(store.store("note", "# Skill: note\n\nnew", plain()).await);
        let loaded = granted(store.load("note", None).await);
        assert_eq!(loaded.source, "# Skill: note\n# Status: Disabled\n\nnew");
        for status in [Status::Approved, Status::Draft, Status::Disabled] {
            let changed = granted(store.update_status("note", status, None).await);
            let loaded = granted(store.load("note", None).await);
            assert_eq!((changed.status, loaded.metadata.status), (status, status));
            assert_eq!((status_of(&loaded.source).status(), &changed.version), (status, &loaded.version));
        }
    }

    pub async fn a_forced_draft_beats_everything(store: &dyn SkillStore) {
        let approved = "# Skill: a\n# Status: Approved v3:token\n";
        granted(store.store("a", approved, plain()).await);
        assert_eq!(granted(store.load("a", None).await).source, approved, "a token is kept");
        let forced =
            StoreOptions { force_draft: true, status: Some(Status::Approved), ..StoreOptions::default() };
        for body in [approved, "  # Status: Approved\n# Skill: a\n", "# Skill: a\n", "# Status:\n# Vars: X\n"]
        {
            granted(store.update_status("a", Status::Approved, None).await);
            let stored = granted(store.store("a", body, forced.clone()).await);
            let loaded = granted(store.load("a", None).await);
            assert_eq!((stored.status, loaded.metadata.status), (Status::Draft, Status::Draft), "{body:?}");
            assert_eq!(status_of(&loaded.source).status(), Status::Draft, "{}", loaded.source);
            assert!(!loaded.source.contains("v3:"));
        }
    }

    pub async fn the_author_is_locked(store: &dyn SkillStore) {
        granted(store.store("note", "one", by("ann")).await);
        let refusal = refused(store.store("note", "two", by("bob")).await);
        assert_eq!(refusal.reason.class(), "StorageConflictError");
        assert!(refusal.to_string().starts_with("Storage conflict on 'note': "), "{refusal}");
        granted(store.store("note", "three", plain()).await);
        granted(store.store("note", "four", by("ann")).await);
        assert_eq!(granted(store.metadata("note").await).author.as_deref(), Some("ann"));
        assert_eq!(granted(store.load("note", None).await).source, "four");
        assert_eq!(granted(store.versions("note").await).len(), 3);
    }

    pub async fn filters_work_alone_and_together(store: &dyn SkillStore) {
        for (name, body) in [
            ("b1", "# Tags: red, blue\n# Status: Approved\n"),
            ("B2", "# Tags: red\n# Type: data\n"),
            ("a-3", "# Status: Disabled\n"),
            ("a4", "text"),
        ] {
            let author = if name.starts_with('a') { "ann" } else { "bob" };
            granted(store.store(name, body, by(author)).await);
        }
        let all = ["B2", "a-3", "a4", "b1"];
        assert_eq!(names(store, json!({})).await, all);
        assert_eq!(names(store, json!({"unknown": 1})).await, all);
        assert_eq!(names(store, json!({"status": "Draft"})).await, ["B2", "a4"]);
        assert_eq!(names(store, json!({"status": ["Approved", "Disabled"]})).await, ["a-3", "b1"]);
        assert_eq!(names(store, json!({"status": []})).await, [""; 0]);
        assert_eq!(names(store, json!({"type": "data"})).await, ["B2"]);
        assert_eq!(names(store, json!({"type": "procedural"})).await, ["a-3", "a4", "b1"]);
        assert_eq!(names(store, json!({"tag": "RED"})).await, ["B2", "b1"]);
        assert_eq!(names(store, json!({"tag": ["red", "blue"]})).await, ["b1"]);
        assert_eq!(names(store, json!({"author": "ann"})).await, ["a-3", "a4"]);
        assert_eq!(names(store, json!({"name_pattern": "^a|2$"})).await, ["B2", "a-3", "a4"]);
        assert_eq!(
            names(store, json!({"name_pattern": "\\d", "offset": 1, "limit": 2})).await,
            ["a-3", "a4"]
        );
        assert_eq!(names(store, json!({"offset": 3})).await, ["b1"]);
        assert_eq!(names(store, json!({"limit": 0})).await, [""; 0]);
        let since = granted(store.metadata("a4").await).updated_at;
        assert_eq!(names(store, json!({"since": since + 1_000_000})).await, [""; 0]);
        assert!(names(store, json!({"since": since})).await.contains(&"a4".to_owned()));
        assert_eq!(names(store, json!({"tag": "red", "status": "Draft", "author": "bob"})).await, ["B2"]);
    }

    pub async fn a_bad_pattern_is_refused(store: &dyn SkillStore) {
        let nested = "(".repeat(60) + &")".repeat(60);
        for pattern in ["(", "[a", "(?=x)", "(a{1000}){1000}", &nested, &"x".repeat(2000)] {
            let refusal = refused(store.query(&filter(json!({"name_pattern": pattern}))).await);
            assert_eq!((refusal.reason.class(), refusal.reason.code()), ("QueryError", "query"));
        }
    }

    pub async fn a_text_over_its_size_is_refused_and_loses_nothing(store: &dyn SkillStore) {
        granted(store.store("note", "short", plain()).await);
        for long in ["x".repeat(BODY_BYTES + 1), "x".repeat(BODY_BYTES)] {
            let approved = StoreOptions { status: Some(Status::Approved), ..plain() };
            assert_eq!(refused(store.store("note", &long, approved).await).reason.code(), "too_large");
        }
        assert_eq!(granted(store.load("note", None).await).source, "short");
        assert_eq!(granted(store.versions("note").await).len(), 1);
        granted(store.store("note", &"x".repeat(BODY_BYTES), plain()).await);
        assert_eq!(
            refused(store.update_status("note", Status::Approved, None).await).reason.code(),
            "too_large"
        );
    }

    pub async fn a_deleted_skill_leaves_nothing_and_its_name_is_free(store: &dyn SkillStore) {
        granted(store.store("note", "one", by("ann")).await);
        granted(store.store("note", "two", plain()).await);
        let version = granted(store.metadata("note").await).version;
        granted(store.delete("note").await);
        assert_eq!(refused(store.delete("note").await).reason.class(), "SkillNotFoundError");
        assert_eq!(refused(store.versions("note").await).reason.class(), "SkillNotFoundError");
        assert!(granted(store.query(&SkillFilter::default()).await).is_empty());
        granted(store.store("note", "three", by("bob")).await);
        assert_eq!(granted(store.versions("note").await).len(), 1);
        assert_eq!(granted(store.metadata("note").await).author.as_deref(), Some("bob"));
        assert_eq!(refused(store.load("note", Some(&version)).await).reason.class(), "VersionNotFoundError");
    }

    pub async fn the_token_moves_with_every_change(store: &dyn SkillStore) {
        let mut tokens = vec![granted(store.version().await)];
        let mut moved = async |what: &str| {
            let token = granted(store.version().await);
            assert_ne!(tokens.last(), Some(&token), "{what}");
            tokens.push(token);
        };
        granted(store.store("note", "one", plain()).await);
        moved("a new skill").await;
        granted(store.store("note", "two", plain()).await);
        moved("another text of the same length").await;
        granted(store.update_status("note", Status::Approved, None).await);
        moved("another status").await;
        granted(store.store("other", "one", plain()).await);
        moved("a second skill").await;
        granted(store.delete("other").await);
        moved("one less").await;
    }

    pub async fn writers_at_the_same_time_are_all_in_the_history(store: &dyn SkillStore) {
        let bodies: Vec<String> = (0..8).map(|number| format!("text {number}")).collect();
        let written = join_all(bodies.iter().map(|body| store.store("note", body, plain()))).await;
        let mut written: Vec<String> = written.into_iter().map(|answer| granted(answer).version).collect();
        let lines = granted(store.versions("note").await);
        let mut found: Vec<String> = lines.into_iter().map(|line| line.version).collect();
        let last = found.last().cloned().unwrap();
        written.sort();
        found.sort();
        assert_eq!(found, written);
        assert_eq!(granted(store.load("note", None).await).version, last, "the last commit wins");
    }

    pub async fn of_two_writers_with_the_same_version_one_is_refused(store: &dyn SkillStore) {
        let first = granted(store.store("note", "one", plain()).await);
        let expecting = |version: &str| StoreOptions { if_version: Some(version.to_owned()), ..plain() };
        let both = [
            store.store("note", "two", expecting(&first.version)),
            store.store("note", "three", expecting(&first.version)),
        ];
        let answers = join_all(both).await;
        let refusals: Vec<_> = answers.into_iter().filter_map(|answer| answer.unwrap().err()).collect();
        assert_eq!(refusals.len(), 1);
        assert_eq!(refusals[0].reason.class(), "StorageConflictError");
        assert_eq!(granted(store.versions("note").await).len(), 2);
        let missing = refused(store.store("ghost", "x", expecting(&first.version)).await);
        assert_eq!(missing.reason.class(), "StorageConflictError");
    }

    pub async fn a_change_of_status_is_in_the_history(store: &dyn SkillStore) {
        granted(store.store("note", "# Skill: note\n", by("ann")).await);
        let changed = granted(store.update_status("note", Status::Disabled, None).await);
        assert_eq!((changed.status, changed.previous_status), (Status::Disabled, Some(Status::Draft)));
        assert_eq!(granted(store.versions("note").await).last(), Some(&changed));
        assert_eq!(granted(store.metadata("note").await).author.as_deref(), Some("ann"));
    }
}
