//! Secrets of the post do not leak: everything that messages, questions and webhooks produce, successful or
//! not, is searched for the secrets that went in.

use std::process::Command;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use serde_json::{Value, json};

use crate::matrix::basic;
use crate::receiver::{MANNERS, Receiver};
use crate::talk::{Rider, provide_crypto};
use crate::test_server::{BINARY, TestServer, files};
use crate::tokens::exchanges;

const AUTHORIZATION: &str = "Bearer CANARY-of-the-authorization";
const SHARED: &str = "CANARY-of-the-shared-secret";

/// A client that keeps every answer it gets.
struct Asker {
    url: String,
    client: reqwest::Client,
    answers: Vec<String>,
}

impl Asker {
    /// An answer with its headers, kept and given back.
    async fn asks(&mut self, request: reqwest::RequestBuilder) -> (u16, Value) {
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), format!("{:?}", answer.headers()));
        let body = answer.text().await.unwrap();
        self.answers.push(format!("{status} {headers} {body}"));
        (status, serde_json::from_str(&body).unwrap_or_default())
    }

    fn post(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.post(format!("{}{path}", self.url))
    }

    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.get(format!("{}{path}", self.url))
    }

    /// One of everything to one agent, with one credential.
    async fn writes(&mut self, agent: &str, authorization: &str) {
        let meta = json!({ "dispatch_id": format!("d-{agent}"), "sent_at": 5,
            "origin": { "skill_name": "probe", "trigger_kind": "cron" } });
        for (path, body) in [
            ("/v1/notify", json!({ "agent": agent, "message": "hello" })),
            (
                "/v1/deliver",
                json!({ "agent_id": agent, "kind": "template", "prompt": "do it", "meta": meta }),
            ),
            ("/v1/wake", json!({ "agent": agent, "context": "wake up" })),
            ("/v1/exchange", json!({ "agent": agent, "message": "well?", "timeout": 2, "wait": 1 })),
        ] {
            let request = self.post(path).header("authorization", authorization).json(&body);
            self.asks(request).await;
        }
    }
}

fn text(of: &Value, name: &str) -> String {
    of[name].as_str().unwrap().to_owned()
}

