//! Errors tell the caller whether the request may have arrived.

use crate::listener::{self, Listener, Names, never};
use errand::{Config, Errand, Fault, Lookup, LookupResult, OutgoingCall};
use std::sync::Arc;
use std::time::Duration;

const SECRET: &str = "/path-canary?key=query-canary";

/// Long enough that whatever else goes wrong is seen before the time is up.
const PATIENCE: Duration = Duration::from_secs(60);

async fn fails(errand: &Errand, url: String) -> Fault {
    fails_within(PATIENCE, errand, url).await
}

async fn fails_within(time: Duration, errand: &Errand, url: String) -> Fault {
    let fault = errand.run(OutgoingCall::post(url, "body").timeout(time)).await.unwrap_err();
    for text in [fault.to_string(), format!("{fault:?}")] {
        assert!(!text.contains("canary"), "{text}");
    }
    fault
}

#[tokio::test]
async fn a_closed_port_is_a_refused_connection_and_nothing_was_sent() {
    // Held and never listened at, so that nobody else can open it meanwhile.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = closed.local_addr().unwrap().port();
    let fault =
        fails(&listener::errand(Config::loopback()), format!("http://127.0.0.1:{port}{SECRET}")).await;
    assert_eq!(fault, Fault::ConnectionRefused);
    assert!(fault.nothing_was_sent() && fault.may_pass());
}

#[tokio::test]
async fn a_silent_listener_is_a_time_out_and_may_have_heard() {
    let listener = Listener::answers_then("", never).await;
    let errand = listener::errand(Config::loopback());
    // Given more and more time, since a busy machine may take longer than the first even to connect.
    let mut fault = Fault::ConnectTimedOut;
    for millis in [300, 3_000, 60_000] {
        if fault == Fault::ConnectTimedOut {
            fault = fails_within(Duration::from_millis(millis), &errand, listener.url(SECRET)).await;
        }
    }
    assert_eq!(fault, Fault::TimedOut);
    assert!(!fault.nothing_was_sent());
}

#[tokio::test]
async fn a_connection_that_breaks_may_have_been_heard() {
    let listener = Listener::answers("").await;
    let fault = fails(&listener::errand(Config::loopback()), listener.url(SECRET)).await;
    assert!(matches!(fault, Fault::Broken(_)) && !fault.nothing_was_sent(), "{fault:?}");
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_a_broken_connection() {
    let listener = Listener::answers("SSH-2.0-something\r\n\r\n").await;
    let fault = fails(&listener::errand(Config::loopback()), listener.url(SECRET)).await;
    assert!(matches!(fault, Fault::Broken(_)), "{fault:?}");
}

#[tokio::test]
async fn a_failed_handshake_sends_nothing() {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = socket.accept().await {
            let _ =
                tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let errand = listener::errand(Config::loopback());
    let fault = fails(&errand, format!("https://127.0.0.1:{port}{SECRET}")).await;
    assert!(matches!(fault, Fault::Unreachable(_)) && fault.nothing_was_sent(), "{fault:?}");
}

struct Nobody;

impl Lookup for Nobody {
    fn lookup(&self, _: &str) -> LookupResult {
        Box::pin(async { Err(std::io::Error::other("no such host")) })
    }
}

struct Slow;

impl Lookup for Slow {
    fn lookup(&self, _: &str) -> LookupResult {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_name_without_address_is_unresolved() {
    listener::install_provider();
    let nobody: [Arc<dyn Lookup>; 2] = [Arc::new(Nobody), Names::of(&[&[]])];
    for lookup in nobody {
        let errand = Errand::with_lookup(Config::default(), lookup);
        let fault = fails(&errand, format!("https://agent.test{SECRET}")).await;
        assert_eq!(fault, Fault::Unresolved);
        assert!(fault.nothing_was_sent());
    }
}

#[tokio::test]
async fn a_lookup_that_takes_too_long_is_a_time_out_while_connecting() {
    listener::install_provider();
    let config = Config { connect_timeout: Duration::from_millis(30), ..Config::default() };
    let fault =
        fails(&Errand::with_lookup(config, Arc::new(Slow)), format!("https://agent.test{SECRET}")).await;
    assert_eq!(fault, Fault::ConnectTimedOut);
    assert!(fault.nothing_was_sent());
}
