//! Credentials do not leak: everything that a run produced is searched for the secrets that went in.

use std::process::Command;
use std::time::Duration;

use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use posthouse_wire::cron::{FireProof, Provision, SIGNATURE, TimedSignature};
use serde_json::Value;
use stand_ins::telegram::{Fault, FaultKind};

use crate::cron::{Armer, Callback, ahead};
use crate::talk::{Rider, is_told, make_bot, says, telegram};
use crate::test_server::{BINARY, TestServer, files};
use crate::tokens::{exchanges, refreshes};

const TOKEN: &str = "7001:CANARY-bot-token";
const WEBHOOK_SECRET: &str = "CANARY_webhook_secret_0123456789";

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_any_log_frame_error_metric_trace_file_or_answer_but_the_one_that_hands_it_out() {
    let telegram = telegram(&["7001:CANARY-bot-token@posty_bot"]).await;
    let mut server = TestServer::open(&[
        ("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", &telegram.base_url()),
        ("POSTHOUSE_LOG__LEVEL", "trace"),
    ]);
    let secret = server.secret_file("webhook-secret", WEBHOOK_SECRET);
    server.does(&["tenant", "create", "acme"]);
    let made = make_bot(&server, "7001", TOKEN, &["--mode", "webhook", "--webhook-secret-file", &secret]);
    let mut answers = vec![made.to_string()];
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "telegram:7001"]);
    let gateway_secret = heron["secret"].as_str().unwrap().to_owned();
    let mut tokens = tokens_of(&server, &heron, &mut answers).await;
    tokens.extend(enrolment_of(&server, &heron, &mut answers).await);
    tokens.extend(fires_of(&server, &heron, &mut answers).await);

    // A conversation, and everything that can go wrong with one.
    let mut rider = Rider::dial(&server, &heron, &[("telegram", "7001")]).await;
    says(&telegram, 7001, 5, "good morning");
    let heard = rider.hears().await;
    answers.push(format!("{:?}", heard.event));
    for trouble in [
        FaultKind::Unauthorized,
        FaultKind::ServerError { status: 502 },
        FaultKind::Refuse,
        FaultKind::DropAfterWrite,
    ] {
        telegram.fault(Fault::new(trouble).on("sendMessage").times(2));
        answers.push(format!("{:?}", rider.sends("telegram", "7001", "5", "hello").await));
        telegram.clear_faults();
    }
    answers.push(format!("{:?}", rider.sends("telegram", "7001", "5", "*done*").await));
    assert!(is_told(&telegram, 5, "done").await);
    answers.push(format!("{:?}", rider.sends("telegram", "7001", "99", "not there").await));

    for presented in [true, false] {
        let request = reqwest::Client::new().post(format!("{}/manage/link", server.url)).body("{}");
        let answer = request.bearer_auth(crate::matrix::gateway_token(&heron)).send().await.unwrap();
        let code = answer.json::<Value>().await.unwrap()["code"].as_str().unwrap().to_owned();
        if presented {
            says(&telegram, 7001, 5, &format!("/link {code}"));
            let linked = "You are linked now. Your messages to this bot go to your agent.";
            assert!(is_told(&telegram, 5, linked).await);
        }
        tokens.push(code);
    }

    let client = reqwest::Client::new();
    tokens.push(attachment_key(&telegram, &mut rider, &client).await);
    let door = format!("{}/door/telegram/7001", server.url);
    for (secret, body) in
        [("forged", "{}"), (WEBHOOK_SECRET, "not json"), (WEBHOOK_SECRET, "{\"update_id\":1}")]
    {
        let answer = client
            .post(&door)
            .header("x-telegram-bot-api-secret-token", secret)
            .body(body)
            .send()
            .await
            .unwrap();
        answers.push(format!("{:?} {}", answer.headers().clone(), answer.text().await.unwrap()));
    }
    let admin = std::fs::read_to_string(server.folder().join("admin.token")).unwrap().trim().to_owned();
    let metrics = client.get(format!("{}/metrics", server.url)).bearer_auth(&admin).send().await.unwrap();
    answers.push(metrics.text().await.unwrap());

    let entry = heard.entry.unwrap().to_string();
    let backup = server.dir.path().join("house").join("backup.db");
    for words in [
        vec!["message", "trace", &entry],
        vec!["message", "trace", "telegram:5:1"],
        vec!["bot", "list"],
        vec!["bot", "show", "telegram:7001"],
        vec!["agent", "list"],
        vec!["agent", "show", "heron", "--tenant", "acme"],
        vec!["client", "list"],
        vec!["enroll-token", "list"],
        vec!["binding", "list"],
        vec!["job", "list"],
        vec!["job", "show", "heron", "keyed"],
        vec!["job", "history", "--agent", "heron"],
        vec!["job", "fire-now", "heron", "refused"],
        vec!["signing-key", "list"],
        vec!["signing-key", "rotate", "--at-once"],
        vec!["signing-key", "rotate", "--algorithm", "RS256"],
        vec!["scheduler-secret", "list"],
        vec!["client", "revoke", heron["client_id"].as_str().unwrap()],
        vec!["route", "list"],
        vec!["inbox", "list"],
        vec!["inbox", "dead"],
        vec!["backup", backup.to_str().unwrap()],
    ] {
        let output = server.tries(&words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        answers.push(String::from_utf8_lossy(&output.stdout).into_owned());
        answers.push(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let printed = Command::new(BINARY)
        .args(["config", "print", "--config"])
        .arg(server.folder().join("posthouse.toml"))
        .output()
        .unwrap();
    answers.push(String::from_utf8_lossy(&printed.stdout).into_owned());
    drop(rider);
    assert!(server.stop(), "a clean stop exits 0");

    let log = server.log.lock().unwrap().clone();
    assert!(log.len() > 1_000, "the log was meant to be talkative");
    assert!(
        !log.contains("loop has failed"),
        "a clean stop is no failure: {}",
        line_with(&log, "loop has failed")
    );
    let vault_key = std::fs::read_to_string(server.folder().join("vault.key")).unwrap();
    let vault_key = vault_key.trim().split(':').next_back().unwrap().to_owned();
    tokens.extend([TOKEN, WEBHOOK_SECRET, &gateway_secret, &admin, &vault_key].map(str::to_owned));
    assert_eq!(tokens.len(), 28);
    for canary in &tokens {
        assert!(!log.contains(canary), "in the log: {}", line_with(&log, canary));
        for answer in &answers {
            assert!(!answer.contains(canary), "in an answer: {answer}");
        }
        for (path, bytes) in files(&server.folder()) {
            if path.ends_with("vault.key") || path.ends_with("admin.token") {
                continue;
            }
            assert!(!contains(&bytes, canary.as_bytes()), "in {}", path.display());
        }
    }
    assert!(files(&server.folder()).iter().any(|(path, _)| path.ends_with("backup.db")));
    // Signing keys are generated by the server, so they are found by how they begin.
    for (beginning, text) in PRIVATE_KEYS {
        for (path, bytes) in files(&server.folder()) {
            assert!(!contains(&bytes, beginning), "in {}", path.display());
            assert!(!contains(&bytes, text.as_bytes()), "in {}", path.display());
        }
        for said in answers.iter().chain([&log]) {
            assert!(!said.contains(text) && !said.contains("PRIVATE KEY"), "in {said}");
        }
    }
}

/// How a private key begins, as DER and as Base64: one of P-256 and one of RSA, each as far as all of its
/// kind are alike.
const PRIVATE_KEYS: [(&[u8], &str); 2] = [
    (
        b"\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d",
        "AgEAMBMGByqGSM49AgEGCCqGSM49",
    ),
    (b"\x02\x01\x00\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01", "IBADANBgkqhkiG9w0BAQEF"),
];

/// The key in the URL of a picture, after it opened the picture.
async fn attachment_key(
    telegram: &stand_ins::telegram::TelegramStandIn,
    rider: &mut Rider,
    client: &reqwest::Client,
) -> String {
    let file = telegram.add_file("cat.png", &b"\x89PNG"[..]);
    let person = serde_json::json!({ "id": 5, "is_bot": false, "first_name": "Ann" });
    let message = serde_json::json!({
        "chat": { "id": 5, "type": "private", "first_name": "Ann" }, "from": person, "caption": "look",
        "photo": [{ "file_id": file, "width": 1, "height": 1 }],
    });
    telegram
        .inject(stand_ins::telegram::Injection::update(serde_json::json!({ "message": message })))
        .unwrap();
    let heard = rider.hears().await;
    let url = heard.event.media_urls.first().expect("the picture was fetched");
    let picture = client.get(url).send().await.unwrap();
    assert_eq!(picture.bytes().await.unwrap(), &b"\x89PNG"[..]);
    url.split_once("?k=").unwrap().1.to_owned()
}

/// The secrets of enrolments: a token that was used, one that was not, what the used one was exchanged for, and what a
/// gateway got that provisioned itself.
async fn enrolment_of(server: &TestServer, heron: &Value, answers: &mut Vec<String>) -> Vec<String> {
    let token = || {
        let made = server.does(&["enroll-token", "create", "--tenant", "acme", "--agent", "heron"]);
        made["token"].as_str().unwrap().to_owned()
    };
    let (used, unused) = (token(), token());
    let access = exchanges(server, heron).await;
    let enroll = async |token: &str| {
        let request = reqwest::Client::new().post(format!("{}/relay/enroll", server.url));
        let body = serde_json::json!({ "enrollmentToken": token, "gatewayId": "gw-laptop" });
        let request = request.bearer_auth(access["access_token"].as_str().unwrap()).json(&body);
        request.send().await.unwrap().text().await.unwrap()
    };
    let given: Value = serde_json::from_str(&enroll(&used).await).unwrap();
    answers.push(enroll(&used).await);
    let secret = |name: &str| given[name].as_str().unwrap().to_owned();
    // A gateway that provisions itself gets the same secret twice.
    let provision = async |platform: &str| {
        let request = reqwest::Client::new().post(format!("{}/relay/provision", server.url));
        let body = serde_json::json!({ "gatewayId": "gw-desk", "platform": platform });
        let request = request.bearer_auth(access["access_token"].as_str().unwrap()).json(&body);
        request.send().await.unwrap().text().await.unwrap()
    };
    let provisioned: Value = serde_json::from_str(&provision("relay").await).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&provision("relay").await).unwrap(), provisioned);
    answers.push(provision("nowhere").await);
    let provisioned = provisioned["secret"].as_str().unwrap().to_owned();
    vec![secret("secret"), secret("deliveryKey"), used, unused, provisioned]
}

