//! Data stores: behaviour of the server's own store and of a reference file beyond the suite of all stores, and what
//! only the server's own does.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ledger::{Ledger, Location, Tenant};
use posthouse_time::Timepiece;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use workshop::{
    CONTENT_BYTES, DataBridge, DataRefusal, DataStore, DataWrite, EntryExpiry, LedgerDataStore,
    OpenedSqliteData, PortableData, QueryFilters, SqliteDataStore,
};

use crate::fixtures::START;

pub struct DataFixture {
    pub clock: Timepiece,
    pub ledger: Ledger,
    pub own: Arc<dyn DataStore>,
    pub sqlite: Arc<dyn DataStore>,
    _folder: TempDir,
}

impl DataFixture {
    pub async fn open() -> Self {
        let (clock, folder) = (Timepiece::wound(START), tempfile::tempdir().unwrap());
        let ledger = Ledger::open(Location::Memory, clock.clone()).await.unwrap();
        for name in ["acme", "globex"] {
            let tenant = Tenant { id: format!("ten_{name}").into(), name: name.to_owned(), created: START };
            ledger.roster().create_tenant(tenant).await.unwrap();
        }
        let file = folder.path().join("data.db");
        let OpenedSqliteData::Opened(sqlite) =
            SqliteDataStore::open(file, Arc::default(), clock.clone()).await.unwrap()
        else {
            panic!("a new file has the right shape")
        };
        let own = Arc::new(LedgerDataStore::new(ledger.data(), "ten_acme".into(), clock.clone()));
        Self { clock, ledger, own, sqlite: Arc::new(sqlite), _folder: folder }
    }

    fn both(&self) -> [Arc<dyn DataStore>; 2] {
        [Arc::clone(&self.own), Arc::clone(&self.sqlite)]
    }
}

pub fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

pub fn entry(content: &str) -> DataWrite {
    DataWrite { content: content.to_owned(), ..DataWrite::default() }
}

pub async fn writes(store: &dyn DataStore, entry: DataWrite) -> String {
    store.write(entry).await.unwrap().unwrap().id
}

pub async fn asks(store: &Arc<dyn DataStore>, arguments: Value) -> Result<Vec<PortableData>, DataRefusal> {
    let filters =
        QueryFilters::read(map(arguments)).map_err(|reason| DataRefusal { implementation: "", reason })?;
    DataBridge::new(Arc::clone(store)).query(&filters).await.unwrap()
}

pub async fn finds(store: &Arc<dyn DataStore>, arguments: Value) -> Vec<String> {
    asks(store, arguments).await.unwrap().into_iter().map(|found| found.id).collect()
}

#[tokio::test]
async fn an_entry_has_a_summary_and_its_whole_text() {
    let data = DataFixture::open().await;
    for store in data.both() {
        let long = format!("{}\nrest", "\u{1F600}x".repeat(80));
        let id = writes(&*store, entry(&long)).await;
        let found = store.get(&id).await.unwrap().unwrap().unwrap();
        assert_eq!(found.summary, format!("{}\u{1F600}...", "\u{1F600}x".repeat(65)));
        assert_eq!((found.detail.as_deref(), found.score), (Some(long.as_str()), None));
    }
}

#[tokio::test]
async fn a_declared_filter_holds_for_every_query() {
    let data = DataFixture::open().await;
    for store in data.both() {
        let tagged = |text: &str, tags: &[&str]| DataWrite {
            tags: Some(tags.iter().map(|tag| (*tag).to_owned()).collect()),
            ..entry(text)
        };
        let sea = writes(&*store, tagged("harbour", &["sea", "ops"])).await;
        data.clock.wind(Duration::from_secs(1));
        let land = writes(&*store, tagged("harbour", &["land"])).await;
        writes(&*store, entry("harbour")).await;
        for query in ["harbour", "", "  ", "raw:harb*"] {
            assert_eq!(
                finds(&store, json!({"query": query, "domain_tags": "sea"})).await,
                std::slice::from_ref(&sea),
                "{query:?}"
            );
            let any = finds(&store, json!({"query": query, "domain_tags": ["sea", "land", "x"]})).await;
            assert_eq!((any.len(), any.contains(&land)), (2, true), "{query:?}");
            assert_eq!(finds(&store, json!({"query": query, "domain_tags": "se"})).await, [""; 0]);
            assert_eq!(finds(&store, json!({"query": query})).await.len(), 3);
            for wrong in [json!([]), json!(""), json!(["sea", ""]), json!(["sea", 1]), json!(7), json!(null)]
            {
                for permissive in [false, true] {
                    let arguments =
                        json!({"query": query, "domain_tags": wrong, "permissive_filters": permissive});
                    let refused = asks(&store, arguments).await.unwrap_err();
                    assert!(refused.to_string().starts_with("`domain_tags` must be"), "{refused}");
                }
            }
        }
        assert_eq!(finds(&store, json!({"query": ""})).await.len(), 3);
    }
}

