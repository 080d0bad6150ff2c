//! `/v1/data` over HTTP.

use axum::Router;
use axum::body::Body;
use http::Request;
use http::header::AUTHORIZATION;
use http_kit::read_body;
use serde_json::{Value, json};
use tower::ServiceExt;
use workshop::{CONTENT_BYTES, DATA_OPENAPI, DATA_OPERATIONS, data_routes};

use crate::tenants::Tenants;

async fn sends(routes: &Router, token: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .header("X-Agent-Id", "heron")
        .body(body)
        .unwrap();
    let response = routes.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = read_body(response.into_body(), 1 << 26).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

fn routes_of(tenants: &Tenants) -> Router {
    data_routes(tenants.workshop.data().clone(), tenants.workshop.callers().clone())
}

fn posted(token: &str, body: impl Into<Body>) -> Request<Body> {
    let authorization = format!("Bearer {token}");
    Request::post("/v1/data").header(AUTHORIZATION, authorization).body(body.into()).unwrap()
}

#[tokio::test]
async fn data_is_written_listed_shown_and_searched_by_its_tenant_alone() {
    let tenants = Tenants::open().await;
    let routes = routes_of(&tenants);
    let (acme_token, globex_token) =
        (tenants.token(&tenants.acme).await, tenants.token(&tenants.stranger.tenant).await);
    let acme = async |method: &str, path: &str, body| sends(&routes, &acme_token, method, path, body).await;
    let new = json!({"content": "harbour\nmore", "tags": ["sea"], "expires_at": 1_800_000_000, "metadata": {"x": 1}});
    let (status, written) = acme("POST", "/v1/data", Some(new)).await;
    assert_eq!((status, written["created_at"].is_i64()), (201, true));
    let path = format!("/v1/data/{}", written["id"].as_str().unwrap());
    let (status, shown) = acme("GET", &path, None).await;
    assert_eq!(status, 200);
    assert_eq!((&shown["agent_id"], &shown["expires_at"]), (&json!("heron"), &json!(1_800_000_000)));
    for number in 0..3 {
        acme("POST", "/v1/data", Some(json!({"content": format!("n{number}")}))).await;
    }
    let (_, page) = acme("GET", "/v1/data?limit=3", None).await;
    let next = format!("/v1/data?limit=3&after={}", page["next"].as_str().unwrap());
    let (_, rest) = acme("GET", &next, None).await;
    assert_eq!(
        (page["items"].as_array().unwrap().len(), &rest["items"], &rest["next"]),
        (3, &json!([shown]), &Value::Null)
    );
    let (_, tagged) = acme("GET", "/v1/data?domain_tags=sea&domain_tags=x", None).await;
    assert_eq!(tagged["items"].as_array().unwrap().len(), 1);
    let (_, found) =
        acme("POST", "/v1/data/query", Some(json!({"query": "harbour", "domain_tags": "sea"}))).await;
    assert_eq!(found["items"][0]["id"], shown["id"]);
    let (_, described) = acme("GET", "/v1/data-store", None).await;
    assert_eq!(
        (&described["manifest"]["kind"], &described["features"]["supports_pinning"]),
        (&json!("house"), &json!(true))
    );
    // The other tenant sees none of it.
    assert_eq!(sends(&routes, &globex_token, "GET", &path, None).await.0, 404);
    assert_eq!(sends(&routes, &globex_token, "GET", "/v1/data", None).await.1, json!({"items": []}));
    let other =
        sends(&routes, &globex_token, "POST", "/v1/data/query", Some(json!({"query": "harbour"}))).await;
    assert_eq!(other.1, json!({"items": []}));
    assert_eq!(acme("GET", "/v1/data/nope", None).await.1["code"], "data_not_found");
    assert_eq!(acme("DELETE", "/v1/data", None).await.1["code"], "method_not_allowed");
}

#[tokio::test]
async fn refusals_have_the_code_of_their_class_and_its_fields() {
    let tenants = Tenants::open().await;
    let (routes, token) = (routes_of(&tenants), tenants.token(&tenants.acme).await);
    let query = async |body| sends(&routes, &token, "POST", "/v1/data/query", Some(body)).await;
    let (status, refused) = query(json!({"query": "a", "vault": 1, "tenant": 2})).await;
    assert_eq!((status, &refused["code"]), (422, &json!("unsupported_filter")));
    assert_eq!(
        (&refused["unsupported_keys"], &refused["supported_keys"]),
        (&json!(["tenant", "vault"]), &json!(["domain_tags"]))
    );
    assert_eq!(
        (&refused["substrate"], &refused["connector_type"]),
        (&json!("DataStoreMcpConnector"), &json!("data_store"))
    );
    for (body, status, code) in [
        (json!({"limit": 0}), 422, "invalid_request"),
        (json!({"domain_tags": []}), 422, "invalid_request"),
        (json!({"mode": "semantic"}), 422, "unsupported_mode"),
        (json!({"query": "raw:("}), 422, "query"),
        (json!([]), 400, "malformed_json"),
    ] {
        let refused = query(body).await;
        assert_eq!((refused.0, refused.1["code"].as_str().unwrap()), (status, code));
    }
    let write = async |body| sends(&routes, &token, "POST", "/v1/data", Some(body)).await;
    for (body, field) in [
        (json!({}), "content"),
        (json!({"content": ""}), "content"),
        (json!({"content": "a", "tags": "x"}), "tags"),
        (json!({"content": "a", "expires_at": 1.5}), "expires_at"),
        (json!({"content": "a", "metadata": []}), "metadata"),
        (json!({"content": "a", "unknown": 1}), "unknown"),
    ] {
        let refused = write(body).await;
        assert_eq!((refused.0, refused.1["field"].as_str().unwrap()), (422, field));
    }
    assert_eq!(write(json!({"content": "x".repeat(CONTENT_BYTES + 1)})).await.0, 413);
    // Every byte as a six-byte escape still fits through the door.
    let escaped = format!("{{\"content\":\"{}\"}}", "\\u0001".repeat(CONTENT_BYTES));
    let request = posted(&token, escaped);
    assert_eq!(routes.clone().oneshot(request).await.unwrap().status(), 201);
    for body in ["{", "\"\\ud800\"", "{\"content\":\"\\ud800\"}"] {
        let request = posted(&token, body);
        assert_eq!(routes.clone().oneshot(request).await.unwrap().status(), 400, "{body}");
    }
}

#[tokio::test]
async fn every_operation_wants_a_caller_and_is_described() {
    let routes = routes_of(&Tenants::open().await);
    for operation in DATA_OPERATIONS {
        let path = operation.path.replace("{id}", "dat_x");
        let request = Request::builder().method(operation.method).uri(path).body(Body::empty()).unwrap();
        assert_eq!(routes.clone().oneshot(request).await.unwrap().status(), 401);
    }
    let problems = http_kit::openapi::check_fragment(DATA_OPENAPI, &[], DATA_OPERATIONS);
    assert!(problems.is_empty(), "{problems:#?}");
}

#[tokio::test]
async fn a_tenant_with_too_many_large_answers_waits_and_another_tenant_does_not() {
    let tenants = Tenants::open().await;
    let routes = routes_of(&tenants);
    let (acme, globex) = (tenants.token(&tenants.acme).await, tenants.token(&tenants.stranger.tenant).await);
    let query = || Some(json!({"query": "harbour"}));
    let mut turns = Vec::new();
    for _ in 0..4 {
        turns.push(tenants.workshop.answer_turn(&tenants.acme).await.unwrap());
    }
    let mut waiting = Box::pin(sends(&routes, &acme, "POST", "/v1/data/query", query()));
    // The answer of the other tenant is the marker: while it is made, the first one has every chance.
    let marker = sends(&routes, &globex, "POST", "/v1/data/query", query());
    let (status, _) = tokio::select! {
        biased;
        _ = &mut waiting => panic!("it did not wait for its turn"),
        answered = marker => answered,
    };
    assert_eq!(status, 200);
    turns.pop();
    assert_eq!(waiting.await.0, 200);
}
