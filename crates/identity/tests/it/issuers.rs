//! Tokens of foreign issuers: which are accepted, and what they cost.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use aws_lc_rs::signature::KeyPair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use errand::Errand;
use http::StatusCode;
use identity::{
    AgentCredential, Authentication, CredentialRefusal, IssuerSettings, Principal, TrustedIssuers,
};
use serde_json::{Value, json};

use crate::fixtures::{TestServer, headers, here, seconds};
use crate::issuer::{ISSUER, NOW, Publisher, Rebinding, SigningKey, claims, settings, with};

/// A server with the tenant acme, which trusts an issuer with this key under the id `k1`.
async fn trusting(key: &SigningKey) -> (TestServer, Publisher) {
    let publisher = Publisher::open(&[key.jwk("k1")]).await;
    let server = TestServer::trusting(vec![publisher.trusted()], None).await;
    server.identity.accounts.create_tenant("acme").await.unwrap().unwrap();
    (server, publisher)
}

async fn joins(server: &TestServer, token: &str) -> Authentication {
    server.identity.authenticator.enroller(&headers(&format!("Bearer {token}")), here()).await.unwrap()
}

/// Lets a minute pass, so that the next refusal is not slowed down, and sets the wall clock back.
fn forgets_failures(server: &TestServer) {
    server.winds(seconds(60));
    server.clock.set(posthouse_time::Moment::from_seconds(NOW));
}

async fn is_accepted(server: &TestServer, token: &str) -> bool {
    matches!(joins(server, token).await, Authentication::Known(Principal::Issued { .. }))
}

#[tokio::test]
async fn a_token_of_a_trusted_issuer_stands_for_its_tenant() {
    for (key, algorithm) in
        [(SigningKey::p256(), "ES256"), (SigningKey::rsa(), "RS256"), (SigningKey::rsa(), "RS512")]
    {
        let (server, _publisher) = trusting(&key).await;
        let tenant = server.ledger.roster().tenant("acme").await.unwrap().unwrap().id;
        let header = json!({ "alg": algorithm, "kid": "k1", "typ": "JWT" });
        for claims in [
            claims(),
            with(claims(), "tid", json!(tenant)),
            with(claims(), "aud", json!(["other", "posthouse"])),
            with(claims(), "exp", json!(NOW - 59)),
        ] {
            let known = Principal::Issued { tenant: tenant.clone(), issuer: ISSUER.to_owned() };
            let token = key.token(&header, &claims);
            assert_eq!(joins(&server, &token).await, Authentication::Known(known), "{claims}");
        }
    }
}

#[tokio::test]
async fn a_token_opens_nothing_but_joining() {
    let key = SigningKey::p256();
    let (server, _publisher) = trusting(&key).await;
    let value = format!("Bearer {}", key.token(&json!({ "alg": "ES256", "kid": "k1" }), &claims()));
    let refused = Authentication::Refused(CredentialRefusal::Unknown);
    let authenticator = &server.identity.authenticator;
    assert_eq!(server.presents(&value).await, refused);
    assert_eq!(authenticator.cron_agent(&headers(&value), None).await.unwrap(), refused);
    assert_eq!(authenticator.connecting_agent(&headers(&value), None).await.unwrap(), refused);
    assert_eq!(authenticator.operator(&headers(&value), None).await, refused);
    assert_eq!(authenticator.manager(&headers(&value), None).await.unwrap(), refused);
}

#[tokio::test]
async fn wrong_claims_are_refused_before_anything_is_fetched() {
    let key = SigningKey::p256();
    let (server, publisher) = trusting(&key).await;
    let header = json!({ "alg": "ES256", "kid": "k1" });
    for wrong in [
        with(claims(), "iss", json!("https://evil.example")),
        with(claims(), "iss", json!(format!("{ISSUER}/"))),
        with(claims(), "iss", Value::Null),
        with(claims(), "aud", json!("other")),
        with(claims(), "aud", Value::Null),
        with(claims(), "exp", json!(NOW - 60)),
        with(claims(), "exp", Value::Null),
        with(claims(), "nbf", json!(NOW + 61)),
        with(claims(), "iat", json!(NOW + 61)),
        with(claims(), "tid", Value::Null),
        with(claims(), "tid", json!("")),
        with(claims(), "tid", json!(["acme"])),
    ] {
        let token = key.token(&header, &wrong);
        assert!(!is_accepted(&server, &token).await, "{wrong}");
        forgets_failures(&server);
    }
    assert_eq!(publisher.requests(), 0);
    assert!(is_accepted(&server, &key.token(&header, &claims())).await);
    assert_eq!(publisher.requests(), 1);
    let unknown = key.token(&header, &with(claims(), "tid", json!("globex")));
    assert!(!is_accepted(&server, &unknown).await, "there is no such tenant");
}

