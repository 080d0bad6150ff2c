use std::sync::atomic::{AtomicUsize, Ordering};

use posthouse_time::Moment;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::verify::tests::{Mint, NOW, expected, presenting, vectors};

/// A portal that publishes keys on loopback, or answers 503 when it has none to show.
struct Publisher {
    url: String,
    shown: Arc<Mutex<Option<String>>>,
    asked: Arc<AtomicUsize>,
}

impl Publisher {
    async fn open(shown: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/.well-known/jwks.json", listener.local_addr().unwrap());
        let (shown, asked) = (Arc::new(Mutex::new(Some(shown))), Arc::new(AtomicUsize::new(0)));
        let publisher = Self { url, shown: shown.clone(), asked: asked.clone() };
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") && socket.read_buf(&mut request).await.unwrap() > 0 {}
                asked.fetch_add(1, Ordering::SeqCst);
                let answer = match &*shown.lock() {
                    Some(body) => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
                    None => "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_owned(),
                };
                let answer = answer.replacen("\r\n", "\r\nConnection: close\r\n", 1);
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        publisher
    }

    fn shows(&self, body: Option<String>) {
        *self.shown.lock() = body;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// A publisher, an agent that trusts it, and the clock of both.
struct Fixture {
    publisher: Publisher,
    verifier: PortalJwt,
    clock: Timepiece,
}

impl Fixture {
    async fn open(mints: &[&Mint]) -> Self {
        let publisher = Publisher::open(Mint::set(mints)).await;
        let clock = Timepiece::wound(NOW);
        let verifier = PortalJwt::new(&publisher.url, expected(), clock.clone());
        Self { publisher, verifier, clock }
    }

    /// Whether a fresh token of this mint is good.
    async fn takes(&self, mint: &Mint) -> bool {
        let token = mint.token(self.clock.now(), json!({}));
        self.verifier.verify(&presenting(&token), b"{}").await.is_some()
    }

    fn winds(&self, seconds: u64) {
        self.clock.wind(Duration::from_secs(seconds));
    }

    async fn until_fetched(&self, times: u64) {
        let fetched = async {
            while self.verifier.0.cached.lock().fetches < times {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), fetched).await.unwrap();
    }
}

#[tokio::test]
async fn a_key_set_is_kept_for_five_minutes_and_renewed_beside_the_work_after_four() {
    let (old, new) = (Mint::new("old"), Mint::new("new"));
    let fixture = Fixture::open(&[&old]).await;
    assert!(fixture.takes(&old).await);
    fixture.winds(239);
    assert!(fixture.takes(&old).await);
    assert_eq!(fixture.publisher.asked(), 1);
    fixture.publisher.shows(Some(Mint::set(&[&old, &new])));
    fixture.winds(1);
    assert!(fixture.takes(&old).await);
    fixture.until_fetched(2).await;
    assert!(fixture.takes(&new).await, "without another fetch");
    fixture.winds(239);
    assert!(fixture.takes(&new).await);
    assert_eq!(fixture.publisher.asked(), 2);
    // Nobody asked between four minutes and five: then the fire itself waits for the keys.
    fixture.publisher.shows(Some(Mint::set(&[&new])));
    fixture.winds(61);
    assert!(!fixture.takes(&old).await);
    assert_eq!(fixture.publisher.asked(), 3);
}

#[tokio::test]
async fn stale_keys_count_for_an_hour_while_the_portal_cannot_be_reached() {
    let mint = Mint::new("a");
    let fixture = Fixture::open(&[&mint]).await;
    assert!(fixture.takes(&mint).await);
    for unreachable in [None, Some("<html>hotel wifi</html>".to_owned())] {
        fixture.publisher.shows(unreachable);
        fixture.winds(600);
        assert!(fixture.takes(&mint).await);
    }
    let asked = fixture.publisher.asked();
    assert!(fixture.takes(&mint).await);
    assert_eq!(fixture.publisher.asked(), asked, "not every fire waits for what just failed");
    fixture.winds(2399);
    assert!(fixture.takes(&mint).await);
    fixture.winds(1);
    assert!(!fixture.takes(&mint).await, "an hour old");
    fixture.publisher.shows(Some(Mint::set(&[&mint])));
    fixture.winds(1);
    assert!(fixture.takes(&mint).await);
}

#[tokio::test]
async fn a_step_of_the_wall_clock_ages_no_key_and_keeps_none_young() {
    let hours = |count: u64| Duration::from_secs(count * 3600);
    let mint = Mint::new("a");
    let fixture = Fixture::open(&[&mint]).await;
    assert!(fixture.takes(&mint).await);
    fixture.publisher.shows(None);
    fixture.clock.set(NOW + hours(2));
    assert!(fixture.takes(&mint).await, "the keys were fetched a moment ago");
    assert_eq!(fixture.publisher.asked(), 1);
    fixture.clock.set(NOW - hours(2));
    fixture.winds(3600);
    assert!(!fixture.takes(&mint).await, "an hour has passed since they were fetched");
}

#[tokio::test]
async fn a_portal_that_publishes_no_key_any_more_is_believed() {
    let mint = Mint::new("a");
    let fixture = Fixture::open(&[&mint]).await;
    assert!(fixture.takes(&mint).await);
    fixture.publisher.shows(Some(Mint::set(&[])));
    fixture.winds(300);
    assert!(!fixture.takes(&mint).await);
}

#[tokio::test]
async fn an_unknown_key_is_asked_for_at_once_and_junk_at_most_every_ten_seconds() {
    let (old, new, junk) = (Mint::new("old"), Mint::new("new"), Mint::new("junk"));
    let fixture = Fixture::open(&[&old]).await;
    assert!(fixture.takes(&old).await);
    fixture.publisher.shows(Some(Mint::set(&[&old, &new])));
    let (one, other, third) = tokio::join!(fixture.takes(&new), fixture.takes(&new), fixture.takes(&old));
    assert!(one && other && third, "an emergency rotation");
    assert_eq!(fixture.publisher.asked(), 2, "one fetch for all who wait");
    for _ in 0..20 {
        assert!(!fixture.takes(&junk).await);
    }
    fixture.winds(9);
    assert!(!fixture.takes(&junk).await);
    assert_eq!(fixture.publisher.asked(), 2);
    fixture.winds(1);
    assert!(!fixture.takes(&junk).await);
    assert!(!fixture.takes(&junk).await);
    assert_eq!(fixture.publisher.asked(), 3);
    assert!(fixture.takes(&old).await && fixture.takes(&new).await);
}

#[tokio::test]
async fn what_no_key_could_make_good_is_refused_without_a_fetch() {
    let mint = Mint::new("a");
    let fixture = Fixture::open(&[&mint]).await;
    let late = mint.token(NOW - Duration::from_secs(200), json!({}));
    let nameless = mint.signs(&json!({ "alg": "ES256" }), &json!({}));
    for token in ["", "junk", &late, &nameless, &mint.token(NOW, json!({ "aud": "agent:other" }))] {
        assert_eq!(fixture.verifier.verify(&presenting(token), b"{}").await, None);
    }
    assert_eq!(fixture.publisher.asked(), 0);
}

#[tokio::test]
async fn a_first_fetch_that_failed_is_tried_again_after_a_second() {
    let mint = Mint::new("a");
    let fixture = Fixture::open(&[&mint]).await;
    fixture.publisher.shows(None);
    assert!(!fixture.takes(&mint).await);
    fixture.publisher.shows(Some(Mint::set(&[&mint])));
    assert!(!fixture.takes(&mint).await);
    assert_eq!(fixture.publisher.asked(), 1);
    fixture.winds(1);
    assert!(fixture.takes(&mint).await);
}

#[tokio::test]
async fn fire_tokens_over_http_are_judged_as_the_vectors_say() {
    let vectors = vectors();
    let publisher = Publisher::open(vectors["jwks"].to_string()).await;
    let clock = Timepiece::wound(Moment::from_seconds(vectors["now"].as_i64().unwrap()));
    let mut tried = 0;
    for case in vectors["cases"].as_array().unwrap() {
        let text = |name: &str| case[name].as_str().map(str::to_owned);
        let token = text("token").unwrap();
        // A header loses the spaces around it, in stock too.
        if !case["key_source"].is_null() || token.trim() != token {
            continue;
        }
        let expected =
            Expected { audience: text("expected_audience").unwrap(), issuer: text("expected_issuer") };
        let verifier = PortalJwt::new(&publisher.url, expected, clock.clone());
        let verified = verifier.verify(&presenting(&token), b"").await.is_some();
        let right = verified == (case["accept"] == true);
        assert!(right || case["ours_may_reject"] == true && !verified, "{}", case["name"]);
        tried += 1;
    }
    assert!(tried > 0);
}