pub fn signature(secret: &str, body: &str) -> String {
    let tag = sign(&Key::new(HMAC_SHA256, secret.as_bytes()), body.as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_the_post_is_in_any_log_error_metric_trace_receipt_file_or_other_answer() {
    provide_crypto();
    let receiver = Receiver::open().await;
    let mut server = TestServer::open(&[
        ("POSTHOUSE_LOG__LEVEL", "trace"),
        ("POSTHOUSE_SERVER__TRUSTED_PROXIES", "127.0.0.0/8"),
    ]);
    server.does(&["tenant", "create", "acme"]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let own = server.does(&["client", "create", "--tenant", "acme"]);
    let admin = std::fs::read_to_string(server.folder().join("admin.token")).unwrap().trim().to_owned();
    let mut asker = Asker { url: server.url.clone(), client: reqwest::Client::new(), answers: Vec::new() };

    // Connectors: one that works, and some whose secrets are wrong in every possible way.
    let mut agents: Value =
        MANNERS.iter().map(|manner| ((*manner).to_owned(), json!({ "url": receiver.at(manner) }))).collect();
    agents["hanging"]["wake_url"] = receiver.at("hanging").into();
    agents["angry"]["wake_url"] = receiver.at("angry").into();
    agents["gone"] = json!({ "url": "http://127.0.0.1:1/gone" });
    let settings = json!({ "agents": agents, "timeout_ms": 400, "standard_webhooks": true });
    let connector = json!({ "tenant": "acme", "name": "hooks", "kind": "webhook", "settings": settings,
        "authorization": AUTHORIZATION, "hmac_secret": SHARED });
    let change = |name: &str, value: Value| {
        let mut body = connector.clone();
        body[name] = value;
        body
    };
    for body in [
        change("authorization", json!(format!("{AUTHORIZATION}\nX-More: 1"))),
        change("authorization", json!([AUTHORIZATION])),
        change("hmac_secret", json!({ "secret": SHARED })),
        change("hmac_secret", json!(format!("whsec_{SHARED}!"))),
        change("kind", json!("noop")),
        change("settings", json!({ "agents": 7 })),
        // Not healthy: nobody listens at one of its addresses.
        connector.clone(),
    ] {
        let request = asker.post("/admin/connectors").bearer_auth(&admin).json(&body);
        assert!(asker.asks(request).await.0 >= 400, "{:?}", asker.answers.last());
    }
    let request = asker.post("/admin/connectors").bearer_auth(&admin).json(&change("force", json!(true)));
    assert_eq!(asker.asks(request).await.0, 201, "{:?}", asker.answers.last());

    // Every credential that opens the post, and everything they can do there.
    let granted = text(&exchanges(&server, &own).await, "access_token");
    let herons = text(&exchanges(&server, &heron).await, "access_token");
    let operator = asker.post("/admin/tenants/acme/token").bearer_auth(&admin).send().await.unwrap();
    let operator: Value = serde_json::from_str(&operator.text().await.unwrap()).unwrap();
    let operator = text(&operator, "access_token");
    let by_credential = basic(&text(&own, "client_id"), &text(&own, "client_secret"));
    let rider = Rider::dial(&server, &heron, &[("post", "post")]).await;
    let headers = [format!("Bearer {granted}"), by_credential.clone(), format!("Bearer {operator}")];
    for (number, agent) in MANNERS.iter().chain(&["gone", "heron", "nobody"]).enumerate() {
        asker.writes(agent, &headers[number % headers.len()]).await;
    }
    asker.writes("good", &format!("Bearer {herons}")).await;

    // Answers that come by HTTP: badly, well, and once more.
    let ask = json!({ "agent": "good", "message": "late?", "correlation_id": "q-1", "wait": 0 });
    let request = asker.post("/v1/exchange").bearer_auth(&granted).json(&ask);
    assert_eq!(asker.asks(request).await.0, 202);
    let call = receiver.called(|call| call.body["meta"]["correlation_id"] == "q-1").await;
    let path = call.reply_to().unwrap().strip_prefix(&server.url).unwrap().to_owned();
    assert_eq!(call.headers["authorization"], AUTHORIZATION);
    let good = json!({ "correlation_id": "q-1", "agent_id": "good", "content": "yes" }).to_string();
    let other = good.replace("q-1", "q-2");
    let stamp = signature(SHARED, &good);
    for (body, stamp, expected) in [
        (&good, None, 401),
        (&good, Some("sha256=00"), 401),
        (&good, Some(AUTHORIZATION), 401),
        (&"{\"content\":".to_owned(), None, 401),
        (&other, Some(&*signature(SHARED, &other)), 404),
        (&"[]".to_owned(), Some(&*signature(SHARED, "[]")), 400),
        (&good, Some(&*stamp), 204),
        (&good, Some(&*stamp), 409),
    ] {
        let mut request = asker.post(&path).body(body.clone());
        if let Some(stamp) = stamp {
            request = request.header("x-signature", stamp);
        }
        assert_eq!(asker.asks(request).await.0, expected, "{body}");
    }
    let request = asker.post(&format!("{path}x")).body(good.clone());
    assert_eq!(asker.asks(request).await.0, 404);

    let mut secrets = vec![
        AUTHORIZATION.to_owned(),
        AUTHORIZATION.replacen("Bearer ", "", 1),
        SHARED.to_owned(),
        admin.clone(),
        granted.clone(),
        herons,
        operator,
        by_credential.replacen("Basic ", "", 1),
        text(&own, "client_secret"),
        text(&heron, "client_secret"),
        text(&heron, "access_token"),
    ];
    let tokens = receiver
        .calls()
        .into_iter()
        .filter_map(|call| call.reply_to().map(|to| to.rsplit('/').next().unwrap().to_owned()));
    secrets.extend(tokens);
    secrets.sort();
    secrets.dedup();
    assert!(secrets.len() > 15, "{}", secrets.len());

    // Every secret in every wrong place: as a bearer token, as a credential, as the token of an answer.
    for (number, secret) in secrets.iter().enumerate() {
        let wrong = [
            asker.post("/v1/notify").bearer_auth(secret).body("{"),
            asker.get("/v1/agents").basic_auth(text(&own, "client_id"), Some(secret)),
            asker.get("/v1/agents").basic_auth(secret, Some("x")),
            asker.get("/v1/receipts").header("authorization", secret.replace(' ', "-")),
            asker.post("/v1/replies/unknown").header("x-signature", secret).body("{}"),
        ];
        for request in wrong {
            // Refusals slow an address down, so each comes from another.
            let request = request.header("x-forwarded-for", format!("192.0.2.{}", number + 1));
            let answer = request.send().await.unwrap();
            let headers = format!("{:?}", answer.headers());
            asker.answers.push(format!("{headers} {}", answer.text().await.unwrap()));
        }
    }
    for path in ["/v1/agents", "/v1/receipts?limit=200", "/v1/exchanges?limit=200", "/v1/exchanges/q-1"] {
        let request = asker.get(path).bearer_auth(&granted);
        assert_eq!(asker.asks(request).await.0, 200, "{path}");
    }
    let metrics = asker.get("/metrics").bearer_auth(&admin);
    assert_eq!(asker.asks(metrics).await.0, 200);

    let backup = server.folder().join("backup.db");
    for words in [
        &["connector", "list"][..],
        &["connector", "show", "hooks", "--tenant", "acme"],
        &["receipt", "list"],
        &["receipt", "show", "d-angry"],
        &["receipt", "show", "d-heron"],
        &["message", "trace", "d-angry"],
        &["message", "trace", "d-heron"],
        &["tenant", "show", "acme"],
        &["client", "list"],
        &["backup", backup.to_str().unwrap()],
    ] {
        for json in [&["--json"][..], &[]] {
            // There is one backup of a name.
            if words[0] == "backup" && json.is_empty() {
                continue;
            }
            let output = Command::new(BINARY)
                .args(json)
                .arg("--dir")
                .arg(server.folder())
                .args(words)
                .output()
                .unwrap();
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(output.status.success(), "{words:?}: {said}");
            asker.answers.push(said);
        }
    }
    let checked = server.tries(&["connector", "check", "hooks", "--tenant", "acme"]);
    asker.answers.push(String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned());
    drop(rider);
    // While the server runs, because the write-ahead log disappears at a clean end; and again after it.
    let mut kept = files(&server.folder());
    assert!(kept.iter().any(|(path, _)| path.to_string_lossy().ends_with("-wal")));
    assert!(server.stop(), "a clean stop exits 0");
    kept.extend(files(&server.folder()));
    kept.retain(|(path, _)| !path.ends_with("admin.token") && !path.ends_with("vault.key"));

    // Lossy decoding hides nothing, because all searched secrets are ASCII.
    let kept: Vec<_> =
        kept.into_iter().map(|(path, bytes)| (path, String::from_utf8_lossy(&bytes).into_owned())).collect();
    let log = server.log.lock().unwrap().clone();
    assert!(log.len() > 10_000 && log.contains("TRACE"), "the log was meant to be talkative");
    assert!(!log.contains("panicked"), "{}", line_with(&log, "panicked"));
    for secret in &secrets {
        assert!(!log.contains(secret), "in the log: {}", line_with(&log, secret));
        for answer in &asker.answers {
            assert!(!answer.contains(secret), "{secret} in an answer: {answer}");
        }
        for (path, text) in &kept {
            assert!(!text.contains(secret), "{secret} in {}", path.display());
        }
    }
    println!("{} secrets, {} answers, {} files", secrets.len(), asker.answers.len(), kept.len());
}

fn line_with<'a>(log: &'a str, canary: &str) -> &'a str {
    log.lines().find(|line| line.contains(canary)).unwrap_or_default()
}
