//! Authentication headers of webhooks (contract section 2.2).

use std::path::{Path, PathBuf};

use http::HeaderMap;
use posthouse_wire::{ConnectorId, Secret};
use serde_json::Value;
use vault::{Fault, MasterKeys, SecretPresence, WebhookSigner};

use crate::safe::Safe;

async fn hook(safe: &Safe) -> ConnectorId {
    safe.enrols("acme", "heron").await;
    safe.connects("acme", "hook").await
}

async fn keeps(
    webhook_signer: &WebhookSigner,
    of: &ConnectorId,
    authorization: Option<&str>,
    shared: Option<&str>,
) {
    let (authorization, shared) = (authorization.map(Secret::new), shared.map(Secret::new));
    webhook_signer.keep(of, authorization.as_ref(), shared.as_ref()).await.unwrap();
}

/// Names and values, by name.
fn told(headers: &HeaderMap) -> Vec<(&str, &str)> {
    let mut told: Vec<_> =
        headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    told.sort_unstable();
    told
}

fn recorded(file: &str) -> Value {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors"), PathBuf::from);
    let file = folder.join(file);
    let text = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_slice(&text).unwrap()
}

#[tokio::test]
async fn the_headers_of_vectors_are_made_byte_for_byte() {
    let safe = Safe::open().await;
    let (hook, webhook_signer) = (hook(&safe).await, safe.webhook_signer().await);
    let story = recorded("skills/contracts/agent-webhook.json");
    let text = |name: &str| story["config"][name].as_str().unwrap();
    keeps(&webhook_signer, &hook, Some(text("authorization")), Some(text("hmac_secret"))).await;
    let mut signed = 0;
    let sent = story["steps"].as_array().unwrap().iter().flat_map(|step| step["sent"].as_array().unwrap());
    // The reference signs deliveries alone; that its wakes carry nothing is a defect that section 2.2 names.
    for request in sent.filter(|request| request["headers"]["x-signature"].is_string()) {
        let body = request["body"].as_str().unwrap().as_bytes();
        let headers = webhook_signer.headers(&hook, body, None).await.unwrap();
        let expected = |name: &str| request["headers"][name].as_str().unwrap();
        let both = [("authorization", expected("authorization")), ("x-signature", expected("x-signature"))];
        assert_eq!(told(&headers), both);
        let signature = Some(expected("x-signature"));
        assert_eq!(webhook_signer.check_signature(&hook, signature, body).await.unwrap(), Some(true));
        assert_eq!(webhook_signer.check_signature(&hook, signature, &body[1..]).await.unwrap(), Some(false));
        signed += 1;
    }
    // How many there are is known of the project's own folder only.
    let at_least = if std::env::var_os("POSTHOUSE_VECTORS").is_none() { 5 } else { 1 };
    assert!(signed >= at_least, "only {signed} were signed");
}

#[tokio::test]
async fn standard_webhooks_headers_stand_beside_the_signature_and_not_instead_of_it() {
    let safe = Safe::open().await;
    let (hook, webhook_signer) = (hook(&safe).await, safe.webhook_signer().await);
    // The worked example of that specification's own libraries.
    let (shared, body) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", br#"{"test": 2432232314}"#);
    let (id, seconds) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330);
    let expected = [
        ("webhook-id", id),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ("webhook-timestamp", "1614265330"),
    ];
    keeps(&webhook_signer, &hook, None, Some(shared)).await;
    let headers = webhook_signer.headers(&hook, body, Some((id, seconds))).await.unwrap();
    assert_eq!(told(&headers)[..3], expected);
    assert_eq!(headers.len(), 4);
    let signature = headers["x-signature"].to_str();
    let is_valid = webhook_signer.check_signature(&hook, signature.ok(), body).await.unwrap();
    assert_eq!(is_valid, Some(true), "that one is over the text of the secret itself");
    let mut of_both = Vec::new();
    for copied in ["whsec_c2VjcmV0IQ==", "whsec_c2VjcmV0IQ"] {
        keeps(&webhook_signer, &hook, None, Some(copied)).await;
        let headers = webhook_signer.headers(&hook, body, Some((id, seconds))).await.unwrap();
        of_both.push(headers["webhook-signature"].clone());
    }
    assert_eq!(of_both[0], of_both[1], "its padding was lost on the way");
    keeps(&webhook_signer, &hook, None, Some("plain text")).await;
    let one = webhook_signer.headers(&hook, body, Some((id, seconds))).await.unwrap();
    let later = webhook_signer.headers(&hook, body, Some((id, seconds + 1))).await.unwrap();
    assert_ne!(one["webhook-signature"], later["webhook-signature"]);
    assert_eq!(one["x-signature"], later["x-signature"], "every attempt sends the same one");
}

