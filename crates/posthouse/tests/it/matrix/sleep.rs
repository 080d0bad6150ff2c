//! Permission matrix of `/relay/sleep`, where a token alone decides which agent is stopped. It has a server of its own,
//! because only a server with an https address makes such tokens.

use serde_json::{Value, json};

use super::{Cells, Name, gateway_token};
use crate::receiver::Receiver;
use crate::talk::provide_crypto;
use crate::test_server::TestServer;
use crate::tokens::exchanges;

const PUBLIC: &str = "https://relay.example";

/// An agent that can be stopped.
struct Sleeper {
    tenant: &'static str,
    name: &'static str,
    created: Value,
    token: String,
}

impl Sleeper {
    /// Its stop URL ends with its name.
    fn make(server: &TestServer, stops: &Receiver, tenant: &'static str, name: &'static str) -> Self {
        let created = server.does(&["agent", "create", name, "--tenant", tenant]);
        let change = ["agent", "change", name, "--tenant", tenant, "--stop-url", &stops.at(name)];
        let token = sleep_token(&server.does(&change)["sleep_url"]);
        Self { tenant, name, created, token }
    }
}

fn sleep_token(url: &Value) -> String {
    url.as_str().unwrap().strip_prefix(&format!("{PUBLIC}/relay/sleep?t=")).unwrap().to_owned()
}

/// The whole answer to a request, without the date.
async fn asks(server: &TestServer, query: &str, authorization: Option<&str>) -> (u16, String) {
    // Refusals slow an address down, so every request has another address.
    static CALLERS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let caller = CALLERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let request = reqwest::Client::new().post(format!("{}/relay/sleep?{query}", server.url));
    let mut request = request.header("x-forwarded-for", format!("198.18.0.{}", caller + 1));
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    let answer = request.send().await.unwrap();
    let headers = answer.headers().iter().filter(|(name, _)| !matches!(name.as_str(), "date" | "connection"));
    let headers: Vec<String> = headers.map(|(name, value)| format!("{name}: {value:?}")).collect();
    (answer.status().as_u16(), format!("{headers:?} {}", answer.text().await.unwrap()))
}

pub async fn fill(cells: &mut Cells) {
    provide_crypto();
    let server = TestServer::open(&[
        ("POSTHOUSE_SERVER__PUBLIC_URL", PUBLIC),
        ("POSTHOUSE_SERVER__TRUSTED_PROXIES", "127.0.0.0/8"),
    ]);
    let stops = Receiver::open().await;
    for tenant in ["acme", "umbrella"] {
        server.does(&["tenant", "create", tenant]);
    }
    let make = |tenant, name| Sleeper::make(&server, &stops, tenant, name);
    let (heron, wren, otter) = (make("acme", "heron"), make("acme", "wren"), make("umbrella", "otter"));
    let (finch, dodo, egret) = (make("acme", "finch"), make("acme", "dodo"), make("acme", "egret"));
    let access = exchanges(&server, &heron.created).await["access_token"].as_str().unwrap().to_owned();
    server.does(&["agent", "revoke", "finch", "--tenant", "acme"]);
    server.does(&["agent", "remove", "dodo", "--tenant", "acme", "--yes"]);
    server.does(&["agent", "change", "egret", "--tenant", "acme", "--no-stop-url"]);

    // Tokens that have ended, and other credentials of heron.
    let text = |name: &str| heron.created[name].as_str().unwrap().to_owned();
    let instance = text("instance_id");
    for (who, presented) in [
        ("the token of a revoked agent", finch.token.clone()),
        ("the token of a removed agent", dodo.token.clone()),
        ("a token of before the stop URL was removed", egret.token.clone()),
        ("heron's gateway token", gateway_token(&heron.created)),
        ("heron's gateway secret", text("secret")),
        ("heron's client secret", text("client_secret")),
        ("heron's access token", access.clone()),
        ("heron's id", instance.clone()),
        ("heron's sleep token without its beginning", heron.token.replacen("phz_", "", 1)),
    ] {
        let name = Name::of_id(&presented);
        let there = asks(&server, &format!("t={}", name.there), None).await;
        let absent = asks(&server, &format!("t={}", name.absent), None).await;
        cells.cell("sleep", &format!("to stop heron by {who}"), there.0 == 404, &there.1, &absent.1);
    }
    // Credentials of heron in the place where other operations read them.
    let guess = format!("t=phz_{}", "0".repeat(64));
    let expected = asks(&server, &guess, None).await;
    for presented in [heron.token.clone(), gateway_token(&heron.created), access] {
        let there = asks(&server, &guess, Some(&format!("Bearer {presented}"))).await;
        let what = "to stop heron by its credential as a header";
        cells.cell("sleep", what, there.0 == 404, &there.1, &expected.1);
    }
    // Other agents that name heron stop only themselves.
    for other in [&wren, &otter] {
        let mut heard = Vec::new();
        for named in [instance.as_str(), "inst_0"] {
            let query = format!("t={}&instanceId={named}&agent={named}", other.token);
            heard.push(asks(&server, &query, None).await);
        }
        let what = format!("to stop heron by the token of {} of {}", other.name, other.tenant);
        cells.cell("sleep", &what, heard[0].0 == 202, &heard[0].1, &heard[1].1);
    }
    // Heron's own token is valid, and its call is the only one that stops heron.
    assert_eq!(asks(&server, &format!("t={}", heron.token), None).await.0, 202);
    stops.called(|call| call.manner == "heron").await;
    let stopped: Vec<String> = stops.calls().into_iter().map(|call| call.manner).collect();
    assert_eq!(stopped, ["wren", "wren", "otter", "otter", "heron"]);
    let shown = server.does(&["agent", "show", "heron", "--tenant", "acme"]);
    assert_eq!(shown["stop_url"], json!(stops.at("heron")));
}
