//! Recorded change tokens.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use skill::Status;
use workshop::{SkillStore, StoreOptions};

use crate::fixtures::{Stores, granted};
use crate::recorded::{contract, list, text};

fn body(name: &str) -> String {
    text(&contract("store-sqlite.json")["bodies"], name).to_owned()
}

async fn token(store: &dyn SkillStore) -> String {
    granted(store.version().await).unwrap()
}

/// Carries out a recorded step.
async fn steps(store: &dyn SkillStore, step: &str) {
    let stores = async |name: &str, key: &str| {
        granted(store.store(name, &body(key), StoreOptions::default()).await);
    };
    match step {
        "empty store" => {}
        "add note" | "same body again" | "restore first body" => stores("note", "B1").await,
        "body edit, status unchanged" => stores("note", "B2").await,
        "status change" => drop(granted(store.update_status("note", Status::Approved, None).await)),
        "add second" => stores("appr", "BAP").await,
        "remove second" => granted(store.delete("appr").await),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn vectors_version_token_sqlite() {
    let stores = Stores::open().await;
    for case in list(&contract("version-token.json")["sqlite"]) {
        steps(&stores.sqlite, text(&case, "step")).await;
        assert_eq!(token(&stores.sqlite).await, text(&case, "token"), "{case}");
    }
}

/// The server's own token is a number that never comes again. It moves where the recorded one does.
#[tokio::test]
async fn vectors_version_token_ledger() {
    let stores = Stores::open().await;
    let mut before: Option<(String, Value)> = None;
    for case in list(&contract("version-token.json")["sqlite"]) {
        steps(&stores.own, text(&case, "step")).await;
        let now = (token(&stores.own).await, case["token"].clone());
        if let Some(before) = before.replace(now.clone()) {
            assert_eq!(before.0 == now.0, before.1 == now.1, "{case}");
        }
    }
}

#[tokio::test]
async fn vectors_version_token_filesystem() {
    let stores = Stores::open().await;
    let file = stores.root().join("a.skill.md");
    let changed = |millis: u64| {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    };
    let cases = list(&contract("version-token.json")["filesystem"]);
    let expected: Vec<&str> = cases.iter().map(|case| text(case, "token")).collect();
    assert_eq!(token(&stores.filesystem).await, expected[0]);
    fs::create_dir(stores.root()).unwrap();
    fs::write(&file, "text").unwrap();
    changed(1_700_000_000_500);
    assert_eq!(token(&stores.filesystem).await, expected[1]);
    fs::write(stores.root().join("a.versions.jsonl"), "{}\n").unwrap();
    assert_eq!(token(&stores.filesystem).await, expected[2]);
    changed(1_700_000_001_250);
    assert_eq!(token(&stores.filesystem).await, expected[3]);
    assert_eq!(expected.len(), 4);
}

#[tokio::test]
async fn two_edits_of_a_file_at_the_same_millisecond_move_the_token() {
    let stores = Stores::open().await;
    let file = stores.root().join("a.skill.md");
    fs::create_dir(stores.root()).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(stores.clock.now().millis() as u64);
    let mut tokens = Vec::new();
    for text in ["one", "two"] {
        fs::write(&file, text).unwrap();
        File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        tokens.push(token(&stores.filesystem).await);
    }
    assert_ne!(tokens[0], tokens[1]);
    // Later the time of change tells everything.
    stores.winds(3);
    let later = token(&stores.filesystem).await;
    stores.winds(3);
    assert_eq!(token(&stores.filesystem).await, later);
}
