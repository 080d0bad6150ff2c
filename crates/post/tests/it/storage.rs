//! A tenant that has used up its storage, as its programs hear of it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::test_server::{Program, TestServer};

/// PathKind which a repeat is known.
const KEY: [(&str, &str); 1] = [("idempotency-key", "release-7")];

async fn refused(program: &Program, path: &str, body: Value) {
    let (status, problem) = program.posts(path, body).await;
    assert_eq!((status.as_u16(), &problem["code"]), (429, &json!("quota_exceeded")), "{path}: {problem}");
    assert!(problem["detail"].as_str().unwrap().contains("used up its storage"), "{problem}");
}

#[tokio::test]
async fn programs_of_a_tenant_without_storage_hear_429_and_another_tenants_get_through() {
    let server = TestServer::wound().await;
    let receiver = Receiver::open().await;
    let mut programs = Vec::new();
    for tenant in ["acme", "globex"] {
        server.enrol(tenant, "heron").await;
        let settings = json!({ "agents": { "desk": { "url": format!("{}/hook", receiver.base) } } });
        programs.push(server.program(tenant).await);
        server.wires(tenant, "hook", "webhook", settings).await;
    }
    receiver.says(200, r#"{"delivery_id":"d-1"}"#);
    let [acme, globex] = &programs[..] else { panic!("there are two") };
    let sent = json!({ "agent": "desk", "message": "first" });
    let (status, first) = acme.posts_with("/v1/notify", &KEY, sent.clone()).await;
    assert_eq!(status, 200, "{first}");

    let tenant = server.tenant("acme").await;
    server.ledger.usage().set_tenant_limit(&tenant, Some(1)).await.unwrap();
    let later = server.time.now() + Duration::from_secs(60);
    refused(acme, "/v1/notify", json!({ "agent": "heron", "message": "to an inbox" })).await;
    refused(acme, "/v1/notify", json!({ "agent": "desk", "message": "to a connector" })).await;
    refused(acme, "/v1/wake", json!({ "agent_id": "heron", "when": later.millis() })).await;
    refused(acme, "/v1/exchange", json!({ "agent": "heron", "message": "a question", "wait": 0 })).await;
    let (status, again) = acme.posts_with("/v1/notify", &KEY, sent).await;
    assert_eq!(
        (status.as_u16(), &again["dispatch_id"]),
        (200, &first["dispatch_id"]),
        "a repeat needs no room"
    );
    globex.notifies("heron", "another tenant's").await;
    globex.notifies("desk", "another tenant's").await;

    server.ledger.usage().set_tenant_limit(&tenant, None).await.unwrap();
    acme.notifies("heron", "there is room again").await;
}
