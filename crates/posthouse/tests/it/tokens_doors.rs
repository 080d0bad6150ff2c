//! Every secret at every authenticated path: each is valid only where it belongs.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use posthouse_agent::verify::{FireVerifier, KeySet, PerJobKey, check_claims};
use posthouse_time::Timepiece;
use posthouse_wire::cron::{
    CRON_KEY, FireAt, FireBody, FireProof, Policy, Provision, SIGNATURE, TimedSignature, audience,
    cron_key_message,
};
use posthouse_wire::{GatewayId, JobId, Secret, token};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::cron::{Armer, Callback, ahead};
use crate::talk::{PATIENCE, provide_crypto};
use crate::test_server::TestServer;
use crate::tokens::exchanges;

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Endpoint {
    Relay,
    Cron,
    Post,
    Exchange,
    Refresh,
    Admin,
    Metrics,
    Scheduler,
    Fire,
    FireByKey,
}

use Endpoint::{Admin, Cron, Exchange, Fire, FireByKey, Metrics, Post, Refresh, Relay, Scheduler};

/// The answer to a refused request.
const DOORS: [(Endpoint, &str); 10] = [
    (Relay, "closed 4401"),
    (Cron, "401 invalid_token"),
    (Post, "401 unauthorized"),
    (Exchange, "401 invalid_client"),
    (Refresh, "400 invalid_grant"),
    (Admin, "401 unauthorized"),
    (Metrics, "401 unauthorized"),
    (Scheduler, "401 invalid_signature"),
    (Fire, "nothing"),
    (FireByKey, "nothing"),
];

/// A server and an agent of it with a job under its own key.
struct Fixture {
    server: TestServer,
    client_id: String,
    audience: String,
    keys: KeySet,
    cron_key: Secret,
    fire_at: FireAt,
    /// Refusals slow an address down, so each caller comes from another.
    callers: AtomicU8,
}

impl Fixture {
    /// What `secret` is answered at a door, presented as that door wants it.
    async fn answer(&self, door: Endpoint, secret: &str) -> String {
        let now = Timepiece::wall().now();
        let client = reqwest::Client::new();
        let at = |path: &str| format!("{}{path}", self.server.url);
        let request = match door {
            Relay => return self.dial(secret).await,
            Fire => {
                let claims = check_claims(secret, &self.audience, &self.keys, Some(&self.server.url), now);
                return told(claims.is_some());
            }
            FireByKey => return told(self.is_fired_by(secret).await),
            Cron => client.get(at("/api/agent-cron/list")).bearer_auth(secret),
            Post => client.get(at("/v1/agents")).bearer_auth(secret),
            Admin => client.get(at("/admin/tenants")).bearer_auth(secret),
            Metrics => client.get(at("/metrics")).bearer_auth(secret),
            Exchange => client.post(at("/oauth/token")).form(&[
                ("grant_type", "client_credentials"),
                ("client_id", &self.client_id),
                ("client_secret", secret),
            ]),
            Refresh => client
                .post(at("/api/oauth/token"))
                .header("x-nous-refresh-token", secret)
                .form(&[("grant_type", "refresh_token"), ("client_id", "hermes-cli-vps")]),
            Scheduler => {
                let call =
                    json!({"instance_id": "inst_x", "job_id": "x", "schedule_id": "sch_x"}).to_string();
                let stamp = TimedSignature::make(&Secret::new(secret), now.seconds(), call.as_bytes());
                // As a bearer too: neither counts for the other.
                let request = client.post(at("/api/agent-cron/relay")).bearer_auth(secret);
                request.header(SIGNATURE, stamp.header()).body(call)
            }
        };
        let answer = request.header("x-forwarded-for", self.caller()).send().await.unwrap();
        let status = answer.status().as_u16();
        if status == 200 {
            return "opened".to_owned();
        }
        let text = answer.text().await.unwrap();
        let body: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{door:?}: {status} {text}"));
        let word = body["error"].as_str().or(body["code"].as_str());
        format!("{status} {}", word.unwrap_or_else(|| panic!("{door:?}: {text}")))
    }

    fn caller(&self) -> String {
        format!("192.0.2.{}", self.callers.fetch_add(1, Ordering::Relaxed))
    }

    /// A welcome socket answers; the others are closed.
    async fn dial(&self, bearer: &str) -> String {
        let address = self.server.url.trim_start_matches("http://");
        let mut request = format!("ws://{address}/relay").into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {bearer}").parse().unwrap());
        request.headers_mut().insert("x-forwarded-for", self.caller().parse().unwrap());
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
        let _ = socket.send(Message::Ping("well?".into())).await;
        loop {
            let heard = tokio::time::timeout(PATIENCE, socket.next()).await.expect("nothing was heard");
            match heard.expect("it ended without a word").unwrap() {
                Message::Pong(_) => return "opened".to_owned(),
                Message::Close(close) => return format!("closed {}", u16::from(close.unwrap().code)),
                _ => {}
            }
        }
    }

    /// Whether the agent takes a fire that is stamped under `key`.
    async fn is_fired_by(&self, key: &str) -> bool {
        let (timepiece, job) = (Timepiece::wall(), JobId::from("keyed"));
        let message = cron_key_message(&job, &self.fire_at);
        let stamp = TimedSignature::make(&Secret::new(key), timepiece.now().seconds(), &message).header();
        let given = self.cron_key.clone();
        let verifier = PerJobKey::new(move |_: &JobId| Some(given.clone()), timepiece);
        let headers = http::HeaderMap::from_iter([
            (CRON_KEY.parse().unwrap(), stamp.parse().unwrap()),
            ("authorization".parse().unwrap(), format!("Bearer {key}").parse().unwrap()),
        ]);
        let body = FireBody::new(job, self.fire_at.clone(), &Policy::default());
        verifier.verify(&headers, &serde_json::to_vec(&body).unwrap()).await.is_some()
    }
}

