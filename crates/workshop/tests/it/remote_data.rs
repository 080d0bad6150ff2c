//! Remote data stores: the example in Python, and endpoints that return what was not asked for.

use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse;
use ledger::SkillSettingsChange;
use posthouse_wire::Secret;
use serde_json::{Value, json};
use workshop::{DataStore, DataWrite, EndpointSecrets, EntryExpiry, SettingsRefusal};

use crate::data_stores::{DataFixture, asks, entry, finds, map, writes};
use crate::endpoints::{PythonStore, RemoteFixture, STORE_SECRET, ScriptedEndpoint};
use crate::fixtures::START;
use crate::tenants::Tenants;

async fn remote_at(data: &DataFixture, url: &str) -> Arc<dyn DataStore> {
    Arc::new(RemoteFixture::open(&data.ledger, &data.clock).await.data(&"ten_acme".into(), url).await)
}

#[tokio::test]
async fn the_example_keeps_the_conventions_of_data_stores() {
    let (data, python) = (DataFixture::open().await, PythonStore::start());
    let store = remote_at(&data, &python.url).await;
    for id in ["nope", "", "../x", &"x".repeat(5000)] {
        assert_eq!(store.get(id).await.unwrap().unwrap(), None);
    }
    assert_eq!(finds(&store, json!({"query": "nothing"})).await, [""; 0]);
    let tagged = |text: &str, tag: &str| DataWrite { tags: Some(vec![tag.to_owned()]), ..entry(text) };
    let sea = writes(&*store, tagged("Harbour\nopens at five", "sea")).await;
    let land = writes(&*store, tagged("harbour", "land")).await;
    for query in ["harbour", "", "  "] {
        assert_eq!(
            finds(&store, json!({"query": query, "domain_tags": "sea"})).await,
            std::slice::from_ref(&sea)
        );
        assert_eq!(finds(&store, json!({"query": query})).await, [land.clone(), sea.clone()], "newest first");
    }
    let found = store.get(&sea).await.unwrap().unwrap().unwrap();
    assert_eq!(
        (found.summary.as_str(), found.detail.as_deref()),
        ("Harbour", Some("Harbour\nopens at five"))
    );
    // Curated fields are beside the metadata.
    let curated = DataWrite { metadata: Some(map(json!({"vault": "v1", "other": 1}))), ..entry("x") };
    let found = store.get(&writes(&*store, curated).await).await.unwrap().unwrap().unwrap();
    assert_eq!(
        (found.curated.vault.as_deref(), found.metadata),
        (Some("v1"), Some(map(json!({"other": 1}))))
    );
    let refused = asks(&store, json!({"query": "a", "vault": 1, "tenant": 2})).await.unwrap_err();
    assert!(refused.to_string().contains("'tenant', 'vault'"), "{refused}");
    assert_eq!(
        asks(&store, json!({"mode": "semantic"})).await.unwrap_err().reason.code(),
        "unsupported_mode"
    );
    assert_eq!(asks(&store, json!({"domain_tags": []})).await.unwrap_err().reason.code(), "invalid_request");
    let manifest = store.manifest().await.unwrap().unwrap().manifest;
    assert_eq!(
        (&manifest["kind"], &manifest["remote_kind"], &manifest["supported_filters"]),
        (&json!("remote"), &json!("python-example"), &json!(["domain_tags"]))
    );
    // Nothing is returned after its expiry, whatever the store keeps.
    let soon = START.seconds() + 60;
    let brief = writes(&*store, DataWrite { expires: EntryExpiry::At(soon), ..entry("brief") }).await;
    assert_eq!(finds(&store, json!({"query": "brief"})).await, std::slice::from_ref(&brief));
    data.clock.wind(Duration::from_secs(61));
    assert_eq!(finds(&store, json!({"query": "brief"})).await, [""; 0]);
    assert_eq!(store.get(&brief).await.unwrap().unwrap(), None);
}

