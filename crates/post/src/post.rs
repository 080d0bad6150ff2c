//! `Post`: the handle that holds the components, builds them from their dependencies, and runs them.

use std::sync::Arc;

use clock::Clock;
use errand::Errand;
use identity::Identity;
use ledger::{Connectors, Exchanges, Receipts, Usage};
use posthouse_time::Timepiece;
use relay::Relay;
use vault::WebhookSigner;

use crate::answer_collector::AnswerCollector;
use crate::answers::{AnswerWaiters, Answers};
use crate::background::Background;
use crate::connector::ConnectorBuilder;
use crate::connector::memory::ConnectorMemory;
use crate::connector_admin::ConnectorAdmin;
use crate::conversations::Conversations;
use crate::deadlines::Deadlines;
use crate::directory::Directory;
use crate::dispatcher::Dispatcher;
use crate::http_replies::HttpReplies;
use crate::messages::Messages;
use crate::questions::Questions;
use crate::receipt_views::ReceiptViews;
use crate::reply_url::ReplyUrls;
use crate::retries::Retries;
use crate::scheduled_wakes::ScheduledWakes;
use crate::tenant_quotas::TenantQuotas;
use crate::{Callers, Config, Fault, Metrics};

/// The dependencies of the post. It gets `WebhookSigner` to sign with, never the vault itself.
pub struct Parts {
    pub config: Config,
    pub receipts: Arc<dyn Receipts>,
    pub exchanges: Arc<dyn Exchanges>,
    pub connectors: Arc<dyn Connectors>,
    pub usage: Arc<dyn Usage>,
    pub identity: Identity,
    pub relay: Relay,
    pub clock: Clock,
    pub webhook_signer: WebhookSigner,
    pub errand: Errand,
    /// The public URL of the server. Reply URLs begin with it.
    pub public_url: String,
    pub timepiece: Timepiece,
}

/// The post: programs send messages, wakes and questions to agents. A cheap handle to clone.
#[derive(Clone)]
pub struct Post(pub(crate) Arc<Components>);

/// The components. Each owns its state, and holds only the components that it calls.
pub(crate) struct Components {
    pub callers: Callers,
    pub identity: Identity,
    pub background: Background,
    pub metrics: Arc<Metrics>,
    pub directory: Arc<Directory>,
    pub messages: Messages,
    pub questions: Questions,
    pub answers: Arc<Answers>,
    pub http_replies: HttpReplies,
    pub conversations: Arc<Conversations>,
    pub receipts: ReceiptViews,
    pub connectors: ConnectorAdmin,
    pub deadlines: Arc<Deadlines>,
    pub collector: Arc<AnswerCollector>,
    pub scheduled: Arc<ScheduledWakes>,
    pub retries: Retries,
}

impl Post {
    /// Builds the components, the ones that others call first.
    pub fn new(parts: Parts) -> Self {
        let Parts { receipts, exchanges, connectors, relay, clock, timepiece, webhook_signer, .. } = parts;
        let config = Arc::new(parts.config);
        let background = Background::new(timepiece.clone());
        let metrics = Arc::<Metrics>::default();
        let quotas =
            Arc::new(TenantQuotas::new(parts.usage, parts.identity.quotas.clone(), config.open_exchanges));
        let agents = parts.identity.roster.clone();
        let builder = ConnectorBuilder {
            relay: relay.clone(),
            agents: agents.clone(),
            errand: parts.errand,
            webhook_signer: webhook_signer.clone(),
            timepiece: timepiece.clone(),
            memory: ConnectorMemory::default(),
            config: Arc::clone(&config),
        };
        let directory = Arc::new(Directory::new(agents, Arc::clone(&connectors), builder.clone()));
        let (deadlines, answers) = build_answers(&exchanges, &receipts, relay, &metrics, &background);
        let dispatcher = Arc::new(Dispatcher::new(
            Arc::clone(&receipts),
            Arc::clone(&directory),
            Arc::clone(&answers),
            ReplyUrls::new(webhook_signer.clone(), parts.public_url),
            Arc::clone(&quotas),
            Arc::clone(&metrics),
            &background,
        ));
        let collector = AnswerCollector::new(
            Arc::clone(&exchanges),
            Arc::clone(&directory),
            Arc::clone(&answers),
            background.clone(),
        );
        let scheduled = ScheduledWakes::new(
            Arc::clone(&receipts),
            clock.alarms().clone(),
            Arc::clone(&dispatcher),
            timepiece.clone(),
        );
        Self(Arc::new(Components {
            messages: Messages::new(
                Arc::clone(&directory),
                Arc::clone(&dispatcher),
                Arc::clone(&scheduled),
                timepiece.clone(),
            ),
            questions: Questions::new(
                Arc::clone(&directory),
                Arc::clone(&dispatcher),
                Arc::clone(&answers),
                Arc::clone(&collector),
                quotas,
                &background,
            ),
            http_replies: HttpReplies::new(
                exchanges,
                Arc::clone(&connectors),
                webhook_signer,
                Arc::clone(&answers),
            ),
            conversations: build_conversations(&receipts, &answers, &deadlines, timepiece),
            retries: Retries::new(Arc::clone(&receipts), dispatcher, background.clone()),
            receipts: ReceiptViews::new(receipts),
            connectors: ConnectorAdmin::new(connectors, builder),
            callers: Callers::new(parts.identity.clone(), &config.caller_header),
            identity: parts.identity,
            background,
            metrics,
            directory,
            answers,
            deadlines,
            collector,
            scheduled,
        }))
    }

