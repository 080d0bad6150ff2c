//! Fires to the agent's callback URL: contract sections 1.3, 3, 3.1, 3.2 and 7.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthouse_wire::JobId;
use posthouse_wire::cron::{CRON_KEY, TimedSignature, cron_key_message};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::callback_server::{CallbackServer, ScriptedAnswer};
use crate::fixtures::{ISSUER, TestServer, eventually, seconds, start};

fn claims(authorization: &str) -> Value {
    let token = authorization.strip_prefix("Bearer ").unwrap();
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

#[tokio::test]
async fn a_fire_comes_after_its_time_and_guard_with_a_token_for_that_agent_alone() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let schedule = heron.arm("job", &server.at(seconds(10))).await;
    server.advance(Duration::from_millis(10_099));
    server.catch_up().await;
    assert!(server.callback.fires().is_empty(), "early");
    server.advance(Duration::from_millis(1));
    let fire = server.callback.called(1).await.remove(0);
    assert_eq!(fire.path, "/api/cron/fire");
    assert_eq!(fire.body, json!({ "job_id": "job", "fire_at": server.at(seconds(10)).text() }));
    assert_eq!(fire.headers["content-type"], "application/json");
    let said = claims(fire.headers["authorization"].to_str().unwrap());
    let (now, audience) = (server.time.now().seconds(), format!("agent:{}", heron.instance));
    for (claim, value) in [
        ("iss", json!(ISSUER)),
        ("aud", json!(audience)),
        ("sub", json!(audience)),
        ("purpose", json!("cron_fire")),
        ("iat", json!(now)),
        ("nbf", json!(now)),
        ("exp", json!(now + 90)),
        ("job_id", json!("job")),
        ("fire_at", json!(server.at(seconds(10)).text())),
        ("schedule_id", json!(schedule)),
    ] {
        assert_eq!(said[claim], value, "{claim}");
    }
    heron.history_begins_with(&["delivered"]).await;
    assert!(heron.list().await.is_empty());
}

#[tokio::test]
async fn a_path_of_the_callback_is_kept_and_its_last_slash_is_not_doubled() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let mut request = heron.arm_request("job", &server.at(seconds(0)));
    request["agent_callback_url"] = json!(format!("{}/p/x/", server.callback.url()));
    heron.arm_with(request).await;
    server.advance_until(|| !server.callback.fires().is_empty()).await;
    assert_eq!(server.callback.fires()[0].path, "/p/x/api/cron/fire");
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
        let server = TestServer::open().await;
        let heron = server.create_agent("acme", "heron").await;
        server.callback.answers([ScriptedAnswer::Status(status, body)]);
        heron.arm("job", &server.at(seconds(0))).await;
        server.advance_until(|| !server.callback.fires().is_empty()).await;
        heron.history_begins_with(&[what]).await;
        server.advance(seconds(3600));
        server.catch_up().await;
        assert_eq!(server.callback.fires().len(), 1, "{status} {body}");
    }
}

#[tokio::test]
async fn everything_else_is_tried_again_by_the_table_each_time_with_a_new_token() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let failures = [400, 401, 404, 405, 503, 301, 500, 502, 429, 418];
    server.callback.answers(failures.map(|status| ScriptedAnswer::Status(status, "<html>no</html>")));
    heron.arm("job", &server.at(seconds(0))).await;
    // Each pause is waited for in turn: once the failure is recorded, nothing comes before nine tenths
    // of the pause and something by eleven tenths of it.
    server.advance(Duration::from_millis(100));
    for (nth, pause) in [1, 2, 4, 8, 15, 30, 60, 120, 300, 300].into_iter().enumerate() {
        server.callback.called(nth + 1).await;
        failed_attempts(&heron, nth + 1).await;
        server.advance(Duration::from_millis(pause * 900));
        server.catch_up().await;
        assert_eq!(server.callback.fires().len(), nth + 1, "after {nth} failures");
        server.advance(Duration::from_millis(pause * 200 + 101));
    }
    let fires = server.callback.called(11).await;
    heron.history_begins_with(&["delivered", "attempt"]).await;
    server.advance(seconds(3600));
    server.catch_up().await;
    assert_eq!(server.callback.fires().len(), 11);
    let mut tokens: Vec<String> = fires
        .iter()
        .map(|fire| claims(fire.headers["authorization"].to_str().unwrap())["jti"].to_string())
        .collect();
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 11);
}

