//! An in-memory server and its clients, for tests.

use axum::Router;
use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bus::Bus;
use clock::Clock;
use errand::Errand;
use http::Request;
use identity::{Enrolment, Identity};
use ledger::{Ledger, Location, Owner};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{InstanceId, Secret};
use relay::Relay;
use serde_json::Value;
use tower::ServiceExt;
use vault::{MasterKeys, Vault};

use crate::{Config, Parts, Post, routes};

const KEY: &str = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

pub struct House {
    pub identity: Identity,
    pub post: Post,
    pub acme: Owner,
    door: Router,
}

/// A client, with the value of its `Authorization` header.
pub struct Program<'a> {
    house: &'a House,
    proof: String,
}

impl House {
    pub async fn open() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let time = Timepiece::wound(Moment::from_seconds(1_800_000_000));
        let ledger = Ledger::open(Location::Memory, time.clone()).await.unwrap();
        let keys = MasterKeys::read(&Secret::new(KEY)).unwrap();
        let (tokens, facts) = (ledger.tokens(), ledger.facts());
        let vault = Vault::unlock(keys, ledger.vault(), tokens, &*facts, time.clone()).await.unwrap();
        let errand = Errand::new(errand::Config::loopback());
        let public_url = "https://post.example".to_owned();
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
        let config = clock::Config::default();
        let signer = vault.signer(config.signing).await.unwrap();
        let clock = Clock::new(clock::Parts {
            config,
            arms: ledger.arms(),
            signer: signer.clone(),
            relay: relay.clone(),
            identity: identity.clone(),
            errand: errand.clone(),
            issuer: public_url.clone(),
            timepiece: time.clone(),
        });
        let post = Post::new(Parts {
            config: Config::default(),
            receipts: ledger.receipts(),
            exchanges: ledger.exchanges(),
            connectors: ledger.connectors(),
            usage: ledger.usage(),
            relay: relay.clone(),
            identity: identity.clone(),
            clock: clock.unwrap(),
            webhook_signer: vault.webhook_signer(&signer),
            errand,
            public_url,
            timepiece: time,
        });
        let acme = identity.accounts.create_tenant("acme").await.unwrap().unwrap().unwrap().id;
        Self { identity, door: routes(&post), post, acme: Owner::Tenant(acme) }
    }

    pub async fn enrol(&self, name: &str) -> InstanceId {
        let wanted = Enrolment { tenant: "acme".to_owned(), name: name.to_owned(), ..Enrolment::default() };
        self.identity.accounts.enrol(wanted).await.unwrap().unwrap().instance.id
    }

    /// A program that sends the credential itself (Basic).
    pub async fn program(&self, owner: &Owner) -> Program<'_> {
        let (client, secret) = self.identity.accounts.create_client(owner).await.unwrap().unwrap();
        let proof = format!("Basic {}", STANDARD.encode(format!("{client}:{}", secret.expose())));
        Program { house: self, proof }
    }

    /// A program that sends an access token (Bearer).
    pub async fn bearer(&self, owner: &Owner) -> Program<'_> {
        let (client, _) = self.identity.accounts.create_client(owner).await.unwrap().unwrap();
        let token = self.identity.accounts.grant_access(&client).await.unwrap().unwrap().access_token;
        Program { house: self, proof: format!("Bearer {}", token.expose()) }
    }

    pub async fn asks(&self, request: Request<Body>) -> (u16, Value) {
        let answer = self.door.clone().oneshot(request).await.unwrap();
        let (status, head) = (answer.status(), answer.headers().clone());
        if status.is_client_error() || status.is_server_error() {
            assert_eq!(head["content-type"], "application/problem+json");
        }
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status.as_u16(), serde_json::from_slice(&body).unwrap_or(Value::Null))
    }
}

impl Program<'_> {
    pub async fn get(&self, path: &str) -> (u16, Value) {
        let request = Request::get(path).header("authorization", &self.proof);
        self.house.asks(request.body(Body::empty()).unwrap()).await
    }

    pub async fn posts(&self, path: &str, header: (&str, &str), body: &Value) -> (u16, Value) {
        let request = Request::post(path).header("authorization", &self.proof).header(header.0, header.1);
        self.house.asks(request.body(Body::from(body.to_string())).unwrap()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.posts(path, ("accept", "*/*"), &body).await
    }
}
