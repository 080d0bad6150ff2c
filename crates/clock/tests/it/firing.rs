//! Fires to the agent's callback URL: contract sections 1.3, 3, 3.1, 3.2 and 7.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthouse_wire::JobId;
use posthouse_wire::cron::{CRON_KEY, Stamp, cron_key_message};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::agent::{Answer, Callback};
use crate::town::{ISSUER, Town, eventually, seconds, start};

fn claims(authorization: &str) -> Value {
    let token = authorization.strip_prefix("Bearer ").unwrap();
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

#[tokio::test]
async fn a_fire_comes_after_its_time_and_guard_with_a_token_for_that_agent_alone() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let schedule = heron.arms("job", &town.at(seconds(10))).await;
    town.time.wind(Duration::from_millis(10_099));
    town.settles().await;
    assert!(town.callback.fires().is_empty(), "early");
    town.time.wind(Duration::from_millis(1));
    let fire = town.callback.called(1).await.remove(0);
    assert_eq!(fire.path, "/api/cron/fire");
    assert_eq!(fire.body, json!({ "job_id": "job", "fire_at": town.at(seconds(10)).text() }));
    assert_eq!(fire.headers["content-type"], "application/json");
    let said = claims(fire.headers["authorization"].to_str().unwrap());
    let (now, audience) = (town.time.now().seconds(), format!("agent:{}", heron.instance));
    for (claim, value) in [
        ("iss", json!(ISSUER)),
        ("aud", json!(audience)),
        ("sub", json!(audience)),
        ("purpose", json!("cron_fire")),
        ("iat", json!(now)),
        ("nbf", json!(now)),
        ("exp", json!(now + 90)),
        ("job_id", json!("job")),
        ("fire_at", json!(town.at(seconds(10)).text())),
        ("schedule_id", json!(schedule)),
    ] {
        assert_eq!(said[claim], value, "{claim}");
    }
    heron.history_begins(&["delivered"]).await;
    assert!(heron.lists().await.is_empty());
}

#[tokio::test]
async fn a_path_of_the_callback_is_kept_and_its_last_slash_is_not_doubled() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let mut wish = heron.wish("job", &town.at(seconds(0)));
    wish["agent_callback_url"] = json!(format!("{}/p/x/", town.callback.url()));
    heron.arms_with(wish).await;
    town.winds_until(|| !town.callback.fires().is_empty()).await;
    assert_eq!(town.callback.fires()[0].path, "/p/x/api/cron/fire");
}

#[tokio::test]
async fn any_2xx_ends_the_arm_and_is_recorded_for_what_it_says() {
    for (status, body, what) in [
        (202, r#"{"status":"accepted","job_id":"job"}"#, "delivered"),
        (200, r#"{"status":"gone","job_id":"job"}"#, "gone"),
        (200, r#"{"status":"gateway_stopped"}"#, "dropped"),
        (200, r#"{"status":"duplicate"}"#, "duplicate"),
        (200, r#"{"status":"overlap"}"#, "overlap"),
        (204, "", "delivered"),
        (200, "<html>", "delivered"),
    ] {
        let town = Town::open().await;
        let heron = town.agent("acme", "heron").await;
        town.callback.answers([Answer::Status(status, body)]);
        heron.arms("job", &town.at(seconds(0))).await;
        town.winds_until(|| !town.callback.fires().is_empty()).await;
        heron.history_begins(&[what]).await;
        town.time.wind(seconds(3600));
        town.settles().await;
        assert_eq!(town.callback.fires().len(), 1, "{status} {body}");
    }
}

#[tokio::test]
async fn everything_else_is_tried_again_by_the_table_each_time_with_a_new_token() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let failures = [400, 401, 404, 405, 503, 301, 500, 502, 429, 418];
    town.callback.answers(failures.map(|status| Answer::Status(status, "<html>no</html>")));
    heron.arms("job", &town.at(seconds(0))).await;
    // Each pause is waited for in turn: once the failure is recorded, nothing comes before nine tenths
    // of the pause and something by eleven tenths of it.
    town.time.wind(Duration::from_millis(100));
    for (nth, pause) in [1, 2, 4, 8, 15, 30, 60, 120, 300, 300].into_iter().enumerate() {
        town.callback.called(nth + 1).await;
        heron_history(&heron, nth + 1).await;
        town.time.wind(Duration::from_millis(pause * 900));
        town.settles().await;
        assert_eq!(town.callback.fires().len(), nth + 1, "after {nth} failures");
        town.time.wind(Duration::from_millis(pause * 200 + 101));
    }
    let fires = town.callback.called(11).await;
    heron.history_begins(&["delivered", "attempt"]).await;
    town.time.wind(seconds(3600));
    town.settles().await;
    assert_eq!(town.callback.fires().len(), 11);
    let mut tokens: Vec<String> = fires
        .iter()
        .map(|fire| claims(fire.headers["authorization"].to_str().unwrap())["jti"].to_string())
        .collect();
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 11);
}

/// Waits for this number of failed attempts.
async fn heron_history(heron: &crate::town::Agent, failures: usize) {
    eventually(async || heron.told().await.iter().filter(|what| *what == "attempt").count() >= failures)
        .await;
}

#[tokio::test]
async fn what_the_agent_asks_for_is_waited_for_up_to_five_minutes() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    town.callback.answers([Answer::RetryAfter(503, 60), Answer::RetryAfter(503, 4000)]);
    heron.arms("job", &town.at(seconds(0))).await;
    town.time.wind(Duration::from_millis(100));
    for (nth, pause) in [60, 300].into_iter().enumerate() {
        town.callback.called(nth + 1).await;
        heron_history(&heron, nth + 1).await;
        town.time.wind(Duration::from_millis(pause * 900));
        town.settles().await;
        assert_eq!(town.callback.fires().len(), nth + 1);
        town.time.wind(Duration::from_millis(pause * 200 + 101));
    }
    town.callback.called(3).await;
}

/// A server that reads each request and hangs up without an answer.
async fn hangs_up() -> (String, Arc<std::sync::atomic::AtomicUsize>) {
    use tokio::io::AsyncReadExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, heard) = (format!("http://{}", listener.local_addr().unwrap()), Arc::default());
    let count: Arc<std::sync::atomic::AtomicUsize> = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 8192];
            let _ = stream.read(&mut request).await;
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    (url, heard)
}

