//! Tokens with which agents ask to be stopped do not leak, and open nothing else.

use serde_json::{Value, json};

use crate::talk::provide_crypto;
use crate::test_server::{TestServer, files};

const PUBLIC: &str = "https://relay.example";

fn token(url: &Value) -> String {
    let url = url.as_str().expect("a sleep URL");
    url.strip_prefix(&format!("{PUBLIC}/relay/sleep?t=")).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleep_token_is_only_in_the_answer_that_hands_it_out_and_stops_only_its_agent() {
    provide_crypto();
    let mut server =
        TestServer::open(&[("POSTHOUSE_SERVER__PUBLIC_URL", PUBLIC), ("POSTHOUSE_LOG__LEVEL", "trace")]);
    server.does(&["tenant", "create", "acme"]);
    server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    // Nobody listens there.
    let change = ["agent", "change", "heron", "--stop-url", "http://127.0.0.1:9/stop"];
    let changed = server.does(&change);
    let rotated = server.does(&["agent", "rotate", "heron"]);
    let tokens = [token(&changed["sleep_url"]), token(&rotated["env"]["GATEWAY_RELAY_SLEEP_URL"])];

    let mut answers = Vec::new();
    let client = reqwest::Client::new();
    let asks = async |token: &str| {
        let answer = client.post(format!("{}/relay/sleep?t={token}", server.url)).send().await.unwrap();
        let headers = format!("{:?}", answer.headers());
        (answer.status().as_u16(), headers, answer.text().await.unwrap())
    };
    for token in &tokens {
        let (status, headers, body) = asks(token).await;
        assert_eq!(status, 502, "the stop URL was called");
        answers.extend([headers, body]);
    }
    // As a bearer it is nobody's credential.
    for (method, path) in [("GET", "v1/agents"), ("GET", "api/agent-cron/list"), ("POST", "manage/link")] {
        let request = client.request(method.parse().unwrap(), format!("{}/{path}", server.url));
        let answer = request.bearer_auth(&tokens[1]).send().await.unwrap();
        assert!(!answer.status().is_success(), "{path}");
        answers.push(format!("{:?} {}", answer.headers().clone(), answer.text().await.unwrap()));
    }
    let (status, _, body) = asks("phz_wrong").await;
    assert_eq!((status, body.as_str()), (404, r#"{"error":"not found"}"#));
    let shown = server.does(&["agent", "show", "heron"]);
    assert_eq!((&shown["stop_url"], &shown["sleep_url"]), (&json!("http://127.0.0.1:9/stop"), &json!(null)));
    let admin = std::fs::read_to_string(server.folder().join("admin.token")).unwrap().trim().to_owned();
    let metrics = client.get(format!("{}/metrics", server.url)).bearer_auth(&admin).send().await.unwrap();
    answers.extend([shown.to_string(), metrics.text().await.unwrap()]);
    let backup = server.folder().join("backup.db");
    for words in [vec!["agent", "list"], vec!["backup", backup.to_str().unwrap()]] {
        answers.push(server.does(&words).to_string());
    }
    server.does(&["agent", "change", "heron", "--no-stop-url"]);
    assert_eq!(asks(&tokens[1]).await.0, 404);
    assert!(server.stop());

    let log = server.log.lock().unwrap().clone();
    assert!(files(&server.folder()).iter().any(|(path, _)| path.ends_with("backup.db")));
    for token in &tokens {
        assert!(!log.contains(token.as_str()), "a sleep token is in the log");
        assert!(
            answers.iter().all(|answer| !answer.contains(token.as_str())),
            "a sleep token is in an answer"
        );
        for (path, bytes) in files(&server.folder()) {
            let found = bytes.windows(token.len()).any(|part| part == token.as_bytes());
            assert!(!found, "a sleep token is in {}", path.display());
        }
    }
}
