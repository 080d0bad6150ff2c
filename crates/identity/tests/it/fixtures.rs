//! Test server: a ledger and the identity components over it, with a clock driven by hand.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bus::Bus;
use errand::{Errand, Lookup};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use identity::{
    AdminToken, Authentication, Enrolment, Identity, IssuerSettings, LimitValues, Parts, Principal,
    TrustedIssuers,
};
use ledger::{
    Bot, BotRef, Created, Discriminator, Instance, Ledger, Location, PrincipalPolicy, Route, Tokens,
};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{InstanceId, Secret, Source, TenantId};
use vault::{MasterKeys, Vault};

#[derive(Clone)]
pub struct TestServer {
    pub identity: Identity,
    pub ledger: Ledger,
    pub clock: Timepiece,
}

/// One enrolled agent.
#[derive(Clone)]
pub struct TestAgent {
    pub server: TestServer,
    pub instance: InstanceId,
    pub tenant: TenantId,
}

/// The key of every test vault, so that a second server can open the same ledger.
const KEY: &str = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// The admin token of every test server.
pub const ADMIN: &str = "adm_test";

pub fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub fn bot(platform: &str, id: &str) -> BotRef {
    BotRef { platform: platform.into(), bot: id.into() }
}

/// The source of a message in a direct conversation.
pub fn direct_chat(on: &BotRef, chat: &str) -> Source {
    Source {
        platform: on.platform.clone(),
        chat_id: Some(chat.into()),
        chat_type: "dm".to_owned(),
        user_id: Some("u1".into()),
        ..Source::default()
    }
}

pub fn headers(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
}

pub fn bearer(token: &Secret) -> String {
    format!("Bearer {}", token.expose())
}

pub fn here() -> Option<IpAddr> {
    Some(IpAddr::from([127, 0, 0, 1]))
}

impl TestServer {
    pub async fn open() -> Self {
        let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
        let ledger = Ledger::open(Location::Memory, clock.clone()).await.unwrap();
        let tokens = ledger.tokens();
        Self::over(ledger, tokens, clock).await
    }

    /// A server that trusts these issuers.
    pub async fn trusting(issuers: Vec<IssuerSettings>, lookup: Option<Arc<dyn Lookup>>) -> Self {
        let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
        let ledger = Ledger::open(Location::Memory, clock.clone()).await.unwrap();
        let errand = match lookup {
            Some(lookup) => Errand::with_lookup(errand::Config::default(), lookup),
            None => Errand::new(errand::Config::loopback()),
        };
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let config = identity::Config { issuers, ..identity::Config::default() };
        let issuers = TrustedIssuers::new(&config, "https://post.example", &errand, &clock).unwrap();
        let tokens = ledger.tokens();
        Self::with_issuers(ledger, tokens, clock, issuers).await
    }

    /// A server that keeps its tokens elsewhere.
    pub async fn over(ledger: Ledger, tokens: Arc<dyn Tokens>, clock: Timepiece) -> Self {
        Self::with_issuers(ledger, tokens, clock, TrustedIssuers::default()).await
    }

    async fn with_issuers(
        ledger: Ledger,
        tokens: Arc<dyn Tokens>,
        clock: Timepiece,
        issuers: TrustedIssuers,
    ) -> Self {
        let keys = MasterKeys::read(&Secret::new(KEY)).unwrap();
        let vault =
            Vault::unlock(keys, ledger.vault(), tokens, &*ledger.facts(), clock.clone()).await.unwrap();
        let errand = Errand::new(errand::Config::loopback());
        let limits = LimitValues {
            messages_per_minute: 6_000,
            agent_messages_per_minute: 600,
            ..LimitValues::default()
        };
        let identity = Identity::new(Parts {
            limits,
            admin: AdminToken::from_hash(AdminToken::hash(&Secret::new(ADMIN))),
            issuers,
            ..Parts::over(&ledger, vault.keyring(), Bus::local(), errand, clock.clone())
        });
        tokio::spawn({
            let identity = identity.clone();
            async move { identity.run().await }
        });
        Self { identity, ledger, clock }
    }

    pub fn winds(&self, by: Duration) {
        self.clock.wind(by);
    }

    pub async fn enrol(&self, tenant: &str, name: &str, bots: &[BotRef]) -> TestAgent {
        for bot in bots {
            self.has_bot(bot, false).await;
        }
        self.identity.accounts.create_tenant(tenant).await.unwrap().unwrap();
        let enrolment = Enrolment {
            tenant: tenant.to_owned(),
            name: name.to_owned(),
            bots: bots.to_vec(),
            ..Enrolment::default()
        };
        let enrolled = self.identity.accounts.enrol(enrolment).await.unwrap().unwrap();
        TestAgent { server: self.clone(), tenant: enrolled.tenant.id, instance: enrolled.instance.id }
    }

    pub async fn heron(&self) -> TestAgent {
        self.enrol("acme", "heron", &[bot("telegram", "7001")]).await
    }

    pub async fn has_bot(&self, on: &BotRef, shared: bool) {
        let bot = Bot {
            platform: on.platform.clone(),
            id: on.bot.clone(),
            shared,
            principals: PrincipalPolicy::default(),
            settings: "{}".to_owned(),
            created: self.clock.now(),
        };
        self.ledger.roster().create_bot(bot).await.unwrap();
    }

    pub async fn routes(&self, on: &BotRef, discriminator: Discriminator, to: &TestAgent) {
        let route = Route {
            platform: on.platform.clone(),
            bot: on.bot.clone(),
            discriminator,
            instance: to.instance.clone(),
            created: self.clock.now(),
            profile: None,
        };
        assert_eq!(self.ledger.roster().create_route(route).await.unwrap(), Created::Made);
        self.identity.roster.bot_changed(on);
    }

    /// Presents a value in the `Authorization` header, as a program does.
    pub async fn presents(&self, value: &str) -> Authentication {
        self.identity.authenticator.program(&headers(value), here()).await.unwrap()
    }

    /// The owner of an access token.
    pub async fn owner_of(&self, token: &str) -> Option<Principal> {
        match self
            .identity
            .authenticator
            .cron_agent(&headers(&format!("Bearer {token}")), None)
            .await
            .unwrap()
        {
            Authentication::Known(principal) => Some(principal),
            _ => None,
        }
    }
}

impl TestAgent {
    pub async fn record(&self) -> Arc<Instance> {
        Arc::new(self.server.ledger.roster().instance(&self.instance).await.unwrap().unwrap())
    }
}
