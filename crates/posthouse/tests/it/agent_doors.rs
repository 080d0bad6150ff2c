//! Valid credentials at every path of an agent and of the operator: sent twice in one request, and after
//! revocation.

use futures_util::{SinkExt, StreamExt};
use posthouse_wire::{GatewayId, Secret, token};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::talk::{PATIENCE, provide_crypto};
use crate::test_server::TestServer;
use crate::tokens::{exchanges, refreshes};

/// A path, and the `Authorization` header that is valid there.
struct Key {
    path: &'static str,
    authorization: String,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// A server, its agent, and what opens each of the agent's doors.
async fn heron() -> (TestServer, Value, Vec<Key>) {
    provide_crypto();
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let gateway = GatewayId::new(text(&heron["gateway_id"]));
    let socket = token::mint(&gateway, &Secret::new(text(&heron["secret"])), 0, 0);
    let granted = text(&exchanges(&server, &heron).await["access_token"]).to_owned();
    let basic = reqwest::Client::new()
        .get(&server.url)
        .basic_auth(text(&heron["client_id"]), heron["client_secret"].as_str())
        .build()
        .unwrap();
    let basic = basic.headers()["authorization"].to_str().unwrap().to_owned();
    let login = format!("Bearer {}", text(&heron["access_token"]));
    let keys = [
        ("/relay", format!("Bearer {socket}")),
        ("/v1/agents", format!("Bearer {granted}")),
        ("/v1/agents", basic.clone()),
        ("/api/agent-cron/list", login),
        ("/oauth/token", basic),
    ];
    (server, heron, keys.into_iter().map(|(path, authorization)| Key { path, authorization }).collect())
}

/// What a door answers to this header, sent so many times: a status, or the code that a socket is closed with.
async fn answer(server: &TestServer, key: &Key, times: usize) -> u16 {
    let Key { path, authorization } = key;
    let client = reqwest::Client::new();
    let url = format!("{}{path}", server.url);
    let mut request = match *path {
        "/relay" => return dial(server, authorization, times).await,
        "/oauth/token" => client.post(url).form(&[("grant_type", "client_credentials")]),
        _ => client.get(url),
    };
    for _ in 0..times {
        request = request.header("authorization", authorization);
    }
    request.send().await.unwrap().status().as_u16()
}

/// 200 when the socket answers.
async fn dial(server: &TestServer, authorization: &str, times: usize) -> u16 {
    let address = server.url.trim_start_matches("http://");
    let mut request = format!("ws://{address}/relay").into_client_request().unwrap();
    for _ in 0..times {
        request.headers_mut().append("authorization", authorization.parse().unwrap());
    }
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let _ = socket.send(Message::Ping("well?".into())).await;
    loop {
        let heard = tokio::time::timeout(PATIENCE, socket.next()).await.expect("nothing was heard");
        match heard.expect("it ended without a word").unwrap() {
            Message::Pong(_) => return 200,
            Message::Close(close) => return close.unwrap().code.into(),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_credential_in_two_authorization_headers_is_refused_at_every_door() {
    let (server, _, mut keys) = heron().await;
    let admin = std::fs::read_to_string(server.folder().join("admin.token")).unwrap();
    for path in ["/metrics", "/admin/tenants"] {
        keys.push(Key { path, authorization: format!("Bearer {}", admin.trim()) });
    }
    let mut wrong = Vec::new();
    for key in &keys {
        let (once, twice) = (answer(&server, key, 1).await, answer(&server, key, 2).await);
        let refusal = match key.path {
            "/relay" => 4401,
            // In the words of RFC 6749: a request that uses more than one way to authenticate the client.
            "/oauth/token" => 400,
            _ => 401,
        };
        if (once, twice) != (200, refusal) {
            wrong.push(format!("{}: once {once}, twice {twice}", key.path));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_agent_is_refused_at_every_door() {
    let (server, heron, keys) = heron().await;
    for key in &keys {
        assert_eq!(answer(&server, key, 1).await, 200, "{}", key.path);
    }
    let revoked = server.does(&["agent", "revoke", "heron", "--tenant", "acme"]);
    assert_eq!(
        (&revoked["gateway_ids"][0], &revoked["client_id"]),
        (&heron["gateway_id"], &heron["client_id"])
    );
    for key in &keys {
        let refusal = if key.path == "/relay" { 4401 } else { 401 };
        assert_eq!(answer(&server, key, 1).await, refusal, "{}", key.path);
    }
    let (status, refused) = refreshes(&server, text(&heron["refresh_token"])).await;
    assert_eq!((status, &refused["error"]), (400, &"invalid_grant".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forked_login_is_logged_with_its_addresses_and_listed() {
    let (server, heron, _) = heron().await;
    let mut successors = Vec::new();
    for _ in 0..2 {
        let (status, answer) = refreshes(&server, text(&heron["refresh_token"])).await;
        assert_eq!(status, 200, "{answer}");
        successors.push(text(&answer["refresh_token"]).to_owned());
    }
    for successor in &successors {
        assert_eq!(refreshes(&server, successor).await.0, 200);
    }
    let line = server.logs("a login is used in 2 places at once").await;
    assert!(line.contains("127.0.0.1"), "{line}");
    assert!(!line.contains("phr_"), "{line}");
    let listed = server.does(&["client", "list", "--tenant", "acme"]);
    let login = listed["items"].as_array().unwrap().iter().find(|one| one["client_id"] == "hermes-cli-vps");
    let login = login.expect("the login is listed");
    assert_eq!((&login["lines"], &login["addresses"][0]), (&2.into(), &"127.0.0.1".into()), "{login}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_admin_token_is_logged_with_its_address_and_without_itself() {
    provide_crypto();
    let server = TestServer::open(&[]);
    let key = Key { path: "/admin/tenants", authorization: "Bearer canary-guess".to_owned() };
    assert_eq!(answer(&server, &key, 1).await, 401);
    let line = server.logs("a wrong admin token was presented").await;
    assert!(line.contains("127.0.0.1"), "{line}");
    assert!(!server.log.lock().unwrap().contains("canary-guess"));
}
