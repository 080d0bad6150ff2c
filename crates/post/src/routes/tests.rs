//! Tests of the HTTP API on an in-memory server.

mod test_server;

use axum::body::Body;
use http::{Request, StatusCode};
use ledger::Owner;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use self::test_server::TestServer;
use http_kit::{Operation, openapi};

use super::{LARGEST_BODY, OPENAPI, OPERATIONS, PostApi, read_request_body};
use crate::Refused;

#[tokio::test]
async fn every_operation_that_asks_for_a_credential_refuses_whoever_has_none() {
    let server = TestServer::open().await;
    for Operation { method, path, credential, .. } in OPERATIONS {
        let path = path.replace(['{', '}'], "");
        for proof in [None, Some("Bearer pht_nonsense"), Some("Basic bm90aGluZw=="), Some("Bearer")] {
            let mut request = Request::builder().method(*method).uri(&path);
            if let Some(proof) = proof {
                request = request.header("authorization", proof);
            }
            let (status, body) = server.asks(request.body(Body::from("{")).unwrap()).await;
            assert_eq!(status == 401, *credential, "{method} {path} {proof:?}: {status} {body}");
            assert_eq!(body["code"] == "unauthorized", *credential, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_path_or_method_that_is_not_there_is_a_problem() {
    let server = TestServer::open().await;
    let ask =
        |method: &str, path: &str| Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    for path in ["/v1/nothing", "/v1/notify/", "/v1/receipts/a/b"] {
        let (status, body) = server.asks(ask("GET", path)).await;
        assert_eq!((status, &body["code"]), (404, &json!("not_found")), "{path}");
    }
    let (status, body) = server.asks(ask("DELETE", "/v1/notify")).await;
    assert_eq!((status, &body["code"]), (405, &json!("method_not_allowed")));
}

#[tokio::test]
async fn an_agents_credential_is_that_agents_and_nobody_elses() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    server.enrol("perry").await;
    let agent = server.bearer(&Owner::Instance(heron.clone())).await;
    let letter = json!({ "agent": "perry", "message": "hello" });
    for own in ["heron", heron.as_str(), ""] {
        assert_eq!(agent.posts("/v1/notify", ("x-agent-id", own), &letter).await.0, 200, "{own}");
    }
    let (status, body) = agent.posts("/v1/notify", ("x-agent-id", "perry"), &letter).await;
    assert_eq!((status, &body["code"]), (403, &json!("forbidden")));
    let tenant = server.program(&server.acme).await;
    assert_eq!(tenant.posts("/v1/notify", ("x-agent-id", "anybody"), &letter).await.0, 200);
    let long = "x".repeat(129);
    assert_eq!(tenant.posts("/v1/notify", ("x-agent-id", &long), &letter).await.0, 422);

    // Only the agent and programs of its tenant see what the agent sent.
    assert_eq!(agent.get("/v1/receipts").await.1["items"].as_array().unwrap().len(), 3);
    assert_eq!(tenant.get("/v1/receipts").await.1["items"].as_array().unwrap().len(), 4);

    server.identity.accounts.remove_agent(&heron).await.unwrap();
    let (status, body) = agent.posts("/v1/notify", ("accept", "*/*"), &letter).await;
    assert_eq!((status, &body["code"]), (401, &json!("unauthorized")));
}

#[tokio::test]
async fn a_message_is_found_by_its_dispatch_id_and_the_same_again_is_the_same() {
    let server = TestServer::open().await;
    server.enrol("perry").await;
    let program = server.bearer(&server.acme).await;
    let letter =
        json!({ "agent": "perry", "message": "good morning", "trigger_kind": "cli", "from": "desk" });
    let (status, first) = program.posts("/v1/notify", ("idempotency-key", "order-17"), &letter).await;
    assert_eq!((status, &first["dispatch_id"]), (200, &json!("order-17")), "{first}");
    assert_eq!(first["dispatched"][0]["connector"], "relay");
    assert_eq!(first["dispatched"][0]["receipt"]["delivery_skipped"], true);
    let (_, again) = program.posts("/v1/notify", ("idempotency-key", "order-17"), &letter).await;
    assert_eq!(again, first);

    let (status, response) = program.get("/v1/receipts/order-17").await;
    assert_eq!((status, response["items"].as_array().unwrap().len()), (200, 1), "{response}");
    let receipt = &response["items"][0];
    assert_eq!((&receipt["state"], &receipt["route"]), (&json!("queued"), &json!("deliver")));
    assert_eq!(receipt["receipt"], first["dispatched"][0]["receipt"]);
    for absent in ["/v1/receipts/order-18", "/v1/receipts/..%2fx", "/v1/receipts/%ff"] {
        assert_eq!(program.get(absent).await.0, 404, "{absent}");
    }
    assert_eq!(program.posts("/v1/notify", ("idempotency-key", "a/b"), &letter).await.0, 422);
    let (status, nobody) = program.post("/v1/notify", json!({ "agent": "nobody", "message": "" })).await;
    assert_eq!((status, &nobody["dispatched"]), (200, &json!([])));
}

#[tokio::test]
async fn a_complete_envelope_is_handed_over_and_an_agent_is_woken() {
    let server = TestServer::open().await;
    server.enrol("perry").await;
    let program = server.bearer(&server.acme).await;
    let origin = json!({ "skill_name": "probe", "trigger_kind": "inline" });
    let meta = json!({ "dispatch_id": "conformance-test", "sent_at": 5, "origin": origin });
    let envelope = json!({ "agent_id": "perry", "kind": "augment", "content": "hello", "meta": meta });
    let (status, delivered) = program.post("/v1/deliver", envelope).await;
    assert_eq!((status, &delivered["dispatch_id"]), (200, &json!("conformance-test")), "{delivered}");
    assert!(delivered["delivered_at"].is_i64() && delivered["dispatched"].is_array());

    let wake = json!({ "agent_id": "perry@attic", "context": "come", "wait": 0 });
    let (status, woken) = program.post("/v1/wake", wake).await;
    assert_eq!(
        (status, &woken["woken"], &woken["session_id"]),
        (200, &json!(false), &json!("attic")),
        "{woken}"
    );
    let (status, body) = program.post("/v1/wake", json!({ "agent": "perry", "agent_id": "perry" })).await;
    assert_eq!((status, &body["field"]), (422, &json!("agent")));
    let long = json!({ "agent": "perry", "message": "x".repeat(256 * 1024 + 1) });
    assert_eq!(program.post("/v1/notify", long).await.1["code"], "too_long");
}

#[tokio::test]
async fn a_question_stays_open_and_is_found_again() {
    let server = TestServer::open().await;
    server.enrol("perry").await;
    let program = server.bearer(&server.acme).await;
    let question = json!({ "agent": "perry", "message": "how many?", "correlation_id": "q-1", "wait": 0 });
    let (status, open) = program.post("/v1/exchange", question).await;
    assert_eq!((status, &open["correlation_id"]), (202, &json!("q-1")), "{open}");
    assert_eq!(program.get("/v1/exchanges/q-1").await, (202, open));
    let (_, listed) = program.get("/v1/exchanges?limit=1").await;
    assert_eq!((&listed["items"][0]["state"], &listed["next"]), (&json!("open"), &Value::Null));

    let other = json!({ "agent": "perry", "message": "another", "correlation_id": "q-1" });
    assert_eq!(program.post("/v1/exchange", other).await.0, 409);
    let session = json!({ "agent": "perry@attic", "message": "you?" });
    assert_eq!(program.post("/v1/exchange", session).await.1["code"], "exchange_address");
    let unknown = program.post("/v1/exchange", json!({ "agent": "nobody", "message": "you?" })).await;
    assert_eq!((unknown.0, &unknown.1["cause_kind"]), (404, &json!("client_validation")));
    assert_eq!(program.get("/v1/exchanges/q-2").await.0, 404);
}

#[tokio::test]
async fn lists_come_in_pages_that_together_are_the_list() {
    let server = TestServer::open().await;
    let program = server.bearer(&server.acme).await;
    for name in ["ann", "bob", "cid"] {
        server.enrol(name).await;
        program.post("/v1/notify", json!({ "agent": name, "message": "hello" })).await;
    }
    for (list, expected) in [("agents", ["ann", "bob", "cid"]), ("receipts", ["cid", "bob", "ann"])] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let (status, page) = program.get(&format!("/v1/{list}?limit=2&after={after}")).await;
            assert_eq!(status, 200, "{page}");
            let items = page["items"].as_array().unwrap();
            seen.extend(items.iter().map(|item| item["agent_id"].as_str().unwrap().to_owned()));
            let Some(next) = page["next"].as_str() else { break };
            next.clone_into(&mut after);
        }
        assert_eq!(seen, expected, "{list}");
    }
    let (_, filtered) = program.get("/v1/receipts?agent=bob&state=queued").await;
    assert_eq!(filtered["items"].as_array().unwrap().len(), 1);
    // The agent is not connected and has no wake URL.
    assert_eq!(program.get("/v1/agents/bob").await.1["status"], "unknown");
    assert_eq!(program.get("/v1/agents/nobody").await.0, 404);
}

#[tokio::test]
async fn an_answer_under_a_token_that_nobody_gave_out_is_for_nobody() {
    let server = TestServer::open().await;
    let answer = json!({ "correlation_id": "q-1", "agent_id": "perry", "content": "42" }).to_string();
    for token in ["unknown", &"x".repeat(5000), "%00", "%ff"] {
        let request = Request::post(format!("/v1/replies/{token}")).body(Body::from(answer.clone())).unwrap();
        assert_eq!(server.asks(request).await.0, 404, "{token}");
    }
}

#[tokio::test]
async fn work_is_seen_through_when_whoever_asked_for_it_hangs_up() {
    let server = TestServer::open().await;
    let door = PostApi::new(&server.post);
    let (begins, begun) = oneshot::channel();
    let (goes_on, go_on) = oneshot::channel::<()>();
    let (ends, ended) = oneshot::channel();
    let asking = door.to_the_end(|_| async move {
        begins.send(()).unwrap();
        go_on.await.unwrap();
        ends.send(()).unwrap();
        Ok::<_, Refused>(())
    });
    tokio::select! {
        _ = asking => panic!("it ended before it might"),
        heard = begun => heard.unwrap(),
    }
    // The client disconnects.
    goes_on.send(()).unwrap();
    ended.await.unwrap();
}

#[tokio::test]
async fn a_body_is_taken_up_to_its_greatest_length_and_no_further() {
    let sized = |length| Body::from(vec![b' '; length]);
    assert_eq!(read_request_body(sized(LARGEST_BODY)).await.unwrap().len(), LARGEST_BODY);
    let problem = read_request_body(sized(LARGEST_BODY + 1)).await.err().unwrap();
    let response = axum::response::IntoResponse::into_response(problem);
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    // Every byte of the longest text may be written as an escape.
    let escaped = format!(r#"{{"agent":"perry","message":"{}"}}"#, r"\u0061".repeat(256 * 1024));
    assert!(read_request_body(Body::from(escaped)).await.is_ok());
}

#[test]
fn every_operation_is_described_and_nothing_else_is() {
    assert_eq!(openapi::check_fragment(OPENAPI, &[], OPERATIONS), Vec::<String>::new());
    assert_eq!(OPERATIONS.iter().filter(|operation| !operation.credential).count(), 1);
}

#[test]
fn an_operation_is_described_with_its_body_and_whether_a_credential_can_be_missing() {
    let document = openapi::merge(&[OPENAPI], "0", "/").unwrap();
    for Operation { method, path, credential } in OPERATIONS {
        let described = &document["paths"][path][method.to_lowercase()];
        let asks = *credential || path.contains("replies");
        assert_eq!(described["responses"]["401"].is_object(), asks, "{path}");
        assert_eq!(described["requestBody"].is_object(), *method == "POST", "{path}");
    }
}