    /// Takes over the work that a crashed server left. Called before the server accepts requests.
    pub async fn take_over(&self) -> Result<(), Fault> {
        self.0.retries.take_over().await
    }

    /// Runs the background loops until shutdown.
    pub async fn run(&self) -> Result<(), Fault> {
        let Components { background, deadlines, collector, scheduled, retries, answers, identity, .. } =
            &*self.0;
        tokio::join!(
            retries.run(),
            background.in_turn(1, deadlines.run(background)),
            background.in_turn(2, collector.run()),
            background.in_turn(3, scheduled.run(background)),
            answers.watch_roster(&identity.roster)
        );
        Ok(())
    }

    /// Starts nothing more and waits for running attempts.
    pub async fn close(&self) {
        self.0.background.close().await;
    }

    /// Whether the post is shutting down. Waiting for answers ends then.
    pub fn is_closing(&self) -> bool {
        self.0.background.is_closing()
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// Who calls: for every API below `/v1`.
    pub fn callers(&self) -> &Callers {
        &self.0.callers
    }

    /// Names of agents, and the paths to them.
    pub fn directory(&self) -> &Directory {
        &self.0.directory
    }

    /// `notify`, `deliver` and `wake`.
    pub fn messages(&self) -> &Messages {
        &self.0.messages
    }

    /// Puts questions.
    pub fn questions(&self) -> &Questions {
        &self.0.questions
    }

    /// States of questions, and waiting for their answers.
    pub fn answers(&self) -> &Answers {
        &self.0.answers
    }

    /// Answers at reply URLs.
    pub fn http_replies(&self) -> &HttpReplies {
        &self.0.http_replies
    }

    /// What agents on the relay say to programs.
    pub fn conversations(&self) -> &Arc<Conversations> {
        &self.0.conversations
    }

    /// Receipts with the replies to them.
    pub fn receipts(&self) -> &ReceiptViews {
        &self.0.receipts
    }

    /// Connectors as the operator creates them.
    pub fn connectors(&self) -> &ConnectorAdmin {
        &self.0.connectors
    }
}

/// Deadlines and answers share the callers that wait.
fn build_answers(
    exchanges: &Arc<dyn Exchanges>,
    receipts: &Arc<dyn Receipts>,
    relay: Relay,
    metrics: &Arc<Metrics>,
    background: &Background,
) -> (Arc<Deadlines>, Arc<Answers>) {
    let waiters = Arc::<AnswerWaiters>::default();
    let deadlines = Arc::new(Deadlines::new(
        Arc::clone(exchanges),
        Arc::clone(receipts),
        relay,
        Arc::clone(&waiters),
        Arc::clone(metrics),
        background.timepiece.clone(),
    ));
    let answers = Arc::new(Answers::new(
        Arc::clone(exchanges),
        Arc::clone(receipts),
        waiters,
        Arc::clone(&deadlines),
        Arc::clone(metrics),
        background,
    ));
    (deadlines, answers)
}

fn build_conversations(
    receipts: &Arc<dyn Receipts>,
    answers: &Arc<Answers>,
    deadlines: &Arc<Deadlines>,
    timepiece: Timepiece,
) -> Arc<Conversations> {
    let (receipts, answers, deadlines) = (Arc::clone(receipts), Arc::clone(answers), Arc::clone(deadlines));
    Arc::new(Conversations::new(receipts, answers, deadlines, timepiece))
}