#[tokio::test]
async fn a_call_that_may_have_been_heard_is_not_made_again_before_its_ten_seconds_are_over() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let (url, heard) = hangs_up().await;
    let heard = || heard.load(std::sync::atomic::Ordering::SeqCst);
    let mut wish = heron.wish("job", &town.at(seconds(0)));
    wish["agent_callback_url"] = json!(url);
    heron.arms_with(wish).await;
    town.time.wind(Duration::from_millis(100));
    heron_history(&heron, 1).await;
    // Not even when the agent shows that it is alive.
    assert_eq!(heron.lists().await.len(), 1);
    town.time.wind(Duration::from_millis(8_900));
    town.settles().await;
    assert_eq!(heard(), 1);
    town.time.wind(Duration::from_millis(2_200));
    eventually(async || heard() == 2).await;
}

#[tokio::test]
async fn a_newer_arm_or_a_cancel_stops_a_series_at_once() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    town.callback.answers([Answer::Status(500, ""), Answer::Status(500, "")]);
    heron.arms("a", &town.at(seconds(0))).await;
    heron.arms("b", &town.at(seconds(0))).await;
    town.time.wind(Duration::from_millis(100));
    town.callback.called(2).await;
    heron_history(&heron, 2).await;
    heron.arms("a", &town.at(seconds(7200))).await;
    heron.cancels("b").await;
    town.time.wind(seconds(3600));
    town.settles().await;
    assert_eq!(town.callback.fires().len(), 2);
}

#[tokio::test]
async fn after_a_day_of_failures_the_arm_is_dead_visible_and_back_with_a_sign_of_life() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let shut = Callback::open(town.time.clone()).await;
    shut.answers((0..400).map(|_| Answer::Status(404, "<html>")));
    let mut wish = heron.wish("job", &town.at(seconds(0)));
    wish["agent_callback_url"] = json!(shut.url());
    heron.arms_with(wish).await;
    let dead = async || {
        let filter = ledger::ArmFilter { state: Some(ledger::ArmState::Dead), ..Default::default() };
        town.clock.jobs(filter, 10).await.unwrap().len() == 1
    };
    for _ in 0..400 {
        if dead().await {
            break;
        }
        let before = shut.fires().len();
        town.time.wind(seconds(400));
        eventually(async || dead().await || shut.fires().len() > before).await;
        town.settles().await;
    }
    assert!(dead().await);
    assert!(town.time.now().since(start()) >= seconds(24 * 3600));
    let attempts = shut.fires().len();
    town.time.wind(seconds(7 * 24 * 3600));
    town.settles().await;
    assert_eq!(shut.fires().len(), attempts, "the dead are left alone");
    // Any request is a sign of life. (The agent's old token has expired by now.)
    let login = town.identity.accounts.log_in(&heron.instance).await.unwrap().unwrap();
    let heron = crate::town::Agent { token: login.access.access_token, ..heron };
    assert_eq!(heron.lists().await.len(), 1);
    town.time.wind(Duration::from_millis(200));
    shut.called(attempts + 1).await;
}

