//! Journal connector: appends each delivery and wake as a line to the agent's log file.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use post::Address;
use post::connector::{AgentConnector, AskOutcome, ConnectorError, Emission, ExpectedReply, Features};
use posthouse_time::Timepiece;
use posthouse_wire::delivery::{
    AgentDescriptor, Cause, DeliveryFailed, DeliveryReceipt, Payload, WakeOpts, WakeReceipt,
};
use serde_json::json;
use tokio::fs::OpenOptions;
use tokio::io::AsyncWriteExt;

pub struct Journal {
    /// Log files by agent.
    pub logs: BTreeMap<String, PathBuf>,
    pub timepiece: Timepiece,
}

impl Journal {
    const IMPLEMENTATION: &str = "journal";

    /// The log of the agent with exactly this name. An unknown agent is an error before any file is opened.
    fn log(&self, agent: &str, address: &str) -> Result<&PathBuf, ConnectorError> {
        let unknown = || DeliveryFailed::client_validation(address, format!("Agent '{agent}' has no log."));
        Ok(self.logs.get(agent).ok_or_else(unknown)?)
    }

    /// Makes one attempt. A disk error may be temporary, so its cause is `network`, which is retried.
    async fn append(&self, address: &str, log: &PathBuf, mut line: Vec<u8>) -> Result<(), ConnectorError> {
        line.push(b'\n');
        let written = async {
            let mut file = OpenOptions::new().append(true).create(true).open(log).await?;
            file.write_all(&line).await?;
            file.sync_data().await
        };
        let failed = |fault: std::io::Error| DeliveryFailed::new(address, Cause::Network, fault.to_string());
        Ok(written.await.map_err(failed)?)
    }
}

#[async_trait]
impl AgentConnector for Journal {
    fn implementation(&self) -> &'static str {
        Self::IMPLEMENTATION
    }

    fn features(&self) -> Features {
        Features { deliver: true, wake: true, list_agents: true, health_check: true, ..Features::default() }
    }

    /// Every line contains its dispatch id, by which readers recognize a repeat.
    fn repeats_harmlessly(&self) -> bool {
        true
    }

    async fn list_agents(&self) -> Result<Vec<AgentDescriptor>, ConnectorError> {
        Ok(self.logs.keys().map(AgentDescriptor::new).collect())
    }

    /// Appends the payload unchanged, with the agent's name added.
    async fn deliver(&self, agent_id: &str, payload: &Payload) -> Result<DeliveryReceipt, ConnectorError> {
        let log = self.log(agent_id, agent_id)?;
        self.append(agent_id, log, payload.addressed(agent_id).json()).await?;
        let delivered_at = self.timepiece.now().millis();
        Ok(DeliveryReceipt { delivered_at, ..DeliveryReceipt::default() })
    }

    /// A log cannot interrupt an agent. That is not an error: the text is delivered, and the receipt says
    /// `woken: false`.
    async fn wake(
        &self,
        agent_id: &str,
        opts: &WakeOpts,
        of: &Emission,
    ) -> Result<WakeReceipt, ConnectorError> {
        // A name may contain an `@`. Only an address that is not a name is split.
        let whole = self.logs.contains_key(agent_id);
        let address = Address::read(agent_id);
        let agent = if whole { agent_id } else { address.agent };
        let named = opts.session_id.as_deref();
        let session = if whole { named } else { address.session_meant(named) }.map(str::to_owned);
        let log = self.log(agent, agent_id)?;
        let mut line = json!(WakeOpts { session_id: session.clone(), ..opts.clone() });
        line["agent_id"] = agent.into();
        line["dispatch_id"] = of.dispatch_id.as_str().into();
        line["sent_at"] = of.sent_at.millis().into();
        self.append(agent_id, log, line.to_string().into_bytes()).await?;
        let woken_at = self.timepiece.now().millis();
        let warnings = vec!["a log wakes nobody: the text was appended".to_owned()];
        Ok(WakeReceipt { woken_at, session_id: session, warnings, ..WakeReceipt::default() })
    }

    /// Whether every log can be appended to. The check writes and creates nothing: for a missing log it only requires
    /// the folder.
    async fn health_check(&self) -> bool {
        for log in self.logs.values() {
            let usable = match OpenOptions::new().append(true).open(log).await {
                Ok(_) => true,
                Err(fault) if fault.kind() == ErrorKind::NotFound => has_folder(log).await,
                Err(_) => false,
            };
            if !usable {
                return false;
            }
        }
        true
    }

    async fn request_response(
        &self,
        _: &str,
        _: &Payload,
        _: &ExpectedReply,
    ) -> Result<AskOutcome, ConnectorError> {
        Err(ConnectorError::no_reply_channel(Self::IMPLEMENTATION))
    }
}

async fn has_folder(log: &Path) -> bool {
    // A bare file name is in the working directory.
    let folder = log.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tokio::fs::metadata(folder).await.is_ok_and(|folder| folder.is_dir())
}
