//! HTTP routes of the relay on the real binary: enrolling and provisioning gateways, and their relevance policies.

use serde_json::{Value, json};

use crate::talk::provide_crypto;
use crate::test_server::TestServer;
use crate::tokens::exchanges;

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// A response: its status, its headers without the date, and its body.
type Heard = (u16, Vec<(String, String)>, String);

async fn enrolls(server: &TestServer, authorization: Option<&str>, body: &str) -> Heard {
    posts(server, "enroll", authorization, body).await
}

async fn provisions(server: &TestServer, authorization: Option<&str>, body: &Value) -> Heard {
    posts(server, "provision", authorization, &body.to_string()).await
}

async fn posts(server: &TestServer, path: &str, authorization: Option<&str>, body: &str) -> Heard {
    let request = reqwest::Client::new()
        .post(format!("{}/relay/{path}", server.url))
        .header("content-type", "application/json")
        .body(body.to_owned());
    let request = match authorization {
        Some(authorization) => request.header("authorization", authorization),
        None => request,
    };
    let answer = request.send().await.unwrap();
    let headers = answer.headers().iter().filter(|(name, _)| *name != "date");
    let headers =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    (answer.status().as_u16(), headers, answer.text().await.unwrap())
}

fn asking(token: &str, name: &str) -> String {
    json!({ "enrollmentToken": token, "gatewayId": name }).to_string()
}

