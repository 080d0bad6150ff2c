//! Errands run against listeners on loopback.

#![allow(clippy::unwrap_used)]

mod faults;
mod listener;
mod policy;

use errand::{CallResponse, Config, Errand, Fault, OutgoingCall};
use http::header::{AUTHORIZATION, HeaderValue};
use listener::{Listener, never};
use std::time::Duration;

#[tokio::test]
async fn an_answer_has_status_headers_and_body() {
    let listener =
        Listener::answers("HTTP/1.1 418 Teapot\r\nRetry-After: 7\r\nContent-Length: 5\r\n\r\nshort").await;
    let call = OutgoingCall::post(listener.url("/api/cron/fire"), r#"{"job_id":"j"}"#)
        .header(AUTHORIZATION, HeaderValue::from_static("Bearer t"));
    let answer = listener::errand(Config::loopback()).run(call).await.unwrap();
    assert_eq!((answer.status.as_u16(), &answer.body[..], answer.whole), (418, &b"short"[..], true));
    assert_eq!(answer.headers["retry-after"], "7");
    let heard = listener.heard().await;
    assert!(heard.starts_with("POST /api/cron/fire HTTP/1.1\r\n"), "{heard}");
    assert!(heard.contains("authorization: Bearer t\r\n"), "{heard}");
    assert!(heard.ends_with("\r\n\r\n{\"job_id\":\"j\"}"), "{heard}");
}

#[tokio::test]
async fn a_poke_carries_no_body_and_no_credentials() {
    let listener = Listener::answers("HTTP/1.1 204 No Content\r\n\r\n").await;
    listener::errand(Config::loopback()).run(OutgoingCall::get(listener.url("/wake?key=1"))).await.unwrap();
    let heard = listener.heard().await.to_lowercase();
    assert!(heard.starts_with("get /wake?key=1 http/1.1\r\n") && heard.ends_with("\r\n\r\n"), "{heard}");
    for header in ["authorization", "cookie", "referer", "content-length"] {
        assert!(!heard.contains(&format!("\r\n{header}:")), "{heard}");
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer() {
    let other = Listener::answers("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let redirect = format!("HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", other.url("/"));
    let listener = Listener::answers(&redirect).await;
    let answer =
        listener::errand(Config::loopback()).run(OutgoingCall::get(listener.url("/"))).await.unwrap();
    assert_eq!(answer.status.as_u16(), 302);
    assert_eq!(other.count(), 0);
}

#[tokio::test]
async fn a_long_body_is_cut_where_the_call_says() {
    let body = "x".repeat(100_000);
    let listener =
        Listener::answers(&format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{body}")).await;
    let errand = listener::errand(Config::loopback());
    for (limit, whole) in [(0, false), (4096, false), (99_999, false), (100_000, true), (200_000, true)] {
        let answer = errand.run(OutgoingCall::get(listener.url("/")).max_answer(limit)).await.unwrap();
        assert_eq!((answer.body.len(), answer.whole), (limit.min(100_000), whole));
    }
    let answer = errand.run(OutgoingCall::get(listener.url("/"))).await.unwrap();
    assert_eq!((answer.body.len(), answer.whole), (64 * 1024, false));
}

#[tokio::test]
async fn a_body_that_stalls_or_breaks_off_leaves_the_status() {
    let stalling =
        Listener::answers_then("HTTP/1.1 202 Accepted\r\nContent-Length: 50\r\n\r\nbegin", never).await;
    let breaking = Listener::answers("HTTP/1.1 202 Accepted\r\nContent-Length: 50\r\n\r\nbegin").await;
    for listener in [stalling, breaking] {
        let answer = answer_in_time(&listener.url("/")).await;
        assert_eq!((answer.status.as_u16(), &answer.body[..], answer.whole), (202, &b"begin"[..], false));
    }
}

/// Given more and more time, since a busy machine may take longer than the first even for the head. A body that
/// stalls uses up whatever it is given.
async fn answer_in_time(url: &str) -> CallResponse {
    let errand = listener::errand(Config::loopback());
    for millis in [200, 2_000] {
        match errand.run(OutgoingCall::get(url).timeout(Duration::from_millis(millis))).await {
            Err(Fault::TimedOut | Fault::ConnectTimedOut) => {}
            other => return other.unwrap(),
        }
    }
    errand.run(OutgoingCall::get(url).timeout(Duration::from_secs(60))).await.unwrap()
}

#[tokio::test]
async fn clones_share_connections() {
    let listener = Listener::keeps_answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let errand = listener::errand(Config::loopback());
    for _ in 0..3 {
        errand.clone().run(OutgoingCall::get(listener.url("/"))).await.unwrap();
    }
    assert_eq!(listener.count(), 1);
}

/// The environment is the process's, so the call is made by another one that is given a proxy.
#[tokio::test]
async fn a_proxy_of_the_environment_is_not_asked() {
    listener::install_provider();
    if let Ok(url) = std::env::var("ERRAND_TEST_URL") {
        Errand::new(Config::loopback()).run(OutgoingCall::get(url)).await.unwrap();
        return;
    }
    let proxy = Listener::answers("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let listener = Listener::answers("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "a_proxy_of_the_environment_is_not_asked"])
        .env("ERRAND_TEST_URL", listener.url("/"));
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, proxy.url(""));
    }
    child.env_remove("NO_PROXY").env_remove("no_proxy");
    let status = tokio::task::spawn_blocking(move || child.output().unwrap().status).await.unwrap();
    assert!(status.success());
    assert_eq!((proxy.count(), listener.count()), (0, 1));
}
