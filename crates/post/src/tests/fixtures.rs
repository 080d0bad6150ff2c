//! Fixtures for unit tests: a ledger in memory, the dependencies of the post, and each component built alone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bus::Bus;
use clock::Clock;
use errand::Errand;
use identity::{Enrolment, Identity};
use ledger::{ConnectorRecord, Exchange, Ledger, Location, NewExchange, Opening};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::delivery::WakeOpts;
use posthouse_wire::{ConnectorId, InstanceId, Secret, TenantId};
use relay::Relay;
use serde_json::Value;
use vault::{MasterKeys, Vault, WebhookSigner};

use crate::answer_collector::AnswerCollector;
use crate::answers::{AnswerWaiters, Answers};
use crate::background::Background;
use crate::connector::ConnectorBuilder;
use crate::connector_admin::ConnectorAdmin;
use crate::conversations::Conversations;
use crate::deadlines::Deadlines;
use crate::directory::Directory;
use crate::dispatch::{Dispatch, DispatchItem, digest};
use crate::dispatcher::Dispatcher;
use crate::http_replies::HttpReplies;
use crate::messages::Messages;
use crate::questions::Questions;
use crate::reply_url::ReplyUrls;
use crate::retries::Retries;
use crate::scheduled_wakes::ScheduledWakes;
use crate::tenant_quotas::TenantQuotas;
use crate::{Caller, Config, Metrics, Parts};

const KEY: &str = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const URL: &str = "https://post.example";

/// What components are built from, and one tenant.
pub(crate) struct Fixture {
    pub ledger: Ledger,
    pub identity: Identity,
    pub relay: Relay,
    pub clock: Clock,
    pub errand: Errand,
    pub webhook_signer: WebhookSigner,
    pub time: Timepiece,
    pub config: Arc<Config>,
    pub background: Background,
    pub waiters: Arc<AnswerWaiters>,
    pub tenant: TenantId,
}

impl Fixture {
    pub async fn open() -> Self {
        Self::with(Config::default()).await
    }

    /// Connectors may write below this folder.
    pub async fn with_drop_dir(folder: &Path) -> Self {
        Self::with(Config { drop_dirs: vec![folder.to_owned()], ..Config::default() }).await
    }