/// The access token of a client, as a header.
async fn bearer(server: &TestServer, client: &Value) -> String {
    format!("Bearer {}", text(&exchanges(server, client).await["access_token"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enrolment_token_is_made_listed_redeemed_and_revoked() {
    provide_crypto();
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let client = server.does(&["client", "create", "--tenant", "acme"]);
    let caller = bearer(&server, &client).await;
    let create = ["enroll-token", "create", "--tenant", "acme", "--agent", "heron"];
    let (used, revoked) = (server.does(&create), server.does(&create));
    assert!(text(&used["token"]).starts_with("phe_"));
    let (status, headers, body) =
        enrolls(&server, Some(&caller), &asking(text(&used["token"]), "gw-laptop")).await;
    assert_eq!(status, 200, "{body}");
    assert!(headers.contains(&("cache-control".to_owned(), "no-store".to_owned())), "{headers:?}");
    let given: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(given["tenant"], used["tenant_id"]);
    for name in ["secret", "deliveryKey", "gatewayId"] {
        assert!(!text(&given[name]).is_empty(), "{name}");
    }
    server.does(&["enroll-token", "revoke", text(&revoked["id"])]);
    let listed = server.does(&["enroll-token", "list", "--tenant", "acme"]);
    let states: Vec<_> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| (&token["id"], text(&token["state"])))
        .collect();
    assert_eq!(states, [(&used["id"], "used"), (&revoked["id"], "revoked")]);
    assert_eq!(listed["items"][0]["gateway_id"], given["gatewayId"]);
    assert!(!listed.to_string().contains("phe_"), "the list does not show tokens");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_token_that_cannot_be_used_gets_the_same_answer() {
    provide_crypto();
    let server = TestServer::open(&[]);
    for tenant in ["acme", "globex"] {
        server.does(&["tenant", "create", tenant]);
    }
    server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let egret = server.does(&["agent", "create", "egret", "--tenant", "acme"]);
    let client = server.does(&["client", "create", "--tenant", "acme"]);
    let stranger = server.does(&["client", "create", "--tenant", "globex"]);
    let token = || {
        let made = server.does(&["enroll-token", "create", "--tenant", "acme", "--agent", "heron"]);
        (text(&made["id"]).to_owned(), text(&made["token"]).to_owned())
    };
    let (caller, stranger) = (bearer(&server, &client).await, bearer(&server, &stranger).await);
    let other_agent = bearer(&server, &egret).await;
    let ((_, good), (_, used), (id, revoked)) = (token(), token(), token());
    assert_eq!(enrolls(&server, Some(&caller), &asking(&used, "gw-1")).await.0, 200);
    server.does(&["enroll-token", "revoke", &id]);
    let unknown = format!("phe_{}", "0".repeat(64));
    let absent = enrolls(&server, Some(&caller), &asking(&unknown, "gw-1")).await;
    assert_eq!(absent.0, 403);
    assert_eq!(absent.2, r#"{"error":"the enrollment token is not valid"}"#);
    for (what, authorization, token) in [
        ("used", &caller, &used),
        ("revoked", &caller, &revoked),
        ("of another tenant", &stranger, &good),
        ("of another agent", &other_agent, &good),
    ] {
        assert_eq!(enrolls(&server, Some(authorization), &asking(token, "gw-1")).await, absent, "{what}");
    }
    assert_eq!(enrolls(&server, Some(&caller), &asking(&good, "gw-1")).await.0, 200, "nobody used it up");
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_without_an_access_token_and_malformed_bodies_are_refused() {
    provide_crypto();
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let client = server.does(&["client", "create", "--tenant", "acme"]);
    let made = server.does(&["enroll-token", "create", "--tenant", "acme", "--agent", "heron"]);
    let good = asking(text(&made["token"]), "gw-1");
    let basic = reqwest::Client::new()
        .get(&server.url)
        .basic_auth(text(&client["client_id"]), client["client_secret"].as_str())
        .build()
        .unwrap();
    let basic = basic.headers()["authorization"].to_str().unwrap().to_owned();
    let gateway = crate::matrix::gateway_token(&heron);
    for wrong in [None, Some("Bearer guess"), Some(basic.as_str()), Some(gateway.as_str())] {
        let (status, _, body) = enrolls(&server, wrong, &good).await;
        assert_eq!((status, body.contains(r#""error""#)), (401, true), "{wrong:?}: {body}");
    }
    let caller = bearer(&server, &client).await;
    let long = "x".repeat(257);
    for body in [
        "",
        "[]",
        "not json",
        r#"{"gatewayId":"gw-1"}"#,
        r#"{"enrollmentToken":7,"gatewayId":"gw-1"}"#,
        &asking("", "gw-1"),
        &asking("phe_1", "  "),
        &asking("phe_1", "a\u{7}b"),
        &asking("phe_1", &long),
        &asking(&long, "gw-1"),
    ] {
        let (status, _, answer) = enrolls(&server, Some(&caller), body).await;
        assert_eq!((status, answer.contains(r#""error""#)), (400, true), "{body}: {answer}");
    }
    let (status, ..) =
        enrolls(&server, Some(&caller), &format!("{{\"pad\":\"{}\"}}", "x".repeat(20_000))).await;
    assert_eq!(status, 413);
    let login = format!("Bearer {}", text(&heron["access_token"]));
    assert_eq!(
        enrolls(&server, Some(&login), &good).await.0,
        200,
        "an agent's own login is an access token too"
    );
}

/// Declares a policy and returns the status and body of the answer.
async fn declares(server: &TestServer, token: &str, body: &str) -> (u16, String) {
    let request = reqwest::Client::new().post(format!("{}/relay/policy", server.url)).bearer_auth(token);
    let answer = request.body(body.to_owned()).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_declares_its_relevance_policy_and_the_operator_sees_and_clears_it() {
    provide_crypto();
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let gateway = crate::matrix::gateway_token(&heron);
    let whole = json!({ "platform": "telegram", "requireAddress": true, "freeResponseScopes": ["-100"],
        "allowOtherBots": false });
    let (status, body) = declares(&server, &gateway, &whole.to_string()).await;
    assert_eq!((status, body.as_str()), (200, r#"{"ok":true}"#));
    let shown = || server.does(&["agent", "show", "heron", "--tenant", "acme"])["relevance"].clone();
    let expected = json!([{ "platform": "telegram", "require_address": true, "free_scopes": ["-100"],
        "allow_other_bots": false }]);
    assert_eq!(shown(), expected);

    let access = bearer(&server, &heron).await.replacen("Bearer ", "", 1);
    for wrong in ["guess", text(&heron["access_token"]), &access] {
        assert_eq!(declares(&server, wrong, &whole.to_string()).await.0, 401);
    }
    let mut without = whole.clone();
    without.as_object_mut().unwrap().remove("requireAddress");
    let with = |name: &str, value: Value| {
        let mut body = whole.clone();
        body[name] = value;
        body.to_string()
    };
    for body in [
        "".to_owned(),
        "[]".to_owned(),
        without.to_string(),
        with("platform", json!("")),
        with("platform", json!("x".repeat(65))),
        with("requireAddress", json!("yes")),
        with("freeResponseScopes", json!([7])),
        with("freeResponseScopes", json!(["x".repeat(257)])),
        with("freeResponseScopes", json!(vec!["x"; 257])),
    ] {
        let (status, answer) = declares(&server, &gateway, &body).await;
        assert_eq!((status, answer.contains(r#""error""#)), (400, true), "{body}: {answer}");
    }
    assert_eq!(declares(&server, &gateway, &"x".repeat(300_000)).await.0, 413);
    assert_eq!(shown(), expected, "what was refused changed nothing");
    server.does(&["agent", "change", "heron", "--tenant", "acme", "--clear-relevance"]);
    assert_eq!(shown(), json!([]));
}

/// The body of a stock gateway that provisions itself, with one field changed.
fn provisioning(name: &str, value: Value) -> Value {
    let mut body = json!({ "gatewayId": "gw-laptop", "platform": "web", "botId": "", "gatewayEndpoint": "",
        "routeKeys": [] });
    body[name] = value;
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_provisions_itself_and_the_operator_sees_and_changes_its_settings() {
    provide_crypto();
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    let client = server.does(&["client", "create", "--tenant", "acme"]);
    let caller = bearer(&server, &client).await;
    let whole = provisioning("displayName", json!("Grey Heron"));
    let (status, headers, body) = provisions(&server, Some(&caller), &whole).await;
    assert_eq!(status, 200, "{body}");
    assert!(headers.contains(&("cache-control".to_owned(), "no-store".to_owned())), "{headers:?}");
    let given: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&given["secretIssued"], &given["routeKeys"]), (&json!(true), &json!([])));
    assert_eq!((text(&given["secret"]).len(), given.get("warnings")), (64, None));
    let again = provisions(&server, Some(&caller), &provisioning("platform", json!("relay"))).await;
    assert_eq!(serde_json::from_str::<Value>(&again.2).unwrap(), given, "the same for its next platform");

    let shown = || server.does(&["agent", "show", "gw-laptop", "--tenant", "acme"]);
    assert_eq!(shown()["display_name"], "Grey Heron");
    let gateway = text(&given["gatewayId"]);
    let settings = json!([{ "gateway_id": gateway, "names": ["gw-laptop"], "wake_url": null, "bots": [],
        "route_keys": [] }]);
    assert_eq!(shown()["gateway_settings"], settings);
    let change = |options: &[&str]| {
        let start = ["agent", "change", "gw-laptop", "--tenant", "acme", "--gateway", gateway];
        server.does(&[&start, options].concat());
    };
    let own = text(&shown()["instance_id"]).to_owned();
    change(&["--bot", &format!("web:{own}"), "--wake-url", "https://run.example/wake"]);
    assert_eq!(shown()["gateway_settings"][0]["bots"], json!([{ "platform": "web", "id": own }]));
    assert_eq!(shown()["wake_url"], "https://run.example/wake");
    change(&["--all-bots", "--no-wake-url", "--no-route-keys", "--generation", "newer"]);
    assert_eq!(shown()["gateway_settings"], settings);
    let fails = |words: &[&str]| {
        let output = server.tries(words);
        assert!(!output.status.success(), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let refused = fails(&["agent", "change", "gw-laptop", "--gateway", "gw_0", "--all-bots"]);
    assert!(refused.contains("no such gateway credential"), "{refused}");
    for wrong in [
        &["agent", "change", "gw-laptop", "--bot", "web:x"][..],
        &["agent", "change", "gw-laptop", "--gateway", gateway],
        &["agent", "change", "gw-laptop", "--gateway", gateway, "--hold-back", "on"],
    ] {
        fails(wrong);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_not_provision_gets_one_answer_and_malformed_bodies_are_refused() {
    provide_crypto();
    let server = TestServer::open(&[]);
    for tenant in ["acme", "globex"] {
        server.does(&["tenant", "create", tenant]);
    }
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let stranger = server.does(&["agent", "create", "wren", "--tenant", "globex"]);
    let client = server.does(&["client", "create", "--tenant", "acme"]);
    let caller = bearer(&server, &client).await;
    let absent = provisions(&server, Some(&caller), &provisioning("platform", json!("nowhere"))).await;
    assert_eq!((absent.0, absent.2.contains(r#""error""#)), (403, true), "{}", absent.2);
    for (what, body) in [
        ("another tenant's agent", provisioning("instanceId", stranger["instance_id"].clone())),
        ("an unknown agent", provisioning("instanceId", json!("inst_0"))),
        ("no name", provisioning("instanceId", json!("a b"))),
    ] {
        assert_eq!(provisions(&server, Some(&caller), &body).await, absent, "{what}");
    }
    let own = bearer(&server, &heron).await;
    let other = provisioning("instanceId", json!("wren"));
    assert_eq!(provisions(&server, Some(&own), &other).await, absent, "an agent provisions only itself");

    let gateway = crate::matrix::gateway_token(&heron);
    let jwt = "Bearer eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.AAAA";
    for wrong in [None, Some("Bearer guess"), Some(gateway.as_str()), Some(jwt)] {
        let (status, _, body) = provisions(&server, wrong, &provisioning("botId", json!(""))).await;
        assert_eq!((status, body.contains(r#""error""#)), (401, true), "{wrong:?}: {body}");
    }
    let long = "x".repeat(257);
    for body in [
        json!([]),
        json!({ "gatewayId": "gw-1" }),
        provisioning("gatewayId", json!("")),
        provisioning("gatewayId", json!(7)),
        provisioning("gatewayId", json!(&long)),
        provisioning("gatewayId", json!("a\u{7}b")),
        provisioning("platform", json!(" ")),
        provisioning("botId", json!(&long)),
        provisioning("routeKeys", json!("guild")),
        provisioning("routeKeys", json!([7])),
        provisioning("routeKeys", json!([&long])),
        provisioning("routeKeys", json!(vec!["x"; 257])),
        provisioning("instanceId", json!(["inst_0"])),
        provisioning("wakeUrl", json!({})),
    ] {
        let (status, _, answer) = provisions(&server, Some(&caller), &body).await;
        assert_eq!((status, answer.contains(r#""error""#)), (400, true), "{body}: {answer}");
    }
    let large = provisioning("routeKeys", json!(vec!["x"; 100_000]));
    assert_eq!(provisions(&server, Some(&caller), &large).await.0, 413);
    let private = provisioning("wakeUrl", json!("https://169.254.169.254/latest/meta-data"));
    let (status, _, answer) = provisions(&server, Some(&caller), &private).await;
    assert_eq!((status, answer.contains("169.254")), (200, false), "{answer}");
    assert!(answer.contains(r#""warnings":["wake URL: "#), "{answer}");
}