/// Everything that can be presented at the HTTP doors, each after it was presented there and elsewhere.
/// What refuses it goes to `answers`.
async fn tokens_of(server: &TestServer, heron: &Value, answers: &mut Vec<String>) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut tokens: Vec<String> =
        ["client_secret", "access_token", "refresh_token"].map(|name| text(&heron[name])).to_vec();
    let own = server.does(&["client", "create", "--tenant", "acme"]);
    tokens.push(text(&own["client_secret"]));
    let granted = exchanges(server, &own).await;
    tokens.push(text(&granted["access_token"]));
    let refreshed = refreshes(server, &tokens[2]).await.1;
    tokens.extend(["access_token", "refresh_token"].map(|name| text(&refreshed[name])));
    let anew = server.does(&["client", "create", "--tenant", "acme", "--agent", "heron", "--login"]);
    tokens.extend(["access_token", "refresh_token"].map(|name| text(&anew[name])));
    tokens.push(text(
        &server.does(&["client", "create", "--tenant", "acme", "--agent", "heron"])["client_secret"],
    ));
    let client = reqwest::Client::new();
    for token in &tokens {
        answers.push(refreshes_in_vain(server, token).await);
        for path in ["admin/agents", "metrics", "relay", "oauth/token"] {
            let request = client.post(format!("{}/{path}", server.url)).bearer_auth(token);
            let answer = request.form(&[("client_id", token)]).send().await.unwrap();
            assert!(!answer.status().is_success(), "{path}");
            answers.push(answer.text().await.unwrap());
        }
    }
    tokens
}