/// Waits for this number of failed attempts.
async fn failed_attempts(heron: &crate::fixtures::Agent, failures: usize) {
    eventually(async || heron.history().await.iter().filter(|what| *what == "attempt").count() >= failures)
        .await;
}

#[tokio::test]
async fn what_the_agent_asks_for_is_waited_for_up_to_five_minutes() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    server.callback.answers([ScriptedAnswer::RetryAfter(503, 60), ScriptedAnswer::RetryAfter(503, 4000)]);
    heron.arm("job", &server.at(seconds(0))).await;
    server.advance(Duration::from_millis(100));
    for (nth, pause) in [60, 300].into_iter().enumerate() {
        server.callback.called(nth + 1).await;
        failed_attempts(&heron, nth + 1).await;
        server.advance(Duration::from_millis(pause * 900));
        server.catch_up().await;
        assert_eq!(server.callback.fires().len(), nth + 1);
        server.advance(Duration::from_millis(pause * 200 + 101));
    }
    server.callback.called(3).await;
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
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let (url, heard) = hangs_up().await;
    let heard = || heard.load(std::sync::atomic::Ordering::SeqCst);
    let mut request = heron.arm_request("job", &server.at(seconds(0)));
    request["agent_callback_url"] = json!(url);
    heron.arm_with(request).await;
    server.advance(Duration::from_millis(100));
    failed_attempts(&heron, 1).await;
    // Not even when the agent shows that it is alive.
    assert_eq!(heron.list().await.len(), 1);
    server.advance(Duration::from_millis(8_900));
    server.catch_up().await;
    assert_eq!(heard(), 1);
    server.advance(Duration::from_millis(2_200));
    eventually(async || heard() == 2).await;
}

#[tokio::test]
async fn a_newer_arm_or_a_cancel_stops_a_series_at_once() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    server.callback.answers([ScriptedAnswer::Status(500, ""), ScriptedAnswer::Status(500, "")]);
    heron.arm("a", &server.at(seconds(0))).await;
    heron.arm("b", &server.at(seconds(0))).await;
    server.advance(Duration::from_millis(100));
    server.callback.called(2).await;
    failed_attempts(&heron, 2).await;
    heron.arm("a", &server.at(seconds(7200))).await;
    heron.cancel("b").await;
    server.advance(seconds(3600));
    server.catch_up().await;
    assert_eq!(server.callback.fires().len(), 2);
}

#[tokio::test]
async fn after_a_day_of_failures_the_arm_is_dead_visible_and_back_with_a_sign_of_life() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let shut = CallbackServer::open(server.time.clone()).await;
    shut.answers((0..400).map(|_| ScriptedAnswer::Status(404, "<html>")));
    let mut request = heron.arm_request("job", &server.at(seconds(0)));
    request["agent_callback_url"] = json!(shut.url());
    heron.arm_with(request).await;
    let dead = async || {
        let filter = ledger::ArmFilter { state: Some(ledger::ArmState::Dead), ..Default::default() };
        server.clock.jobs().list(filter, 10).await.unwrap().len() == 1
    };
    for _ in 0..400 {
        if dead().await {
            break;
        }
        let before = shut.fires().len();
        server.advance(seconds(400));
        eventually(async || dead().await || shut.fires().len() > before).await;
        server.catch_up().await;
    }
    assert!(dead().await);
    assert!(server.time.now().since(start()) >= seconds(24 * 3600));
    let attempts = shut.fires().len();
    server.advance(seconds(7 * 24 * 3600));
    server.catch_up().await;
    assert_eq!(shut.fires().len(), attempts, "the dead are left alone");
    // Any request is a sign of life. (The agent's old token has expired by now.)
    let login = server.identity.accounts.log_in(&heron.instance).await.unwrap().unwrap();
    let heron = crate::fixtures::Agent { token: login.access.access_token, ..heron };
    assert_eq!(heron.list().await.len(), 1);
    server.advance(Duration::from_millis(200));
    shut.called(attempts + 1).await;
}

