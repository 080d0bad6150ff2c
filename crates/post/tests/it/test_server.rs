//! Fixtures: a server with a post, SDK agents that connect by real sockets, and programs that call the API.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::{Extension, Router};
use bus::Bus;
use clock::Clock;
use errand::Errand;
use http::{Request, StatusCode};
use http_kit::ClientAddress;
use identity::{Enrolment, Identity};
use ledger::{Ledger, Location};
use post::{Config, ConnectorSecrets, Post};
use posthouse_agent::{
    BotIdentity as AgentIdentity, DeliveryDeclined, Inbound, InboundHandler, RelayTransport, Settings, Tag,
    WebSocketTransport,
};
use posthouse_time::{Span, Timepiece};
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, ChatId, InstanceId, MessageId, Outcome, Secret, SessionKey, TenantId};
use prometheus_client::registry::Registry;
use relay::Relay;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tower::ServiceExt;
use vault::{MasterKeys, Owner, Vault};

const KEY: &str = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// How long a test waits for what must come. Never waited out by one that passes.
pub const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct TestServer {
    pub post: Post,
    pub identity: Identity,
    pub relay: Relay,
    clock: Clock,
    pub ledger: Ledger,
    pub time: Timepiece,
    pub url: String,
    doors: Router,
    running: Arc<Vec<AbortHandle>>,
}

/// An agent of the roster with its credential.
#[derive(Clone)]
pub struct Enrolled {
    pub server: TestServer,
    pub tenant: TenantId,
    pub instance: InstanceId,
    name: String,
    gateway: posthouse_wire::GatewayId,
    secret: Secret,
}

/// A program and the bearer it calls with.
#[derive(Clone)]
pub struct Program {
    server: TestServer,
    token: Secret,
}

/// A connected agent.
pub struct Seated {
    enrolled: Enrolled,
    transport: WebSocketTransport,
    heard: Mutex<mpsc::UnboundedReceiver<Inbound>>,
    takes: watch::Sender<bool>,
}

struct InboundQueue {
    sender: mpsc::UnboundedSender<Inbound>,
    takes: watch::Receiver<bool>,
}

impl TestServer {
    pub async fn open() -> Self {
        Self::open_with(Config::default()).await
    }

    pub async fn open_with(config: Config) -> Self {
        Self::build(Location::Memory, config, Timepiece::wall()).await
    }

    /// A server whose wakes wait as long as possible, for tests in which the agent accepts them.
    pub async fn patient() -> Self {
        Self::open_with(Config { wake_wait: Span::seconds(60), ..Config::default() }).await
    }

    pub async fn wound() -> Self {
        let start = Timepiece::wall().now();
        Self::build(Location::Memory, Config::default(), Timepiece::wound(start)).await
    }

    pub async fn open_in(folder: &Path) -> Self {
        Self::build(Location::Folder(folder.to_owned()), Config::default(), Timepiece::wall()).await
    }

    pub async fn build(place: Location, config: Config, time: Timepiece) -> Self {
        Self::build_with(place, config, relay::Config::default(), time).await
    }

    /// A server with this small inbox limit, on a manual clock.
    pub async fn with_small_inboxes(inbox_entries: i64) -> Self {
        let start = Timepiece::wall().now();
        let relay = relay::Config { inbox_entries, ..relay::Config::default() };
        Self::build_with(Location::Memory, Config::default(), relay, Timepiece::wound(start)).await
    }

