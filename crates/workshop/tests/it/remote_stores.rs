//! Remote skill stores: slow, dead, huge, lying and hostile endpoints; signatures; the catalogue over a remote token.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::future::pending;
use futures_util::stream::FuturesUnordered;
use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use ledger::SkillSettingsChange;
use posthouse_wire::Secret;
use serde_json::{Value, json};
use skill::ContentHash;
use workshop::{
    CatalogueAnswer, CatalogueQuery, EndpointSecrets, SettingsRefusal, SkillFilter, SkillStore, SkillWrite,
};

use crate::conformance::plain;
use crate::endpoints::{PythonStore, RemoteFixture, STORE_SECRET, ScriptedEndpoint};
use crate::fixtures::{Stores, granted, refused};
use crate::tenants::Tenants;

fn record(name: &str, text: &str) -> Value {
    let hash = ContentHash::of(text);
    json!({
        "name": name, "version": hash.version(), "content_hash": hash.as_str(), "status": "Draft",
        "created_at": 1, "updated_at": 1,
    })
}

/// The record of the skill `note`, with another member.
fn record_with(member: &str, value: Value) -> Value {
    let mut record = record("note", "text");
    record[member] = value;
    record
}

fn answers(value: Value) -> Response {
    value.to_string().into_response()
}

/// The code with which loading a skill is refused if the endpoint answers like this.
async fn code_of_load(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> &'static str {
    let stores = Stores::open().await;
    let endpoint = ScriptedEndpoint::start(move |_, _| {
        let answer = answer();
        async move { answer }
    })
    .await;
    let acme = "ten_acme".into();
    let remote = RemoteFixture::open(&stores.ledger, &stores.clock).await;
    let refusal = refused(remote.skills(&acme, &endpoint.url).await.load("note", None).await);
    assert!(!refusal.to_string().contains(&endpoint.url), "{refusal}");
    assert_eq!(refusal.implementation, "RemoteSkillStore");
    refusal.reason.code()
}

#[tokio::test]
async fn every_bad_answer_is_a_refusal_with_its_class() {
    assert_eq!(code_of_load(|| StatusCode::INTERNAL_SERVER_ERROR.into_response()).await, "store_failed");
    assert_eq!(code_of_load(|| StatusCode::FORBIDDEN.into_response()).await, "store_failed");
    // A redirect is not followed, because the request was signed for this endpoint.
    let elsewhere = || (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, "http://127.0.0.1:1/")]).into_response();
    assert_eq!(code_of_load(elsewhere).await, "store_failed");
    let huge = || Body::from(vec![b' '; 16 << 20]).into_response();
    assert_eq!(code_of_load(huge).await, "store_bad_answer");
    for answer in [
        json!({}),
        json!([]),
        json!({"skill": 5}),
        json!({"skill": {"record": {}, "mark": "1"}}),
        // Another skill than the one that was asked for.
        json!({"skill": {"record": record("other", "text"), "mark": "1", "text": "text"}}),
        // Another text than the one that the record describes.
        json!({"skill": {"record": record("note", "text"), "mark": "1", "text": "evil"}}),
        // A record that promises another status than the text has.
        json!({"skill": {"record": record("note", "# Status: Approved\n"), "mark": "1", "text": "# Status: Approved\n"}}),
        json!({"skill": {"record": record("note", "text"), "mark": "x".repeat(300), "text": "text"}}),
        json!({"skill": {"record": record_with("metadata_bag", json!({"x": "x".repeat(65 * 1024)})), "mark": "1"}}),
        json!({"skill": {"record": record_with("author", json!("x".repeat(5000))), "mark": "1"}}),
        // The secret of the request.
        json!({"skill": {"record": record_with("author", json!(STORE_SECRET)), "mark": "1"}}),
        json!({"skill": {"record": record("note", &"x".repeat(300_000)), "mark": "1", "text": "x".repeat(300_000)}}),
    ] {
        let shown = answer.to_string().chars().take(100).collect::<String>();
        assert_eq!(code_of_load(move || answers(answer.clone())).await, "store_bad_answer", "{shown}");
    }
    assert_eq!(code_of_load(|| answers(json!({"skill": null}))).await, "skill_not_found");
    let broken = || {
        let pieces = [Ok("{"), Err(std::io::Error::other("gone"))];
        Body::from_stream(futures_util::stream::iter(pieces)).into_response()
    };
    // The connection may break before or after the first bytes of the answer.
    assert!(["store_bad_answer", "store_unreachable"].contains(&code_of_load(broken).await));
}

