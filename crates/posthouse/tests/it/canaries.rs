//! No credential leaves: everything a run produced is searched for the secrets that went into it.

use std::process::Command;

use serde_json::Value;
use stand_ins::telegram::{Fault, Trouble};

use crate::house::{BINARY, House, files};
use crate::talk::{Rider, is_told, make_bot, says, telegram};
use crate::tokens::{exchanges, refreshes};

const TOKEN: &str = "7001:CANARY-bot-token";
const WEBHOOK_SECRET: &str = "CANARY_webhook_secret_0123456789";

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_any_log_frame_error_metric_trace_file_or_answer_but_the_one_that_hands_it_out() {
    let telegram = telegram(&["7001:CANARY-bot-token@posty_bot"]).await;
    let mut house = House::open(&[
        ("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", &telegram.base_url()),
        ("POSTHOUSE_LOG__LEVEL", "trace"),
    ]);
    let secret = house.secret_file("webhook-secret", WEBHOOK_SECRET);
    house.does(&["tenant", "create", "acme"]);
    let made = make_bot(&house, "7001", TOKEN, &["--mode", "webhook", "--webhook-secret-file", &secret]);
    let mut answers = vec![made.to_string()];
    let heron = house.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "telegram:7001"]);
    let gateway_secret = heron["secret"].as_str().unwrap().to_owned();
    let mut tokens = tokens_of(&house, &heron, &mut answers).await;

    // A conversation, and everything that can go wrong with one.
    let mut rider = Rider::dial(&house, &heron, &[("telegram", "7001")]).await;
    says(&telegram, 7001, 5, "good morning");
    let heard = rider.hears().await;
    answers.push(format!("{:?}", heard.event));
    for trouble in [
        Trouble::Unauthorized,
        Trouble::ServerError { status: 502 },
        Trouble::Refuse,
        Trouble::DropAfterWrite,
    ] {
        telegram.fault(Fault::new(trouble).on("sendMessage").times(2));
        answers.push(format!("{:?}", rider.sends("telegram", "7001", "5", "hello").await));
        telegram.clear_faults();
    }
    answers.push(format!("{:?}", rider.sends("telegram", "7001", "5", "*done*").await));
    assert!(is_told(&telegram, 5, "done").await);
    answers.push(format!("{:?}", rider.sends("telegram", "7001", "99", "not there").await));

    let client = reqwest::Client::new();
    let door = format!("{}/door/telegram/7001", house.url);
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
    let admin = std::fs::read_to_string(house.folder().join("admin.token")).unwrap().trim().to_owned();
    let metrics = client.get(format!("{}/metrics", house.url)).bearer_auth(&admin).send().await.unwrap();
    answers.push(metrics.text().await.unwrap());

    let entry = heard.entry.unwrap().to_string();
    let backup = house.dir.path().join("house").join("backup.db");
    for words in [
        vec!["message", "trace", &entry],
        vec!["message", "trace", "telegram:5:1"],
        vec!["bot", "list"],
        vec!["bot", "show", "telegram:7001"],
        vec!["agent", "list"],
        vec!["agent", "show", "heron", "--tenant", "acme"],
        vec!["client", "list"],
        vec!["client", "revoke", heron["client_id"].as_str().unwrap()],
        vec!["route", "list"],
        vec!["inbox", "list"],
        vec!["inbox", "dead"],
        vec!["backup", backup.to_str().unwrap()],
    ] {
        let output = house.tries(&words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        answers.push(String::from_utf8_lossy(&output.stdout).into_owned());
        answers.push(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let printed = Command::new(BINARY)
        .args(["config", "print", "--config"])
        .arg(house.folder().join("posthouse.toml"))
        .output()
        .unwrap();
    answers.push(String::from_utf8_lossy(&printed.stdout).into_owned());
    drop(rider);
    assert!(house.stop(), "a clean stop exits 0");

    let log = house.log.lock().unwrap().clone();
    assert!(log.len() > 1_000, "the log was meant to be talkative");
    assert!(!log.contains("has fallen"), "a clean stop is no fall: {}", line_with(&log, "has fallen"));
    let vault_key = std::fs::read_to_string(house.folder().join("vault.key")).unwrap();
    let vault_key = vault_key.trim().split(':').next_back().unwrap().to_owned();
    tokens.extend([TOKEN, WEBHOOK_SECRET, &gateway_secret, &admin, &vault_key].map(str::to_owned));
    assert_eq!(tokens.len(), 15);
    for canary in &tokens {
        assert!(!log.contains(canary), "in the log: {}", line_with(&log, canary));
        for answer in &answers {
            assert!(!answer.contains(canary), "in an answer: {answer}");
        }
        for (path, bytes) in files(&house.folder()) {
            if path.ends_with("vault.key") || path.ends_with("admin.token") {
                continue;
            }
            assert!(!contains(&bytes, canary.as_bytes()), "in {}", path.display());
        }
    }
    assert!(files(&house.folder()).iter().any(|(path, _)| path.ends_with("backup.db")));
}

/// Everything that can be presented at the HTTP doors, each after it was presented there and elsewhere.
/// What refuses it goes to `answers`.
async fn tokens_of(house: &House, heron: &Value, answers: &mut Vec<String>) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut tokens: Vec<String> =
        ["client_secret", "access_token", "refresh_token"].map(|name| text(&heron[name])).to_vec();
    let own = house.does(&["client", "create", "--tenant", "acme"]);
    tokens.push(text(&own["client_secret"]));
    let granted = exchanges(house, &own).await;
    tokens.push(text(&granted["access_token"]));
    let refreshed = refreshes(house, &tokens[2]).await.1;
    tokens.extend(["access_token", "refresh_token"].map(|name| text(&refreshed[name])));
    let anew = house.does(&["client", "create", "--tenant", "acme", "--agent", "heron", "--login"]);
    tokens.extend(["access_token", "refresh_token"].map(|name| text(&anew[name])));
    tokens.push(text(
        &house.does(&["client", "create", "--tenant", "acme", "--agent", "heron"])["client_secret"],
    ));
    let client = reqwest::Client::new();
    for token in &tokens {
        answers.push(refreshes_in_vain(house, token).await);
        for path in ["admin/agents", "metrics", "relay", "oauth/token"] {
            let request = client.post(format!("{}/{path}", house.url)).bearer_auth(token);
            let answer = request.form(&[("client_id", token)]).send().await.unwrap();
            assert!(!answer.status().is_success(), "{path}");
            answers.push(answer.text().await.unwrap());
        }
    }
    tokens
}

/// The answer of one that is not refreshed, or of one that is, whose fresh tokens are of no interest.
async fn refreshes_in_vain(house: &House, token: &str) -> String {
    let (status, answer) = refreshes(house, token).await;
    if status == 200 { String::new() } else { answer.to_string() }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

fn line_with<'a>(log: &'a str, canary: &str) -> &'a str {
    log.lines().find(|line| line.contains(canary)).unwrap_or_default()
}