#[tokio::test]
async fn a_filter_that_is_not_declared_is_refused_with_all_others() {
    let data = DataFixture::open().await;
    for store in data.both() {
        let refused =
            asks(&store, json!({"query": "a", "vault": 1, "tenant": "x", "domain_tags": "a"})).await;
        let refused = refused.unwrap_err();
        assert_eq!(
            (refused.reason.class(), refused.reason.code()),
            ("UnsupportedFilterError", "unsupported_filter")
        );
        assert!(refused.to_string().contains("'tenant', 'vault'"), "{refused}");
        assert!(asks(&store, json!({"query": "a", "vault": 1, "permissive_filters": true})).await.is_ok());
        let manifest = store.manifest().await.unwrap().unwrap().manifest;
        assert_eq!(manifest["supported_filters"], json!(store.supported_filters().await.unwrap().unwrap()));
        assert_eq!(manifest["supported_modes"], json!(["fts"]));
        assert_eq!(manifest["score_range"], "unbounded");
        for mode in ["semantic", "rerank", "other", ""] {
            let refused = asks(&store, json!({"query": "a", "mode": mode})).await.unwrap_err();
            assert_eq!(refused.reason.code(), "unsupported_mode");
        }
    }
}

#[tokio::test]
async fn an_entry_over_its_size_is_refused_by_name() {
    let data = DataFixture::open().await;
    for store in data.both() {
        for (field, large) in [
            ("content", entry(&"x".repeat(CONTENT_BYTES + 1))),
            ("metadata", DataWrite { metadata: Some(map(json!({"x": "y".repeat(65_536)}))), ..entry("a") }),
            ("tags", DataWrite { tags: Some(vec!["x".to_owned(); 65]), ..entry("a") }),
            ("tags", DataWrite { tags: Some(vec!["x".repeat(129)]), ..entry("a") }),
            ("recipients", DataWrite { recipients: Some(vec!["x".repeat(129)]), ..entry("a") }),
        ] {
            let refused = store.write(large).await.unwrap().unwrap_err();
            assert_eq!(refused.reason.code(), "too_large");
            assert!(refused.to_string().contains(&format!("`{field}`")), "{refused}");
        }
        assert_eq!(finds(&store, json!({})).await, [""; 0]);
        writes(&*store, entry(&"x".repeat(CONTENT_BYTES))).await;
        let words = "a ".repeat(257);
        assert_eq!(asks(&store, json!({"query": words})).await.unwrap_err().reason.code(), "too_large");
    }
}

#[tokio::test]
async fn both_stores_give_the_same_scores() {
    let data = DataFixture::open().await;
    let mut answers = Vec::new();
    for store in data.both() {
        for text in ["red sea\nat dawn", "red red wine", "a blue sea", "red"] {
            writes(&*store, entry(text)).await;
        }
        let found = asks(&store, json!({"query": "red"})).await.unwrap();
        answers.push(found.into_iter().map(|found| (found.summary, found.score)).collect::<Vec<_>>());
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].len(), 3);
}

#[tokio::test]
async fn texts_of_queries_never_fail_but_as_raw_expressions() {
    let data = DataFixture::open().await;
    let mut random = 7_u64;
    for store in data.both() {
        writes(&*store, entry("harbour \"quoted\" NEAR( AND")).await;
        for _ in 0..300 {
            let pieces = [
                "\"",
                "'",
                "(",
                ")",
                "*",
                "^",
                "AND",
                "OR",
                "NOT",
                "NEAR",
                ":",
                "{",
                "}",
                "-",
                "+",
                "\0",
                "x",
                "é",
                " ",
                "raw:",
                "\u{feff}",
                "\u{1F600}",
                ";",
                "\\",
                "%",
            ];
            let mut text = String::new();
            for _ in 0..12 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(pieces[(random >> 33) as usize % pieces.len()]);
            }
            match asks(&store, json!({"query": text})).await {
                Ok(_) => {}
                Err(refused) => {
                    assert!(text.starts_with("raw:"), "{text:?}: {refused}");
                    assert_eq!((refused.reason.class(), refused.reason.code()), ("QueryError", "query"));
                }
            }
        }
    }
}