#[tokio::test]
async fn what_was_not_asked_for_is_a_bad_answer() {
    let data = DataFixture::open().await;
    let found = |tags: Value| json!({"id": "e1", "summary": "s", "detail": "s", "created_at": 1, "domain_tags": tags});
    let with = |member: &str, value: Value| {
        let mut entry = found(json!(["sea"]));
        entry[member] = value;
        entry
    };
    for (entries, code) in [
        (json!([found(json!(["land"]))]), Some("store_bad_answer")),
        (json!([found(json!(["sea"])), found(json!(["sea"]))]), Some("store_bad_answer")),
        (json!([{"id": 5}]), Some("store_bad_answer")),
        (json!(null), Some("store_bad_answer")),
        // Entries that nobody could have written by this server.
        (json!([with("metadata", json!({"note": "x".repeat(65 * 1024)}))]), Some("store_bad_answer")),
        (json!([with("metadata", json!({"vault": "v1"}))]), Some("store_bad_answer")),
        (json!([with("summary", json!("x".repeat(801)))]), Some("store_bad_answer")),
        (json!([with("detail", json!("x".repeat(1024 * 1024 + 1)))]), Some("store_bad_answer")),
        (json!([with("recipients", json!(vec!["heron"; 65]))]), Some("store_bad_answer")),
        (json!([with("domain_tags", json!(["sea", "x".repeat(129)]))]), Some("store_bad_answer")),
        (json!([with("id", json!(""))]), Some("store_bad_answer")),
        (json!([with("metadata", json!({"note": "x"}))]), None),
        (json!([found(json!(["sea", "x"]))]), None),
    ] {
        let shown: String = entries.to_string().chars().take(200).collect();
        let endpoint = ScriptedEndpoint::start(move |_, request: Value| {
            let answer = match request["operation"].as_str() {
                Some("data.manifest") => json!({"manifest": {"supported_filters": ["domain_tags"]}}),
                _ => json!({ "entries": entries }),
            };
            async move { answer.to_string().into_response() }
        })
        .await;
        let store = remote_at(&data, &endpoint.url).await;
        let asked = asks(&store, json!({"query": "s", "limit": 1, "domain_tags": "sea"})).await;
        assert_eq!(asked.err().map(|refusal| refusal.reason.code()), code, "{shown}");
    }
    // Another entry than the one that was asked for, and an id that is none.
    let other = ScriptedEndpoint::start(async |_, request: Value| match request["operation"].as_str() {
        Some("data.get") => {
            json!({"entry": {"id": "e2", "summary": "", "created_at": 1}}).to_string().into_response()
        }
        _ => json!({"id": "", "created_at": 1}).to_string().into_response(),
    })
    .await;
    let store = remote_at(&data, &other.url).await;
    assert_eq!(store.get("e1").await.unwrap().unwrap_err().reason.code(), "store_bad_answer");
    assert_eq!(store.write(entry("x")).await.unwrap().unwrap_err().reason.code(), "store_bad_answer");
}

#[tokio::test]
async fn an_answer_that_repeats_a_secret_is_shown_to_nobody() {
    let data = DataFixture::open().await;
    let echo = ScriptedEndpoint::start(async |_, request: Value| match request["operation"].as_str() {
        Some("data.write") => {
            json!({"refused": format!("bad secret {STORE_SECRET}")}).to_string().into_response()
        }
        Some("data.get") => {
            let entry = json!({"id": "e1", "summary": STORE_SECRET, "created_at": 1});
            json!({ "entry": entry }).to_string().into_response()
        }
        _ => json!({"manifest": {"debug": {"key": STORE_SECRET}}}).to_string().into_response(),
    })
    .await;
    let store = remote_at(&data, &echo.url).await;
    for refusal in [
        store.write(entry("x")).await.unwrap().unwrap_err(),
        store.get("e1").await.unwrap().unwrap_err(),
        store.manifest().await.unwrap().unwrap_err(),
    ] {
        assert_eq!(refusal.reason.code(), "store_bad_answer");
        assert!(!refusal.to_string().contains(STORE_SECRET), "{refusal}");
    }
}

#[tokio::test]
async fn a_tenant_keeps_its_data_in_a_file_or_at_a_url() {
    let (tenants, python) = (Tenants::open().await, PythonStore::start());
    let (keys, data) = (tenants.workshop.approval_keys(), tenants.workshop.data());
    let at =
        |store: String| SkillSettingsChange { data_store: Some(store), ..SkillSettingsChange::default() };
    let file = tenants.root().join("acme.db");
    keys.change(&tenants.acme, at(format!("sqlite:{}", file.display()))).await.unwrap().unwrap();
    let opened = data.of(&tenants.acme).await.unwrap().unwrap();
    assert_eq!(opened.store.implementation(), "SqliteDataStore");
    writes(&*opened.store, entry("in the file")).await;
    assert_eq!(opened.page(None, None, 10).await.unwrap().unwrap().items.len(), 1);
    let secrets = EndpointSecrets { authorization: None, hmac_secret: Some(Secret::new(STORE_SECRET)) };
    let none = EndpointSecrets::default();
    keys.change_with_secrets(&tenants.acme, at(python.url.clone()), none, secrets).await.unwrap().unwrap();
    let opened = data.of(&tenants.acme).await.unwrap().unwrap();
    assert_eq!(opened.store.implementation(), "RemoteDataStore");
    assert!(opened.page(None, None, 10).await.unwrap().unwrap().items.is_empty());
    for bad in ["filesystem:/srv/x", "sqlite:/etc/x.db", "custom:ghost", "vault", "https://x.example/?q"] {
        let refusal = keys.change(&tenants.acme, at(bad.to_owned())).await.unwrap();
        assert!(matches!(refusal, Err(SettingsRefusal::BadDataStore(_))), "{bad}");
    }
    let other = data.of(&tenants.stranger.tenant).await.unwrap().unwrap();
    assert_eq!(other.store.implementation(), "LedgerDataStore");
}
