//! Tokens of an identity provider (OIDC) that the operator trusts, on the real binary: where they are accepted, and that
//! every other token is refused like a wrong credential.

use std::sync::atomic::{AtomicU32, Ordering};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use axum::Router;
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthouse_time::Timepiece;
use serde_json::{Value, json};

use crate::talk::provide_crypto;
use crate::test_server::{BINARY, TestServer};

const AUDIENCE: &str = "posthouse";

/// An identity provider that publishes its key on loopback.
struct Provider {
    issuer: &'static str,
    key: EcdsaKeyPair,
    keys_url: String,
}

impl Provider {
    async fn open(issuer: &'static str) -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let point = key.public_key().as_ref();
        let coordinate = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let jwk = json!({ "kty": "EC", "crv": "P-256", "kid": "k1",
            "x": coordinate(&point[1..33]), "y": coordinate(&point[33..]) });
        let keys = json!({ "keys": [jwk] }).to_string();
        let router = Router::new().route("/keys", get(move || async move { keys }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let keys_url = format!("http://{}/keys", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { issuer, key, keys_url }
    }

    /// Its table in the configuration. The claim `org` names the tenant by a number.
    fn settings(&self) -> String {
        format!(
            "\n[[identity.issuers]]\nissuer = \"{}\"\naudience = \"{AUDIENCE}\"\njwks_url = \"{}\"\n\
             tenant_claim = \"org\"\n[identity.issuers.tenants]\n\"42\" = \"acme\"\n",
            self.issuer, self.keys_url
        )
    }

    /// A token for this audience, with one claim changed.
    fn token_for(&self, audience: &str, claim: &str, value: Value) -> String {
        let now = Timepiece::wall().now().seconds();
        let mut claims =
            json!({ "iss": self.issuer, "aud": audience, "iat": now, "exp": now + 600, "org": "42" });
        claims[claim] = value;
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(&json!({ "alg": "ES256", "kid": "k1" })), encode(&claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// A token for enrolling and provisioning, with one claim changed.
    fn token(&self, claim: &str, value: Value) -> String {
        self.token_for(AUDIENCE, claim, value)
    }

    fn valid(&self) -> String {
        self.token("sub", json!("somebody"))
    }

    /// A token that manages one agent.
    fn managing(&self, agent: &Value) -> String {
        self.token_for(&audience(agent), "sub", json!("somebody"))
    }
}

fn audience(agent: &Value) -> String {
    format!("agent:{}", agent["instance_id"].as_str().unwrap())
}

/// A server that trusts this provider, with the tenants acme and globex.
fn trusting(provider: &Provider) -> TestServer {
    provide_crypto();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("house");
    let made = std::process::Command::new(BINARY).arg("init").arg(&folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = folder.join("posthouse.toml");
    let config = std::fs::read_to_string(&file).unwrap() + &provider.settings();
    std::fs::write(&file, config).unwrap();
    let server = TestServer::open_on(dir, folder, &[("POSTHOUSE_SERVER__TRUSTED_PROXIES", "127.0.0.0/8")]);
    for tenant in ["acme", "globex"] {
        server.does(&["tenant", "create", tenant]);
    }
    server
}

/// A response: its status, its headers without the date and the end of the connection, and its body.
type Heard = (u16, Vec<String>, String);

async fn asks(server: &TestServer, method: &str, path: &str, token: &str, body: &Value) -> Heard {
    // Refusals slow an address down, so every request has another address.
    static CALLERS: AtomicU32 = AtomicU32::new(1);
    let caller = CALLERS.fetch_add(1, Ordering::Relaxed);
    let request = reqwest::Client::new().request(method.parse().unwrap(), format!("{}{path}", server.url));
    let request = request.header("x-forwarded-for", format!("198.18.{}.{}", caller / 250, caller % 250 + 1));
    let answer = request.bearer_auth(token).body(body.to_string()).send().await.unwrap();
    // Whether the connection stays open depends on how much of the body has arrived.
    let headers = answer.headers().iter().filter(|(name, _)| !matches!(name.as_str(), "date" | "connection"));
    let headers = headers.map(|(name, value)| format!("{name}: {value:?}")).collect();
    (answer.status().as_u16(), headers, answer.text().await.unwrap())
}

fn provisioning(name: &str) -> Value {
    json!({ "gatewayId": name, "platform": "web", "botId": "", "gatewayEndpoint": "", "routeKeys": [] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_trusted_provider_enrols_provisions_and_manages_the_agents_of_its_tenant() {
    let provider = Provider::open("https://login.example").await;
    let server = trusting(&provider);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let made = server.does(&["enroll-token", "create", "--tenant", "acme", "--agent", "heron"]);
    let body = json!({ "enrollmentToken": made["token"], "gatewayId": "gw-laptop" });
    let (status, _, answer) = asks(&server, "POST", "/relay/enroll", &provider.valid(), &body).await;
    assert_eq!(status, 200, "{answer}");
    let enrolled: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(enrolled["tenant"], heron["tenant_id"]);

    let (status, _, answer) =
        asks(&server, "POST", "/relay/provision", &provider.valid(), &provisioning("gw-desk")).await;
    assert_eq!(status, 200, "{answer}");
    let shown = server.does(&["agent", "show", "gw-desk", "--tenant", "acme"]);
    assert_eq!(shown["gateway_settings"][0]["names"], json!(["gw-desk"]));

    let managing = provider.managing(&heron);
    let (status, _, answer) = asks(&server, "GET", "/manage/status", &managing, &Value::Null).await;
    assert_eq!(status, 200, "{answer}");
    let managed: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(managed["instanceId"], heron["instance_id"]);
    let policy = json!({ "policy": "any", "instanceId": shown["instance_id"] });
    let (status, _, answer) = asks(&server, "POST", "/manage/principal", &managing, &policy).await;
    assert_eq!((status, answer.as_str()), (200, r#"{"ok":true}"#));
    let (_, _, answer) = asks(&server, "GET", "/manage/status", &managing, &Value::Null).await;
    assert!(answer.contains(r#""policy":"any""#), "the agent of the token: {answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_other_token_of_a_provider_is_refused_like_a_wrong_credential() {
    let provider = Provider::open("https://login.example").await;
    let untrusted = Provider::open("https://evil.example").await;
    // It signs in the name of the trusted provider with a key of its own.
    let impostor = Provider::open("https://login.example").await;
    let server = trusting(&provider);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let wren = server.does(&["agent", "create", "wren", "--tenant", "globex"]);
    let made = server.does(&["enroll-token", "create", "--tenant", "acme", "--agent", "heron"]);
    let enrolling = json!({ "enrollmentToken": made["token"], "gatewayId": "gw-1" });
    let expired = json!(Timepiece::wall().now().seconds() - 120);

    let joining = [
        ("another issuer", untrusted.valid()),
        ("another key", impostor.valid()),
        ("another audience", provider.token("aud", json!("another"))),
        ("the audience of an agent", provider.managing(&heron)),
        ("expired", provider.token("exp", expired.clone())),
        ("without an end", provider.token("exp", Value::Null)),
        ("of an unlisted organisation", provider.token("org", json!("43"))),
        ("of a tenant by its name", provider.token("org", json!("acme"))),
        ("of another tenant by its name", provider.token("org", json!("globex"))),
        ("of no organisation", provider.token("org", Value::Null)),
    ];
    for (path, body) in [("/relay/enroll", &enrolling), ("/relay/provision", &provisioning("gw-1"))] {
        let wrong = asks(&server, "POST", path, "guess", body).await;
        assert_eq!(wrong.0, 401, "{}", wrong.2);
        for (what, token) in &joining {
            assert_eq!(asks(&server, "POST", path, token, body).await, wrong, "{path}: {what}");
        }
    }

    let managing = [
        ("another issuer", untrusted.managing(&heron)),
        ("another key", impostor.managing(&heron)),
        ("an agent of another tenant", provider.managing(&wren)),
        ("an unknown agent", provider.managing(&json!({ "instance_id": "inst_0" }))),
        ("a name for an id", provider.managing(&json!({ "instance_id": "heron" }))),
        ("the audience for enrolling", provider.valid()),
        ("expired", provider.token_for(&audience(&heron), "exp", expired)),
        ("of an unlisted organisation", provider.token_for(&audience(&heron), "org", json!("43"))),
    ];
    let wrong = asks(&server, "POST", "/manage/link", "guess", &json!({})).await;
    assert_eq!(wrong.0, 401, "{}", wrong.2);
    for (what, token) in &managing {
        assert_eq!(asks(&server, "POST", "/manage/link", token, &json!({})).await, wrong, "{what}");
    }
    // A token of a provider is no credential for anything else.
    for (method, path) in [("GET", "/v1/agents"), ("GET", "/api/agent-cron/list"), ("POST", "/relay/policy")]
    {
        for token in [provider.valid(), provider.managing(&heron)] {
            let heard = asks(&server, method, path, &token, &json!({})).await;
            assert_eq!(heard.0, 401, "{path}: {}", heard.2);
        }
    }
    // Nobody has used up the enrolment token, and no gateway was made.
    assert_eq!(server.does(&["agent", "list", "--tenant", "globex"])["items"].as_array().unwrap().len(), 1);
    assert_eq!(server.does(&["agent", "list", "--tenant", "acme"])["items"].as_array().unwrap().len(), 1);
    let heard = asks(&server, "POST", "/relay/enroll", &provider.valid(), &enrolling).await;
    assert_eq!(heard.0, 200, "{}", heard.2);
}
