//! What an author of agents works with: a function for messages, and a conversation to answer in.

mod chunks;
mod conversation;
mod lanes;
mod streaming;

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use posthouse_time::Timepiece;
use posthouse_wire::delivery::Posted;
use posthouse_wire::{EntryId, Event};

pub use chunks::chunks;
pub use conversation::{Conversation, Failed, Sent};
pub use streaming::Streaming;

use crate::cron::Cron;
use crate::transport::{Fault, RelayTransport};
use lanes::Lanes;

/// What a turn ends with. An error is logged; the conversation goes on with its next message.
pub type Turn = Result<(), Box<dyn Error + Send + Sync>>;

type OnMessage = Arc<dyn Fn(Message, Conversation) -> BoxFuture<'static, Turn> + Send + Sync>;

/// Somebody said something.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub event: Box<Event>,
    pub entry: Option<EntryId>,
}

impl Message {
    /// What was said: a person's words, or a program's text as the program wrote it.
    pub fn text(&self) -> &str {
        let text = &self.event.text;
        self.posted().map_or(text.as_str(), |posted| posted.unwrap(text))
    }

    /// There when a program brought it: whether it is context to absorb or a playbook to carry out, where
    /// it comes from, and whether somebody waits for [`Conversation::answer`].
    pub fn posted(&self) -> Option<&Posted> {
        self.event.post.as_deref()
    }

    /// The author's name, or else id, as the platform proved it.
    pub fn author(&self) -> Option<&str> {
        let source = &self.event.source;
        source.user_name.as_deref().or(source.user_id.as_ref().map(|id| id.as_str()))
    }
}

/// An agent ready to run. Messages of one session are handled in order, one at a time; different sessions
/// run side by side; an interrupt cancels exactly the turn it names.
pub struct Agent {
    lanes: Arc<Lanes>,
    transport: Arc<dyn RelayTransport>,
    timepiece: Timepiece,
    grace: Duration,
    cron: Option<Cron>,
}

/// Puts an [`Agent`] together.
pub struct AgentBuilder {
    transport: Arc<dyn RelayTransport>,
    timepiece: Timepiece,
    grace: Duration,
    room: usize,
    cron: Option<Cron>,
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

    /// Serves until `until` resolves, then stops cleanly: asks the house to keep what comes, lets the turns
    /// under way finish, closes the line. An error means that the line ended by itself.
    pub async fn run(self, until: impl Future<Output = ()>) -> Result<(), Fault> {
        let transport = &self.transport;
        transport.set_inbound_handler(Lanes::handler(&self.lanes, self.cron.clone()));
        if let Some(cron) = &self.cron {
            cron.start();
        }
        // The first try may fail for many reasons that pass: the line keeps trying.
        let serving = async {
            if let Err(fault) = transport.connect().await {
                tracing::warn!("{fault}; the line keeps trying");
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
            tracing::warn!("stopping although {} turns are still under way", self.lanes.turns());
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
    /// The clock that pauses and streaming go by; the wall's unless said.
    pub fn timepiece(mut self, timepiece: Timepiece) -> Self {
        self.timepiece = timepiece;
        self
    }

    /// How long turns may go on after the agent was asked to stop; 20 s unless said.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How many messages may be in the agent's hands at a time, 4096 unless said. Past that no more are
    /// taken; the house keeps them.
    pub fn room(mut self, messages: usize) -> Self {
        self.room = messages.max(1);
        self
    }

    /// Runs jobs beside the conversations: started and stopped with the agent, and handed the fires that
    /// come down the line.
    pub fn cron(mut self, cron: Cron) -> Self {
        self.cron = Some(cron);
        self
    }

    /// What to do with a message. Cancelled where it stands when the session is interrupted.
    pub fn on_message<F, T>(self, on_message: F) -> Agent
    where
        F: Fn(Message, Conversation) -> T + Send + Sync + 'static,
        T: Future<Output = Turn> + Send + 'static,
    {
        let on_message: OnMessage =
            Arc::new(move |message, conversation| Box::pin(on_message(message, conversation)));
        let lanes = Lanes::new(self.transport.clone(), self.timepiece.clone(), on_message, self.room);
        Agent {
            lanes,
            transport: self.transport,
            timepiece: self.timepiece,
            grace: self.grace,
            cron: self.cron,
        }
    }
}

/// Resolves when the process is asked to end: SIGTERM, or Ctrl-C.
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
