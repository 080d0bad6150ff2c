//! API for authors of agents: a function that handles messages, and a conversation to answer in.

mod chunks;
mod conversation;
mod lanes;
mod streaming;

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use posthouse_time::Timepiece;
use posthouse_wire::cron::{FireBody, Fired};
use posthouse_wire::delivery::Posted;
use posthouse_wire::{EntryId, Event};

pub use chunks::chunks;
pub use conversation::{Conversation, Failed, OutgoingMedia, SentMessages};
pub use streaming::Streaming;

use crate::transport::{Fault, RelayTransport};
use lanes::SessionLanes;

/// Result of a turn. An error is logged, and the conversation goes on with its next message.
pub type TurnResult = Result<(), Box<dyn Error + Send + Sync>>;

type OnMessage = Arc<dyn Fn(Message, Conversation) -> BoxFuture<'static, TurnResult> + Send + Sync>;

/// A message to the agent, from a person or a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub event: Box<Event>,
    pub entry: Option<EntryId>,
}

impl Message {
    /// The text: a person's words, or a program's text as the program wrote it.
    pub fn text(&self) -> &str {
        let text = &self.event.text;
        self.posted().map_or(text.as_str(), |posted| posted.unwrap(text))
    }

    /// Set if a program sent the message. Says whether it is context to absorb or a playbook to carry out,
    /// where it comes from, and whether the program waits for [`Conversation::answer`].
    pub fn posted(&self) -> Option<&Posted> {
        self.event.post.as_deref()
    }

    /// The author's name, or the author's id if there is no name, as verified by the platform.
    pub fn author(&self) -> Option<&str> {
        let source = &self.event.source;
        source.user_name.as_deref().or(source.user_id.as_ref().map(|id| id.as_str()))
    }
}

/// Runs the agent's cron jobs. A trait, because `Cron` is compiled only with the feature `cron`.
#[async_trait]
pub(crate) trait JobRunner: Send + Sync {
    fn start(&self);
    async fn stop(&self);
    async fn fired(&self, fire: FireBody) -> (u16, Fired);
}

/// An agent that is ready to run. Messages of one session are handled in order, one at a time. Different
/// sessions run in parallel. An interrupt cancels exactly the turn that it names.
pub struct Agent {
    lanes: Arc<SessionLanes>,
    transport: Arc<dyn RelayTransport>,
    timepiece: Timepiece,
    grace: Duration,
    cron: Option<Arc<dyn JobRunner>>,
}

/// Builder for [`Agent`].
pub struct AgentBuilder {
    transport: Arc<dyn RelayTransport>,
    timepiece: Timepiece,
    grace: Duration,
    room: usize,
    cron: Option<Arc<dyn JobRunner>>,
}

impl Agent {
    pub fn builder(transport: impl RelayTransport + 'static) -> AgentBuilder {
        AgentBuilder {
            transport: Arc::new(transport),
            timepiece: Timepiece::wall(),
            grace: Duration::from_secs(20),
            room: 4096,
            cron: None,
        }
    }

    /// Serves until `until` resolves. It then asks the server to keep new messages, lets running turns
    /// finish and closes the connection. An error means that the connection ended by itself.
    pub async fn run(self, until: impl Future<Output = ()>) -> Result<(), Fault> {
        let transport = &self.transport;
        transport.set_inbound_handler(SessionLanes::handler(&self.lanes, self.cron.clone()));
        if let Some(cron) = &self.cron {
            cron.start();
        }
        // The first attempt can fail for many temporary reasons, so the transport keeps trying.
        let serving = async {
            if let Err(fault) = transport.connect().await {
                tracing::warn!("{fault}; still trying to connect");
            }
            transport.ended().await
        };
        tokio::select! {
            fault = serving => {
                self.stop_cron().await;
                return Err(fault);
            }
            () = until => {}
        }
        transport.pause().await;
        self.lanes.close();
        let turns = self.timepiece.within(self.grace, self.lanes.finished());
        let (turns, ()) = tokio::join!(turns, self.stop_cron());
        if turns.is_err() {
            tracing::warn!("stopping while {} turns are still running", self.lanes.turns());
        }
        transport.disconnect().await;
        Ok(())
    }

    async fn stop_cron(&self) {
        if let Some(cron) = &self.cron {
            cron.stop().await;
        }
    }
}

impl AgentBuilder {
    /// Clock for pauses and streaming. Default: the wall clock.
    pub fn timepiece(mut self, timepiece: Timepiece) -> Self {
        self.timepiece = timepiece;
        self
    }

    /// Time that running turns get to finish after the agent was asked to stop. Default: 20 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Most messages that the agent holds at a time. Default: 4096. Beyond that it accepts none, and the
    /// server keeps them.
    pub fn room(mut self, messages: usize) -> Self {
        self.room = messages.max(1);
        self
    }

    /// Runs cron jobs beside the conversations. They start and stop with the agent, and fires that arrive
    /// on its connection are passed to them.
    #[cfg(feature = "cron")]
    pub fn cron(mut self, cron: crate::cron::Cron) -> Self {
        self.cron = Some(Arc::new(cron));
        self
    }

    /// Sets the function that handles a message. It is cancelled at its current await point when the
    /// session is interrupted.
    pub fn on_message<F, T>(self, on_message: F) -> Agent
    where
        F: Fn(Message, Conversation) -> T + Send + Sync + 'static,
        T: Future<Output = TurnResult> + Send + 'static,
    {
        let on_message: OnMessage =
            Arc::new(move |message, conversation| Box::pin(on_message(message, conversation)));
        let lanes = SessionLanes::new(self.transport.clone(), self.timepiece.clone(), on_message, self.room);
        Agent {
            lanes,
            transport: self.transport,
            timepiece: self.timepiece,
            grace: self.grace,
            cron: self.cron,
        }
    }
}

/// Resolves when the process is asked to stop by SIGTERM or Ctrl-C.
pub async fn termination() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}
