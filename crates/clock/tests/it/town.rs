//! Test fixtures: a small server with a clock, and agents with jobs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bus::Bus;
use clock::{Clock, Config, Parts};
use errand::Errand;
use http::{Request, StatusCode};
use identity::{Enrolment, Identity};
use ledger::{Ledger, Location};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::cron::FireAt;
use posthouse_wire::{InstanceId, Secret};
use relay::Relay;
use serde_json::{Value, json};
use tower::ServiceExt;
use vault::{Keys, Owner, Signer, Vault};

use crate::agent::Callback;

const KEY: &str = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub const ISSUER: &str = "https://post.example";
/// Longest time that a test waits. A passing test never waits this long.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub struct Town {
    pub clock: Clock,
    pub identity: Identity,
    pub relay: Relay,
    pub ledger: Ledger,
    pub signer: Signer,
    pub time: Timepiece,
    pub callback: Callback,
}

/// An agent and its bearer token.
#[derive(Clone)]
pub struct Agent {
    pub town: Town,
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

impl Town {
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
        let callback = Callback::open(time.clone()).await;
        Self::build_with(place, config, time, callback).await
    }

    pub async fn build_with(place: Location, config: Config, time: Timepiece, callback: Callback) -> Self {
        let errand = || Errand::new(errand::Config::loopback());
        Self::build_calling(place, config, time, callback, errand).await
    }

    /// With the given DNS resolver.
    pub async fn looking_up(lookup: Arc<dyn errand::Lookup>) -> Self {
        let time = Timepiece::wound(start());
        let callback = Callback::open(time.clone()).await;
        let errand = || Errand::with_lookup(errand::Config::loopback(), lookup);
        Self::build_calling(Location::Memory, Config::default(), time, callback, errand).await
    }

    async fn build_calling(
        place: Location,
        config: Config,
        time: Timepiece,
        callback: Callback,
        errand: impl FnOnce() -> Errand,
    ) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let ledger = Ledger::open(place, time.clone()).await.unwrap();
        let keys = Keys::read(&Secret::new(KEY)).unwrap();
        let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.house(), time.clone())
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
        tokio::spawn({
            let clock = clock.clone();
            async move { clock.run().await }
        });
        Self { clock, identity, relay, ledger, signer, time, callback }
    }

    pub async fn agent(&self, tenant: &str, name: &str) -> Agent {
        self.enrol(tenant, name, None).await
    }

    pub async fn enrol(&self, tenant: &str, name: &str, wake_url: Option<String>) -> Agent {
        self.identity.accounts.create_tenant(tenant).await.unwrap().unwrap();
        let wanted =
            Enrolment { tenant: tenant.to_owned(), name: name.to_owned(), wake_url, ..Enrolment::default() };
        let instance = self.identity.accounts.enrol(wanted).await.unwrap().unwrap().instance.id;
        let keyring = &self.identity.accounts;
        let (client, _) = keyring.create_client(&Owner::Instance(instance.clone())).await.unwrap().unwrap();
        let token = keyring.grant_access(&client).await.unwrap().unwrap().access_token;
        Agent { town: self.clone(), instance, token }
    }

    pub async fn asks(&self, request: Request<Body>) -> (StatusCode, Value) {
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
        self.asks(request.body(Body::from(body)).unwrap()).await
    }

    /// A time this long after the start.
    pub fn at(&self, after: Duration) -> FireAt {
        FireAt::from_micros((start() + after).millis() * 1000)
    }

    /// Advances time in small steps until the condition is true.
    pub async fn winds_until(&self, mut is_so: impl FnMut() -> bool) {
        let winding = async {
            while !is_so() {
                self.time.wind(Duration::from_millis(50));
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, winding).await.expect("it did not become true");
    }

    /// Lets everything that is due now happen. A ledger request after it is committed after that work.
    pub async fn settles(&self) {
        for _ in 0..20 {
            self.ledger.arms().census().await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

pub async fn eventually<F: Future<Output = bool>>(mut is_so: impl FnMut() -> F) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it did not become true");
}

impl Agent {
    fn bearer(&self) -> String {
        format!("Bearer {}", self.token.expose())
    }

    pub async fn posts(&self, what: &str, body: Value) -> (StatusCode, Value) {
        let path = format!("/api/agent-cron/{what}");
        self.town.post(&path, &[("authorization", &self.bearer())], body.to_string().into_bytes()).await
    }

    pub async fn gets(&self, what: &str) -> (StatusCode, Value) {
        let request = Request::get(format!("/api/agent-cron/{what}"))
            .header("authorization", self.bearer())
            .body(Body::empty())
            .unwrap();
        self.town.asks(request).await
    }

    pub fn wish(&self, job: &str, fire_at: &FireAt) -> Value {
        json!({
            "job_id": job,
            "fire_at": fire_at,
            "agent_callback_url": self.town.callback.url(),
            "dedup_key": format!("{job}:{fire_at}"),
        })
    }

    /// Arms a job and returns its schedule.
    pub async fn arms(&self, job: &str, fire_at: &FireAt) -> String {
        self.arms_with(self.wish(job, fire_at)).await
    }

    pub async fn arms_with(&self, wish: Value) -> String {
        let (status, answer) = self.posts("provision", wish).await;
        assert_eq!(status, 200, "{answer}");
        answer["schedule_id"].as_str().unwrap().to_owned()
    }

    pub async fn cancels(&self, job: &str) {
        let (status, answer) = self.posts("cancel", json!({ "job_id": job })).await;
        assert_eq!((status, answer), (StatusCode::OK, json!({ "ok": true })));
    }

    /// Jobs and times from `list`.
    pub async fn lists(&self) -> Vec<(String, String)> {
        let (status, answer) = self.gets("list").await;
        assert_eq!(status, 200, "{answer}");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let armed = answer["armed"].as_array().unwrap();
        armed.iter().map(|arm| (text(&arm["job_id"]), text(&arm["fire_at"]))).collect()
    }

    /// History of the agent, newest first.
    pub async fn told(&self) -> Vec<String> {
        // Not through the HTTP API: a request of the agent is a sign of life and would change the history.
        let lines = self.town.clock.job_history(&self.instance, None, None, 1000).await.unwrap();
        lines.into_iter().map(|line| line.what).collect()
    }

    /// Waits until the history begins with these entries, newest first.
    pub async fn history_begins(&self, expected: &[&str]) {
        eventually(async || {
            let told = self.told().await;
            told.len() >= expected.len() && told.iter().zip(expected).all(|(a, b)| a == b)
        })
        .await;
    }
}