#[tokio::test]
async fn the_key_decides_the_algorithm() {
    let (mine, stranger, rsa) = (SigningKey::p256(), SigningKey::p256(), SigningKey::rsa());
    let mut named_es256 = rsa.jwk("named-es256");
    named_es256["alg"] = json!("ES256");
    let mut encrypts = mine.jwk("encrypts");
    encrypts["use"] = json!("enc");
    let publisher = Publisher::open(&[mine.jwk("k1"), rsa.jwk("r1"), named_es256, encrypts]).await;
    let server = TestServer::trusting(vec![publisher.trusted()], None).await;
    server.identity.accounts.create_tenant("acme").await.unwrap().unwrap();
    let signed =
        |key: &SigningKey, alg: &str, kid: &str| key.token(&json!({ "alg": alg, "kid": kid }), &claims());
    for good in [signed(&mine, "ES256", "k1"), signed(&rsa, "RS256", "r1"), signed(&rsa, "RS512", "r1")] {
        assert!(is_accepted(&server, &good).await);
    }
    let mut changed = signed(&mine, "ES256", "k1");
    changed.replace_range(changed.len() - 8.., "AAAAAAAA");
    for wrong in [
        signed(&stranger, "ES256", "k1"),
        signed(&rsa, "RS256", "k1"),
        signed(&mine, "ES256", "r1"),
        signed(&rsa, "ES256", "k1"),
        signed(&mine, "RS256", "k1"),
        signed(&mine, "ES384", "k1"),
        signed(&mine, "none", "k1"),
        signed(&mine, "HS256", "k1"),
        signed(&rsa, "RS256", "named-es256"),
        signed(&mine, "ES256", "encrypts"),
        mine.token(&json!({ "alg": "ES256" }), &claims()),
        changed,
    ] {
        assert!(!is_accepted(&server, &wrong).await, "{wrong}");
        forgets_failures(&server);
    }
}

#[tokio::test]
async fn unknown_key_ids_cause_one_fetch_a_minute_and_a_rotated_key_is_found() {
    let (old, new) = (SigningKey::p256(), SigningKey::p256());
    let (server, publisher) = trusting(&old).await;
    let token = |key: &SigningKey, kid: &str| {
        key.token(&json!({ "alg": "ES256", "kid": kid }), &with(claims(), "exp", json!(NOW + 9_000)))
    };
    assert!(is_accepted(&server, &token(&old, "k1")).await);
    publisher.publishes(&[new.jwk("k2")]);
    for kid in 0..5 {
        assert!(!is_accepted(&server, &token(&new, &format!("guess-{kid}"))).await);
        assert!(!is_accepted(&server, &token(&new, "k2")).await);
    }
    assert_eq!(publisher.requests(), 1);
    server.winds(seconds(60));
    assert!(is_accepted(&server, &token(&new, "k2")).await);
    assert_eq!(publisher.requests(), 2);
    assert!(!is_accepted(&server, &token(&old, "k1")).await, "the issuer withdrew that key");
    assert_eq!(publisher.requests(), 2);
    // A known key is fetched again after an hour.
    publisher.publishes(&[]);
    server.winds(seconds(3_600));
    assert!(!is_accepted(&server, &token(&new, "k2")).await);
    assert_eq!(publisher.requests(), 3);
}

#[tokio::test]
async fn keys_are_used_for_a_day_while_their_issuer_cannot_be_reached() {
    let key = SigningKey::p256();
    let (server, publisher) = trusting(&key).await;
    let token =
        key.token(&json!({ "alg": "ES256", "kid": "k1" }), &with(claims(), "exp", json!(NOW + 90_000)));
    let whole = publisher.answer.lock().clone();
    for unusable in [
        (StatusCode::INTERNAL_SERVER_ERROR, whole.1.clone()),
        (StatusCode::FOUND, String::new()),
        (StatusCode::OK, "not json".to_owned()),
        (StatusCode::OK, "[]".to_owned()),
        (StatusCode::OK, format!("{}{}", whole.1, " ".repeat(256 << 10))),
    ] {
        *publisher.answer.lock() = unusable;
        assert!(!is_accepted(&server, &token).await, "nothing is known, so nothing is accepted");
        server.winds(seconds(10));
    }
    *publisher.answer.lock() = whole;
    assert!(is_accepted(&server, &token).await);
    *publisher.answer.lock() = (StatusCode::SERVICE_UNAVAILABLE, String::new());
    server.winds(seconds(24 * 3600 - 1));
    assert!(is_accepted(&server, &token).await);
    server.winds(seconds(1));
    assert!(!is_accepted(&server, &token).await);
}

