//! The recorded script of the data store and its tools, over the SQLite file and the server's own store.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use workshop::{DataAnswer, DataBridge, DataStore, QueryFilters};

use crate::data_stores::{DataFixture, map};
use crate::recorded::{contract, is_own_folder, list, text};

/// Steps at which the server's own store follows our rule, with the section that names it.
const OWN_BY_OUR_RULE: &[(usize, &str)] = &[
    (6, "4.2: recipients, expires_at and curated fields are at the top level, never in the metadata"),
    (28, "4.2: newest first holds within a second, too, and fields as in step 6"),
    (29, "4.2: the manifest is that of another store"),
    (30, "4.2: the manifest is that of another store"),
];

#[tokio::test]
async fn vectors_data_store_sqlite() {
    let data = DataFixture::open().await;
    runs(&data.sqlite, &[]).await;
}

#[tokio::test]
async fn vectors_data_store_ledger() {
    let data = DataFixture::open().await;
    runs(&data.own, OWN_BY_OUR_RULE).await;
}

async fn runs(store: &Arc<dyn DataStore>, by_our_rule: &[(usize, &str)]) {
    let recorded = contract("data-store.json");
    let steps = list(&recorded["steps"]);
    if is_own_folder() {
        assert_eq!(steps.len(), 31);
    }
    let bridge = DataBridge::new(Arc::clone(store));
    let mut ids: HashMap<String, String> = HashMap::new();
    for (number, step) in steps.iter().enumerate() {
        let mut found = call(&bridge, step, &ids).await;
        if text(step, "op") == "data_write" && found.get("ok").is_some() {
            let id = text(&found["ok"], "id").to_owned();
            ids.insert(id, text(&step["ok"], "id").to_owned());
        }
        normalize(&mut found, &ids);
        let rule = by_our_rule.iter().find(|(ours, _)| *ours == number);
        let expected = match rule {
            Some((_, section)) => {
                println!("data-store.json step {number} by our rule: {section}");
                assert!(!agrees(&found, step), "step {number}: the reference agrees with us");
                ours(number, &steps)
            }
            None => step.clone(),
        };
        assert!(agrees(&found, &expected), "step {number}: {step}\nfound {found}");
    }
}

/// What the server's own store answers at a step where it follows our rule.
fn ours(step: usize, steps: &[Value]) -> Value {
    let top_level = |recorded: &Value| {
        let mut entry = recorded.clone();
        let metadata = entry.as_object_mut().unwrap().remove("metadata").unwrap();
        for (field, value) in metadata.as_object().unwrap() {
            entry[field] = value.clone();
        }
        entry
    };
    let manifest = json!({
        "kind": "house", "supported_modes": ["fts"], "score_range": "unbounded", "supported_filters": ["domain_tags"],
        "tag_filter_semantic": "exact match; a list means any of", "regexp_fallback_active": false,
        "fts_query_semantic": "phrase-tokens (boolean ops disabled); use `raw:` prefix for FTS5 syntax",
    });
    match step {
        6 => json!({"ok": top_level(&steps[6]["ok"])}),
        28 => json!({"ok": [steps[7]["ok"], top_level(&steps[6]["ok"])]}),
        29 => json!({"ok": {"capabilities_version": "1", "manifest": manifest}}),
        30 => {
            json!({"ok": {"capabilities_version": "1", "manifest": {"kind": "data-store-bridge", "wraps": manifest}}})
        }
        _ => panic!("step {step} has no expectation of ours"),
    }
}

async fn call(bridge: &DataBridge, step: &Value, ids: &HashMap<String, String>) -> Value {
    let real = |mark: &str| {
        ids.iter().find(|(_, known)| *known == mark).map_or(mark.to_owned(), |(id, _)| id.clone())
    };
    match (text(step, "via"), text(step, "op")) {
        ("store", "query") => answer(
            bridge.store().query(&QueryFilters::read(map(step["args"].clone())).unwrap()).await,
            |ok| ok,
        ),
        ("store", "get") => answer(bridge.store().get(&real(text(step, "args"))).await, |ok| ok),
        ("store", "manifest") => answer(bridge.store().manifest().await, |ok| ok),
        ("bridge", "manifest") => answer(bridge.manifest().await, |ok| ok),
        ("bridge", "data_read") => {
            let found = bridge.data_read(map(step["args"].clone())).await;
            answer(found, |items| json!({"items": items}))
        }
        ("bridge", "data_write") => answer(bridge.data_write(map(step["args"].clone()), None).await, |ok| ok),
        other => panic!("{other:?}"),
    }
}

fn answer<T: serde::Serialize>(answer: DataAnswer<T>, shape: impl Fn(Value) -> Value) -> Value {
    match answer.unwrap() {
        Ok(value) => json!({"ok": shape(serde_json::to_value(value).unwrap())}),
        Err(refusal) => json!({"throws": {"class": refusal.reason.class(), "message": refusal.to_string()}}),
    }
}

/// Puts the marks of the recording in place of ids and scores.
fn normalize(found: &mut Value, ids: &HashMap<String, String>) {
    match found {
        Value::Object(fields) => {
            if let Some(id) = fields.get_mut("id")
                && let Some(mark) = id.as_str().and_then(|id| ids.get(id))
            {
                *id = json!(mark);
            }
            if let Some(score) = fields.get_mut("score") {
                assert!(score.as_f64().is_some_and(|score| score < 0.0), "{score}");
                *score = json!("<bm25>");
            }
            fields.values_mut().for_each(|value| normalize(value, ids));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| normalize(value, ids)),
        _ => {}
    }
}

/// Messages are compared where the contract sets them. Offending keys are listed in the order of their names; the
/// reference has the order of the call, which JSON does not keep.
fn agrees(found: &Value, expected: &Value) -> bool {
    if expected.get("ok").is_some() {
        return found.get("throws").is_none() && found["ok"] == expected["ok"];
    }
    let (found, expected) = (&found["throws"], &expected["throws"]);
    let words = |message: &Value| {
        let mut words: Vec<String> =
            message.as_str().unwrap_or_default().split([' ', ',', '.']).map(str::to_owned).collect();
        words.sort();
        words
    };
    let is_mode = text(expected, "message").contains("mode 'semantic'");
    found["class"] == expected["class"]
        && (is_mode || words(&found["message"]) == words(&expected["message"]))
}