/// The proofs of fires and the secrets behind them: tokens that an agent took and refused, the key of a
/// job, a scheduler's secret and a stamp under it. Everything the cron doors say goes to `answers`.
async fn fires_of(server: &TestServer, heron: &Value, answers: &mut Vec<String>) -> Vec<String> {
    let callback = Callback::open().await;
    let armer = Armer::new(server, heron, callback.of("heron")).await;
    let mut refusing = armer.clone();
    refusing.callback.push_str("/nowhere");
    answers.push(armer.arms(&armer.provision("taken", &ahead(Duration::ZERO))).await.to_string());
    answers.push(refusing.arms(&refusing.provision("refused", &ahead(Duration::ZERO))).await.to_string());
    let keyed = Provision {
        proof: FireProof::PerJobKey,
        ..armer.provision("keyed", &ahead(Duration::from_secs(3600)))
    };
    let cron_key = armer.arms(&keyed).await["cron_key"].as_str().unwrap().to_owned();
    let scheduler = server.does(&["scheduler-secret", "rotate"])["secret"].as_str().unwrap().to_owned();
    let call = "{\"instance_id\":\"x\",\"job_id\":\"x\",\"schedule_id\":\"x\"}";
    let stamp =
        TimedSignature::make(&Secret::new(&*scheduler), Timepiece::wall().now().seconds(), call.as_bytes());
    let relay = reqwest::Client::new().post(format!("{}/api/agent-cron/relay", server.url)).body(call);
    answers.push(relay.header(SIGNATURE, stamp.header()).send().await.unwrap().text().await.unwrap());
    let fires = callback.called(2).await;
    for what in ["list", "history", "history?job_id=taken"] {
        answers.push(armer.asks(what).await.1.to_string());
    }
    let mut secrets: Vec<String> = fires[..2].iter().map(|call| call.token().to_owned()).collect();
    secrets.extend([cron_key, scheduler, armer.token.clone()]);
    secrets
}

/// The answer of one that is not refreshed, or of one that is, whose fresh tokens are of no interest.
async fn refreshes_in_vain(server: &TestServer, token: &str) -> String {
    let (status, answer) = refreshes(server, token).await;
    if status == 200 { String::new() } else { answer.to_string() }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

fn line_with<'a>(log: &'a str, canary: &str) -> &'a str {
    log.lines().find(|line| line.contains(canary)).unwrap_or_default()
}
