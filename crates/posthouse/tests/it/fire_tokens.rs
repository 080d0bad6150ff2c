//! Fire tokens from signing to verification: an SDK agent accepts what the server signs.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Ledger, Location};
use posthouse_agent::verify::{Expected, FireVerifier, KeySet, PerJobKey, PortalJwt, check_claims};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::cron::{
    CRON_KEY, FireAt, FireBody, FireClaims, FireProof, PURPOSE, Policy, TimedSignature, audience,
    cron_key_message,
};
use posthouse_wire::{InstanceId, JobId, Secret};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use vault::{Algorithm, MasterKeys, Signer, Vault};

use crate::talk::provide_crypto;

const PORTAL: &str = "https://portal.example";
const FIRE_AT: &str = "2026-06-18T12:34:56.123456+00:00";

/// The signer of a server that stands in memory.
async fn signer(clock: &Timepiece) -> Signer {
    let ledger = Ledger::open(Location::Memory, clock.clone()).await.unwrap();
    let keys = MasterKeys::read(&MasterKeys::generate().unwrap()).unwrap();
    let facts = ledger.facts();
    let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*facts, clock.clone());
    vault.await.unwrap().signer(Algorithm::Es256).await.unwrap()
}

fn heron() -> InstanceId {
    "inst_heron".into()
}

/// A token as the clock mints it.
fn mint(signer: &Signer, now: Moment) -> Secret {
    let claims = FireClaims {
        iss: PORTAL.to_owned(),
        aud: audience(&heron()),
        sub: audience(&heron()),
        purpose: PURPOSE.to_owned(),
        iat: now.seconds(),
        nbf: now.seconds(),
        exp: now.seconds() + 90,
        jti: "attempt-1".to_owned(),
        job_id: "ab12cd34ef56".into(),
        fire_at: FIRE_AT.to_owned(),
        schedule_id: "sch_1".into(),
    };
    signer.sign(&claims).unwrap()
}

/// Whether an agent that fetched the keys at this moment takes the token.
fn taken(signer: &Signer, token: &Secret, now: Moment) -> bool {
    let keys = KeySet::read(&signer.jwks().json).unwrap();
    check_claims(token.expose(), &audience(&heron()), &keys, Some(PORTAL), now).is_some()
}

fn body() -> Vec<u8> {
    let fire = FireBody::new("ab12cd34ef56".into(), FireAt::parse(FIRE_AT).unwrap(), &Policy::default());
    serde_json::to_vec(&fire).unwrap()
}

fn with(name: &str, value: &str) -> http::HeaderMap {
    http::HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
}

#[tokio::test]
async fn tokens_are_taken_through_the_published_keys_across_rotations() {
    let clock = Timepiece::wound(Moment::from_seconds(1_790_000_000));
    let signer = signer(&clock).await;
    // What an agent holds is up to five minutes old.
    let mut held = signer.jwks();
    let mut in_flight: Vec<(Moment, Secret)> = Vec::new();
    for minute in 0..80 {
        match minute {
            10 => drop(signer.rotate(None, false).await.unwrap()),
            30 => drop(signer.rotate(Some(Algorithm::Rs256), false).await.unwrap()),
            50 => drop(signer.rotate(None, true).await.unwrap()),
            _ => {}
        }
        let now = clock.now();
        if minute % 5 == 0 {
            held = signer.jwks();
        }
        let token = mint(&signer, now);
        let keys = KeySet::read(&held.json).unwrap();
        let by_held = check_claims(token.expose(), &audience(&heron()), &keys, Some(PORTAL), now);
        assert!(by_held.is_some(), "minute {minute}, by the keys an agent may still hold");
        assert!(taken(&signer, &token, now), "minute {minute}");
        // A token is good for 90 s and 30 of leeway; its key outlives it.
        in_flight.retain(|(minted, _)| now.since(*minted) < Duration::from_secs(120));
        for (_, earlier) in &in_flight {
            assert!(taken(&signer, earlier, now), "minute {minute}");
        }
        in_flight.push((now, token));
        clock.wind(Duration::from_secs(60));
    }
    assert_eq!(signer.keys().await.unwrap().len(), 1);
    let (_, last) = in_flight.pop().unwrap();
    clock.wind(Duration::from_secs(60));
    assert!(!taken(&signer, &last, clock.now()), "expired");
}