    async fn build_with(place: Location, config: Config, relay: relay::Config, time: Timepiece) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let ledger = Ledger::open(place, time.clone()).await.unwrap();
        let keys = MasterKeys::read(&Secret::new(KEY)).unwrap();
        let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), time.clone())
            .await
            .unwrap();
        let errand = Errand::new(errand::Config::loopback());
        let bus = Bus::local();
        let parts =
            identity::Parts::over(&ledger, vault.keyring(), bus.clone(), errand.clone(), time.clone());
        // Tests send more in one moment than the defaults allow.
        let limits = identity::LimitValues::all(1_000_000);
        let identity = Identity::new(identity::Parts { limits, ..parts });
        let relay = Relay::new(relay::Parts {
            config: relay,
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
        let signer = vault.signer(vault::Algorithm::Es256).await.unwrap();
        let here = IpAddr::from([127, 0, 0, 1]);
        let listener = tokio::net::TcpListener::bind((here, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let clock = Clock::new(clock::Parts {
            config: clock::Config::default(),
            arms: ledger.arms(),
            signer: signer.clone(),
            relay: relay.clone(),
            identity: identity.clone(),
            errand: errand.clone(),
            issuer: url.clone(),
            timepiece: time.clone(),
        })
        .unwrap();
        let post = Post::new(post::Parts {
            config,
            receipts: ledger.receipts(),
            exchanges: ledger.exchanges(),
            connectors: ledger.connectors(),
            usage: ledger.usage(),
            relay: relay.clone(),
            identity: identity.clone(),
            clock: clock.clone(),
            webhook_signer: vault.webhook_signer(&signer),
            errand,
            public_url: url.clone(),
            timepiece: time.clone(),
        });
        let doors = relay::routes(&relay, Arc::clone(post.conversations()) as Arc<dyn relay::Egress>)
            .merge(post::routes(&post))
            .layer(Extension(ClientAddress(here)));
        let served = doors.clone();
        let running = [
            tokio::spawn(async move { axum::serve(listener, served).await.unwrap() }),
            tokio::spawn({
                let relay = relay.clone();
                async move { relay.run().await.unwrap() }
            }),
            tokio::spawn({
                let clock = clock.clone();
                async move { clock.run().await.unwrap() }
            }),
            tokio::spawn({
                let post = post.clone();
                async move { post.run().await.unwrap() }
            }),
        ];
        let running = Arc::new(running.iter().map(JoinHandle::abort_handle).collect());
        Self { post, identity, relay, clock, ledger, time, url, doors, running }
    }

    /// The number of alarms of the clock that failed.
    pub fn failed_rings(&self) -> u64 {
        let (mut registry, mut text) = (Registry::default(), String::new());
        self.clock.metrics().register(&mut registry);
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let counted = text.lines().filter(|line| line.starts_with("posthouse_clock_attempts_failed_total"));
        counted.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Ends, so that its folder is free for the next.
    pub async fn closes(self) {
        self.post.close().await;
        self.clock.close().await;
        self.relay.close().await;
        self.running.iter().for_each(AbortHandle::abort);
    }

    pub async fn tenant(&self, name: &str) -> TenantId {
        let _ = self.identity.accounts.create_tenant(name).await.unwrap();
        self.identity.roster.records().tenant(name).await.unwrap().unwrap().id
    }

    pub async fn enrol(&self, tenant: &str, name: &str) -> Enrolled {
        self.enrol_with(tenant, name, None).await
    }

    pub async fn enrol_with(&self, tenant: &str, name: &str, wake_url: Option<String>) -> Enrolled {
        let tenant_id = self.tenant(tenant).await;
        let wanted =
            Enrolment { tenant: tenant.to_owned(), name: name.to_owned(), wake_url, ..Enrolment::default() };
        let made = self.identity.accounts.enrol(wanted).await.unwrap().unwrap();
        Enrolled {
            server: self.clone(),
            tenant: tenant_id,
            instance: made.instance.id,
            name: name.to_owned(),
            gateway: made.gateway,
            secret: made.secret,
        }
    }

    /// A program with the tenant's own credential.
    pub async fn program(&self, tenant: &str) -> Program {
        let tenant = self.tenant(tenant).await;
        self.with_credential(Owner::Tenant(tenant)).await
    }

    async fn with_credential(&self, owner: Owner) -> Program {
        let keyring = &self.identity.accounts;
        let (client, _) = keyring.create_client(&owner).await.unwrap().unwrap();
        let token = keyring.grant_access(&client).await.unwrap().unwrap().access_token;
        Program { server: self.clone(), token }
    }

    /// Makes a connector for a tenant, healthy or not.
    pub async fn wires(&self, tenant: &str, name: &str, kind: &str, settings: Value) {
        let tenant = self.tenant(tenant).await;
        let secrets = ConnectorSecrets::default();
        self.post.connectors().create(&tenant, name, kind, settings, secrets, true).await.unwrap();
    }

    pub async fn calls(&self, request: Request<Body>) -> (StatusCode, Value) {
        let answer = self.doors.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), 4 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }
}

impl Program {
    pub async fn posts(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.posts_with(path, &[], body).await
    }

    pub async fn posts_with(&self, path: &str, headers: &[(&str, &str)], body: Value) -> (StatusCode, Value) {
        let mut request = Request::post(path)
            .header("authorization", format!("Bearer {}", self.token.expose()))
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.server.calls(request.body(Body::from(body.to_string())).unwrap()).await
    }

    pub async fn gets(&self, path: &str) -> (StatusCode, Value) {
        let request = Request::get(path).header("authorization", format!("Bearer {}", self.token.expose()));
        self.server.calls(request.body(Body::empty()).unwrap()).await
    }

    pub async fn notifies(&self, agent: &str, message: &str) -> Value {
        let (status, answer) = self.posts("/v1/notify", json!({ "agent": agent, "message": message })).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// The receipts of one dispatch, once `is_so` holds of the first.
    pub async fn receipt_when(&self, dispatch: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/v1/receipts/{}", dispatch.as_str().unwrap());
        let waiting = async {
            loop {
                let (status, response) = self.gets(&path).await;
                assert_eq!(status, 200, "{response}");
                if is_so(&response["items"][0]) {
                    return response["items"][0].clone();
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the receipt did not come so far")
    }
}

impl Enrolled {
    /// Connects and accepts everything at once.
    pub async fn sits(&self) -> Seated {
        self.sits_and(true).await
    }

    /// Connects and accepts nothing until it is thawed.
    pub async fn sits_frozen(&self) -> Seated {
        self.sits_and(false).await
    }

    async fn sits_and(&self, takes: bool) -> Seated {
        let settings = Settings::new(&self.server.url, self.gateway.clone(), self.secret.clone())
            .with_bots([AgentIdentity::new("post", "post")]);
        let transport = WebSocketTransport::new(settings).unwrap();
        let (sender, heard) = mpsc::unbounded_channel();
        let takes = watch::Sender::new(takes);
        transport.set_inbound_handler(Arc::new(InboundQueue { sender, takes: takes.subscribe() }));
        transport.connect().await.unwrap();
        // The descriptor is sent before the server counts the agent as connected.
        eventually("it is present", async || {
            self.server.relay.connections().presence(&self.instance).connected
        })
        .await;
        Seated { enrolled: self.clone(), transport, heard: Mutex::new(heard), takes }
    }

    /// A program with this agent's own credential.
    pub async fn program(&self) -> Program {
        self.server.with_credential(Owner::Instance(self.instance.clone())).await
    }
}

impl Seated {
    pub async fn hears(&self) -> Inbound {
        let mut heard = self.heard.lock().await;
        tokio::time::timeout(PATIENCE, heard.recv())
            .await
            .expect("nothing came")
            .expect("the connection is open")
    }

    /// Nothing else is on its way: an agent hears its messages in order, and a marker that is sent now is next.
    pub async fn hears_nothing_more(&self) {
        let Enrolled { server, tenant, name, .. } = &self.enrolled;
        let program = server.with_credential(Owner::Tenant(tenant.clone())).await;
        program.notifies(name, "the marker").await;
        let next = self.hears().await.event.text;
        assert!(next.ends_with("the marker"), "something else was on its way: {next}");
    }

    pub fn thaws(&self) {
        self.takes.send_replace(true);
    }

    /// Says something anew, in place of what it said before.
    pub async fn edits(&self, chat: &ChatId, message: &MessageId, text: &str) -> Outcome {
        let action = Action::Edit {
            chat_id: chat.clone(),
            message_id: message.clone(),
            content: text.to_owned(),
            metadata: Metadata::default(),
        };
        self.transport.send_outbound(action, &Tag::default()).await
    }

    pub async fn types(&self, chat: &ChatId) {
        let action = Action::Typing { chat_id: chat.clone(), content: None, metadata: Metadata::default() };
        assert!(self.transport.send_outbound(action, &Tag::default()).await.success);
    }

    /// Says something in reply to one message.
    pub async fn replies(&self, to: &Inbound, text: &str, metadata: Metadata) -> Outcome {
        let action = Action::Send {
            chat_id: chat(to),
            content: text.to_owned(),
            reply_to: to.event.message_id.clone(),
            metadata,
        };
        self.transport.send_outbound(action, &Tag::default()).await
    }

    pub async fn says(&self, chat: &ChatId, text: &str, metadata: Metadata) -> Outcome {
        let action =
            Action::Send { chat_id: chat.clone(), content: text.to_owned(), reply_to: None, metadata };
        self.transport.send_outbound(action, &Tag::default()).await
    }
}

#[async_trait]
impl InboundHandler for InboundQueue {
    async fn inbound(&self, inbound: Inbound) -> Result<(), DeliveryDeclined> {
        let mut takes = self.takes.clone();
        let _ = takes.wait_for(|takes| *takes).await;
        let _ = self.sender.send(inbound);
        Ok(())
    }

    fn interrupted(&self, _: &SessionKey, _: &ChatId) {}
}

/// Waits until something has become true.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "waited in vain until {what}");
}

/// The chat of what was heard.
pub fn chat(inbound: &Inbound) -> ChatId {
    inbound.event.source.chat_id.clone().unwrap()
}

/// Echoing the question's id, as the SDK's own answer does.
pub fn answering(inbound: &Inbound) -> Metadata {
    let posted = inbound.event.post.as_ref().unwrap();
    let correlation_id = posted.meta.as_ref().unwrap().correlation_id.clone();
    Metadata { correlation_id, ..Metadata::default() }
}
