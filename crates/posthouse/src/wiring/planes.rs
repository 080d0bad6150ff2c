//! The planes of the server: built in order, each with only what it may hold; their loops and their shutdown.

use std::sync::Arc;

use bus::Bus;
use clock::Clock;
use edge::Edge;
use edge::platform::Platform;
use edge::web::Web;
use errand::Errand;
use identity::{AdminToken, Identity, TrustedIssuers};
use ledger::Ledger;
use post::Post;
use posthouse_time::Timepiece;
use prometheus_client::registry::Registry;
use relay::Relay;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vault::Vault;
use workshop::{SkillRunner, Workshop};

use super::ServerHealth;
use crate::config::Config;
use crate::custom_stores::custom_stores;

/// The handles of all planes.
pub struct Planes {
    pub identity: Identity,
    pub relay: Relay,
    pub clock: Clock,
    pub post: Post,
    pub workshop: Workshop,
    pub runner: SkillRunner,
    pub edge: Edge,
    pub web: Arc<Web>,
    /// Calls of tools that are running.
    pub tool_calls: TaskTracker,
}

/// Runs the loop of a plane until shutdown.
macro_rules! keep_running {
    ($health:expr, $stop:expr, $name:literal, $plane:expr) => {{
        let plane = $plane.clone();
        $health.keep_up($name, $stop, move || {
            let plane = plane.clone();
            async move { plane.run().await.map_err(|fault| fault.to_string()) }
        });
    }};
}

impl Planes {
    /// Builds the planes. The vault goes to the edge; the others get a part of it.
    pub async fn build(
        config: &Config,
        ledger: &Ledger,
        vault: Vault,
        admin: AdminToken,
        url: &str,
        timepiece: &Timepiece,
    ) -> anyhow::Result<Self> {
        let bus = Bus::local();
        let errand = Errand::new(config.errand());
        let issuers =
            TrustedIssuers::new(&config.identity, url, &errand, timepiece).map_err(anyhow::Error::msg)?;
        let identity = Identity::new(identity::Parts {
            admin,
            issuers,
            access_token: config.relay.access_token.0,
            limits: config.limits,
            secret_reuse: config.identity.secret_reuse.0,
            built_in: if config.platforms.web.enabled { vec![edge::web::NAME.into()] } else { Vec::new() },
            ..identity::Parts::over(ledger, vault.keyring(), bus.clone(), errand.clone(), timepiece.clone())
        });
        let relay = Relay::new(relay::Parts {
            config: config.relay.clone(),
            inbox: ledger.inbox(),
            outbox: ledger.outbox(),
            identity: identity.clone(),
            bus,
            errand: errand.clone(),
            media: relay::MediaParts {
                records: ledger.media(),
                usage: ledger.usage(),
                folder: config.storage.dir.join("media"),
                public_url: url.to_owned(),
            },
            timepiece: timepiece.clone(),
        });
        let signer = vault.signer(config.clock.signing).await?;
        let clock = Clock::new(clock::Parts {
            config: config.clock.clone(),
            arms: ledger.arms(),
            signer: signer.clone(),
            relay: relay.clone(),
            identity: identity.clone(),
            errand: errand.clone(),
            issuer: url.to_owned(),
            timepiece: timepiece.clone(),
        })?;
        let post = Post::new(post::Parts {
            config: config.post.clone(),
            receipts: ledger.receipts(),
            exchanges: ledger.exchanges(),
            connectors: ledger.connectors(),
            usage: ledger.usage(),
            relay: relay.clone(),
            identity: identity.clone(),
            clock: clock.clone(),
            webhook_signer: vault.webhook_signer(&signer),
            errand: errand.clone(),
            public_url: url.to_owned(),
            timepiece: timepiece.clone(),
        });
        post.take_over().await?;
        let workshop = Workshop::new(workshop::Parts {
            config: config.workshop.clone(),
            skills: ledger.skills(),
            approval: ledger.skill_approval(),
            usage: ledger.usage(),
            data: ledger.data(),
            roster: identity.roster.clone(),
            callers: post.callers().clone(),
            errand: errand.clone(),
            webhook_signer: vault.webhook_signer(&signer),
            custom_stores: custom_stores(),
            timepiece: timepiece.clone(),
        });
        let runner = SkillRunner::new(workshop::RunnerParts {
            config: config.workshop.clone(),
            workshop: workshop.clone(),
            post: post.clone(),
            runs: ledger.skill_runs(),
            triggers: ledger.skill_triggers(),
            secrets: vault.skill_secrets(),
            errand: errand.clone(),
            alarms: clock.alarms().clone(),
            timepiece: timepiece.clone(),
        });
        runner.take_over().await?;
        let web = Arc::new(Web::new(
            ledger.rooms(),
            ledger.invitations(),
            (ledger.prompts(), ledger.threads()),
            timepiece.clone(),
        ));
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
            platforms: platforms(config, &web, timepiece),
            public_url: url.to_owned(),
        });
        let tool_calls = TaskTracker::new();
        Ok(Self { identity, relay, clock, post, workshop, runner, edge, web, tool_calls })
    }

    pub fn register_metrics(&self, registry: &mut Registry) {
        self.identity.metrics().register(registry);
        self.relay.metrics().register(registry);
        self.edge.metrics().register(registry);
        self.clock.metrics().register(registry);
        self.post.metrics().register(registry);
        self.workshop.metrics().register(registry);
    }

    pub fn keep_running(&self, health: &ServerHealth, stop: &CancellationToken) {
        keep_running!(health, stop, "identity", self.identity);
        keep_running!(health, stop, "relay", self.relay);
        keep_running!(health, stop, "edge", self.edge);
        keep_running!(health, stop, "clock", self.clock);
        keep_running!(health, stop, "post", self.post);
        keep_running!(health, stop, "skills", self.runner);
    }

    /// Closes the planes in the order in which they hand work on. The identity only follows other nodes, so it need
    /// not wait for the others.
    pub async fn close(&self) {
        self.identity.close();
        self.edge.close();
        // A tool that waits for an answer ends with the post.
        self.tool_calls.close();
        tokio::join!(self.tool_calls.wait(), self.runner.close(), self.post.close());
        self.clock.close().await;
        self.relay.close().await;
    }
}

fn platforms(config: &Config, web: &Arc<Web>, timepiece: &Timepiece) -> Vec<Arc<dyn Platform>> {
    let mut platforms = edge::platforms::all(&config.platforms, timepiece);
    if config.platforms.web.enabled {
        platforms.push(Arc::clone(web) as Arc<dyn Platform>);
    }
    platforms
}
