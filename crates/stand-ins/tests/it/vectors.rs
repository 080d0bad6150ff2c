//! Vectors of Telegram updates, played by the stand-in, and the function that reads recorded vectors.

use std::path::PathBuf;

use serde_json::{Value, json};
use stand_ins::telegram::Injection;

use crate::actors::{Caller, POSTY, telegram};

pub fn recorded(name: &str) -> Value {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors"), PathBuf::from);
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn vectors_of_updates_reach_the_bot_unchanged() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let vectors = recorded("platforms/payloads_telegram.json");
    let cases = vectors["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let update = &case["raw"];
        let kind = update.as_object().unwrap().keys().find(|key| *key != "update_id").unwrap();
        let id = update["update_id"].as_i64().unwrap();
        posty.gets("getUpdates", json!({"offset": id, "allowed_updates": [kind]})).await;
        assert!(telegram.inject(Injection::update(update.clone())).unwrap().queued, "{}", case["name"]);
        let heard = posty.gets("getUpdates", json!({"offset": id})).await;
        assert_eq!(&heard[0], update, "{}", case["name"]);
        posty.gets("getUpdates", json!({"offset": id + 1})).await;
    }
}
