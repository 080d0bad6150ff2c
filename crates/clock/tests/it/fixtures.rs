//! Test fixtures: a small server with a clock, and agents with jobs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use bus::Bus;
use clock::{Alarm, Clock, Config, FireOutcome, FireTarget, Parts};
use errand::Errand;
use http::{Request, StatusCode};
use identity::{Enrolment, Identity};
use ledger::{Arm, Ledger, Location};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::cron::{FireAt, Fired};
use posthouse_wire::{InstanceId, Secret, TenantId};
use prometheus_client::registry::Registry;
use relay::Relay;
use serde_json::{Value, json};
use tower::ServiceExt;
use vault::{MasterKeys, Owner, Signer, Vault};

use crate::callback_server::CallbackServer;

const KEY: &str = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub const ISSUER: &str = "https://post.example";
/// Longest time that a test waits for a condition. It only turns a hang into a failure.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// `clock.guard` as these tests leave it.
const GUARD: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub struct TestServer {
    pub clock: Clock,
    pub identity: Identity,
    pub relay: Relay,
    pub ledger: Ledger,
    pub signer: Signer,
    pub time: Timepiece,
    pub callback: CallbackServer,
    markers: Markers,
}

/// A target that accepts everything and remembers the last marker that fired. See `catch_up`.
#[derive(Clone)]
struct Markers {
    tenant: TenantId,
    last: Arc<AtomicU64>,
}

/// Marker numbers are unique, also across a restart on the same folder.
static NEXT_MARKER: AtomicU64 = AtomicU64::new(1);

#[async_trait]
impl FireTarget for Markers {
    async fn fire(&self, arm: &Arm) -> FireOutcome {
        self.last.fetch_max(arm.job.as_str().parse().unwrap(), Ordering::SeqCst);
        FireOutcome::Accepted { status: 200, fired: Fired::Accepted }
    }

    fn host(&self, _arm: &Arm) -> String {
        "marker".to_owned()
    }
}

/// An agent and its bearer token.
#[derive(Clone)]
pub struct Agent {
    pub server: TestServer,
    pub instance: InstanceId,
    pub token: Secret,
}

pub fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Start time of every test: 2027-01-15T08:00:00Z.
pub fn start() -> Moment {
    Moment::from_seconds(1_800_000_000)
}

impl TestServer {
    pub async fn open() -> Self {
        Self::open_with(Config::default()).await
    }

    pub async fn open_with(config: Config) -> Self {
        Self::build(Location::Memory, config, Timepiece::wound(start())).await
    }

    pub async fn open_in(folder: &Path, time: Timepiece) -> Self {
        Self::build(Location::Folder(folder.to_owned()), Config::default(), time).await
    }

    pub async fn build(place: Location, config: Config, time: Timepiece) -> Self {
        let callback = CallbackServer::open(time.clone()).await;
        Self::build_with(place, config, time, callback).await
    }

    pub async fn build_with(
        place: Location,
        config: Config,
        time: Timepiece,
        callback: CallbackServer,
    ) -> Self {
        let errand = || Errand::new(errand::Config::loopback());
        Self::build_calling(place, config, time, callback, errand).await
    }

    /// With the given DNS resolver.
    pub async fn with_lookup(lookup: Arc<dyn errand::Lookup>) -> Self {
        let time = Timepiece::wound(start());
        let callback = CallbackServer::open(time.clone()).await;
        let errand = || Errand::with_lookup(errand::Config::loopback(), lookup);
        Self::build_calling(Location::Memory, Config::default(), time, callback, errand).await
    }

