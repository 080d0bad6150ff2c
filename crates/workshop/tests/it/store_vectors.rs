//! The recorded script of 46 calls, over the folder and the SQLite file.

use serde_json::{Map, Value, json};
use skill::{ContentHash, Status};
use workshop::{SkillFilter, SkillStore, StoreOptions, StoreRefusal};

use crate::fixtures::{OS_USER, Stores, granted};
use crate::recorded::{contract, is_own_folder, list, text};

/// Steps that record a defect, with the section that names it. What we expect instead follows in `ours`.
const FILESYSTEM_BY_OUR_RULE: &[(usize, &str)] =
    &[(30, "4.1 filters: the author is filtered"), (34, "4.1 filters: the type is filtered")];

const SQLITE_BY_OUR_RULE: &[(usize, &str)] = &[
    (11, "4.1 author: another author is refused"),
    (19, "4.1 author: an overwrite without an author keeps the author"),
    (26, "4.1 status/body agreement: the text gets the status that was given"),
    (27, "4.1 status/body agreement: the text gets the status that was given"),
    (28, "4.1 status/body agreement and author: steps 19 and 26"),
    (34, "4.1 filters: the type is filtered"),
    (35, "4.1 name rule: the same for all stores"),
    (45, "4.1 filters: tags are also those of the header, so the note differs"),
];

/// What we expect at a step that records a defect.
fn ours(step: usize, recorded: &Value) -> Value {
    let conflict = json!({"throws": {
        "class": "StorageConflictError", "connector_type": "skill_store", "implementation": "SqliteSkillStore",
    }});
    match step {
        11 | 35 => conflict,
        19 => json!({"ok": with_author(&recorded["ok"], "/metadata")}),
        26 => json!({"ok": as_draft(&recorded["ok"])}),
        27 => {
            let mut loaded = as_draft(&recorded["ok"]);
            loaded["metadata"] = as_draft(&loaded["metadata"]);
            loaded["source"] = json!(text(&loaded, "source").replace("Status: Approved", "Status: Draft"));
            json!({"ok": loaded})
        }
        28 => {
            json!({"ok": [as_draft(&recorded["ok"][0]), with_author(&recorded["ok"][1], "")]})
        }
        30 => json!({"ok": [recorded["ok"][1]]}),
        34 => json!({"ok": []}),
        45 => {
            let mut manifest = recorded["ok"].clone();
            manifest["manifest"]["tag_filter_note"] =
                json!("header and metadata_bag.tags; every skill is read");
            json!({"ok": manifest})
        }
        _ => panic!("step {step} has no expectation of ours"),
    }
}

fn with_author(recorded: &Value, place: &str) -> Value {
    let mut value = recorded.clone();
    let meta = value.pointer_mut(place).unwrap();
    meta["author"] = json!("ann");
    meta["metadata_bag"] = json!({"author": "ann"});
    value
}

/// The hash of `appr` as a Draft is the one that the filesystem store recorded.
fn as_draft(recorded: &Value) -> Value {
    let mut value = recorded.clone();
    let hash = "046b6acb4aba99406e26a972972d28152ba597ef5f58f8436cf0a73c3ca0802a";
    (value["content_hash"], value["version"]) = (json!(hash), json!(hash[..12]));
    if let Some(status) = value.get_mut("status") {
        *status = json!("Draft");
    }
    value
}

#[tokio::test]
async fn vectors_store_filesystem() {
    let stores = Stores::open_with(|settings| {
        settings.root = settings.root.with_file_name("s");
    })
    .await;
    let place = stores.folder.path().to_str().unwrap().to_owned();
    runs("store-filesystem.json", FILESYSTEM_BY_OUR_RULE, &stores.filesystem, &place).await;
}

#[tokio::test]
async fn vectors_store_sqlite() {
    let stores = Stores::open().await;
    runs("store-sqlite.json", SQLITE_BY_OUR_RULE, &stores.sqlite, "").await;
}

async fn runs(file: &str, by_our_rule: &[(usize, &str)], store: &dyn SkillStore, place: &str) {
    let file_content = contract(file);
    let steps = list(&file_content["steps"]);
    if is_own_folder() {
        assert_eq!(steps.len(), 46);
    }
    for (number, step) in steps.iter().enumerate() {
        let mut found = call(store, step, &file_content["bodies"]).await;
        normalize(&mut found, step, place);
        let rule = by_our_rule.iter().find(|(ours, _)| *ours == number);
        let expected = match rule {
            Some((_, section)) => {
                println!("{file} step {number} by our rule: {section}");
                assert!(!agrees(&found, step), "{file} step {number}: the reference agrees with us");
                ours(number, step)
            }
            None => step.clone(),
        };
        assert!(agrees(&found, &expected), "{file} step {number}: {step}\nfound {found}");
    }
}

