use aws_lc_rs::signature::{self, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ledger::Location;
use posthouse_wire::Secret;
use posthouse_wire::cron::TimedSignature;
use serde_json::{Value, json};
use std::time::Duration;
use vault::{Algorithm, Fault, MasterKeys, Signer};

use crate::safe::{Safe, hours, minutes};

async fn signer(safe: &Safe) -> Signer {
    safe.vault.signer(Algorithm::Es256).await.unwrap()
}

fn published(signer: &Signer) -> Vec<Value> {
    let set: Value = serde_json::from_slice(&signer.jwks().json).unwrap();
    set["keys"].as_array().unwrap().clone()
}

fn kids(signer: &Signer) -> Vec<String> {
    published(signer).iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

fn decoded(part: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(part).unwrap()
}

/// The header of a token that is signed now.
fn header(signer: &Signer) -> Value {
    let token = signer.sign(&json!({ "aud": "agent:inst_a" })).unwrap();
    serde_json::from_slice(&decoded(token.expose().split('.').next().unwrap())).unwrap()
}

fn signs_with(signer: &Signer) -> String {
    header(signer)["kid"].as_str().unwrap().to_owned()
}

/// Checks a token by the published keys alone.
fn good(signer: &Signer, token: &Secret) -> bool {
    let (message, signature) = token.expose().rsplit_once('.').unwrap();
    let head: Value = serde_json::from_slice(&decoded(message.split('.').next().unwrap())).unwrap();
    let Some(key) = published(signer).into_iter().find(|key| key["kid"] == head["kid"]) else { return false };
    assert_eq!((&key["use"], &key["alg"]), (&"sig".into(), &head["alg"]));
    let part = |name: &str| decoded(key[name].as_str().unwrap());
    match key["kty"].as_str().unwrap() {
        "EC" => {
            let point = [vec![4], part("x"), part("y")].concat();
            let key = UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point);
            key.verify(message.as_bytes(), &decoded(signature)).is_ok()
        }
        _ => {
            let key = signature::RsaPublicKeyComponents { n: part("n"), e: part("e") };
            let params = &signature::RSA_PKCS1_2048_8192_SHA256;
            key.verify(params, message.as_bytes(), &decoded(signature)).is_ok()
        }
    }
}

#[tokio::test]
async fn the_first_key_is_made_once_and_signs_at_once() {
    let safe = Safe::open().await;
    let signer = signer(&safe).await;
    let token = signer.sign(&json!({ "aud": "agent:inst_a", "exp": 5 })).unwrap();
    assert!(good(&signer, &token));
    let parts: Vec<&str> = token.expose().split('.').collect();
    let claims: Value = serde_json::from_slice(&decoded(parts[1])).unwrap();
    assert_eq!(claims, json!({ "aud": "agent:inst_a", "exp": 5 }));
    let head = header(&signer);
    assert_eq!((&head["alg"], &head["typ"]), (&"ES256".into(), &"JWT".into()));
    let again = safe.vault.signer(Algorithm::Rs256).await.unwrap();
    assert_eq!(kids(&again), kids(&signer));
    assert_eq!(again.jwks(), signer.jwks());
}

#[tokio::test]
async fn a_new_key_is_published_ten_minutes_before_it_signs_and_the_old_one_seven_after() {
    let safe = Safe::open().await;
    let signer = signer(&safe).await;
    let (first, tag) = (signs_with(&signer), signer.jwks().etag.clone());
    let made = signer.rotate(None, false).await.unwrap();
    assert_eq!(made.signs_from, safe.clock.now() + minutes(10));
    assert_eq!((made.signing, made.published_until), (false, None));
    assert_eq!(kids(&signer), [&made.kid[..], &first[..]]);
    assert_ne!(signer.jwks().etag, tag);
    safe.winds(minutes(10) - Duration::from_millis(1));
    assert_eq!(signs_with(&signer), first);
    let last = signer.sign(&json!({})).unwrap();
    safe.winds(Duration::from_millis(1));
    assert_eq!(signs_with(&signer), made.kid);
    // Two minutes for the last token, five more for clocks that disagree.
    safe.winds(minutes(7) - Duration::from_millis(1));
    assert!(good(&signer, &last));
    safe.winds(Duration::from_millis(1));
    assert_eq!(kids(&signer), [&made.kid[..]], "without a refresh");
    assert!(!good(&signer, &last));
    let recorded = safe.ledger.vault().server_keys(ledger::ServerKeyKind::Signing).await.unwrap().len();
    assert_eq!((recorded, signer.keys().await.unwrap().len()), (2, 1));
    let recorded = safe.ledger.vault().server_keys(ledger::ServerKeyKind::Signing).await.unwrap().len();
    assert_eq!(recorded, 1, "the listing pruned it");
}

#[tokio::test]
async fn an_emergency_key_signs_at_once_and_overtakes_one_that_waits() {
    let safe = Safe::open().await;
    let signer = signer(&safe).await;
    let first = signs_with(&signer);
    let waiting = signer.rotate(None, false).await.unwrap();
    safe.winds(minutes(1));
    let emergency = signer.rotate(Some(Algorithm::Rs256), true).await.unwrap();
    assert!(emergency.signing);
    let end = Some(safe.clock.now() + minutes(7));
    let standings = signer.keys().await.unwrap();
    let ends: Vec<_> = standings.iter().map(|key| (key.kid.as_str(), key.published_until)).collect();
    assert_eq!(ends, [(&emergency.kid[..], None), (&waiting.kid[..], end), (&first[..], end)]);
    for _ in 0..3 {
        assert_eq!(signs_with(&signer), emergency.kid);
        assert!(good(&signer, &signer.sign(&json!({})).unwrap()));
        safe.winds(minutes(9));
    }
    assert_eq!(header(&signer)["alg"], "RS256");
}

#[tokio::test]
async fn another_node_learns_of_a_rotation_by_refreshing() {
    let safe = Safe::open().await;
    let (here, there) = (signer(&safe).await, signer(&safe).await);
    let made = here.rotate(None, false).await.unwrap();
    assert_eq!(kids(&there).len(), 1);
    there.refresh().await.unwrap();
    assert_eq!(there.jwks(), here.jwks());
    safe.winds(minutes(10));
    assert_eq!(signs_with(&there), made.kid);
}

#[tokio::test]
async fn two_who_begin_together_go_on_with_the_same_keys() {
    let safe = Safe::open().await;
    let (one, other) = tokio::join!(signer(&safe), signer(&safe));
    assert_eq!(one.jwks(), other.jwks());
    let (heron, job) = ("inst_heron".into(), "job".into());
    assert_eq!(one.cron_key(&heron, &job).expose(), other.cron_key(&heron, &job).expose());
}

#[tokio::test]
async fn keys_outlive_the_server_and_move_under_a_new_vault_key() {
    let (old, new) = (MasterKeys::generate().unwrap(), MasterKeys::generate().unwrap());
    let safe = Safe::open_at(Location::Memory, &old).await;
    let before = signer(&safe).await;
    let scheduler_secret = before.rotate_scheduler_secret().await.unwrap();
    let together = Secret::new(format!("{}{}", new.expose(), old.expose()));
    safe.unlocks_with(&together).await.unwrap();
    let after = safe.unlocks_with(&new).await.unwrap().signer(Algorithm::Es256).await.unwrap();
    assert_eq!(after.jwks(), before.jwks());
    assert!(good(&before, &after.sign(&json!({})).unwrap()));
    let (heron, job) = ("inst_heron".into(), "job".into());
    assert_eq!(after.cron_key(&heron, &job).expose(), before.cron_key(&heron, &job).expose());
    let stamp = TimedSignature::make(&scheduler_secret, safe.clock.now().seconds(), b"body");
    assert!(after.check_signature(&stamp, b"body").is_some());
}

#[tokio::test]
async fn a_moved_key_does_not_open() {
    let safe = Safe::open().await;
    signer(&safe).await;
    let records = safe.ledger.vault();
    let mut key = records.server_keys(ledger::ServerKeyKind::Signing).await.unwrap().remove(0);
    key.name = "other".to_owned();
    records.succeed_server_key(key, safe.clock.now() + hours(1)).await.unwrap();
    assert!(matches!(safe.vault.signer(Algorithm::Es256).await.err(), Some(Fault::Broken)));
}

#[tokio::test]
async fn every_job_of_every_agent_has_a_key_of_its_own_that_stays() {
    let safe = Safe::open().await;
    let signer = signer(&safe).await;
    let pairs = [("inst_a", "job"), ("inst_a", "job2"), ("inst_aj", "ob"), ("inst_b", "job")];
    let key =
        |(instance, job): (&str, &str)| signer.cron_key(&instance.into(), &job.into()).expose().to_owned();
    let keys: std::collections::BTreeSet<String> = pairs.into_iter().map(key).collect();
    assert_eq!(keys.len(), pairs.len());
    let before = key(pairs[0]);
    signer.rotate(None, true).await.unwrap();
    safe.winds(hours(100));
    signer.refresh().await.unwrap();
    assert_eq!(key(pairs[0]), before);
    let elsewhere = Safe::open().await;
    let other = elsewhere.vault.signer(Algorithm::Es256).await.unwrap();
    assert_ne!(other.cron_key(&"inst_a".into(), &"job".into()).expose(), before);
}

#[tokio::test]
async fn a_replaced_scheduler_secret_ends_by_wall_or_ledger_time_whichever_comes_first() {
    let safe = Safe::open().await;
    let signer = signer(&safe).await;
    let is_valid = |secret: &Secret| {
        let stamp = TimedSignature::make(secret, safe.clock.now().seconds(), b"body");
        signer.check_signature(&stamp, b"body").is_some()
    };
    let (first, start) = (signer.rotate_scheduler_secret().await.unwrap(), safe.clock.now());
    signer.rotate_scheduler_secret().await.unwrap();
    safe.clock.set(start + hours(25));
    assert!(!is_valid(&first), "a day by the wall clock");
    signer.refresh().await.unwrap();
    safe.clock.set(start - hours(100));
    signer.refresh().await.unwrap();
    assert!(is_valid(&first), "the clock was wrong, and nothing was deleted");
    safe.winds(hours(24));
    assert!(!is_valid(&first), "a day has passed");
    signer.refresh().await.unwrap();
    assert!(!is_valid(&first));
}

#[tokio::test]
async fn a_schedulers_secret_is_good_for_a_day_after_its_successor() {
    let safe = Safe::open().await;
    let signer = signer(&safe).await;
    let is_valid = |secret: &Secret| {
        let stamp = TimedSignature::make(secret, safe.clock.now().seconds(), b"body");
        signer.check_signature(&stamp, b"body").is_some()
    };
    assert!(!is_valid(&Secret::new("")) && !is_valid(&Secret::new("guess")), "none was issued");
    let first = signer.rotate_scheduler_secret().await.unwrap();
    safe.winds(hours(1000));
    assert!(is_valid(&first));
    let second = signer.rotate_scheduler_secret().await.unwrap();
    safe.winds(hours(24) - Duration::from_millis(1));
    assert!(is_valid(&first) && is_valid(&second));
    let standings = signer.scheduler_secrets().await.unwrap();
    let ends: Vec<_> = standings.iter().map(|standing| standing.good_until).collect();
    assert_eq!(ends, [None, Some(safe.clock.now() + Duration::from_millis(1))]);
    safe.winds(Duration::from_millis(1));
    assert!(!is_valid(&first) && is_valid(&second), "by the clock alone");
    assert_eq!(signer.scheduler_secrets().await.unwrap().len(), 1);
    let stale = TimedSignature::make(&second, safe.clock.now().seconds() - 301, b"body");
    assert_eq!(signer.check_signature(&stale, b"body"), None);
    assert!(signer.revoke_scheduler_secrets().await.unwrap());
    assert!(!is_valid(&second));
    assert!(!signer.revoke_scheduler_secrets().await.unwrap());
}