#[tokio::test]
async fn an_agent_that_refuses_is_poked_once_a_series_and_the_retry_is_taken() {
    let server = TestServer::open().await;
    let wake = CallbackServer::open(server.time.clone()).await;
    let heron =
        server.create_agent_with_wake_url("acme", "heron", Some(format!("{}/wake", wake.url()))).await;
    server.callback.answers([
        ScriptedAnswer::Status(503, ""),
        ScriptedAnswer::Status(503, ""),
        ScriptedAnswer::Status(503, ""),
    ]);
    heron.arm("job", &server.at(seconds(0))).await;
    server.advance_until(|| server.callback.fires().len() == 4).await;
    heron.history_begins_with(&["delivered"]).await;
    let pokes = wake.called(1).await;
    assert_eq!((pokes.len(), pokes[0].path.as_str()), (1, "/wake"));
}

#[tokio::test]
async fn an_agent_with_nothing_due_hears_nothing_for_a_week() {
    let server = TestServer::open().await;
    let wake = CallbackServer::open(server.time.clone()).await;
    let heron =
        server.create_agent_with_wake_url("acme", "heron", Some(format!("{}/wake", wake.url()))).await;
    heron.arm("far", &server.at(seconds(30 * 24 * 3600))).await;
    heron.arm("gone", &server.at(seconds(60))).await;
    heron.cancel("gone").await;
    for _ in 0..7 * 24 {
        server.advance(seconds(3600));
        server.catch_up().await;
    }
    assert_eq!((server.callback.fires().len(), wake.fires().len()), (0, 0));
}

#[tokio::test]
async fn a_job_that_asked_for_its_own_key_is_called_with_that_proof() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let due = server.at(seconds(0));
    let mut request = heron.arm_request("job", &due);
    request["verifier"] = json!("per_job_key");
    let (_, answer) = heron.post("provision", request.clone()).await;
    let key = posthouse_wire::Secret::new(answer["cron_key"].as_str().unwrap());
    let (_, again) = heron.post("provision", request).await;
    assert_eq!(again["cron_key"], answer["cron_key"], "one key a job");
    server.advance_until(|| !server.callback.fires().is_empty()).await;
    let headers = &server.callback.fires()[0].headers;
    assert!(!headers.contains_key("authorization"));
    let stamp = TimedSignature::read(headers[CRON_KEY].to_str().unwrap()).unwrap();
    let message = cron_key_message(&JobId::new("job"), &due);
    assert!(stamp.verify([&key], &message, server.time.now().seconds()).is_some());
}

#[tokio::test]
async fn one_slow_agent_delays_no_other() {
    let server = TestServer::open().await;
    let (slow, quick) =
        (server.create_agent("acme", "slow").await, server.create_agent("bolt", "quick").await);
    let hung = CallbackServer::open(server.time.clone()).await;
    let let_go = Arc::new(Notify::new());
    hung.answers((0..8).map(|_| ScriptedAnswer::Hold(Arc::clone(&let_go))));
    for job in 0..20 {
        let mut request = slow.arm_request(&format!("s{job}"), &server.at(seconds(0)));
        request["agent_callback_url"] = json!(hung.url());
        slow.arm_with(request).await;
    }
    quick.arm("q", &server.at(seconds(0))).await;
    server.advance(Duration::from_millis(100));
    server.callback.called(1).await;
    hung.called(8).await;
    server.catch_up_beside(8).await;
    assert_eq!(hung.fires().len(), 8, "no more than eight at once to one agent");
    let_go.notify_waiters();
    hung.called(20).await;
}