#[tokio::test]
async fn many_callers_at_once_cause_one_fetch() {
    let key = SigningKey::p256();
    let (server, publisher) = trusting(&key).await;
    let token = key.token(&json!({ "alg": "ES256", "kid": "k1" }), &claims());
    let callers = (0..20).map(|_| {
        let (server, token) = (server.clone(), token.clone());
        tokio::spawn(async move { is_accepted(&server, &token).await })
    });
    for caller in callers.collect::<Vec<_>>() {
        assert!(caller.await.unwrap());
    }
    assert_eq!(publisher.requests(), 1);
}

#[tokio::test]
async fn wrong_tokens_are_slowed_down_and_then_refused() {
    let (key, stranger) = (SigningKey::p256(), SigningKey::p256());
    let (server, _publisher) = trusting(&key).await;
    let wrong = stranger.token(&json!({ "alg": "ES256", "kid": "k1" }), &claims());
    let mut guesses = tokio::task::JoinSet::new();
    for _ in 0..150 {
        let (server, wrong) = (server.clone(), wrong.clone());
        guesses.spawn(async move { joins(&server, &wrong).await });
    }
    // Those that are slowed down wait for a clock that stands still; those barred do not.
    while joined(&mut guesses).await != Authentication::Barred {}
    let right = key.token(&json!({ "alg": "ES256", "kid": "k1" }), &claims());
    assert!(is_accepted(&server, &right).await, "others behind the same address are not locked out");
}

async fn joined(guesses: &mut tokio::task::JoinSet<Authentication>) -> Authentication {
    guesses.join_next().await.unwrap().unwrap()
}

#[tokio::test]
async fn the_operator_can_say_which_claim_is_which_tenant() {
    let key = SigningKey::p256();
    let publisher = Publisher::open(&[key.jwk("k1")]).await;
    let trusted = IssuerSettings {
        tenant_claim: "org".to_owned(),
        tenants: [("0042".to_owned(), "acme".to_owned())].into(),
        ..publisher.trusted()
    };
    let server = TestServer::trusting(vec![trusted], None).await;
    for tenant in ["acme", "globex"] {
        server.identity.accounts.create_tenant(tenant).await.unwrap().unwrap();
    }
    let token =
        |org: &str| key.token(&json!({ "alg": "ES256", "kid": "k1" }), &with(claims(), "org", json!(org)));
    assert!(is_accepted(&server, &token("0042")).await);
    assert!(!is_accepted(&server, &token("acme")).await, "only what the map names counts");
    assert!(!is_accepted(&server, &token("globex")).await);
}

