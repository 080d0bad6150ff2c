//! Creating and removing are one commit each: a server that is killed, or a disk that fails, leaves all of
//! it or nothing.

use http::Method;
use identity::Enrolment;
use serde_json::{Value, json};

use crate::pigeon;
use crate::test_server::TestServer;

/// Every table in which making an agent writes a row.
const OF_AN_AGENT: [&str; 10] = [
    "instances",
    "gateways",
    "gateway_secrets",
    "clients",
    "client_secrets",
    "logins",
    "access_tokens",
    "refresh_tokens",
    "bots",
    "routes",
];

fn heron() -> Value {
    json!({ "tenant": "acme", "name": "heron", "bots": ["pigeon:7001"] })
}

/// What the lists say there is: agents, clients and logins, bots on the server's own platform, routes.
async fn what_there_is(server: &TestServer) -> [usize; 4] {
    let mut counts = [0; 4];
    let lists = ["/admin/agents", "/admin/clients", "/admin/bots?platform=web", "/admin/routes"];
    for (count, list) in counts.iter_mut().zip(lists) {
        *count = server.gets(list).await["items"].as_array().unwrap().len();
    }
    counts
}

async fn server_with_a_bot() -> TestServer {
    let server = TestServer::open().await;
    server.makes("/admin/tenants", json!({ "name": "acme" })).await;
    server.makes("/admin/bots", json!({ "platform": "pigeon", "secrets": { "token": pigeon::TOKEN } })).await;
    server
}

#[tokio::test]
async fn a_fault_at_any_statement_of_making_an_agent_leaves_nothing_of_it() {
    let server = server_with_a_bot().await;
    let before = what_there_is(&server).await;
    for table in OF_AN_AGENT {
        server.ledger.fail_writes(Some(("INSERT", table))).await.unwrap();
        let (status, _) = server.asks(Method::POST, "/admin/agents", Some(heron())).await;
        assert!(status.is_server_error(), "{table}: {status}");
        server.ledger.fail_writes(None).await.unwrap();
        assert_eq!(what_there_is(&server).await, before, "after a fault in {table}");
    }
    // Nothing of the failed ones stands in the way.
    server.makes("/admin/agents", heron()).await;
    assert_eq!(what_there_is(&server).await, [1, 2, 1, before[3] + 1]);
}

#[tokio::test]
async fn making_an_agent_is_one_commit() {
    let server = server_with_a_bot().await;
    let before = server.writes();
    let wanted = Enrolment {
        tenant: "acme".to_owned(),
        name: "heron".to_owned(),
        bots: vec![ledger::BotRef { platform: "pigeon".into(), bot: "7001".into() }],
        built_in: vec!["web".into()],
        with_http_credentials: true,
        ..Enrolment::default()
    };
    server.identity.accounts.enrol(wanted).await.unwrap().unwrap();
    assert_eq!(server.writes() - before, 1);
}

#[tokio::test]
async fn a_fault_at_any_statement_of_removing_an_agent_leaves_all_of_it() {
    let server = server_with_a_bot().await;
    let made = server.makes("/admin/agents", heron()).await;
    let whole = what_there_is(&server).await;
    for table in OF_AN_AGENT {
        server.ledger.fail_writes(Some(("DELETE", table))).await.unwrap();
        let (status, _) = server.asks(Method::DELETE, "/admin/agents/heron", None).await;
        assert!(status.is_server_error(), "{table}: {status}");
        server.ledger.fail_writes(None).await.unwrap();
        assert_eq!(what_there_is(&server).await, whole, "after a fault in {table}");
        let shown = server.gets("/admin/agents/heron").await;
        assert_eq!(shown["gateways"], json!([made["gateway_id"]]), "after a fault in {table}");
    }
    let before = server.writes();
    server.identity.accounts.remove_agent(&made["instance_id"].as_str().unwrap().into()).await.unwrap();
    assert_eq!(server.writes() - before, 1);
    assert_eq!(what_there_is(&server).await, [0, 0, 0, whole[3] - 1]);
}

