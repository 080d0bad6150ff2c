//! tmux connector: pastes messages into terminal panes. Nothing is read back from a pane.

mod pane;
mod settings;
mod text;

use async_trait::async_trait;
use posthouse_time::Timepiece;
use posthouse_wire::delivery::{
    AgentDescriptor, AgentStatus, Cause, DeliveryFailed, DeliveryReceipt, Payload, WakeOpts, WakeReceipt,
};
use serde_json::Value;

use super::settings::{BadSettings, Tools};
use super::{AgentConnector, AskOutcome, ConnectorError, Emission, ExpectedReply, Features};
use pane::{PATIENCE, TmuxError, TmuxProgram, TmuxTarget};
use settings::TmuxSettings;

/// Agents in tmux panes of this machine.
pub struct TmuxConnector {
    settings: TmuxSettings,
    program: TmuxProgram,
    timepiece: Timepiece,
}

impl TmuxConnector {
    pub const IMPLEMENTATION: &str = "tmux";
    pub(super) const FEATURES: Features = Features { request_response: false, ..Features::ALL };

    pub(super) fn read(settings: &Value, with: Tools) -> Result<Self, BadSettings> {
        let settings = TmuxSettings::read(settings, &with.config.tmux_sockets)?;
        if !with.config.tmux {
            let why = "the server does not allow tmux connectors: set post.tmux = true";
            return Err(BadSettings::NotAllowed(why.to_owned()));
        }
        let (path, socket) = (with.config.tmux_program.clone(), settings.socket.clone());
        let program = TmuxProgram { path, socket, patience: PATIENCE };
        Ok(Self { settings, program, timepiece: with.timepiece })
    }

    fn target<'a>(&self, session: &'a str) -> TmuxTarget<'a> {
        TmuxTarget { session, window: self.settings.window, pane: self.settings.pane }
    }

    /// Types a text, below its header if the settings want one.
    async fn type_text(&self, target: &TmuxTarget<'_>, header: String, text: &str) -> Result<(), TmuxError> {
        let pane = self.program.find(target).await?;
        let header = if self.settings.header { header } else { String::new() };
        let typed = format!("{header}{text}");
        // The Enter that follows ends the header line.
        self.program.type_into(&pane, if text.is_empty() { typed.trim_end() } else { &typed }).await
    }

    async fn is_there(&self, session: &str) -> Result<(), TmuxError> {
        self.program.find(&self.target(session)).await.map(|_| ())
    }
}

#[async_trait]
impl AgentConnector for TmuxConnector {
    fn implementation(&self) -> &'static str {
        Self::IMPLEMENTATION
    }

    fn features(&self) -> Features {
        Self::FEATURES
    }

    /// The agent would read the text twice.
    fn repeats_harmlessly(&self) -> bool {
        false
    }

    async fn list_agents(&self) -> Result<Vec<AgentDescriptor>, ConnectorError> {
        Ok(self.settings.sessions.descriptors())
    }

    async fn lists(&self, agent_id: &str) -> Result<bool, ConnectorError> {
        Ok(self.settings.sessions.claims(agent_id))
    }

    async fn deliver(&self, agent_id: &str, payload: &Payload) -> Result<DeliveryReceipt, ConnectorError> {
        let session = self.settings.sessions.exactly(agent_id)?;
        let target = self.target(session);
        let text = text::cleaned(&payload.text);
        let id = if text.is_empty() {
            format!("tmux:{target}:noop")
        } else {
            let meta = &payload.meta;
            let from = &meta.origin.skill_name;
            let kind = payload.kind.word();
            let header = text::header(&[("dispatch", &meta.dispatch_id), ("from", from), ("kind", &kind)]);
            self.type_text(&target, header, &text)
                .await
                .map_err(|trouble| failed(agent_id, session, &trouble))?;
            format!("tmux:{target}:{}", self.timepiece.now().millis())
        };
        Ok(DeliveryReceipt {
            delivered_at: self.timepiece.now().millis(),
            delivery_id: Some(id),
            session_id: Some(session.clone()),
            ..DeliveryReceipt::default()
        })
    }

    /// A missing session is not an error: the receipt says `woken: false`.
    async fn wake(
        &self,
        agent_id: &str,
        opts: &WakeOpts,
        emission: &Emission,
    ) -> Result<WakeReceipt, ConnectorError> {
        let meant = self.settings.sessions.addressed(agent_id, opts.session_id.as_deref())?;
        let session = meant.at;
        let mut warnings = Vec::new();
        if meant.session.is_some_and(|named| named != session) {
            warnings.push(format!("the agent has one pane, in session '{session}'"));
        }
        let text = text::cleaned(opts.context.as_deref().unwrap_or_default());
        // A wake has no payload kind, so its header says `wake`. Without a context, the header and Enter interrupt.
        let (dispatch, from) = (&emission.dispatch_id, &emission.from);
        let header = text::header(&[("dispatch", dispatch), ("from", from), ("kind", &"wake")]);
        // Either the text was typed, which interrupts, or nothing was done.
        let woken = match self.type_text(&self.target(session), header, &text).await {
            Ok(()) => true,
            Err(TmuxError::Gone(why)) => {
                warnings.push(gone(session, &why));
                false
            }
            Err(trouble) => return Err(failed(agent_id, session, &trouble)),
        };
        let woken_at = self.timepiece.now().millis();
        let session_id = Some(session.clone());
        Ok(WakeReceipt { woken_at, woken, session_id, warnings, nothing_sent: !woken })
    }

    async fn health_check(&self) -> bool {
        self.diagnose().await.is_ok()
    }

    /// Healthy if the pane of every agent exists.
    async fn diagnose(&self) -> Result<(), String> {
        for (agent, session) in &self.settings.sessions.0 {
            let target = self.target(session);
            if let Err(trouble) = self.program.find(&target).await {
                return Err(format!("the pane {target} of agent '{agent}': {trouble}"));
            }
        }
        Ok(())
    }

    async fn request_response(
        &self,
        _agent_id: &str,
        _payload: &Payload,
        _question: &ExpectedReply,
    ) -> Result<AskOutcome, ConnectorError> {
        Err(ConnectorError::no_reply_channel(Self::IMPLEMENTATION))
    }

    async fn agent_status(&self, agent_id: &str) -> AgentStatus {
        let Ok(session) = self.settings.sessions.exactly(agent_id) else { return AgentStatus::Unknown };
        match self.is_there(session).await {
            Ok(()) => AgentStatus::Active,
            Err(TmuxError::Gone(_)) => AgentStatus::Asleep,
            Err(_) => AgentStatus::Unknown,
        }
    }
}

fn gone(session: &str, why: &str) -> String {
    format!("tmux session '{session}' does not exist ({why})")
}

fn failed(agent_id: &str, session: &str, trouble: &TmuxError) -> ConnectorError {
    let (cause, message) = match trouble {
        TmuxError::Gone(why) => (Cause::Network, gone(session, why)),
        TmuxError::TimedOut => (Cause::Timeout, format!("tmux session '{session}': {trouble}")),
        _ => (Cause::Network, format!("tmux session '{session}': {trouble}")),
    };
    DeliveryFailed::new(agent_id, cause, message).into()
}