#[tokio::test]
async fn an_agent_that_refuses_is_poked_once_a_series_and_the_retry_is_taken() {
    let town = Town::open().await;
    let wake = Callback::open(town.time.clone()).await;
    let heron = town.enrol("acme", "heron", Some(format!("{}/wake", wake.url()))).await;
    town.callback.answers([Answer::Status(503, ""), Answer::Status(503, ""), Answer::Status(503, "")]);
    heron.arms("job", &town.at(seconds(0))).await;
    town.winds_until(|| town.callback.fires().len() == 4).await;
    heron.history_begins(&["delivered"]).await;
    let pokes = wake.called(1).await;
    assert_eq!((pokes.len(), pokes[0].path.as_str()), (1, "/wake"));
}

#[tokio::test]
async fn an_agent_with_nothing_due_hears_nothing_for_a_week() {
    let town = Town::open().await;
    let wake = Callback::open(town.time.clone()).await;
    let heron = town.enrol("acme", "heron", Some(format!("{}/wake", wake.url()))).await;
    heron.arms("far", &town.at(seconds(30 * 24 * 3600))).await;
    heron.arms("gone", &town.at(seconds(60))).await;
    heron.cancels("gone").await;
    for _ in 0..7 * 24 {
        town.time.wind(seconds(3600));
        tokio::task::yield_now().await;
    }
    town.settles().await;
    assert_eq!((town.callback.fires().len(), wake.fires().len()), (0, 0));
}

#[tokio::test]
async fn a_job_that_asked_for_its_own_key_is_called_with_that_proof() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let due = town.at(seconds(0));
    let mut wish = heron.wish("job", &due);
    wish["verifier"] = json!("per_job_key");
    let (_, answer) = heron.posts("provision", wish.clone()).await;
    let key = posthouse_wire::Secret::new(answer["cron_key"].as_str().unwrap());
    let (_, again) = heron.posts("provision", wish).await;
    assert_eq!(again["cron_key"], answer["cron_key"], "one key a job");
    town.winds_until(|| !town.callback.fires().is_empty()).await;
    let headers = &town.callback.fires()[0].headers;
    assert!(!headers.contains_key("authorization"));
    let stamp = Stamp::read(headers[CRON_KEY].to_str().unwrap()).unwrap();
    let message = cron_key_message(&JobId::new("job"), &due);
    assert!(stamp.vouched([&key], &message, town.time.now().seconds()).is_some());
}

#[tokio::test]
async fn one_slow_agent_delays_no_other() {
    let town = Town::open().await;
    let (slow, quick) = (town.agent("acme", "slow").await, town.agent("bolt", "quick").await);
    let hung = Callback::open(town.time.clone()).await;
    let let_go = Arc::new(Notify::new());
    hung.answers((0..8).map(|_| Answer::Hold(Arc::clone(&let_go))));
    for job in 0..20 {
        let mut wish = slow.wish(&format!("s{job}"), &town.at(seconds(0)));
        wish["agent_callback_url"] = json!(hung.url());
        slow.arms_with(wish).await;
    }
    quick.arms("q", &town.at(seconds(0))).await;
    town.winds_until(|| !town.callback.fires().is_empty()).await;
    hung.called(8).await;
    town.settles().await;
    assert_eq!(hung.fires().len(), 8, "no more than eight at once to one agent");
    let_go.notify_waiters();
    hung.called(20).await;
}

#[tokio::test]
async fn a_cancel_that_was_answered_lets_no_attempt_begin() {
    let config = clock::Config { in_flight_per_agent: 1, ..clock::Config::default() };
    let town = Town::open_with(config).await;
    let heron = town.agent("acme", "heron").await;
    let let_go = Arc::new(Notify::new());
    town.callback.answers([Answer::Hold(Arc::clone(&let_go))]);
    heron.arms("first", &town.at(seconds(0))).await;
    town.time.wind(Duration::from_millis(100));
    town.callback.called(1).await;
    // Due and held, but waiting for its place behind the first.
    heron.arms("second", &town.at(seconds(0))).await;
    heron.arms("third", &town.at(seconds(0))).await;
    town.settles().await;
    heron.cancels("second").await;
    let_go.notify_waiters();
    town.callback.called(2).await;
    town.settles().await;
    assert_eq!(town.callback.jobs(), ["first", "third"]);
}