#[tokio::test]
async fn a_connector_has_the_headers_that_it_has_secrets_for() {
    let safe = Safe::open().await;
    let (hook, webhook_signer) = (hook(&safe).await, safe.webhook_signer().await);
    let standard = Some(("d1", 1));
    assert!(webhook_signer.headers(&hook, b"x", standard).await.unwrap().is_empty());
    keeps(&webhook_signer, &hook, Some("Bearer t-1"), None).await;
    let headers = webhook_signer.headers(&hook, b"x", standard).await.unwrap();
    assert_eq!(told(&headers), [("authorization", "Bearer t-1")]);
    assert_eq!(
        webhook_signer.check_signature(&hook, Some("sha256=00"), b"x").await.unwrap(),
        None,
        "nothing can be asked for"
    );
    keeps(&webhook_signer, &hook, None, Some("s1")).await;
    assert_eq!(webhook_signer.headers(&hook, b"x", None).await.unwrap().len(), 2, "the other one stayed");
    let before = webhook_signer.headers(&hook, b"x", None).await.unwrap();
    keeps(&webhook_signer, &hook, Some("Basic x"), Some("s2")).await;
    let after = webhook_signer.headers(&hook, b"x", None).await.unwrap();
    assert_eq!(after["authorization"], "Basic x");
    assert_ne!(before["x-signature"], after["x-signature"]);
    let other = safe.connects("acme", "other").await;
    assert!(webhook_signer.headers(&other, b"x", standard).await.unwrap().is_empty());
    for odd in ["a\nb", "", "\0"] {
        let headers = webhook_signer.headers(&hook, b"x", Some((odd, 1))).await.unwrap();
        assert!(!headers.contains_key("webhook-id") && headers.contains_key("x-signature"), "{odd:?}");
    }
}

#[tokio::test]
async fn no_header_shows_in_a_log() {
    let safe = Safe::open().await;
    let (hook, webhook_signer) = (hook(&safe).await, safe.webhook_signer().await);
    keeps(&webhook_signer, &hook, Some("Bearer canary"), Some("s1")).await;
    let headers = webhook_signer.headers(&hook, b"x", Some(("d1", 1))).await.unwrap();
    assert_eq!(headers.len(), 5);
    assert!(headers.values().all(http::HeaderValue::is_sensitive));
    assert!(!format!("{headers:?}").contains("canary"));
}

#[tokio::test]
async fn what_could_never_be_sent_or_checked_is_refused_when_kept_and_leaves_what_was_there() {
    let safe = Safe::open().await;
    let (hook, webhook_signer) = (hook(&safe).await, safe.webhook_signer().await);
    keeps(&webhook_signer, &hook, Some("Bearer t-1"), Some("s1")).await;
    let before = webhook_signer.headers(&hook, b"x", None).await.unwrap();
    for (authorization, shared, words) in [
        ("Bearer canary\n", "s2", "header"),
        ("canary\0", "s2", "header"),
        ("", "s2", "header"),
        ("Bearer t-2", "", "empty"),
        ("Bearer t-2", "whsec_canary!", "base64"),
        ("Bearer t-2", "whsec_", "whsec_"),
    ] {
        let kept =
            webhook_signer.keep(&hook, Some(&Secret::new(authorization)), Some(&Secret::new(shared))).await;
        let Err(fault @ Fault::Unfit(_)) = kept else { panic!("{authorization:?} {shared:?} was kept") };
        assert!(fault.to_string().contains(words) && !fault.to_string().contains("canary"), "{fault}");
        assert_eq!(webhook_signer.headers(&hook, b"x", None).await.unwrap(), before);
    }
    let nobody = webhook_signer.keep(&"con_nobody".into(), Some(&Secret::new("Bearer t-1")), None).await;
    assert!(matches!(nobody, Err(Fault::Ledger(_))));
}