fn told(is_open: bool) -> String {
    if is_open { "opened" } else { "nothing" }.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_secret_opens_its_own_door_and_is_refused_at_every_other() {
    provide_crypto();
    let server = TestServer::open(&[("POSTHOUSE_SERVER__TRUSTED_PROXIES", "127.0.0.0/8")]);
    server.does(&["tenant", "create", "acme"]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let text = |name: &str| heron[name].as_str().unwrap().to_owned();
    let callback = Callback::open().await;
    let armer = Armer::new(&server, &heron, callback.of("heron")).await;
    armer.arms(&armer.provision("job", &ahead(Duration::ZERO))).await;
    let fire = callback.called(1).await[0].token().to_owned();
    let fire_at = ahead(HOUR);
    let keyed =
        armer.arms(&Provision { proof: FireProof::PerJobKey, ..armer.provision("keyed", &fire_at) }).await;
    let cron_key = keyed["cron_key"].as_str().unwrap().to_owned();
    let scheduler = server.does(&["scheduler-secret", "rotate"])["secret"].as_str().unwrap().to_owned();
    let gateway_secret = text("secret");
    let gateway = token::mint(&GatewayId::new(text("gateway_id")), &Secret::new(&*gateway_secret), 0, 0);
    let granted = exchanges(&server, &heron).await["access_token"].as_str().unwrap().to_owned();
    let admin = std::fs::read_to_string(server.folder().join("admin.token")).unwrap().trim().to_owned();
    let jwks = reqwest::get(format!("{}/.well-known/jwks.json", server.url)).await.unwrap();

    let secrets: [(&str, String, &[Endpoint]); 12] = [
        ("gateway token", gateway, &[Relay]),
        // Good for minting upgrade tokens; presented itself it is nothing.
        ("gateway secret", gateway_secret, &[]),
        ("client secret", text("client_secret"), &[Exchange]),
        ("access token of a client", granted, &[Cron, Post]),
        ("access token of a login", text("access_token"), &[Cron, Post]),
        ("refresh token", text("refresh_token"), &[Refresh]),
        ("fire token", fire, &[Fire]),
        ("admin token", admin, &[Admin, Metrics]),
        ("key of a job", cron_key.clone(), &[FireByKey]),
        ("scheduler secret", scheduler, &[Scheduler]),
        ("id of the client", text("client_id"), &[]),
        ("guess", "eyJhbGciOiJub25lIn0.e30.".to_owned(), &[]),
    ];
    let fixture = Fixture {
        client_id: text("client_id"),
        audience: audience(&text("instance_id").as_str().into()),
        keys: KeySet::read(&jwks.bytes().await.unwrap()).unwrap(),
        cron_key: Secret::new(cron_key),
        callers: AtomicU8::new(1),
        fire_at,
        server,
    };
    let mut wrong = Vec::new();
    for (kind, secret, own) in &secrets {
        for (door, refusal) in DOORS {
            let expected = if own.contains(&door) { "opened" } else { refusal };
            let answer = fixture.answer(door, secret).await;
            if answer != expected {
                wrong.push(format!("{kind} at {door:?}: {answer}, not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(callback.len(), 1, "none of it was a fire");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_agents_job_can_neither_be_seen_nor_touched_in_its_tenant_or_any_other() {
    provide_crypto();
    let server = TestServer::open(&[]);
    let callback = Callback::open().await;
    let mut armers = Vec::new();
    for (tenant, name) in [("acme", "heron"), ("acme", "wren"), ("globex", "otter")] {
        let _ = server.tries(&["tenant", "create", tenant]);
        let agent = server.does(&["agent", "create", name, "--tenant", tenant]);
        armers.push(Armer::new(&server, &agent, callback.of(name)).await);
    }
    let heron = armers.remove(0);
    let due = ahead(HOUR);
    let schedule = heron.arms(&heron.provision("job", &due)).await["schedule_id"].clone();
    let armed = heron.listed().await;
    assert_eq!(armed, [json!({"job_id": "job", "fire_at": due.text(), "schedule_id": schedule})]);
    // Something for the history, and something that could be driven again.
    heron.arms(&heron.provision("over", &ahead(Duration::ZERO))).await;
    callback.called(1).await;
    let job = json!({"job_id": "job"});
    for other in &armers {
        assert_eq!(other.listed().await, Vec::<Value>::new());
        for query in ["history", "history?job_id=job", "history?job_id=over"] {
            assert_eq!(other.asks(query).await, (200, json!({"history": []})), "{query}");
        }
        let redriven = other.posts("redrive", &job).await.unwrap();
        assert_eq!(redriven, (200, json!({"ok": true, "redriven": false})));
        other.cancels("job").await;
        // The same name is another job here.
        other.arms(&other.provision("job", &ahead(2 * HOUR))).await;
        other.cancels("job").await;
        assert_eq!(other.listed().await, Vec::<Value>::new());
    }
    assert_eq!(heron.listed().await, armed);
    assert_eq!(callback.len(), 1);

    // The tenant's own client stands for no agent.
    let own = server.does(&["client", "create", "--tenant", "acme"]);
    let owner = Armer::new(&server, &own, callback.of("nobody")).await;
    for (status, answer) in [owner.asks("list").await, owner.posts("cancel", &job).await.unwrap()] {
        assert_eq!((status, &answer["error"]), (403, &json!("invalid_client")));
    }
}