#[tokio::test]
async fn a_cancel_that_was_answered_lets_no_attempt_begin() {
    let config = clock::Config { in_flight_per_agent: 1, ..clock::Config::default() };
    let server = TestServer::open_with(config).await;
    let heron = server.create_agent("acme", "heron").await;
    let let_go = Arc::new(Notify::new());
    server.callback.answers([ScriptedAnswer::Hold(Arc::clone(&let_go))]);
    heron.arm("first", &server.at(seconds(0))).await;
    server.advance(Duration::from_millis(100));
    server.callback.called(1).await;
    // Due and held, but waiting for its place behind the first.
    heron.arm("second", &server.at(seconds(0))).await;
    heron.arm("third", &server.at(seconds(0))).await;
    server.catch_up_beside(1).await;
    heron.cancel("second").await;
    let_go.notify_waiters();
    server.callback.called(2).await;
    server.catch_up().await;
    assert_eq!(server.callback.jobs(), ["first", "third"]);
}

#[tokio::test]
async fn a_restart_loses_no_arm_and_makes_no_fire_early() {
    let folder = tempfile::tempdir().unwrap();
    let time = posthouse_time::Timepiece::wound(start());
    let callback = {
        let server = TestServer::open_in(folder.path(), time.clone()).await;
        let heron = server.create_agent("acme", "heron").await;
        for job in 0..50 {
            heron.arm(&format!("j{job:02}"), &server.at(seconds(10 + job))).await;
        }
        server.clock.close().await;
        server.relay.close().await;
        server.callback.clone()
    };
    time.wind(seconds(30));
    let place = ledger::Location::Folder(folder.path().to_owned());
    let server = reopened(place, time.clone(), callback.clone()).await;
    // Fires missed while the server was down come first, in order, spread over at most ten seconds.
    server.advance_until(|| callback.fires().len() >= 50).await;
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
pub async fn reopened(
    place: ledger::Location,
    time: posthouse_time::Timepiece,
    callback: CallbackServer,
) -> TestServer {
    eventually(async || ledger::Ledger::open(place.clone(), time.clone()).await.is_ok()).await;
    TestServer::build_with(place, one_at_a_time(), time, callback).await
}

#[tokio::test]
async fn a_fire_by_hand_leaves_the_arm_as_it_is() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    heron.arm("job", &server.at(seconds(600))).await;
    let job = JobId::new("job");
    let answered = server.clock.jobs().fire_now(&heron.instance, &job).await.unwrap();
    assert_eq!(answered, clock::ManualFire::Answered { status: 202 });
    assert_eq!(
        server.clock.jobs().fire_now(&heron.instance, &JobId::new("none")).await.unwrap(),
        clock::ManualFire::NoJob
    );
    assert_eq!(heron.list().await.len(), 1);
    heron.history_begins_with(&["manual"]).await;
    server.advance(Duration::from_millis(600_100));
    server.callback.called(2).await;
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
    let server = TestServer::with_lookup(Arc::new(PrivateNetwork)).await;
    let heron = server.create_agent("acme", "heron").await;
    for host in ["inside", "nowhere"] {
        let mut request = heron.arm_request(host, &server.at(seconds(0)));
        request["agent_callback_url"] = json!(format!("http://{host}.example"));
        heron.arm_with(request).await;
    }
    server.advance(Duration::from_millis(100));
    failed_attempts(&heron, 2).await;
    let mut told = Vec::new();
    for host in ["inside", "nowhere"] {
        let (status, answer) = heron.get(&format!("history?job_id={host}")).await;
        assert_eq!(status, 200, "{answer}");
        let attempts = answer["history"].as_array().unwrap().iter().filter(|line| line["what"] == "attempt");
        told.push(attempts.map(|line| line["error"].as_str().unwrap().to_owned()).next().unwrap());
    }
    assert_eq!(told, ["the host has no public address", "the host has no public address"]);
    // The operator, who runs the network, sees the real reason.
    let lines = server.clock.jobs().history(&heron.instance, None, None, 10).await.unwrap();
    let mut errors: Vec<_> = lines.into_iter().filter_map(|line| line.error).collect();
    errors.sort();
    errors.dedup();
    assert_eq!(errors.len(), 2, "{errors:?}");
}

/// A resolver whose first answer is an allowed address, and every later one a private address.
#[derive(Default)]
struct Rebinding(std::sync::atomic::AtomicUsize);