#[tokio::test]
async fn a_signature_vouches_for_its_bytes_alone() {
    let safe = Safe::open().await;
    let (hook, webhook_signer) = (hook(&safe).await, safe.webhook_signer().await);
    keeps(&webhook_signer, &hook, None, Some("topsecret")).await;
    let body = "{\"reply\":\"hé\"}".as_bytes();
    let good =
        webhook_signer.headers(&hook, body, None).await.unwrap()["x-signature"].to_str().unwrap().to_owned();
    assert_eq!(webhook_signer.check_signature(&hook, Some(&good), body).await.unwrap(), Some(true));
    let hex = good.strip_prefix("sha256=").unwrap();
    for wrong in [
        None,
        Some(""),
        Some("sha256="),
        Some(hex),
        Some(&good[..good.len() - 2]),
        Some(&format!("{good}00")),
        Some(&format!("sha1={hex}")),
        Some(&format!("sha256={}", "0".repeat(64))),
        Some("sha256=é"),
    ] {
        assert_eq!(
            webhook_signer.check_signature(&hook, wrong, body).await.unwrap(),
            Some(false),
            "{wrong:?}"
        );
    }
    let other = safe.connects("acme", "other").await;
    keeps(&webhook_signer, &other, None, Some("another")).await;
    assert_eq!(webhook_signer.check_signature(&other, Some(&good), body).await.unwrap(), Some(false));
}

#[tokio::test]
async fn a_connectors_secrets_follow_a_change_of_the_vaults_key_and_open_nowhere_else() {
    let (old, new) = (MasterKeys::generate().unwrap(), MasterKeys::generate().unwrap());
    let safe = Safe::open_at(ledger::Location::Memory, &old).await;
    let (hook, webhook_signer) = (hook(&safe).await, safe.webhook_signer().await);
    keeps(&webhook_signer, &hook, Some("Bearer t-1"), Some("s1")).await;
    let before = webhook_signer.headers(&hook, b"x", None).await.unwrap();
    let both = Secret::new(format!("{}{}", new.expose(), old.expose()));
    safe.unlocks_with(&both).await.unwrap();
    let vault = safe.unlocks_with(&new).await.unwrap();
    let webhook_signer = crate::safe::webhook_signer(&vault).await;
    assert_eq!(webhook_signer.headers(&hook, b"x", None).await.unwrap(), before);

    let other = safe.connects("acme", "other").await;
    let records = safe.ledger.vault();
    for (name, sealed) in records.connector_secrets(&hook).await.unwrap() {
        records.put_connector_secret(&other, &name, sealed).await.unwrap();
    }
    assert!(matches!(webhook_signer.headers(&other, b"x", None).await, Err(Fault::Broken)), "it was moved");
}

#[tokio::test]
async fn it_is_told_which_secrets_a_connector_has_and_not_what_they_are() {
    let safe = Safe::open().await;
    let (hook, webhook_signer) = (hook(&safe).await, safe.webhook_signer().await);
    assert_eq!(
        webhook_signer.held(&hook).await.unwrap(),
        SecretPresence { authorization: false, hmac_secret: false }
    );
    keeps(&webhook_signer, &hook, None, Some("s1")).await;
    assert_eq!(
        webhook_signer.held(&hook).await.unwrap(),
        SecretPresence { authorization: false, hmac_secret: true }
    );
    keeps(&webhook_signer, &hook, Some("Bearer t-1"), None).await;
    assert_eq!(
        webhook_signer.held(&hook).await.unwrap(),
        SecretPresence { authorization: true, hmac_secret: true }
    );
}

#[tokio::test]
async fn a_questions_reply_token_is_its_own_and_the_same_every_time_the_server_is_opened() {
    let keys = MasterKeys::generate().unwrap();
    let safe = Safe::open_at(ledger::Location::Memory, &keys).await;
    let webhook_signer = safe.webhook_signer().await;
    let (token, hash) = webhook_signer.reply_token(&"ten_acme".into(), &"c1".into());
    assert!(token.expose().len() >= 32);
    assert_eq!(webhook_signer.reply_token_hash(token.expose()), hash);
    for (tenant, correlation) in
        [("ten_acme", "c2"), ("ten_bolt", "c1"), ("ten_acmec", "1"), ("", "ten_acmec1")]
    {
        let (other, _) = webhook_signer.reply_token(&tenant.into(), &correlation.into());
        assert!(!other.matches(token.expose()), "{tenant} {correlation}");
    }
    let again = crate::safe::webhook_signer(&safe.unlocks_with(&keys).await.unwrap()).await;
    assert!(again.reply_token(&"ten_acme".into(), &"c1".into()).0.matches(token.expose()));
}