#[tokio::test]
async fn curated_fields_are_beside_the_metadata_and_never_in_it() {
    let data = DataFixture::open().await;
    let new = DataWrite {
        recipients: Some(vec!["ann".to_owned()]),
        expires: EntryExpiry::At(1_800_000_000),
        metadata: Some(map(json!({
            "vault": "v1", "pinned": true, "confidence": 0.5, "thread_status": "open", "payload_type": "note",
            "knowledge_type": "fact", "agent_id": "bob", "other": 1
        }))),
        ..entry("text")
    };
    let id = writes(&*data.own, new.clone()).await;
    let found = serde_json::to_value(data.own.get(&id).await.unwrap().unwrap()).unwrap();
    let expected = json!({
        "id": id, "summary": "text", "detail": "text", "created_at": START.seconds(), "expires_at": 1_800_000_000,
        "recipients": ["ann"], "vault": "v1", "pinned": true, "confidence": 0.5, "thread_status": "open",
        "payload_type": "note", "knowledge_type": "fact", "agent_id": "bob", "metadata": {"other": 1}
    });
    assert_eq!(found, expected);
    // Lists show them, too. Who wrote is what the server knows.
    let known = DataWrite { agent_id: Some("heron".to_owned()), ..new };
    writes(&*data.own, known).await;
    let listed = asks(&data.own, json!({"query": "", "limit": 1})).await.unwrap();
    assert_eq!((listed[0].curated.pinned, listed[0].expires_at), (Some(true), Some(1_800_000_000)));
    assert_eq!(listed[0].curated.agent_id.as_deref(), Some("heron"));
    for (field, value) in [
        ("pinned", json!("yes")),
        ("confidence", json!("high")),
        ("vault", json!(1)),
        ("created_at", json!(1)),
        ("recipients", json!(["x"])),
        ("expires_at", json!(1)),
        ("domain_tags", json!(["x"])),
    ] {
        let wrong = DataWrite { metadata: Some(map(json!({field: value}))), ..entry("x") };
        let refused = data.own.write(wrong).await.unwrap().unwrap_err();
        assert!(refused.to_string().starts_with(&format!("`metadata.{field}` ")), "{refused}");
    }
    let kept = DataWrite { expires: EntryExpiry::Never, ..entry("kept") };
    let id = writes(&*data.own, kept).await;
    assert_eq!(data.own.get(&id).await.unwrap().unwrap().unwrap().curated.pinned, Some(true));
}

#[tokio::test]
async fn only_an_explicit_expiry_ends_an_entry_and_a_foreign_file_has_none() {
    let data = DataFixture::open().await;
    for (store, left) in data.both().into_iter().zip([1, 2]) {
        let at = data.clock.now().seconds() + 60;
        writes(&*store, DataWrite { expires: EntryExpiry::At(at), ..entry("harbour soon over") }).await;
        writes(&*store, entry("harbour for ever")).await;
        assert_eq!(finds(&store, json!({"query": "harbour"})).await.len(), 2);
        data.clock.wind(Duration::from_secs(61));
        for query in ["harbour", ""] {
            assert_eq!(
                finds(&store, json!({"query": query})).await.len(),
                left,
                "{}",
                store.implementation()
            );
        }
    }
    let past = DataWrite { expires: EntryExpiry::At(5), ..entry("x") };
    assert!(data.own.write(past).await.unwrap().unwrap_err().to_string().contains("in the past"));
}

#[tokio::test]
async fn a_full_tenant_is_refused_in_words_and_another_writes_on() {
    let data = DataFixture::open().await;
    data.ledger.usage().set_data_limit(&"ten_acme".into(), Some(5_000)).await.unwrap();
    let written = join_all((0..20).map(|_| data.own.write(entry("small")))).await;
    let refused = written.into_iter().find_map(|written| written.unwrap().err()).unwrap();
    assert_eq!(refused.reason.code(), "quota_exceeded");
    assert_eq!(refused.to_string(), "the tenant has reached its limit of 5000 bytes of data");
    let other = LedgerDataStore::new(data.ledger.data(), "ten_globex".into(), data.clock.clone());
    join_all((0..20).map(|_| other.write(entry("small")))).await.into_iter().for_each(|written| {
        written.unwrap().unwrap();
    });
    assert_eq!(finds(&data.own, json!({"query": "small", "limit": 100})).await.len(), 9);
}