impl errand::Lookup for Rebinding {
    fn lookup(&self, _: &str) -> errand::LookupResult {
        let first = self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        let address = if first { [127, 0, 0, 1] } else { [10, 0, 0, 7] };
        Box::pin(async move { Ok(vec![address.into()]) })
    }
}

#[tokio::test]
async fn a_fire_goes_to_the_address_that_was_checked_even_if_the_host_has_another_one_by_then() {
    let names = Arc::new(Rebinding::default());
    let server = TestServer::with_lookup(names.clone()).await;
    let heron = server.create_agent("acme", "heron").await;
    let mut request = heron.arm_request("job", &server.at(seconds(0)));
    let port = server.callback.url().rsplit_once(':').unwrap().1.to_owned();
    request["agent_callback_url"] = json!(format!("http://agent.example:{port}"));
    heron.arm_with(request).await;
    assert_eq!(names.0.load(std::sync::atomic::Ordering::SeqCst), 0, "naming a URL looks up nothing");
    server.advance(Duration::from_millis(100));
    server.callback.called(1).await;
    assert_eq!(names.0.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_the_place_that_it_names_is_never_called() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let elsewhere = CallbackServer::open(server.time.clone()).await;
    let redirects = [301, 302, 303, 307, 308];
    let place = format!("{}/secrets", elsewhere.url());
    server.callback.answers(redirects.map(|status| ScriptedAnswer::Redirect(status, place.clone())));
    heron.arm("job", &server.at(seconds(0))).await;
    // The last of them is followed by a call that is accepted.
    let is_over = || server.callback.fires().len() > redirects.len() || !elsewhere.fires().is_empty();
    server.advance_until(is_over).await;
    assert!(elsewhere.fires().is_empty(), "it went where a redirect led");
    heron.history_begins_with(&["delivered", "attempt"]).await;
    let failed = heron.history().await.into_iter().filter(|what| what == "attempt").count();
    assert_eq!(failed, redirects.len(), "each redirect is a failed attempt");
    assert!(server.callback.fires().iter().all(|fire| fire.path == "/api/cron/fire"));
    // The other server can be called, and this is its first call.
    let mut request = heron.arm_request("marker", &server.at(seconds(0)));
    request["agent_callback_url"] = json!(elsewhere.url());
    heron.arm_with(request).await;
    server.advance_until(|| !elsewhere.fires().is_empty()).await;
    assert_eq!(elsewhere.jobs(), ["marker"]);
}

/// A resolver that gives two addresses to one name, and one to every other.
struct TwoAddresses(std::net::IpAddr);

impl errand::Lookup for TwoAddresses {
    fn lookup(&self, host: &str) -> errand::LookupResult {
        let mut addresses = vec![[127, 0, 0, 1].into()];
        addresses.extend((host == "both.example").then_some(self.0));
        Box::pin(async move { Ok(addresses) })
    }
}

#[tokio::test]
async fn a_callback_host_with_one_private_address_among_others_is_not_called() {
    for private in
        ["10.0.0.1", "169.254.169.254", "::ffff:192.168.0.1", "64:ff9b::a00:1", "fd00::1", "0.0.0.0"]
    {
        let server = TestServer::with_lookup(Arc::new(TwoAddresses(private.parse().unwrap()))).await;
        let heron = server.create_agent("acme", "heron").await;
        let port = server.callback.url().rsplit_once(':').unwrap().1.to_owned();
        let arms = async |host: &str| {
            let mut request = heron.arm_request(host, &server.at(seconds(0)));
            request["agent_callback_url"] = json!(format!("http://{host}.example:{port}"));
            heron.arm_with(request).await;
        };
        arms("both").await;
        server.advance(Duration::from_millis(100));
        eventually(async || {
            heron.history().await.iter().any(|what| what == "attempt" || what == "delivered")
        })
        .await;
        arms("one").await;
        server.advance_until(|| !server.callback.fires().is_empty()).await;
        assert_eq!(server.callback.jobs(), ["one"], "{private}");
    }
}