/// The statements that end credentials of each kind.
const OF_CREDENTIALS: [(&str, &str); 5] = [
    ("UPDATE", "gateways"),
    ("DELETE", "gateway_secrets"),
    ("DELETE", "client_secrets"),
    ("UPDATE", "clients"),
    ("DELETE", "logins"),
];

#[tokio::test]
async fn a_fault_at_any_statement_of_revoking_an_agent_leaves_all_its_credentials() {
    let server = server_with_a_bot().await;
    let made = server.makes("/admin/agents", heron()).await;
    let instance = made["instance_id"].as_str().unwrap().into();
    let whole = what_there_is(&server).await;
    for write in OF_CREDENTIALS {
        server.ledger.fail_writes(Some(write)).await.unwrap();
        let (status, _) = server.asks(Method::POST, "/admin/agents/heron/revoke", Some(json!({}))).await;
        assert!(status.is_server_error(), "{write:?}: {status}");
        server.ledger.fail_writes(None).await.unwrap();
        assert_eq!(what_there_is(&server).await, whole, "after a fault in {write:?}");
        let gateway =
            server.ledger.vault().gateway(&made["gateway_id"].as_str().unwrap().into()).await.unwrap();
        assert_eq!(gateway.unwrap().secrets.len(), 1, "after a fault in {write:?}");
    }
    let before = server.writes();
    let ended = server.identity.accounts.revoke(&instance, identity::WhichCredentials::All).await.unwrap();
    assert_eq!(server.writes() - before, 1);
    assert_eq!(ended.gateways, [made["gateway_id"].as_str().unwrap()]);
    assert!(ended.client.is_some() && ended.login.is_some());
}

#[tokio::test]
async fn a_fault_while_a_bot_connector_or_tenant_is_removed_leaves_all_of_it() {
    let server = server_with_a_bot().await;
    let connector = json!({
        "tenant": "acme", "name": "hook", "kind": "webhook", "force": true, "hmac_secret": "s-1",
        "settings": { "agents": { "desk": { "url": "https://desk.invalid/hook" } } },
    });
    server.makes("/admin/connectors", connector).await;
    for (table, path, list) in [
        ("credentials", "/admin/bots/pigeon/7001", "/admin/bots"),
        ("connector_secrets", "/admin/connectors/acme/hook", "/admin/connectors"),
        ("tenants", "/admin/tenants/acme", "/admin/tenants"),
    ] {
        let before = server.gets(list).await;
        server.ledger.fail_writes(Some(("DELETE", table))).await.unwrap();
        let (status, said) = server.asks(Method::DELETE, path, None).await;
        assert!(status.is_server_error(), "{path}: {status} {said}");
        server.ledger.fail_writes(None).await.unwrap();
        assert_eq!(server.gets(list).await, before, "after a fault in {table}");
        let (status, said) = server.asks(Method::DELETE, path, None).await;
        assert!(status.is_success(), "{path}: {status} {said}");
    }
}

#[tokio::test]
async fn a_bot_or_connector_is_made_with_its_secrets_or_not_at_all() {
    let server = TestServer::open().await;
    server.makes("/admin/tenants", json!({ "name": "acme" })).await;
    let bot = json!({ "platform": "pigeon", "secrets": { "token": pigeon::TOKEN } });
    let connector = json!({
        "tenant": "acme", "name": "hook", "kind": "webhook", "force": true, "hmac_secret": "s-1",
        "settings": { "agents": { "desk": { "url": "https://desk.invalid/hook" } } },
    });
    for (table, list, body) in
        [("credentials", "/admin/bots", bot), ("connector_secrets", "/admin/connectors", connector)]
    {
        server.ledger.fail_writes(Some(("INSERT", table))).await.unwrap();
        let (status, said) = server.asks(Method::POST, list, Some(body.clone())).await;
        assert!(status.is_server_error(), "{list}: {status} {said}");
        server.ledger.fail_writes(None).await.unwrap();
        assert_eq!(server.gets(list).await["items"], json!([]), "{list}");
        server.makes(list, body).await;
    }
}
