//! Test server in memory, and its operator.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use bus::Bus;
use bytes::Bytes;
use clock::Clock;
use console::{AdminApi, ChatPageParts, Parts};
use edge::Edge;
use edge::web::Web;
use errand::Errand;
use http::{Method, Request, StatusCode};
use identity::{AdminToken, Identity};
use ledger::{Append, InboxLimits, Ledger, Location};
use post::requests::{NotifyCommand, NotifyOutcome};
use post::{Caller, Post};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::delivery::PayloadKind;
use posthouse_wire::{EntryId, Event, InstanceId, Secret, TenantId};
use relay::Relay;
use serde_json::{Value, json};
use tower::ServiceExt;
use vault::{Algorithm, Keyring, MasterKeys, Vault};
use workshop::{SkillRunner, Workshop};

use crate::pigeon::{self, Pigeon};

pub const ADMIN: &str = "canary-admin";

pub struct TestServer {
    pub ledger: Ledger,
    pub identity: Identity,
    pub keyring: Keyring,
    pub relay: Relay,
    pub post: Post,
    pub doors: Router,
    pub timepiece: Timepiece,
    pub backups: Arc<Mutex<Vec<std::path::PathBuf>>>,
}

impl TestServer {
    /// Commits that wrote something. In memory a read is a commit too.
    pub fn writes(&self) -> u64 {
        self.ledger.commits() - self.ledger.reads()
    }