#[tokio::test]
async fn keys_can_come_from_a_file() {
    let (key, other) = (SigningKey::p256(), SigningKey::p256());
    let SigningKey::P256(pair) = &key else { unreachable!() };
    // The header of a public key on P-256 (RFC 5480).
    let der = [
        hex::decode("3059301306072a8648ce3d020106082a8648ce3d030107034200").unwrap(),
        pair.public_key().as_ref().to_vec(),
    ];
    let pem =
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der.concat()));
    let folder = std::env::temp_dir().join(format!("posthouse-issuers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("keys.json", json!({ "keys": [key.jwk("k1")] }).to_string()), ("key.pem", pem)] {
        let file = folder.join(name);
        std::fs::write(&file, text).unwrap();
        let trusted = IssuerSettings { keys_file: Some(file), ..settings() };
        let server = TestServer::trusting(vec![trusted], None).await;
        server.identity.accounts.create_tenant("acme").await.unwrap().unwrap();
        let header = json!({ "alg": "ES256", "kid": "k1" });
        assert!(is_accepted(&server, &key.token(&header, &claims())).await, "{name}");
        assert!(!is_accepted(&server, &other.token(&header, &claims())).await, "{name}");
    }
    for (name, text) in [
        ("empty.json", r#"{"keys":[]}"#),
        ("bad.pem", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"),
    ] {
        let file = folder.join(name);
        std::fs::write(&file, text).unwrap();
        assert!(
            refusal(IssuerSettings { keys_file: Some(file), ..settings() }).contains("has no key"),
            "{name}"
        );
    }
    let missing = IssuerSettings { keys_file: Some(folder.join("missing")), ..settings() };
    assert!(refusal(missing).contains("cannot read"));
    std::fs::remove_dir_all(folder).unwrap();
}

/// Why a server does not start with these settings.
fn refusal(settings: IssuerSettings) -> String {
    let config = identity::Config { issuers: vec![settings], ..identity::Config::default() };
    let (errand, clock) = (Errand::new(errand::Config::default()), posthouse_time::Timepiece::wall());
    TrustedIssuers::new(&config, "https://post.example", &errand, &clock).err().unwrap()
}

#[test]
fn settings_that_cannot_work_are_named_at_start() {
    let url = |url: &str| IssuerSettings { jwks_url: Some(url.to_owned()), ..settings() };
    let good = url("https://login.example/keys");
    for (wrong, text) in [
        (settings(), "set either jwks_url or keys_file"),
        (IssuerSettings { keys_file: Some("k".into()), ..good.clone() }, "set either jwks_url or keys_file"),
        (
            IssuerSettings { issuer: "https://post.example".to_owned(), ..good.clone() },
            "not an issuer for itself",
        ),
        (
            IssuerSettings { issuer: "https://POST.example/".to_owned(), ..good.clone() },
            "not an issuer for itself",
        ),
        (IssuerSettings { issuer: String::new(), ..good.clone() }, "must not be empty"),
        (IssuerSettings { audience: " ".to_owned(), ..good.clone() }, "must not be empty"),
        (
            IssuerSettings { audience: "agent:inst_1".to_owned(), ..good.clone() },
            "must not begin with agent:",
        ),
        (IssuerSettings { tenant_claim: String::new(), ..good }, "tenant_claim"),
    ] {
        let refusal = refusal(wrong);
        assert!(refusal.contains(text), "{refusal}");
    }
    for private in [
        "https://127.0.0.1/keys",
        "https://2130706433/keys",
        "https://0x7f.1/keys",
        "https://[::ffff:10.0.0.1]/keys",
        "https://169.254.169.254/latest/meta-data",
        "https://localhost./keys",
        "http://login.example/keys",
        "https://user:pass@login.example/keys",
        "file:///etc/passwd",
    ] {
        let refusal = refusal(url(private));
        assert!(refusal.contains("jwks_url: ") && !refusal.contains(private), "{refusal}");
    }
    let twice = url("https://login.example/keys");
    let config = identity::Config { issuers: vec![twice.clone(), twice], ..identity::Config::default() };
    assert!(config.check(None).unwrap_err().contains("twice"));
}

#[tokio::test]
async fn a_key_url_that_resolves_to_a_private_address_is_not_called() {
    let key = SigningKey::p256();
    let publisher = Publisher::open(&[key.jwk("k1")]).await;
    let port_and_path = publisher.url.rsplit(':').next().unwrap();
    let url = format!("https://login.example:{port_and_path}");
    let lookup = Arc::new(Rebinding::default());
    let trusted = IssuerSettings { jwks_url: Some(url), ..settings() };
    let server = TestServer::trusting(vec![trusted], Some(lookup.clone())).await;
    server.identity.accounts.create_tenant("acme").await.unwrap().unwrap();
    let token = key.token(&json!({ "alg": "ES256", "kid": "k1" }), &claims());
    for lookups in 1..=3 {
        assert!(!is_accepted(&server, &token).await);
        assert_eq!((lookup.0.load(Ordering::SeqCst), publisher.requests()), (lookups, 0));
        forgets_failures(&server);
    }
}

#[tokio::test]
async fn a_token_for_an_agent_manages_that_agent_of_its_own_tenant() {
    let key = SigningKey::p256();
    let (server, _publisher) = trusting(&key).await;
    let (heron, wren) = (server.enrol("acme", "heron", &[]).await, server.enrol("globex", "wren", &[]).await);
    let token = |aud: Value, tid: &str| {
        let claims = with(with(claims(), "aud", aud), "tid", json!(tid));
        format!("Bearer {}", key.token(&json!({ "alg": "ES256", "kid": "k1" }), &claims))
    };
    let manages =
        async |value: &str| server.identity.authenticator.manager(&headers(value), None).await.unwrap();
    let audience = |agent: &str| json!(format!("agent:{agent}"));
    let known =
        Principal::Agent { agent: heron.record().await, by: AgentCredential::Issuer(ISSUER.to_owned()) };
    let value = token(audience(heron.instance.as_str()), "acme");
    assert_eq!(manages(&value).await, Authentication::Known(known));
    assert!(!is_accepted(&server, value.trim_start_matches("Bearer ")).await, "it enrols nothing");
    for (aud, tid) in [
        (audience(wren.instance.as_str()), "acme"),
        (audience(heron.instance.as_str()), "globex"),
        (audience(heron.instance.as_str()), "nobody"),
        (audience("heron"), "acme"),
        (audience("inst_unknown"), "acme"),
        (json!("posthouse"), "acme"),
        (json!([audience(heron.instance.as_str()), audience(wren.instance.as_str())]), "acme"),
    ] {
        let answer = manages(&token(aud.clone(), tid)).await;
        assert!(matches!(answer, Authentication::Refused(_)), "{aud} {tid}: {answer:?}");
    }
}
