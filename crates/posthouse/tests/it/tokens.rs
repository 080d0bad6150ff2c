//! Clients and logins: created by the command line, used over HTTP.

use serde_json::{Value, json};

use crate::talk::provide_crypto;
use crate::test_server::TestServer;

/// What a client's secret is exchanged for.
pub async fn exchanges(server: &TestServer, credential: &Value) -> Value {
    let (status, answer) = tries_to_exchange(server, credential).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn tries_to_exchange(server: &TestServer, credential: &Value) -> (u16, Value) {
    let text = |name: &str| credential[name].as_str().unwrap().to_owned();
    let form = [
        ("grant_type", "client_credentials".to_owned()),
        ("client_id", text("client_id")),
        ("client_secret", text("client_secret")),
    ];
    let request = reqwest::Client::new().post(format!("{}/oauth/token", server.url)).form(&form);
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// A refresh as a stock agent asks for it.
pub async fn refreshes(server: &TestServer, token: &str) -> (u16, Value) {
    let form = [("grant_type", "refresh_token"), ("client_id", "hermes-cli-vps")];
    let request = reqwest::Client::new()
        .post(format!("{}/api/oauth/token", server.url))
        .header("x-nous-refresh-token", token)
        .form(&form);
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_agent_create_prints_opens_the_doors_and_survives_a_restart() {
    provide_crypto();
    let mut server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    let callback = "http://127.0.0.1:9/agent";
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--callback-url", callback]);
    assert_eq!(heron["portal_url"], server.url);
    assert_eq!(heron["env"]["HERMES_PORTAL_BASE_URL"], server.url);
    assert_eq!(heron["cron"]["cron.chronos.callback_url"], callback);
    assert_eq!(exchanges(&server, &heron).await["expires_in"], 3600);
    let token = heron["auth"]["providers"]["nous"]["refresh_token"].as_str().unwrap();
    let (status, refreshed) = refreshes(&server, token).await;
    assert_eq!(status, 200, "{refreshed}");
    server.kill();
    server.start();
    exchanges(&server, &heron).await;
    assert_eq!(refreshes(&server, refreshed["refresh_token"].as_str().unwrap()).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_made_listed_and_revoked_by_command() {
    provide_crypto();
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    server.does(&["tenant", "create", "umbrella"]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let own = server.does(&["client", "create", "--tenant", "acme"]);
    assert_eq!(own["client_id"], format!("tenant:{}", heron["tenant_id"].as_str().unwrap()));
    exchanges(&server, &own).await;
    let again = server.does(&["client", "create", "--agent", "heron", "--tenant", "acme"]);
    assert_eq!(again["client_id"], heron["client_id"]);
    let refused = server.tries(&["client", "create", "--agent", "heron", "--tenant", "umbrella"]);
    assert!(!refused.status.success(), "another tenant's agent is nobody here");

    let listed = server.does(&["client", "list", "--tenant", "acme"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
    assert_eq!(server.does(&["client", "list", "--tenant", "umbrella"])["items"], json!([]));
    server.does(&["client", "revoke", own["client_id"].as_str().unwrap()]);
    let (status, answer) = tries_to_exchange(&server, &own).await;
    assert_eq!((status, &answer["error"]), (401, &json!("invalid_client")));
    exchanges(&server, &heron).await;
    exchanges(&server, &again).await;

    let login = listed["items"].as_array().unwrap().iter().find(|item| item["client_id"] == "hermes-cli-vps");
    server.does(&["client", "revoke", login.unwrap()["id"].as_str().unwrap()]);
    let (status, answer) = refreshes(&server, heron["refresh_token"].as_str().unwrap()).await;
    assert_eq!((status, &answer["error"]), (400, &json!("invalid_grant")));
}