/// Messages are compared where the contract sets them.
fn agrees(found: &Value, expected: &Value) -> bool {
    if expected.get("ok").is_some() {
        return found["ok"] == expected["ok"] && found.get("throws").is_none();
    }
    let (found, expected) = (&found["throws"], &expected["throws"]);
    let exact = matches!(expected["class"].as_str(), Some("SkillNotFoundError" | "VersionNotFoundError"));
    let fields = expected.as_object().unwrap().keys().filter(|field| *field != "message" || exact);
    found.is_object() && fields.into_iter().all(|field| found[field] == expected[field])
}

async fn call(store: &dyn SkillStore, step: &Value, bodies: &Value) -> Value {
    let args = step["args"].as_array().unwrap();
    let arg = |index: usize| args.get(index).and_then(Value::as_str).unwrap_or_default();
    let (name, body) = (arg(0), |key: &str| text(bodies, key));
    match text(step, "op") {
        "query" => {
            let filter = args.first().cloned().unwrap_or_else(|| json!({}));
            let filter: SkillFilter = serde_json::from_value(filter).unwrap();
            answer(store.query(&filter).await.unwrap())
        }
        "load" => {
            let version = args.get(1).map(|_| match arg(1).strip_prefix("$V(") {
                Some(key) => ContentHash::of(body(key.trim_end_matches(')'))).version().to_owned(),
                None => arg(1).to_owned(),
            });
            answer(store.load(name, version.as_deref()).await.unwrap())
        }
        "metadata" => answer(store.metadata(name).await.unwrap()),
        "versions" => answer(store.versions(name).await.unwrap()),
        "delete" => answer(store.delete(name).await.unwrap()),
        "manifest" => answer(store.manifest().await.unwrap()),
        "store" => {
            let source = body(arg(1).strip_prefix('$').unwrap());
            answer(store.store(name, source, options(args.get(2))).await.unwrap())
        }
        "update_status" => match StoreRefusal::status_named(store.implementation(), name, arg(1)) {
            Ok(status) => answer(store.update_status(name, status, None).await.unwrap()),
            Err(refusal) => answer(Err::<(), _>(refusal)),
        },
        other => panic!("{other}"),
    }
}

fn options(meta: Option<&Value>) -> StoreOptions {
    let empty = json!({});
    let meta = meta.unwrap_or(&empty);
    StoreOptions {
        author: meta["author"].as_str().map(str::to_owned),
        status: meta["status"].as_str().map(|word| Status::named(word).unwrap()),
        ..StoreOptions::default()
    }
}

fn answer<T: serde::Serialize>(answer: Result<T, StoreRefusal>) -> Value {
    match answer {
        Ok(value) => json!({"ok": value}),
        Err(refusal) => json!({"throws": {
            "class": refusal.reason.class(),
            "message": refusal.to_string(),
            "connector_type": refusal.connector_type(),
            "implementation": refusal.implementation,
        }}),
    }
}

/// Puts the marks of the recording in place of times of files and of the folder.
fn normalize(found: &mut Value, recorded: &Value, place: &str) {
    match found {
        Value::Object(fields) => {
            if recorded.to_string().contains("<mtime>") || fields.contains_key("root_dir") {
                mark(fields, place);
            }
            fields.values_mut().for_each(|value| normalize(value, recorded, place));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| normalize(value, recorded, place)),
        _ => {}
    }
}

fn mark(fields: &mut Map<String, Value>, place: &str) {
    for time in ["created_at", "updated_at"] {
        if let Some(time) = fields.get_mut(time) {
            *time = json!("<mtime>");
        }
    }
    if let Some(root) = fields.get_mut("root_dir") {
        *root = json!(root.as_str().unwrap().replacen(place, "@ROOT@", 1));
    }
}

#[tokio::test]
async fn a_folder_has_the_author_of_its_settings_by_default() {
    let stores = Stores::open().await;
    granted(stores.filesystem.store("note", "text", StoreOptions::default()).await);
    assert_eq!(granted(stores.filesystem.metadata("note").await).author.as_deref(), Some(OS_USER));
}
