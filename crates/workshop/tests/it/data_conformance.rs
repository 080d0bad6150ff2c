//! One suite for all data stores: the server's own, a file of the reference runtime, the example in Python over HTTP, and
//! a Rust type. What a store declares decides what is tried.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use posthouse_time::Timepiece;
use serde_json::json;
use workshop::{DataStore, DataWrite};

use crate::data_stores::{DataFixture, asks, entry, finds, writes};
use crate::endpoints::{PythonStore, RemoteFixture};
use crate::fixtures::START;

/// Runs each test over every store.
macro_rules! over_all_data_stores {
    ($($name:ident)*) => {
        /// Runs the whole suite over a store, a new one for each case.
        pub async fn passes(open: impl Fn(Timepiece) -> Arc<dyn DataStore>) {
            $(
                let clock = Timepiece::wound(START);
                behaviour::$name(&open(clock.clone()), &clock).await;
            )*
        }
    $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let (data, python) = (DataFixture::open().await, PythonStore::start());
            let remote = RemoteFixture::open(&data.ledger, &data.clock).await;
            let remote: Arc<dyn DataStore> = Arc::new(remote.data(&"ten_acme".into(), &python.url).await);
            for store in [&data.own, &data.sqlite, &remote] {
                println!("{}", store.implementation());
                behaviour::$name(store, &data.clock).await;
            }
        }
    )*};
}

over_all_data_stores! {
    a_miss_is_nothing_and_never_a_refusal
    an_entry_is_read_and_found_as_it_was_written
    a_query_gives_at_most_its_limit
    a_declared_filter_is_never_dropped
    filters_that_are_not_declared_are_refused_with_all_their_names
    only_the_boolean_true_permits_filters_that_are_not_declared
    a_mode_that_is_not_declared_is_refused
    an_entry_without_expiry_stays
    writers_at_the_same_time_lose_nothing
}

async fn declares(store: &Arc<dyn DataStore>, filter: &str) -> bool {
    store.supported_filters().await.unwrap().unwrap().iter().any(|declared| declared == filter)
}

fn tagged(content: &str, tag: &str) -> DataWrite {
    DataWrite { tags: Some(vec![tag.to_owned()]), ..entry(content) }
}

mod behaviour {
    use super::*;

    pub async fn a_miss_is_nothing_and_never_a_refusal(store: &Arc<dyn DataStore>, _: &Timepiece) {
        for id in ["nope", "", "../x"] {
            assert_eq!(store.get(id).await.unwrap().unwrap(), None, "{id:?}");
        }
        for query in ["nothing", "", " "] {
            assert_eq!(finds(store, json!({ "query": query })).await, [""; 0], "{query:?}");
        }
    }

    pub async fn an_entry_is_read_and_found_as_it_was_written(store: &Arc<dyn DataStore>, _: &Timepiece) {
        let text = "Harbour\nopens \"at\" \\five\u{1}, \u{e9}t\u{e9} \u{1F600}";
        let id = writes(&**store, entry(text)).await;
        let other = writes(&**store, entry("mountain")).await;
        assert_ne!(id, other);
        let found = store.get(&id).await.unwrap().unwrap().unwrap();
        assert_eq!((found.id.as_str(), found.summary.as_str()), (id.as_str(), "Harbour"));
        assert_eq!((found.detail.as_deref(), found.score), (Some(text), None));
        assert_eq!(finds(store, json!({ "query": "Harbour" })).await, [id]);
    }

    pub async fn a_query_gives_at_most_its_limit(store: &Arc<dyn DataStore>, _: &Timepiece) {
        for number in 0..3 {
            writes(&**store, entry(&format!("Harbour {number}"))).await;
        }
        for query in ["Harbour", ""] {
            for (limit, count) in [(1, 1), (2, 2), (9, 3)] {
                let found = finds(store, json!({ "query": query, "limit": limit })).await;
                assert_eq!(found.len(), count, "{query:?}");
            }
        }
    }