    async fn with(config: Config) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let time = Timepiece::wound(Moment::from_seconds(1_800_000_000));
        let ledger = Ledger::open(Location::Memory, time.clone()).await.unwrap();
        let keys = MasterKeys::read(&Secret::new(KEY)).unwrap();
        let (tokens, facts) = (ledger.tokens(), ledger.facts());
        let vault = Vault::unlock(keys, ledger.vault(), tokens, &*facts, time.clone()).await.unwrap();
        let errand = Errand::new(errand::Config::loopback());
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
        let clock_config = clock::Config::default();
        let signer = vault.signer(clock_config.signing).await.unwrap();
        let clock = Clock::new(clock::Parts {
            config: clock_config,
            arms: ledger.arms(),
            signer: signer.clone(),
            identity: identity.clone(),
            relay: relay.clone(),
            errand: errand.clone(),
            issuer: URL.to_owned(),
            timepiece: time.clone(),
        });
        let tenant = identity.accounts.create_tenant("acme").await.unwrap().unwrap().unwrap().id;
        Self {
            ledger,
            identity,
            relay,
            clock: clock.unwrap(),
            errand,
            webhook_signer: vault.webhook_signer(&signer),
            background: Background::new(time.clone()),
            time,
            config: Arc::new(config),
            waiters: Arc::default(),
            tenant,
        }
    }

    /// The dependencies of a whole post.
    pub fn parts(&self) -> Parts {
        Parts {
            config: Config::clone(&self.config),
            receipts: self.ledger.receipts(),
            exchanges: self.ledger.exchanges(),
            connectors: self.ledger.connectors(),
            usage: self.ledger.usage(),
            identity: self.identity.clone(),
            relay: self.relay.clone(),
            clock: self.clock.clone(),
            webhook_signer: self.webhook_signer.clone(),
            errand: self.errand.clone(),
            public_url: URL.to_owned(),
            timepiece: self.time.clone(),
        }
    }

    /// The operator of the tenant.
    pub fn operator(&self) -> Caller {
        let (client, tenant) = (ledger::operator_client(&self.tenant), self.tenant.clone());
        Caller { client, tenant, agent: None, attested: None }
    }

    pub async fn enrol(&self, name: &str) -> InstanceId {
        let wanted = Enrolment { tenant: "acme".to_owned(), name: name.to_owned(), ..Enrolment::default() };
        self.identity.accounts.enrol(wanted).await.unwrap().unwrap().instance.id
    }

    pub async fn create_connector(&self, name: &str, kind: &str, settings: &Value) {
        let record = ConnectorRecord {
            id: ConnectorId::mint(self.time.now().millis()),
            tenant: self.tenant.clone(),
            name: name.to_owned(),
            kind: kind.to_owned(),
            settings: settings.to_string(),
            created: self.time.now(),
        };
        self.ledger.connectors().create_connector(record, Vec::new()).await.unwrap();
        self.identity.roster.tenant_changed(&self.tenant);
    }

    /// An open question of the operator to agent `desk` by connector `hook`, with its receipt.
    pub async fn question(&self, correlation: &str, timeout: Duration) -> Exchange {
        let (now, by) = (self.time.now(), self.operator());
        let dispatch = Dispatch::by(&by, None, format!("d-{correlation}").into(), now);
        let item = DispatchItem::Wake { opts: WakeOpts::default(), from: String::new() };
        let open = Opening::Attempt { body: item.json(), due: now + Duration::from_secs(3600) };
        let receipt = dispatch.receipt(("hook", "desk"), &item, open, now);
        let new = NewExchange {
            tenant: self.tenant.clone(),
            correlation: correlation.into(),
            caller: by.client,
            connector: "hook".to_owned(),
            agent: "desk".to_owned(),
            instance: None,
            chat: None,
            dispatch: dispatch.id.clone(),
            digest: digest(&["desk", "?"]),
            opened: now,
            deadline: now + timeout,
            reply_token: Some(self.webhook_signer.reply_token(&self.tenant, &dispatch.id).1),
            collected: true,
        };
        self.ledger.exchanges().ask(new, receipt, 10).await.unwrap();
        self.ledger.exchanges().exchange(&self.tenant, &correlation.into()).await.unwrap().unwrap()
    }

    fn builder(&self) -> ConnectorBuilder {
        ConnectorBuilder {
            relay: self.relay.clone(),
            agents: self.identity.roster.clone(),
            errand: self.errand.clone(),
            webhook_signer: self.webhook_signer.clone(),
            timepiece: self.time.clone(),
            memory: crate::connector::memory::ConnectorMemory::default(),
            config: Arc::clone(&self.config),
        }
    }

    pub fn directory(&self) -> Arc<Directory> {
        let agents = self.identity.roster.clone();
        Arc::new(Directory::new(agents, self.ledger.connectors(), self.builder()))
    }

    pub fn connector_admin(&self) -> ConnectorAdmin {
        ConnectorAdmin::new(self.ledger.connectors(), self.builder())
    }

    pub fn deadlines(&self) -> Arc<Deadlines> {
        Arc::new(Deadlines::new(
            self.ledger.exchanges(),
            self.ledger.receipts(),
            self.relay.clone(),
            Arc::clone(&self.waiters),
            Arc::<Metrics>::default(),
            self.time.clone(),
        ))
    }

    pub fn answers(&self) -> Arc<Answers> {
        Arc::new(Answers::new(
            self.ledger.exchanges(),
            self.ledger.receipts(),
            Arc::clone(&self.waiters),
            self.deadlines(),
            Arc::<Metrics>::default(),
            &self.background,
        ))
    }

    pub fn conversations(&self) -> Conversations {
        let (answers, deadlines) = (self.answers(), self.deadlines());
        Conversations::new(self.ledger.receipts(), answers, deadlines, self.time.clone())
    }

    pub fn dispatcher(&self) -> Arc<Dispatcher> {
        Arc::new(Dispatcher::new(
            self.ledger.receipts(),
            self.directory(),
            self.answers(),
            ReplyUrls::new(self.webhook_signer.clone(), URL.to_owned()),
            self.quotas(),
            Arc::<Metrics>::default(),
            &self.background,
        ))
    }

    pub fn quotas(&self) -> Arc<TenantQuotas> {
        Arc::new(TenantQuotas::new(
            self.ledger.usage(),
            self.identity.quotas.clone(),
            self.config.open_exchanges,
        ))
    }

    pub fn collector(&self) -> Arc<AnswerCollector> {
        let (directory, answers) = (self.directory(), self.answers());
        AnswerCollector::new(self.ledger.exchanges(), directory, answers, self.background.clone())
    }

    pub fn questions(&self) -> Questions {
        Questions::new(
            self.directory(),
            self.dispatcher(),
            self.answers(),
            self.collector(),
            self.quotas(),
            &self.background,
        )
    }

    pub fn scheduled_wakes(&self) -> Arc<ScheduledWakes> {
        let (clock, dispatcher) = (self.clock.clone(), self.dispatcher());
        ScheduledWakes::new(self.ledger.receipts(), clock.alarms().clone(), dispatcher, self.time.clone())
    }

    pub fn messages(&self) -> Messages {
        Messages::new(self.directory(), self.dispatcher(), self.scheduled_wakes(), self.time.clone())
    }

    pub fn http_replies(&self) -> HttpReplies {
        let (exchanges, connectors) = (self.ledger.exchanges(), self.ledger.connectors());
        HttpReplies::new(exchanges, connectors, self.webhook_signer.clone(), self.answers())
    }

    pub fn retries(&self) -> Retries {
        Retries::new(self.ledger.receipts(), self.dispatcher(), self.background.clone())
    }
}