    async fn build_calling(
        place: Location,
        config: Config,
        time: Timepiece,
        callback: CallbackServer,
        errand: impl FnOnce() -> Errand,
    ) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let ledger = Ledger::open(place, time.clone()).await.unwrap();
        let keys = MasterKeys::read(&Secret::new(KEY)).unwrap();
        let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), time.clone())
            .await
            .unwrap();
        let errand = errand();
        let bus = Bus::local();
        let identity = Identity::new(identity::Parts::over(
            &ledger,
            vault.keyring(),
            bus.clone(),
            errand.clone(),
            time.clone(),
        ));
        let relay = Relay::new(relay::Parts {
            config: relay::Config::default(),
            inbox: ledger.inbox(),
            outbox: ledger.outbox(),
            identity: identity.clone(),
            bus,
            errand: errand.clone(),
            media: relay::MediaParts {
                records: ledger.media(),
                usage: ledger.usage(),
                folder: "/nonexistent/media".into(),
                public_url: "https://house.example".to_owned(),
            },
            timepiece: time.clone(),
        });
        let signer = vault.signer(config.signing).await.unwrap();
        let clock = Clock::new(Parts {
            config,
            arms: ledger.arms(),
            signer: signer.clone(),
            relay: relay.clone(),
            identity: identity.clone(),
            errand,
            issuer: ISSUER.to_owned(),
            timepiece: time.clone(),
        })
        .unwrap();
        let markers = Markers { tenant: create_tenant(&identity, "markers").await, last: Arc::default() };
        clock.alarms().register("marker", Arc::new(markers.clone()));
        tokio::spawn({
            let clock = clock.clone();
            async move { clock.run().await }
        });
        Self { clock, identity, relay, ledger, signer, time, callback, markers }
    }

    pub async fn tenant(&self, name: &str) -> TenantId {
        create_tenant(&self.identity, name).await
    }

    pub async fn create_agent(&self, tenant: &str, name: &str) -> Agent {
        self.create_agent_with_wake_url(tenant, name, None).await
    }

    pub async fn create_agent_with_wake_url(
        &self,
        tenant: &str,
        name: &str,
        wake_url: Option<String>,
    ) -> Agent {
        self.identity.accounts.create_tenant(tenant).await.unwrap().unwrap();
        let wanted =
            Enrolment { tenant: tenant.to_owned(), name: name.to_owned(), wake_url, ..Enrolment::default() };
        let instance = self.identity.accounts.enrol(wanted).await.unwrap().unwrap().instance.id;
        let keyring = &self.identity.accounts;
        let (client, _) = keyring.create_client(&Owner::Instance(instance.clone())).await.unwrap().unwrap();
        let token = keyring.grant_access(&client).await.unwrap().unwrap().access_token;
        Agent { server: self.clone(), instance, token }
    }

    pub async fn request(&self, request: Request<Body>) -> (StatusCode, Value) {
        let answer = clock::routes(&self.clock).oneshot(request).await.unwrap();
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> (StatusCode, Value) {
        let mut request = Request::post(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.request(request.body(Body::from(body)).unwrap()).await
    }

    /// A time this long after the start.
    pub fn at(&self, after: Duration) -> FireAt {
        FireAt::from_micros((start() + after).millis() * 1000)
    }

    pub fn advance(&self, by: Duration) {
        self.time.wind(by);
    }

    /// Advances time in small steps until the condition is true. The clock catches up after every step, so that time
    /// does not run ahead of a slow machine.
    pub async fn advance_until(&self, mut is_true: impl FnMut() -> bool) {
        eventually(async || {
            let done = is_true();
            if !done {
                self.advance(Duration::from_millis(200));
                self.catch_up().await;
            }
            done
        })
        .await;
    }

    /// Waits until the clock has fired everything that is due by now and has recorded the outcomes.
    ///
    /// It sets a marker that is due right now. The clock releases fires in the order of their due times, so when the
    /// marker has fired, everything else that is due was released. When no fire is in flight, all of them have ended.
    pub async fn catch_up(&self) {
        self.catch_up_beside(0).await;
    }

    /// The same, while the test holds up this many fires.
    pub async fn catch_up_beside(&self, held_up: i64) {
        let number = NEXT_MARKER.fetch_add(1, Ordering::SeqCst);
        let alarm = Alarm {
            target: "marker",
            tenant: self.markers.tenant.clone(),
            job: number.to_string().into(),
            at: self.time.now() - GUARD,
        };
        assert!(self.clock.alarms().set(alarm).await.unwrap());
        let in_flight = || self.metric("posthouse_clock_fires_in_flight");
        eventually(async || self.markers.last.load(Ordering::SeqCst) >= number && in_flight() == held_up)
            .await;
    }

    /// Value of one metric of the clock, zero if it was never counted.
    pub fn metric(&self, name: &str) -> i64 {
        let mut registry = Registry::default();
        self.clock.metrics().register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    }
}

async fn create_tenant(identity: &Identity, name: &str) -> TenantId {
    if let Some(tenant) = identity.accounts.create_tenant(name).await.unwrap().unwrap() {
        return tenant.id;
    }
    identity.roster.records().tenant(name).await.unwrap().unwrap().id
}

/// Polls a condition until it is true.
pub async fn eventually(mut is_true: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_true().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it did not become true");
}

impl Agent {
    fn bearer(&self) -> String {
        format!("Bearer {}", self.token.expose())
    }

    pub async fn post(&self, what: &str, body: Value) -> (StatusCode, Value) {
        let path = format!("/api/agent-cron/{what}");
        self.server.post(&path, &[("authorization", &self.bearer())], body.to_string().into_bytes()).await
    }

    pub async fn get(&self, what: &str) -> (StatusCode, Value) {
        let request = Request::get(format!("/api/agent-cron/{what}"))
            .header("authorization", self.bearer())
            .body(Body::empty())
            .unwrap();
        self.server.request(request).await
    }

    pub fn arm_request(&self, job: &str, fire_at: &FireAt) -> Value {
        json!({
            "job_id": job,
            "fire_at": fire_at,
            "agent_callback_url": self.server.callback.url(),
            "dedup_key": format!("{job}:{fire_at}"),
        })
    }

    /// Arms a job and returns its schedule.
    pub async fn arm(&self, job: &str, fire_at: &FireAt) -> String {
        self.arm_with(self.arm_request(job, fire_at)).await
    }

    pub async fn arm_with(&self, request: Value) -> String {
        let (status, answer) = self.post("provision", request).await;
        assert_eq!(status, 200, "{answer}");
        answer["schedule_id"].as_str().unwrap().to_owned()
    }

    pub async fn cancel(&self, job: &str) {
        let (status, answer) = self.post("cancel", json!({ "job_id": job })).await;
        assert_eq!((status, answer), (StatusCode::OK, json!({ "ok": true })));
    }

    /// Jobs and times from `list`.
    pub async fn list(&self) -> Vec<(String, String)> {
        let (status, answer) = self.get("list").await;
        assert_eq!(status, 200, "{answer}");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let armed = answer["armed"].as_array().unwrap();
        armed.iter().map(|arm| (text(&arm["job_id"]), text(&arm["fire_at"]))).collect()
    }

    /// History of the agent, newest first.
    pub async fn history(&self) -> Vec<String> {
        // Not through the HTTP API: a request of the agent is a sign of life and would change the history.
        let lines = self.server.clock.jobs().history(&self.instance, None, None, 1000).await.unwrap();
        lines.into_iter().map(|line| line.what).collect()
    }

    /// Waits until the history begins with these entries, newest first.
    pub async fn history_begins_with(&self, expected: &[&str]) {
        eventually(async || {
            let history = self.history().await;
            history.len() >= expected.len() && history.iter().zip(expected).all(|(a, b)| a == b)
        })
        .await;
    }
}