    pub async fn a_declared_filter_is_never_dropped(store: &Arc<dyn DataStore>, _: &Timepiece) {
        if !declares(store, "domain_tags").await {
            return;
        }
        let sea = writes(&**store, tagged("Harbour", "sea")).await;
        let land = writes(&**store, tagged("Harbour", "land")).await;
        writes(&**store, entry("Harbour")).await;
        for query in ["Harbour", "", "  "] {
            let found = finds(store, json!({ "query": query, "domain_tags": "sea" })).await;
            assert_eq!(found, std::slice::from_ref(&sea), "{query:?}");
            let any = finds(store, json!({ "query": query, "domain_tags": ["sea", "land", "x"] })).await;
            assert!(any.len() == 2 && any.contains(&sea) && any.contains(&land), "{query:?}");
            assert_eq!(finds(store, json!({ "query": query, "domain_tags": "se" })).await, [""; 0]);
            for wrong in [json!([]), json!(""), json!(["sea", 1]), json!(7), json!(null)] {
                for permissive in [false, true] {
                    let arguments =
                        json!({ "query": query, "domain_tags": wrong, "permissive_filters": permissive });
                    let refused = asks(store, arguments).await.unwrap_err();
                    assert!(refused.to_string().starts_with("`domain_tags` must be"), "{refused}");
                }
            }
        }
    }

    pub async fn filters_that_are_not_declared_are_refused_with_all_their_names(
        store: &Arc<dyn DataStore>,
        _: &Timepiece,
    ) {
        let refused = asks(store, json!({ "query": "a", "vault": 1, "tenant": "x" })).await.unwrap_err();
        let (class, code) = (refused.reason.class(), refused.reason.code());
        assert_eq!((class, code), ("UnsupportedFilterError", "unsupported_filter"));
        assert!(refused.to_string().contains("'tenant', 'vault'"), "{refused}");
        let manifest = store.manifest().await.unwrap().unwrap().manifest;
        if let Some(shown) = manifest.get("supported_filters") {
            assert_eq!(*shown, json!(store.supported_filters().await.unwrap().unwrap()));
        }
    }

    pub async fn only_the_boolean_true_permits_filters_that_are_not_declared(
        store: &Arc<dyn DataStore>,
        _: &Timepiece,
    ) {
        let with = |permissive| json!({ "query": "a", "vault": 1, "permissive_filters": permissive });
        assert!(asks(store, with(json!(true))).await.is_ok());
        for wrong in [json!(false), json!("true"), json!(1), json!(null)] {
            assert!(asks(store, with(wrong.clone())).await.is_err(), "{wrong}");
        }
    }

    pub async fn a_mode_that_is_not_declared_is_refused(store: &Arc<dyn DataStore>, _: &Timepiece) {
        for mode in ["semantic", "rerank", "other", ""] {
            let refused = asks(store, json!({ "query": "a", "mode": mode })).await.unwrap_err();
            assert_eq!(refused.reason.code(), "unsupported_mode", "{mode:?}");
        }
    }

    pub async fn an_entry_without_expiry_stays(store: &Arc<dyn DataStore>, clock: &Timepiece) {
        let id = writes(&**store, entry("Harbour")).await;
        clock.wind(Duration::from_secs(400 * 24 * 3600));
        assert_eq!(finds(store, json!({ "query": "Harbour" })).await, std::slice::from_ref(&id));
        assert!(store.get(&id).await.unwrap().unwrap().is_some());
    }

    pub async fn writers_at_the_same_time_lose_nothing(store: &Arc<dyn DataStore>, _: &Timepiece) {
        let texts: Vec<String> = (0..16).map(|number| format!("Harbour {number}")).collect();
        let mut ids = join_all(texts.iter().map(|text| writes(&**store, entry(text)))).await;
        for (id, text) in ids.iter().zip(&texts) {
            let found = store.get(id).await.unwrap().unwrap().unwrap();
            assert_eq!(found.detail.as_deref(), Some(text.as_str()));
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), texts.len());
        assert_eq!(finds(store, json!({ "query": "Harbour", "limit": 100 })).await.len(), texts.len());
    }
}