#[tokio::test]
async fn a_restart_loses_no_arm_and_makes_no_fire_early() {
    let folder = tempfile::tempdir().unwrap();
    let time = posthouse_time::Timepiece::wound(start());
    let callback = {
        let town = Town::open_in(folder.path(), time.clone()).await;
        let heron = town.agent("acme", "heron").await;
        for job in 0..50 {
            heron.arms(&format!("j{job:02}"), &town.at(seconds(10 + job))).await;
        }
        town.clock.close().await;
        town.relay.close().await;
        town.callback.clone()
    };
    time.wind(seconds(30));
    let place = ledger::Location::Folder(folder.path().to_owned());
    let town = reopened(place, time.clone(), callback.clone()).await;
    // Fires missed while the server was down come first, in order, spread over at most ten seconds.
    town.winds_until(|| callback.fires().len() >= 50).await;
    let mut jobs = callback.jobs();
    jobs.sort();
    jobs.dedup();
    assert_eq!(jobs.len(), 50);
    assert_eq!(callback.fires().len(), 50);
    assert_eq!(callback.jobs()[..15], (0..15).map(|job| format!("j{job:02}")).collect::<Vec<_>>());
    for fire in callback.fires() {
        let due = posthouse_wire::cron::FireAt::parse(fire.body["fire_at"].as_str().unwrap()).unwrap();
        assert!(fire.at.millis() >= due.due_ms() + 100, "{fire:?}");
    }
}

/// With one fire at a time, the order of calls is the order of release.
pub fn one_at_a_time() -> clock::Config {
    clock::Config { in_flight_per_agent: 1, ..clock::Config::default() }
}

/// Opens the folder again. It is free once the last handle of the previous server is dropped.
pub async fn reopened(place: ledger::Location, time: posthouse_time::Timepiece, callback: Callback) -> Town {
    let mut tries = 0;
    loop {
        match ledger::Ledger::open(place.clone(), time.clone()).await {
            Ok(free) => drop(free),
            Err(_) if tries < 1000 => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
            Err(fault) => panic!("{fault}"),
        }
        return Town::build_with(place, one_at_a_time(), time, callback).await;
    }
}

#[tokio::test]
async fn a_fire_by_hand_leaves_the_arm_as_it_is() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    heron.arms("job", &town.at(seconds(600))).await;
    let job = JobId::new("job");
    let answered = town.clock.fire_now(&heron.instance, &job).await.unwrap();
    assert_eq!(answered, clock::ByHand::Answered { status: 202 });
    assert_eq!(
        town.clock.fire_now(&heron.instance, &JobId::new("none")).await.unwrap(),
        clock::ByHand::NoJob
    );
    assert_eq!(heron.lists().await.len(), 1);
    heron.history_begins(&["manual"]).await;
    town.time.wind(Duration::from_millis(600_100));
    town.callback.called(2).await;
}

/// A resolver that knows one name, with a private address.
struct PrivateNetwork;

impl errand::Lookup for PrivateNetwork {
    fn lookup(&self, host: &str) -> errand::LookupResult {
        let found = match host {
            "inside.example" => Ok(vec![[10, 0, 0, 7].into()]),
            _ => Err(std::io::Error::other("no such host")),
        };
        Box::pin(async move { found })
    }
}

#[tokio::test]
async fn job_history_does_not_tell_not_resolved_from_not_public_to_the_tenant() {
    let town = Town::looking_up(Arc::new(PrivateNetwork)).await;
    let heron = town.agent("acme", "heron").await;
    for host in ["inside", "nowhere"] {
        let mut wish = heron.wish(host, &town.at(seconds(0)));
        wish["agent_callback_url"] = json!(format!("http://{host}.example"));
        heron.arms_with(wish).await;
    }
    town.time.wind(Duration::from_millis(100));
    heron_history(&heron, 2).await;
    let mut told = Vec::new();
    for host in ["inside", "nowhere"] {
        let (status, answer) = heron.gets(&format!("history?job_id={host}")).await;
        assert_eq!(status, 200, "{answer}");
        let attempts = answer["history"].as_array().unwrap().iter().filter(|line| line["what"] == "attempt");
        told.push(attempts.map(|line| line["error"].as_str().unwrap().to_owned()).next().unwrap());
    }
    assert_eq!(told, ["the host has no public address", "the host has no public address"]);
    // The operator, who runs the network, sees the real reason.
    let lines = town.clock.job_history(&heron.instance, None, None, 10).await.unwrap();
    let mut errors: Vec<_> = lines.into_iter().filter_map(|line| line.error).collect();
    errors.sort();
    errors.dedup();
    assert_eq!(errors.len(), 2, "{errors:?}");
}
