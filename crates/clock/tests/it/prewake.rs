//! Waking slow agents ahead of their due time, if the operator allows it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::callback_server::{CallbackServer, ScriptedAnswer};
use crate::fixtures::{Agent, TestServer, seconds, start};

/// Wake calls ahead of a due time.
const WOKEN_AHEAD: &str = "posthouse_clock_wake_pokes_total{why=\"ahead\"}";

/// A server, an agent that was asleep at its first fire and accepted it some seconds later, and its wake URL.
async fn slow_to_wake(allowed: bool) -> (TestServer, Agent, CallbackServer) {
    let config = clock::Config { pre_wake: allowed, ..clock::Config::default() };
    let server = TestServer::open_with(config).await;
    let callback = server.callback.clone();
    let (heron, wake) = create_slow_agent(&server, "acme", "heron", &callback).await;
    (server, heron, wake)
}

async fn create_slow_agent(
    server: &TestServer,
    tenant: &str,
    name: &str,
    callback: &CallbackServer,
) -> (Agent, CallbackServer) {
    let wake = CallbackServer::open(server.time.clone()).await;
    let agent = server.create_agent_with_wake_url(tenant, name, Some(format!("{}/wake", wake.url()))).await;
    let before = callback.fires().len();
    callback.answers([503, 503, 503].map(|status| ScriptedAnswer::Status(status, "")));
    let now = server.time.now().since(start());
    agent.arm_with(request(&agent, "job", now + seconds(10), callback)).await;
    server.advance_until(|| callback.fires().len() == before + 4).await;
    agent.history_begins_with(&["delivered"]).await;
    wake.called(1).await;
    (agent, wake)
}

fn request(agent: &Agent, job: &str, after: Duration, callback: &CallbackServer) -> Value {
    let mut request = agent.arm_request(job, &agent.server.at(after));
    request["agent_callback_url"] = json!(callback.url());
    request
}

#[tokio::test]
async fn an_agent_that_was_slow_to_wake_is_poked_that_much_before_its_next_fire() {
    let (server, heron, wake) = slow_to_wake(true).await;
    let elsewhere = CallbackServer::open(server.time.clone()).await;
    let (marker, marker_wake) = create_slow_agent(&server, "globex", "marker", &elsewhere).await;
    let waking_time =
        async |agent: &Agent| server.clock.jobs().waking(&agent.instance).await.unwrap().unwrap();
    let (took, marker_took) = (waking_time(&heron).await, waking_time(&marker).await);
    assert!(took >= seconds(5) && took <= seconds(10), "{took:?}");
    heron.arm("job", &server.at(seconds(900))).await;
    let due = start() + seconds(900);
    // Nothing happens too early: two seconds before its time, only the other agent is woken, whose time it is.
    let early = due - took - seconds(2);
    let marker_due = early.since(start()) + marker_took;
    marker.arm_with(request(&marker, "job", marker_due, &elsewhere)).await;
    server.advance(early.since(server.time.now()) + Duration::from_millis(10));
    marker_wake.called(2).await;
    assert_eq!(server.metric(WOKEN_AHEAD), 1);
    // At the due time minus the waking time there is one wake call, before the fire.
    server.advance(seconds(2));
    let woken = wake.called(2).await;
    assert!(woken[1].at >= due - took, "{woken:?}");
    assert_eq!(server.callback.fires().len(), 4);
    server.advance(took + Duration::from_millis(100));
    server.callback.called(5).await;
    assert_eq!(wake.fires().len(), 2);
}

#[tokio::test]
async fn a_time_that_was_told_ahead_is_woken_for_too() {
    let (server, heron, wake) = slow_to_wake(true).await;
    let took = server.clock.jobs().waking(&heron.instance).await.unwrap().unwrap();
    let mut request = heron.arm_request("job", &server.at(seconds(60)));
    request["then"] = serde_json::json!([server.at(seconds(900)).text()]);
    heron.arm_with(request).await;
    server.advance_until(|| server.callback.fires().len() == 5).await;
    heron.history_begins_with(&["delivered"]).await;
    let poked = wake.fires().len();
    let due = start() + seconds(900);
    server.advance((due - took + Duration::from_millis(10)).since(server.time.now()));
    wake.called(poked + 1).await;
    assert_eq!(server.callback.fires().len(), 5);
}

#[tokio::test]
async fn without_leave_it_is_measured_and_nobody_is_poked() {
    let (server, heron, wake) = slow_to_wake(false).await;
    let standing = async || server.clock.jobs().waking(&heron.instance).await.unwrap();
    assert!(standing().await.is_some());
    heron.arm("job", &server.at(seconds(900))).await;
    server.advance(seconds(880));
    server.catch_up().await;
    let told = server.clock.jobs().show(&heron.instance, &"job".into()).await.unwrap().unwrap();
    assert_eq!(told.waking, standing().await);
    assert_eq!(heron.list().await.len(), 1);
    // The fire comes after every wake call that would have been made for it.
    server.advance_until(|| server.callback.fires().len() == 5).await;
    assert_eq!((wake.fires().len(), server.metric(WOKEN_AHEAD)), (1, 0));
}
