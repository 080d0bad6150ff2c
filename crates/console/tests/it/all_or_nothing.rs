//! Creating and removing are one commit each: a server that is killed, or a disk that fails, leaves all of
//! it or nothing.

use http::Method;
use identity::Enrolment;
use serde_json::{Value, json};

use crate::house::House;
use crate::pigeon;

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
async fn what_there_is(house: &House) -> [usize; 4] {
    let mut counts = [0; 4];
    let lists = ["/admin/agents", "/admin/clients", "/admin/bots?platform=web", "/admin/routes"];
    for (count, list) in counts.iter_mut().zip(lists) {
        *count = house.gets(list).await["items"].as_array().unwrap().len();
    }
    counts
}

async fn house_with_a_bot() -> House {
    let house = House::open().await;
    house.makes("/admin/tenants", json!({ "name": "acme" })).await;
    house.makes("/admin/bots", json!({ "platform": "pigeon", "secrets": { "token": pigeon::TOKEN } })).await;
    house
}

#[tokio::test]
async fn a_fault_at_any_statement_of_making_an_agent_leaves_nothing_of_it() {
    let house = house_with_a_bot().await;
    let before = what_there_is(&house).await;
    for table in OF_AN_AGENT {
        house.ledger.fail_writes(Some(("INSERT", table))).await.unwrap();
        let (status, _) = house.asks(Method::POST, "/admin/agents", Some(heron())).await;
        assert!(status.is_server_error(), "{table}: {status}");
        house.ledger.fail_writes(None).await.unwrap();
        assert_eq!(what_there_is(&house).await, before, "after a fault in {table}");
    }
    // Nothing of the failed ones stands in the way.
    house.makes("/admin/agents", heron()).await;
    assert_eq!(what_there_is(&house).await, [1, 2, 1, before[3] + 1]);
}

#[tokio::test]
async fn making_an_agent_is_one_commit() {
    let house = house_with_a_bot().await;
    let before = house.writes();
    let wanted = Enrolment {
        tenant: "acme".to_owned(),
        name: "heron".to_owned(),
        bots: vec![ledger::BotRef { platform: "pigeon".into(), bot: "7001".into() }],
        built_in: vec!["web".into()],
        with_http_credentials: true,
        ..Enrolment::default()
    };
    house.identity.accounts.enrol(wanted).await.unwrap().unwrap();
    assert_eq!(house.writes() - before, 1);
}

#[tokio::test]
async fn a_fault_at_any_statement_of_removing_an_agent_leaves_all_of_it() {
    let house = house_with_a_bot().await;
    let made = house.makes("/admin/agents", heron()).await;
    let whole = what_there_is(&house).await;
    for table in OF_AN_AGENT {
        house.ledger.fail_writes(Some(("DELETE", table))).await.unwrap();
        let (status, _) = house.asks(Method::DELETE, "/admin/agents/heron", None).await;
        assert!(status.is_server_error(), "{table}: {status}");
        house.ledger.fail_writes(None).await.unwrap();
        assert_eq!(what_there_is(&house).await, whole, "after a fault in {table}");
        let shown = house.gets("/admin/agents/heron").await;
        assert_eq!(shown["gateways"], json!([made["gateway_id"]]), "after a fault in {table}");
    }
    let before = house.writes();
    house.identity.accounts.remove_agent(&made["instance_id"].as_str().unwrap().into()).await.unwrap();
    assert_eq!(house.writes() - before, 1);
    assert_eq!(what_there_is(&house).await, [0, 0, 0, whole[3] - 1]);
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
    let house = house_with_a_bot().await;
    let made = house.makes("/admin/agents", heron()).await;
    let instance = made["instance_id"].as_str().unwrap().into();
    let whole = what_there_is(&house).await;
    for write in OF_CREDENTIALS {
        house.ledger.fail_writes(Some(write)).await.unwrap();
        let (status, _) = house.asks(Method::POST, "/admin/agents/heron/revoke", Some(json!({}))).await;
        assert!(status.is_server_error(), "{write:?}: {status}");
        house.ledger.fail_writes(None).await.unwrap();
        assert_eq!(what_there_is(&house).await, whole, "after a fault in {write:?}");
        let gateway =
            house.ledger.vault().gateway(&made["gateway_id"].as_str().unwrap().into()).await.unwrap();
        assert_eq!(gateway.unwrap().secrets.len(), 1, "after a fault in {write:?}");
    }
    let before = house.writes();
    let ended = house.identity.accounts.revoke(&instance, identity::WhichCredentials::All).await.unwrap();
    assert_eq!(house.writes() - before, 1);
    assert_eq!(ended.gateways, [made["gateway_id"].as_str().unwrap()]);
    assert!(ended.client.is_some() && ended.login.is_some());
}

#[tokio::test]
async fn a_fault_while_a_bot_connector_or_tenant_is_removed_leaves_all_of_it() {
    let house = house_with_a_bot().await;
    let connector = json!({
        "tenant": "acme", "name": "hook", "kind": "webhook", "force": true, "hmac_secret": "s-1",
        "settings": { "agents": { "desk": { "url": "https://desk.invalid/hook" } } },
    });
    house.makes("/admin/connectors", connector).await;
    for (table, path, list) in [
        ("credentials", "/admin/bots/pigeon/7001", "/admin/bots"),
        ("connector_secrets", "/admin/connectors/acme/hook", "/admin/connectors"),
        ("tenants", "/admin/tenants/acme", "/admin/tenants"),
    ] {
        let before = house.gets(list).await;
        house.ledger.fail_writes(Some(("DELETE", table))).await.unwrap();
        let (status, said) = house.asks(Method::DELETE, path, None).await;
        assert!(status.is_server_error(), "{path}: {status} {said}");
        house.ledger.fail_writes(None).await.unwrap();
        assert_eq!(house.gets(list).await, before, "after a fault in {table}");
        let (status, said) = house.asks(Method::DELETE, path, None).await;
        assert!(status.is_success(), "{path}: {status} {said}");
    }
}

#[tokio::test]
async fn a_bot_or_connector_is_made_with_its_secrets_or_not_at_all() {
    let house = House::open().await;
    house.makes("/admin/tenants", json!({ "name": "acme" })).await;
    let bot = json!({ "platform": "pigeon", "secrets": { "token": pigeon::TOKEN } });
    let connector = json!({
        "tenant": "acme", "name": "hook", "kind": "webhook", "force": true, "hmac_secret": "s-1",
        "settings": { "agents": { "desk": { "url": "https://desk.invalid/hook" } } },
    });
    for (table, list, body) in
        [("credentials", "/admin/bots", bot), ("connector_secrets", "/admin/connectors", connector)]
    {
        house.ledger.fail_writes(Some(("INSERT", table))).await.unwrap();
        let (status, said) = house.asks(Method::POST, list, Some(body.clone())).await;
        assert!(status.is_server_error(), "{list}: {status} {said}");
        house.ledger.fail_writes(None).await.unwrap();
        assert_eq!(house.gets(list).await["items"], json!([]), "{list}");
        house.makes(list, body).await;
    }
}
