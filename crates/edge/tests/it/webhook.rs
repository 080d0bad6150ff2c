//! Signed webhooks, tested with the vectors and with requests of every scheme.

use std::sync::Arc;

use aws_lc_rs::hmac;
use edge::platform::{Platform, UnverifiedRequest, VerifiedRequest, WebhookRefusal, verify_request};
use edge::webhook::{Webhook, WebhookProof};
use edge::{DeliveryResult, OpenedBot};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::{Value, json};
use vault::Credentials;

use crate::telegram::test_server::TestServer;
use crate::vector_checks::{check_arrival, check_proof, config, delivered, judge, now, vectors};

/// A route with these settings and secrets.
fn bot(id: &str, settings: Value, secrets: &Value) -> OpenedBot {
    let mut credentials = Credentials::default();
    for (name, secret) in secrets.as_object().unwrap() {
        if let Some(secret) = secret.as_str() {
            credentials.insert(name, Secret::new(secret));
        }
    }
    OpenedBot {
        platform: "webhook".into(),
        id: id.into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

fn request(headers: &[(&str, &str)], body: &str) -> UnverifiedRequest {
    let headers = headers
        .iter()
        .map(|(name, value)| (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap()));
    UnverifiedRequest {
        method: Method::POST,
        door: String::new(),
        query: String::new(),
        headers: HeaderMap::from_iter(headers),
        body: body.to_owned().into(),
        received: now(),
        server_url: "https://edge.example.test".into(),
    }
}

fn refusal(bot: &OpenedBot, raw: UnverifiedRequest) -> Option<&'static str> {
    let judged = verify_request(&Webhook, bot, raw).now_or_never().expect("nothing is waited for");
    judged.err().map(|refusal| refusal.reason)
}

fn hex_mac(key: &str, text: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    hex::encode(hmac::sign(&key, text.as_bytes()).as_ref())
}

#[test]
fn requests_are_proven_as_the_vectors_say() {
    let file = vectors("verify_webhook.json");
    let cases = file["cases"].as_array().unwrap();
    for case in cases {
        let bot = bot("build", json!({ "schemes": "standard,github,gitlab" }), &config(&file, case));
        let judged = judge(&Webhook, &bot, "", &case["request"]);
        check_proof(case, &judged, cases, |prior| judge(&Webhook, &bot, "", prior).unwrap());
    }
}

#[test]
fn payloads_are_read_as_the_vectors_say() {
    let file = vectors("payloads_webhook.json");
    for case in file["cases"].as_array().unwrap() {
        let context = &case["context"];
        let mut settings = json!({ "schemes": "standard" });
        for name in ["template", "mask", "only"] {
            if let Some(value) = context.get(name) {
                settings[name] = value.clone();
            }
        }
        let bot = bot(context["route"].as_str().unwrap(), settings, &json!({}));
        let mut verified = VerifiedRequest::fetched(case["raw"].to_string(), now());
        let id = context["delivery_id"].as_str().unwrap();
        verified.headers.insert("webhook-id", HeaderValue::from_str(id).unwrap());
        let reading = Webhook.normalize(&bot, verified).unwrap();
        if let Some(arrival) = delivered(case, &reading) {
            assert!(arrival.capabilities.is_empty(), "{}", case["name"]);
            check_arrival(case, arrival, str::to_owned);
        }
    }
}

#[test]
fn a_route_without_scheme_and_secret_opens_to_nobody() {
    let file = vectors("verify_webhook.json");
    let secrets = file["config"].clone();
    for (settings, secrets) in [
        (json!({}), secrets.clone()),
        (json!({ "schemes": "" }), secrets.clone()),
        (json!({ "schemes": "none" }), secrets),
        (json!({ "schemes": "standard,github,gitlab" }), json!({})),
        (
            json!({ "schemes": "standard,github,gitlab" }),
            json!({ "standard_secret": "", "github_secret": "",
            "gitlab_token": "" }),
        ),
    ] {
        let bot = bot("build", settings, &secrets);
        for case in file["cases"].as_array().unwrap() {
            let judged: Result<_, WebhookRefusal> = judge(&Webhook, &bot, "", &case["request"]);
            assert!(judged.is_err_and(|refusal| refusal.status.as_u16() == 401), "{}", case["name"]);
        }
    }
}

#[test]
fn stripe_and_bearer_prove_their_senders() {
    let secrets = json!({ "stripe_secret": "whsec_s", "bearer_token": "canary-token" });
    let bot = bot("pay", json!({ "schemes": "stripe,bearer" }), &secrets);
    let body = r#"{"id":"evt_1","type":"charge"}"#;
    let signed = |time: &str, body: &str| {
        format!("t={time},v1={},v0=x", hex_mac("whsec_s", &format!("{time}.{body}")))
    };
    let stripe = |header: &str| refusal(&bot, request(&[("stripe-signature", header)], body));
    let good = signed("1765000000", body);
    assert_eq!(stripe(&good), None);
    for edge in ["1765000300", "1764999700"] {
        assert_eq!(stripe(&signed(edge, body)), None, "{edge}");
    }
    for (header, reason) in [
        (signed("1765000301", body), "stale_timestamp"),
        (signed("1764999699", body), "stale_timestamp"),
        (signed("1765000000", "{}"), "bad_signature"),
        (format!("t=1765000001,{good}"), "malformed_signature"),
        ("v1=00".to_owned(), "malformed_signature"),
        ("t=1765000000".to_owned(), "bad_signature"),
    ] {
        assert_eq!(stripe(&header), Some(reason), "{header}");
    }
    let rotated = format!("t=1765000000,v1={},{}", "00".repeat(32), &good["t=1765000000,".len()..]);
    assert_eq!(stripe(&rotated), None, "one of several signatures is enough");
    let bearer = |value: &str| refusal(&bot, request(&[("authorization", value)], body));
    assert_eq!((bearer("Bearer canary-token"), bearer("bearer  canary-token")), (None, None));
    for wrong in ["Bearer canary", "Bearer ", "Basic canary-token", "canary-token", "Bearer canary-token x"] {
        assert!(bearer(wrong).is_some(), "{wrong}");
    }
}

#[test]
fn a_token_that_is_given_twice_is_refused_even_if_both_are_equal() {
    let secrets = json!({ "bearer_token": "canary-token", "gitlab_token": "canary-token" });
    for (scheme, header, good) in
        [("bearer", "authorization", "Bearer canary-token"), ("gitlab", "x-gitlab-token", "canary-token")]
    {
        let bot = bot("pay", json!({ "schemes": scheme }), &secrets);
        assert_eq!(refusal(&bot, request(&[(header, good)], "{}")), None);
        for other in ["Bearer x", good] {
            let both = request(&[(header, good), (header, other)], "{}");
            assert_eq!(refusal(&bot, both), Some("ambiguous_header"), "{header}: {other}");
        }
    }
}

#[test]
fn a_scheme_that_was_not_chosen_proves_nothing() {
    let secrets = json!({ "github_secret": "gh", "bearer_token": "canary-token" });
    let bot = bot("git", json!({ "schemes": "github" }), &secrets);
    assert_eq!(
        refusal(&bot, request(&[("authorization", "Bearer canary-token")], "{}")),
        Some("missing_header")
    );
}

#[test]
fn an_id_with_a_dot_cannot_move_the_border_between_id_and_time() {
    let file = vectors("verify_webhook.json");
    let bot = bot("build", json!({ "schemes": "standard" }), &file["config"]);
    let headers = [
        ("webhook-id", "msg.1"),
        ("webhook-timestamp", "1765000000"),
        ("webhook-signature", "v1,JyfEFF9/B2op8RYcS16+B99MLppPidYlzX4B/hLg3mU="),
    ];
    assert_eq!(refusal(&bot, request(&headers, "{}")), Some("malformed_signature"));
}

#[tokio::test]
async fn settings_are_checked_before_a_route_is_created() {
    let good = json!({ "bearer_token": "canary-token-x" });
    let trouble = async |id: &str, settings: Value, secrets: &Value| {
        let checked = Webhook.check_credentials(&bot(id, settings, secrets)).await;
        checked.err().map(|trouble| trouble.to_string()).unwrap_or_default()
    };
    assert_eq!(trouble("build", json!({ "schemes": "bearer", "host": "a.example" }), &good).await, "");
    for (settings, secrets, part) in [
        (json!({}), &good, "needs a signature scheme"),
        (json!({ "schemes": "md5" }), &good, "`md5` is no signature scheme"),
        (json!({ "schemes": "github" }), &good, "needs the secret `github_secret`"),
        (json!({ "schemes": "standard" }), &json!({ "standard_secret": "whsec_!" }), "must be base64"),
        (json!({ "schemes": "bearer", "only": 5 }), &good, "`only`"),
        (json!({ "schemes": "bearer", "host": "https://a.example" }), &good, "`host`"),
    ] {
        let said = trouble("build", settings, secrets).await;
        assert!(said.contains(part), "{said}");
    }
    assert!(trouble("", json!({ "schemes": "bearer" }), &good).await.contains("--id NAME"));
}

#[tokio::test]
async fn a_delivery_is_stored_once_and_a_replay_under_another_id_adds_nothing() {
    let bot =
        bot("git", json!({ "schemes": "github", "template": "{n}" }), &json!({ "github_secret": "gh" }));
    let clock = Timepiece::wall();
    let platform: Arc<dyn Platform> = Arc::new(Webhook);
    let server = TestServer::with_platform(&bot, &clock, Arc::clone(&platform)).await;
    let delivers = async |id: &str, body: &str| {
        let signature = format!("sha256={}", hex_mac("gh", body));
        let raw = request(&[("x-hub-signature-256", &signature), ("x-github-delivery", id)], body);
        let taken = server.intake().receive(&platform, &Arc::new(bot.clone()), raw).await.unwrap();
        assert!(matches!(taken, DeliveryResult::Taken { .. }));
    };
    delivers("d-1", r#"{"n":1}"#).await;
    delivers("d-1", r#"{"n":1}"#).await;
    delivers("d-2", r#"{"n":1}"#).await;
    delivers("d-3", r#"{"n":3}"#).await;
    assert_eq!(server.texts().await, ["1", "3"]);
}

#[test]
fn bodies_that_can_be_read_in_two_ways_are_refused() {
    let bot = bot("git", json!({ "schemes": "github", "only": { "a": [1] } }), &json!({}));
    let read = |body: &str, kind: &str| {
        let mut verified = VerifiedRequest::fetched(body.to_owned(), now());
        verified.headers.insert("content-type", HeaderValue::from_str(kind).unwrap());
        Webhook
            .normalize(&bot, verified)
            .map(|reading| reading.arrivals.len())
            .map_err(|refusal| refusal.status)
    };
    let form = "application/x-www-form-urlencoded";
    assert_eq!(read(r#"{"a":1}"#, "application/json"), Ok(1));
    assert_eq!(read("payload=%7B%22a%22%3A1%7D", form), Ok(1));
    for (body, kind) in [
        (r#"{"a":2,"a":1}"#, "application/json"),
        ("{", "application/json"),
        ("payload=%7B%22a%22%3A1%7D&payload=%7B%22a%22%3A2%7D", form),
    ] {
        assert_eq!(read(body, kind), Err(http::StatusCode::BAD_REQUEST), "{body}");
    }
}

#[test]
fn an_id_that_is_no_word_is_replaced_and_an_absent_one_is_new_each_time() {
    let bot = bot("any", json!({ "schemes": "bearer" }), &json!({}));
    let id = |given: Option<&str>| {
        let mut verified = VerifiedRequest::fetched("hello", now());
        if let Some(given) = given {
            verified.headers.insert("idempotency-key", HeaderValue::from_str(given).unwrap());
        }
        verified.headers.insert("authorization", HeaderValue::from_static("Bearer x"));
        Webhook.normalize(&bot, verified).unwrap().arrivals[0].event.message_id.clone().unwrap().to_string()
    };
    assert_eq!(id(Some("abc-1")), "abc-1");
    assert_eq!(id(Some(&"x".repeat(500))).len(), 64);
    assert_eq!(id(Some("two words")).len(), 64);
    assert_ne!(id(None), id(None));
    assert_eq!(WebhookProof::ALL.len(), 5);
}