    pub async fn open() -> Self {
        // Tests share a process, so nothing may depend on their order.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let timepiece = Timepiece::wound(Moment::from_seconds(1_765_000_000));
        let ledger = Ledger::open(Location::Memory, timepiece.clone()).await.unwrap();
        let keys = MasterKeys::read(&MasterKeys::generate().unwrap()).unwrap();
        let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), timepiece.clone())
            .await
            .unwrap();
        let errand = Errand::new(errand::Config::default());
        let keyring = vault.keyring();
        let bus = Bus::local();
        let over =
            identity::Parts::over(&ledger, vault.keyring(), bus.clone(), errand.clone(), timepiece.clone());
        let admin = AdminToken::from_hash(AdminToken::hash(&Secret::new(ADMIN)));
        let identity = Identity::new(identity::Parts { admin, ..over });
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
            timepiece: timepiece.clone(),
        });
        let signer = vault.signer(Algorithm::Es256).await.unwrap();
        let clock = Clock::new(clock::Parts {
            config: clock::Config::default(),
            arms: ledger.arms(),
            signer: signer.clone(),
            relay: relay.clone(),
            identity: identity.clone(),
            errand: errand.clone(),
            issuer: "http://127.0.0.1:7678".to_owned(),
            timepiece: timepiece.clone(),
        })
        .unwrap();
        let post = Post::new(post::Parts {
            config: post::Config::default(),
            receipts: ledger.receipts(),
            exchanges: ledger.exchanges(),
            connectors: ledger.connectors(),
            usage: ledger.usage(),
            relay: relay.clone(),
            identity: identity.clone(),
            clock: clock.clone(),
            webhook_signer: vault.webhook_signer(&signer),
            errand: errand.clone(),
            public_url: "http://127.0.0.1:7678".to_owned(),
            timepiece: timepiece.clone(),
        });
        let webhook_signer = vault.webhook_signer(&signer);
        let workshop = Workshop::new(workshop::Parts {
            config: workshop::Config::default(),
            skills: ledger.skills(),
            approval: ledger.skill_approval(),
            usage: ledger.usage(),
            data: ledger.data(),
            roster: identity.roster.clone(),
            callers: post.callers().clone(),
            errand: errand.clone(),
            webhook_signer,
            custom_stores: workshop::CustomStores::default(),
            timepiece: timepiece.clone(),
        });
        let runner = SkillRunner::new(workshop::RunnerParts {
            config: workshop::Config::default(),
            workshop: workshop.clone(),
            post: post.clone(),
            runs: ledger.skill_runs(),
            triggers: ledger.skill_triggers(),
            secrets: vault.skill_secrets(),
            errand: errand.clone(),
            alarms: clock.alarms().clone(),
            timepiece: timepiece.clone(),
        });
        let edge = Edge::new(edge::Parts {
            prompts: ledger.prompts(),
            threads: ledger.threads(),
            identity: identity.clone(),
            vault,
            relay: relay.clone(),
            dead_bots: ledger.dead_bots(),
            event_feeds: ledger.event_feeds(),
            person_chats: ledger.person_chats(),
            timepiece: timepiece.clone(),
            platforms: vec![Arc::new(Pigeon)],
            public_url: "http://127.0.0.1:7678".to_owned(),
        });
        let backups = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&backups);
        let doors = console::routes(Parts {
            identity: identity.clone(),
            inbox: ledger.inbox(),
            traces: ledger.traces(),
            audit: ledger.audit(),
            usage: ledger.usage(),
            uses: ledger.capability_uses(),
            relay: relay.clone(),
            clock,
            workshop,
            runner,
            post: post.clone(),
            edge,
            admin: AdminApi::new(identity.authenticator.clone()),
            public_url: "http://127.0.0.1:7678".to_owned(),
            built_in: vec!["web".into()],
            chat_page: Some(ChatPageParts {
                web: Arc::new(Web::new(
                    ledger.rooms(),
                    ledger.invitations(),
                    (ledger.prompts(), ledger.threads()),
                    timepiece.clone(),
                )),
                invitations: ledger.invitations(),
            }),
            timepiece: timepiece.clone(),
            backup: Arc::new(move |path| {
                written.lock().unwrap().push(path);
                Box::pin(async { Ok(()) })
            }),
        });
        Self { ledger, identity, keyring, relay, post, doors, timepiece, backups }
    }

    /// A server with tenant `acme`, bot `pigeon:7001` and agent `heron` that it belongs to.
    pub async fn settled() -> (Self, Value) {
        let server = Self::open().await;
        server.makes("/admin/tenants", json!({ "name": "acme" })).await;
        server
            .makes("/admin/bots", json!({ "platform": "pigeon", "secrets": { "token": pigeon::TOKEN } }))
            .await;
        let body = json!({ "tenant": "acme", "name": "heron", "bots": ["pigeon:7001"] });
        let heron = server.makes("/admin/agents", body).await;
        (server, heron)
    }

    pub async fn asks(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("authorization", format!("Bearer {ADMIN}"));
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.hears(request.body(body).unwrap()).await
    }

    pub async fn hears(&self, request: Request<Body>) -> (StatusCode, Value) {
        let response = self.doors.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        if !status.is_success() {
            assert_eq!(kind, "application/problem+json");
            assert_eq!(value["status"], status.as_u16());
        }
        (status, value)
    }

    pub async fn gets(&self, path: &str) -> Value {
        let (status, value) = self.asks(Method::GET, path, None).await;
        assert_eq!(status, StatusCode::OK, "{path}: {value}");
        value
    }

    pub async fn makes(&self, path: &str, body: Value) -> Value {
        let (status, value) = self.asks(Method::POST, path, Some(body)).await;
        assert!(status.is_success(), "{path}: {value}");
        value
    }

    /// The status and code of a refusal.
    pub async fn refuses(&self, method: Method, path: &str, body: Option<Value>) -> (u16, String) {
        let (status, value) = self.asks(method, path, body).await;
        (status.as_u16(), value["code"].as_str().unwrap_or_default().to_owned())
    }

    /// A message that waits for an agent.
    pub async fn keeps(&self, to: &Value, chat: &str, message: &str) -> EntryId {
        let event = serde_json::to_vec(&Event::default()).unwrap();
        let appended = self
            .relay
            .inboxes()
            .records()
            .append(Append {
                forward: None,
                to: InstanceId::from(to["instance_id"].as_str().unwrap()),
                platform: "pigeon".into(),
                bot: "7001".into(),
                chat: chat.into(),
                message: Some(message.into()),
                dedup: format!("{chat}/{message}").into(),
                event: Bytes::from(event),
                references: Vec::new(),
                album: None,
                accepted: Moment::from_seconds(1_765_000_000),
                sighting: None,
                receipt: None,
                id: None,
                sender: None,
                limits: InboxLimits::NONE,
                stale: None,
                turn: Default::default(),
            })
            .await
            .unwrap();
        appended.entry().cloned().unwrap()
    }

    /// A program of a tenant tells an agent something.
    pub async fn notifies(&self, tenant: &str, agent: &str, message: &str) -> NotifyOutcome {
        let tenant = self.gets(&format!("/admin/tenants/{tenant}")).await;
        let tenant = TenantId::from(tenant["tenant_id"].as_str().unwrap());
        let by = Caller { client: format!("tenant:{tenant}").into(), tenant, agent: None, attested: None };
        let command = NotifyCommand {
            agent: agent.to_owned(),
            message: message.to_owned(),
            kind: PayloadKind::Augment,
            event_type: None,
            correlation_id: None,
            connectors: None,
            from: None,
            trigger_kind: None,
            dispatch_id: None,
            wait: None,
        };
        self.post.messages().notify(&by, command).await.unwrap()
    }
}

impl TestServer {
    /// The stored owner of an access token.
    pub async fn owner_of(&self, token: &str) -> Option<ledger::AccessRecord> {
        self.keyring.access_record(Keyring::token_hash(token)).await.unwrap()
    }
}