#[tokio::test]
async fn a_dead_endpoint_and_one_that_may_not_be_called_are_refusals() {
    let stores = Stores::open().await;
    let acme = "ten_acme".into();
    let remote = RemoteFixture::open(&stores.ledger, &stores.clock).await;
    let dead = remote.skills(&acme, "http://127.0.0.1:1/store").await;
    assert_eq!(refused(dead.load("note", None).await).reason.code(), "store_unreachable");
    let endpoint = ScriptedEndpoint::start(async |_, _| answers(json!({"skill": null}))).await;
    // By default, addresses of the server's own machine are not called.
    let closed = errand::Config { allow_http: true, ..errand::Config::default() };
    let closed = RemoteFixture::open_with(&stores.ledger, &stores.clock, closed).await;
    let refusal = refused(closed.skills(&acme, &endpoint.url).await.load("note", None).await);
    assert_eq!(refusal.reason.code(), "store_unreachable");
    // A store that the tenant no longer uses is not called either.
    let earlier = remote.skills(&acme, &endpoint.url).await;
    remote.point(&acme, "http://127.0.0.1:1/store", STORE_SECRET).await;
    assert_eq!(refused(earlier.load("note", None).await).reason.code(), "store_unreachable");
    assert_eq!(endpoint.calls(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_endpoint_delays_only_its_tenant_and_never_hangs() {
    let stores = Stores::open().await;
    let silent = ScriptedEndpoint::start(async |_, _| pending().await).await;
    let python = PythonStore::start();
    let (acme, globex) = ("ten_acme".into(), "ten_globex".into());
    let remote = RemoteFixture::open(&stores.ledger, &stores.clock).await;
    let slow = Arc::new(remote.skills(&acme, &silent.url).await);
    let quick = remote.skills(&globex, &python.url).await;
    // 64 may run or wait. The others are refused at once.
    let mut asked: FuturesUnordered<_> = (0..70)
        .map(|_| {
            let slow = Arc::clone(&slow);
            tokio::spawn(async move { refused(slow.load("note", None).await).reason.code() })
        })
        .collect();
    for _ in 0..6 {
        assert_eq!(asked.next().await.unwrap().unwrap(), "too_many_requests");
    }
    granted(quick.store("note", "text", plain()).await);
    assert_eq!(granted(quick.load("note", None).await).source, "text");
    assert!(silent.calls() <= 8, "{}", silent.calls());
    let ended = stores.clock.wind_until(Duration::from_secs(11), asked.collect::<Vec<_>>()).await;
    assert_eq!(ended.len(), 64);
    assert!(ended.into_iter().all(|code| code.unwrap() == "store_timeout"));
}

#[tokio::test]
async fn a_list_that_never_ends_and_one_out_of_order_are_refused() {
    let stores = Stores::open().await;
    let acme = "ten_acme".into();
    let remote = RemoteFixture::open(&stores.ledger, &stores.clock).await;
    let endless = ScriptedEndpoint::start(async |_, request: Value| {
        let name = match request["after"].as_str() {
            Some(after) => format!("{after}0"),
            None => "a".to_owned(),
        };
        answers(json!({"skills": [record(&name, "text")], "next": name}))
    })
    .await;
    // Names have at most 128 bytes, so an endless list runs out of valid names at the latest.
    let refusal = refused(remote.skills(&acme, &endless.url).await.query(&SkillFilter::default()).await);
    assert_eq!(refusal.reason.code(), "store_bad_answer");
    assert!(endless.calls() <= 129, "{}", endless.calls());
    for page in [
        json!({"skills": [record("b", "x"), record("a", "x")]}),
        json!({"skills": [record("a", "x"), record("a", "x")]}),
        json!({"skills": [record("../x", "x")]}),
        json!({"skills": [record("a", "x")], "next": "zzz"}),
        json!({"skills": [], "next": "a"}),
        json!({"skills": [{"name": "a"}]}),
    ] {
        let shown = page.to_string();
        let endpoint = ScriptedEndpoint::start(move |_, _| {
            let page = page.clone();
            async move { answers(page) }
        })
        .await;
        let refusal = refused(remote.skills(&acme, &endpoint.url).await.query(&SkillFilter::default()).await);
        assert_eq!(refusal.reason.code(), "store_bad_answer", "{shown}");
    }
}

#[tokio::test]
async fn requests_are_signed_and_name_tenant_and_operation_in_the_body() {
    let stores = Stores::open().await;
    let acme = "ten_acme".into();
    let remote = RemoteFixture::open(&stores.ledger, &stores.clock).await;
    let endpoint = ScriptedEndpoint::start(async |headers: HeaderMap, request: Value| {
        let signed = ["x-signature", "webhook-id", "webhook-timestamp", "webhook-signature"]
            .iter()
            .all(|name| headers.contains_key(*name));
        let named = request["tenant"] == "ten_acme"
            && request["operation"] == "skills.token"
            && request["contract"] == 1;
        answers(json!({"token": format!("{}", signed && named)}))
    })
    .await;
    let token = granted(remote.skills(&acme, &endpoint.url).await.version().await);
    assert_eq!(token.as_deref(), Some("true"));
    // The store refuses another secret.
    let python = PythonStore::start();
    remote.point(&acme, &python.url, "another").await;
    let refusal = refused(remote.stores.skills(&acme, &python.url).load("note", None).await);
    assert_eq!(refusal.reason.code(), "store_failed");
}

#[tokio::test]
async fn what_the_store_refuses_is_not_written() {
    let stores = Stores::open().await;
    let acme = "ten_acme".into();
    let remote = RemoteFixture::open(&stores.ledger, &stores.clock).await;
    let endpoint = ScriptedEndpoint::start(async |_, request: Value| match request["operation"].as_str() {
        Some("skills.find") => answers(json!({"skill": null})),
        _ => answers(json!({"refused": "the disk\nis full"})),
    })
    .await;
    let store = remote.skills(&acme, &endpoint.url).await;
    let refusal = refused(store.store("note", "text", plain()).await);
    assert_eq!((refusal.reason.code(), refusal.to_string().contains("the diskis full")), ("read_only", true));
    assert_eq!(refused(store.delete("note").await).reason.code(), "read_only");
}

fn store_at(url: &str) -> SkillSettingsChange {
    SkillSettingsChange { store: Some(url.to_owned()), ..SkillSettingsChange::default() }
}

fn secrets() -> EndpointSecrets {
    EndpointSecrets { hmac_secret: Some(Secret::new(STORE_SECRET)), authorization: None }
}

#[tokio::test]
async fn a_tenant_uses_its_remote_store_under_the_rules_of_the_server() {
    let (tenants, python) = (Tenants::open().await, PythonStore::start());
    let keys = tenants.workshop.approval_keys();
    let without = keys.change(&tenants.acme, store_at(&python.url)).await.unwrap().unwrap_err();
    assert!(
        matches!(&without, SettingsRefusal::BadStore(why) if why.contains("needs a secret")),
        "{without}"
    );
    let none = EndpointSecrets::default;
    keys.change_with_secrets(&tenants.acme, store_at(&python.url), secrets(), none()).await.unwrap().unwrap();
    assert_eq!(keys.problems(&tenants.acme).await.unwrap(), [""; 0]);
    let skills = tenants.workshop.skills();
    let write = |source: &str| SkillWrite { source: source.to_owned(), ..SkillWrite::default() };
    // An agent's write lands Draft, also there.
    let claimed = "# Skill: tide\n# Status: Approved\n";
    let written = granted(skills.write(&tenants.heron, "tide", write(claimed)).await);
    assert_eq!(written.status.to_string(), "Draft");
    granted(skills.write(&tenants.program, "tide", write(claimed)).await);
    // The catalogue is the same until something changes.
    let catalogue = tenants.workshop.catalogue();
    let version = async |if_none_match: Option<String>| {
        let query = CatalogueQuery { if_none_match, ..CatalogueQuery::default() };
        match granted(catalogue.list(&tenants.program, &query).await) {
            CatalogueAnswer::Listed(listing) => (true, listing.version),
            CatalogueAnswer::NotModified { version } => (false, Some(version)),
        }
    };
    let (_, first) = version(None).await;
    assert_eq!(version(first.clone()).await, (false, first.clone()));
    granted(skills.write(&tenants.program, "other", write("text")).await);
    let (listed, second) = version(first.clone()).await;
    assert!(listed && second != first);
    // The other tenant has none of it, and an endpoint of its own.
    assert!(granted(skills.list(&tenants.stranger, &SkillFilter::default()).await).is_empty());
    // Another address gets none of the secrets.
    let moved = keys.change(&tenants.acme, store_at("http://127.0.0.1:1/other")).await.unwrap();
    assert!(matches!(moved, Err(SettingsRefusal::BadStore(_))));
    drop(python);
    assert_eq!(refused(skills.load(&tenants.program, "tide", None).await).reason.code(), "store_unreachable");
    keys.change(&tenants.acme, store_at("house")).await.unwrap().unwrap();
    assert_eq!(refused(skills.load(&tenants.program, "tide", None).await).reason.code(), "skill_not_found");
}

#[tokio::test]
async fn an_address_that_the_server_may_not_call_is_no_store() {
    let tenants = Tenants::open().await;
    let keys = tenants.workshop.approval_keys();
    for url in
        ["http://", "https://user:x@stores.example.com", "https://stores.example.com/?a=1", "custom:ghost"]
    {
        let refusal = keys.change_with_secrets(&tenants.acme, store_at(url), secrets(), secrets()).await;
        assert!(matches!(refusal.unwrap(), Err(SettingsRefusal::BadStore(_))), "{url}");
    }
    let house =
        keys.change_with_secrets(&tenants.acme, store_at("house"), secrets(), EndpointSecrets::default());
    assert!(house.await.unwrap().is_err(), "the server's own store has no secrets");
}