#[tokio::test]
async fn a_server_does_not_take_what_another_signed() {
    let clock = Timepiece::wound(Moment::from_seconds(1_790_000_000));
    let (ours, theirs) = (signer(&clock).await, signer(&clock).await);
    assert!(!taken(&ours, &mint(&theirs, clock.now()), clock.now()));
    assert!(taken(&theirs, &mint(&theirs, clock.now()), clock.now()));
}

#[tokio::test]
async fn a_per_job_key_of_the_server_vouches_to_the_agent_that_was_given_it() {
    let clock = Timepiece::wound(Moment::from_seconds(1_790_000_000));
    let signer = signer(&clock).await;
    let (job, fire_at): (JobId, _) = ("ab12cd34ef56".into(), FireAt::parse(FIRE_AT).unwrap());
    let given = signer.cron_key(&heron(), &job);
    let verifier = PerJobKey::new(move |_: &JobId| Some(given.clone()), clock.clone());
    let message = cron_key_message(&job, &fire_at);
    let stamp = |key: &Secret| TimedSignature::make(key, clock.now().seconds(), &message).header();
    let good = with(CRON_KEY, &stamp(&signer.cron_key(&heron(), &job)));
    assert_eq!(verifier.verify(&good, &body()).await.unwrap().proof, FireProof::PerJobKey);
    let other = with(CRON_KEY, &stamp(&signer.cron_key(&"inst_otter".into(), &job)));
    assert!(verifier.verify(&other, &body()).await.is_none());
}

/// Signing and TLS share one crypto provider, and neither chooses it by the enabled cargo features: a
/// second provider would make the first token or the first TLS handshake panic.
#[tokio::test]
async fn one_token_is_minted_and_one_tls_client_opened_by_the_one_crypto_provider() {
    let clock = Timepiece::wound(Moment::from_seconds(1_790_000_000));
    let signer = signer(&clock).await;
    let token = mint(&signer, clock.now());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificate = certificate();
    let url = publish(provider.clone(), certificate.clone(), signer.jwks().json.clone()).await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let trust = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();

    // The SDK names its own provider, whatever the process it lives in has installed, if anything.
    let expected = Expected { audience: audience(&heron()), issuer: Some(PORTAL.to_owned()) };
    let verifier = PortalJwt::with_tls(&url, expected.clone(), clock.clone(), Arc::new(trust));
    let headers = with("authorization", &format!("Bearer {}", token.expose()));
    let verified = verifier.verify(&headers, &body()).await.unwrap();
    assert_eq!(verified.attempt.as_deref(), Some("attempt-1"));
    let stranger = PortalJwt::new(&url, expected, clock.clone());
    assert!(stranger.verify(&headers, &body()).await.is_none(), "nobody vouches for that certificate");

    // And as `main` does it: install once, then clients come as they are.
    provide_crypto();
    let trusted = reqwest::Certificate::from_der(&certificate).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([trusted]).build().unwrap();
    let answer = client.get(&url).send().await.unwrap();
    assert_eq!(answer.bytes().await.unwrap(), signer.jwks().json);
}

fn certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_file(format!("{LOOPBACK}.cert.pem")).unwrap()
}

/// A certificate for loopback that nobody trusts but these tests.
const LOOPBACK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../posthouse-agent/tests/it/loopback");

/// Shows `json` behind TLS on loopback; where.
async fn publish(
    provider: Arc<rustls::crypto::CryptoProvider>,
    certificate: CertificateDer<'static>,
    json: bytes::Bytes,
) -> String {
    let key = PrivateKeyDer::from_pem_file(format!("{LOOPBACK}.key.pem")).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/.well-known/jwks.json", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            // A client that does not trust us hangs up here.
            let Ok(mut tls) = acceptor.accept(tcp).await else { continue };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") && tls.read_buf(&mut request).await.unwrap_or(0) > 0 {}
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", json.len());
            let _ = tls.write_all(&[head.as_bytes(), &json].concat()).await;
            let _ = tls.shutdown().await;
        }
    });
    url
}
