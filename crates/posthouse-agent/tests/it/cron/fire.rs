//! The fire endpoint, row by row (6.7).

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD as URL_SAFE};
use http::{HeaderMap, header};
use jiff::tz::TimeZone;
use posthouse_agent::cron::{Chronos, Cron, FireResponse, Trigger};
use posthouse_agent::jobs::{Job, JobStoreSettings, JsonFile, NewJob, Overlap, Policy};
use posthouse_agent::verify::{Expected, PerJobKey, PinnedKey};
use posthouse_agent::wire::Secret;
use posthouse_agent::wire::cron::{CRON_KEY, TimedSignature, cron_key_message};
use serde_json::{Value, json};

use super::portal::FakePortal;
use super::{Fixture, fire_of, takes, until, until_job};
use crate::test_server::soon;

/// Signs fire tokens as a portal does.
struct Mint(EcdsaKeyPair);

impl Mint {
    fn new() -> Self {
        Self(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    fn verifier(&self, fixture: &Fixture) -> Arc<PinnedKey> {
        let der = self.0.public_key().as_der().unwrap();
        let lines = BASE64_STANDARD.encode(der.as_ref());
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----\n");
        let expected =
            Expected { audience: "agent:inst_1".into(), issuer: Some("https://portal.test".into()) };
        Arc::new(PinnedKey::new(&pem, expected, fixture.shelf.timepiece.clone()).unwrap())
    }

    fn headers(&self, fixture: &Fixture, bound_to: Option<&Job>) -> HeaderMap {
        let now = fixture.shelf.timepiece.now().seconds();
        let mut claims = json!({ "iss": "https://portal.test", "aud": "agent:inst_1", "purpose": "cron_fire",
            "iat": now, "nbf": now, "exp": now + 90, "jti": "one" });
        if let Some(job) = bound_to {
            claims["job_id"] = job.id().as_str().into();
            claims["fire_at"] = job.next_run_text().into();
        }
        let text =
            [json!({ "alg": "ES256", "kid": "k" }), claims].map(|part| URL_SAFE.encode(part.to_string()));
        let signed = text.join(".");
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        let token = format!("Bearer {signed}.{}", URL_SAFE.encode(signature.as_ref()));
        HeaderMap::from_iter([(header::AUTHORIZATION, token.parse().unwrap())])
    }
}

fn body_of(job: &Job) -> Vec<u8> {
    serde_json::to_vec(&fire_of(job)).unwrap()
}

fn said(answer: &FireResponse) -> (u16, &Value) {
    (answer.status, &answer.body)
}

fn judged(fixture: &Fixture, mint: &Mint) -> Cron {
    fixture.cron(fixture.builder().verifier(mint.verifier(fixture)))
}

#[tokio::test]
async fn cron_a_fire_is_verified_before_anything_else_of_it_is_looked_at() {
    let (fixture, mint) = (Fixture::open(), Mint::new());
    let cron = judged(&fixture, &mint);
    let job = fixture.job(NewJob::new("every 5m")).await;
    fixture.winds(300);
    let refused = json!({ "error": "invalid fire token" });
    for body in [body_of(&job), b"{}".to_vec(), b"nonsense".to_vec()] {
        assert_eq!(said(&cron.fire(&HeaderMap::new(), &body).await), (401, &refused));
        assert_eq!(said(&cron.fire(&Mint::new().headers(&fixture, None), &body).await), (401, &refused));
    }
    // A good token for another job, or for another time.
    let other = fixture.job(NewJob::new("every 7m")).await;
    assert_eq!(
        said(&cron.fire(&mint.headers(&fixture, Some(&other)), &body_of(&job)).await),
        (401, &refused)
    );
    let timeless = json!({ "job_id": job.id(), "fire_at": 5 }).to_string();
    assert_eq!(
        said(&cron.fire(&mint.headers(&fixture, Some(&job)), timeless.as_bytes()).await),
        (401, &refused)
    );
    // Without a verifier every fire is refused.
    let unjudged = fixture.cron(fixture.builder());
    assert_eq!(said(&unjudged.fire(&mint.headers(&fixture, None), &body_of(&job)).await), (401, &refused));
    assert_eq!(fixture.diary.len(), 0);
}

#[tokio::test]
async fn cron_a_fire_without_a_job_is_malformed_and_one_of_no_job_of_ours_gone() {
    let (fixture, mint) = (Fixture::open(), Mint::new());
    let cron = judged(&fixture, &mint);
    let headers = mint.headers(&fixture, None);
    for body in ["", "nonsense", "[]", "{}", r#"{"job_id":7}"#, r#"{"job_id":""}"#, r#"{"fire_at":"x"}"#] {
        let answer = cron.fire(&headers, body.as_bytes()).await;
        assert_eq!(said(&answer), (400, &json!({ "error": "missing job_id" })), "{body}");
    }
    let answer = cron.fire(&headers, br#"{"job_id":"nobody"}"#).await;
    assert_eq!(said(&answer), (200, &json!({ "status": "gone", "job_id": "nobody" })));
    let paused = fixture.job(NewJob::new("every 5m")).await;
    cron.pause(&paused.id(), None).await.unwrap();
    let answer = cron.fire(&headers, &body_of(&paused)).await;
    assert_eq!(said(&answer), (200, &json!({ "status": "gone", "job_id": paused.id() })));
}

#[tokio::test]
async fn cron_a_fire_is_accepted_once_and_its_duplicates_run_nothing() {
    for fixture in Fixture::each() {
        let (fixture, mint) = (fixture.with_slow_runs(), Mint::new());
        let cron = judged(&fixture, &mint);
        let job = fixture.job(NewJob::new("every 5m")).await;
        fixture.winds(300);
        let headers = mint.headers(&fixture, Some(&job));
        let answer = cron.fire(&headers, &body_of(&job)).await;
        assert_eq!(said(&answer), (202, &json!({ "status": "accepted", "job_id": job.id() })));
        let claimed = fixture.shelf.job(&job.id()).await;
        assert!(claimed.field("fire_claim").unwrap()["token"].is_string(), "on the disk before the answer");
        let duplicate = json!({ "status": "duplicate", "job_id": job.id() });
        assert_eq!(said(&cron.fire(&headers, &body_of(&job)).await), (200, &duplicate));
        fixture.lets_a_run_end();
        until_job(&fixture, &job.id(), |job| job.unwrap().last_run_at().is_some()).await;
        assert_eq!(said(&cron.fire(&headers, &body_of(&job)).await), (200, &duplicate));
        cron.stop().await;
        assert_eq!(fixture.diary.len(), 1);
    }
}

#[tokio::test]
async fn cron_two_agents_over_one_store_take_the_same_fire_once() {
    for fixture in Fixture::each() {
        let crons = ["a", "b"].map(|owner| fixture.cron(fixture.builder().owner(owner)));
        let job = fixture.job(NewJob::new("every 5m")).await;
        for _ in 0..20 {
            fixture.winds(300);
            let fire = fire_of(&fixture.shelf.job(&job.id()).await);
            let (a, b) = tokio::join!(takes(&crons[0], &fire), takes(&crons[1], &fire));
            let mut answers = [a, b];
            answers.sort();
            assert_eq!(answers, [(200, "duplicate"), (202, "accepted")], "{}", fixture.shelf.name);
            let fired = fixture.diary.len();
            until_job(&fixture, &job.id(), |job| job.unwrap().field("fire_claim").unwrap().is_null()).await;
            assert!(fired <= fixture.diary.len());
        }
        assert_eq!(fixture.diary.len(), 20);
    }
}

#[tokio::test]
async fn cron_a_fire_during_a_run_is_let_go_or_sent_back_as_the_job_wishes() {
    let (fixture, mint) = (Fixture::open().with_slow_runs(), Mint::new());
    let cron = judged(&fixture, &mint);
    let queue = Policy { overlap: Overlap::Queue, ..Policy::default() };
    let (skips, queues) = (
        fixture.job(NewJob::new("every 1m")).await,
        fixture.job(NewJob::new("every 1m").policy(queue)).await,
    );
    fixture.winds(60);
    for job in [&skips, &queues] {
        assert_eq!(takes(&cron, &fire_of(job)).await.0, 202);
    }
    until(|| fixture.diary.len() == 2).await;
    fixture.winds(10);
    let headers = mint.headers(&fixture, None);
    let answer = cron.fire(&headers, &body_of(&fixture.shelf.job(&skips.id()).await)).await;
    assert_eq!(said(&answer), (200, &json!({ "status": "overlap", "job_id": skips.id() })));
    let answer = cron.fire(&headers, &body_of(&fixture.shelf.job(&queues.id()).await)).await;
    assert_eq!((answer.status, answer.retry_after), (503, Some(Duration::from_secs(15))));
    fixture.lets_a_run_end();
    fixture.lets_a_run_end();
    cron.stop().await;
}

#[tokio::test]
async fn cron_a_stopping_agent_and_a_store_in_trouble_have_the_fire_brought_again() {
    let (fixture, mint) = (Fixture::open(), Mint::new());
    let cron = judged(&fixture, &mint);
    let job = fixture.job(NewJob::new("every 5m")).await;
    cron.stop().await;
    let answer = cron.fire(&mint.headers(&fixture, None), &body_of(&job)).await;
    assert_eq!((answer.status, answer.retry_after), (503, Some(Duration::from_secs(1))));
    assert_eq!(takes(&cron, &fire_of(&job)).await.0, 503);
    // A store whose file cannot be read.
    let home = tempfile::tempdir().unwrap();
    let store_settings = JobStoreSettings::new(fixture.shelf.timepiece.clone(), TimeZone::UTC);
    let store = JsonFile::open(home.path(), store_settings.clone()).unwrap();
    std::fs::write(home.path().join("cron/jobs.json"), "not a list of jobs").unwrap();
    let ruined = fixture.cron(Cron::builder(store, store_settings).verifier(mint.verifier(&fixture)));
    let answer = ruined.fire(&mint.headers(&fixture, None), &body_of(&job)).await;
    assert_eq!((answer.status, answer.retry_after), (503, Some(Duration::from_secs(5))));
    assert_eq!(answer.body["job_id"], job.id().as_str());
}

#[tokio::test]
async fn cron_a_fire_that_panics_costs_its_own_run() {
    let fixture = Fixture::open();
    let cron = fixture.builder().on_job(|run| async move {
        assert_ne!(run.job().prompt(), "panic", "as it was told");
        Ok::<_, String>(())
    });
    let job = fixture.job(NewJob::new("every 5m").prompt("panic")).await;
    assert_eq!(takes(&cron, &fire_of(&job)).await, (202, "accepted"));
    until_job(&fixture, &job.id(), |job| job.unwrap().last_error() == Some("the job panicked")).await;
    cron.stop().await;
}

#[tokio::test]
async fn cron_a_fire_by_the_jobs_own_key_is_taken_once_the_portal_has_handed_that_out() {
    let (fixture, portal) = (Fixture::open(), FakePortal::open().await);
    let job = fixture.job(NewJob::new("every 5m")).await;
    // Another process armed it, and its keys ended with it.
    portal.holds(job.id().as_str(), job.next_run_text().unwrap());
    let chronos = Chronos::by_callback(fixture.client(&portal), "http://agent.test").with_keys_per_job();
    let judge = Arc::new(PerJobKey::new(chronos.keys(), fixture.shelf.timepiece.clone()));
    let cron = fixture.cron(fixture.builder().trigger(Trigger::Chronos(chronos)).verifier(judge));
    let fire = fire_of(&job);
    let key = Secret::new(format!("key of {}", job.id()));
    let message = cron_key_message(&job.id(), fire.fire_at.as_ref().unwrap());
    let stamp = TimedSignature::make(&key, fixture.shelf.timepiece.now().seconds(), &message).header();
    let mut headers = HeaderMap::new();
    headers.insert(CRON_KEY, stamp.parse().unwrap());
    assert_eq!(cron.fire(&headers, &body_of(&job)).await.status, 401);
    cron.start();
    assert!(soon(cron.reconcile()).await);
    assert_eq!(cron.fire(&headers, &body_of(&job)).await.status, 202);
    assert_eq!(cron.fire(&headers, &body_of(&fixture.shelf.job(&job.id()).await)).await.status, 401);
    cron.stop().await;
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn cron_the_route_answers_as_the_function_does_and_reads_no_more_than_it_must() {
    let (fixture, mint) = (Fixture::open(), Mint::new());
    let cron = judged(&fixture, &mint);
    let job = fixture.job(NewJob::new("every 5m")).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/api/cron/fire", listener.local_addr().unwrap());
    let route = cron.route();
    tokio::spawn(async move { axum::serve(listener, route).await.unwrap() });
    let client = super::portal::client();
    let post = |headers: HeaderMap, body: Vec<u8>| client.post(&url).headers(headers).body(body).send();
    let headers = mint.headers(&fixture, None);
    let answer = post(headers.clone(), body_of(&job)).await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), answer.headers()[header::CONTENT_TYPE].as_bytes()),
        (202, &b"application/json"[..])
    );
    let answer: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
    assert_eq!(answer, json!({ "status": "accepted", "job_id": job.id() }));
    assert_eq!(post(HeaderMap::new(), body_of(&job)).await.unwrap().status(), 401);
    assert_eq!(post(headers.clone(), vec![b' '; (64 << 10) + 1]).await.unwrap().status(), 413);
    assert_eq!(client.get(&url).send().await.unwrap().status(), 405);
    cron.stop().await;
    let answer = post(headers, body_of(&job)).await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), answer.headers()[header::RETRY_AFTER].as_bytes()),
        (503, &b"1"[..])
    );
}
