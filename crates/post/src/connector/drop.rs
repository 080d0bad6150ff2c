//! File-drop connector: each delivery, wake and question is a file in the agent's directory.
//!
//! A file is complete from the moment it has its name. It is named after the dispatch id, so a repeat is recognized
//! while the file exists: the same agent, kind and text again writes nothing. An id may contain `:`, and so may the
//! file name; callers that share the directory with a system that forbids `:` have to choose other ids. An id that
//! begins with a dot is refused because most readers skip such files. An id that ends in `.reply` is refused because
//! it would look like an answer.
//!
//! A directory that cannot be written now (missing, full, read-only) is a temporary failure, like one of the network.
//! A directory behind a symbolic link is a permanent failure.

mod directory;
mod settings;
mod workers;

use async_trait::async_trait;
use posthouse_time::Timepiece;
use posthouse_wire::delivery::{
    AgentDescriptor, Cause, DeliveryFailed, DeliveryReceipt, Payload, WakeOpts, WakeReceipt, is_dispatch_id,
};
use posthouse_wire::{ConnectorId, CorrelationId, DispatchId};
use serde::Serialize;
use serde_json::Value;

use super::memory::ConnectorMemory;
use super::reply::{self, ParsedReply};
use super::settings::{BadSettings, Tools};
use super::{AgentConnector, AskOutcome, ConnectorError, ConnectorReply, Emission, ExpectedReply, Features};
use directory::{DropDirectory, DropError, FoundFile};
use settings::{DropFormat, FileDropSettings};

/// Agents that read files in directories of this machine.
pub struct FileDropConnector {
    id: ConnectorId,
    settings: FileDropSettings,
    timepiece: Timepiece,
    memory: ConnectorMemory,
}

/// The file of a wake.
#[derive(Serialize)]
struct WakeFile<'a> {
    agent_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a str>,
    sent_at: i64,
}

impl FileDropConnector {
    pub const IMPLEMENTATION: &str = "file-drop";
    pub(super) const FEATURES: Features = Features { agent_status: false, ..Features::ALL };

    pub(super) fn read(settings: &Value, with: Tools) -> Result<Self, BadSettings> {
        let Tools { id, tenant, timepiece, memory, config, .. } = with;
        let settings = FileDropSettings::read(settings, &config.drop_dirs, &memory, &tenant)?;
        Ok(Self { id, settings, timepiece, memory })
    }

    /// Writes the whole payload and returns the name of its file.
    async fn keep(
        &self,
        agent_id: &str,
        place: &DropDirectory,
        payload: &Payload,
        reply_to: Option<&str>,
    ) -> Result<String, ConnectorError> {
        let stem = stem(agent_id, &payload.meta.dispatch_id)?;
        let bytes = payload.addressed(agent_id).replying_to(reply_to).json();
        let (agent, payload) = (agent_id.to_owned(), payload.clone());
        let same = move |kept: &[u8]| is_same(kept, &agent, &payload);
        self.work(agent_id, place, move |place| place.put(&stem, ".json", &bytes, same)).await
    }

    /// Runs a job in a directory.
    async fn work<T: Send + 'static>(
        &self,
        agent_id: &str,
        place: &DropDirectory,
        job: impl FnOnce(&DropDirectory) -> Result<T, DropError> + Send + 'static,
    ) -> Result<T, ConnectorError> {
        let there = place.clone();
        let worked = place.hands.work(&self.timepiece, move || job(&there)).await;
        worked.map_err(|trouble| failed(agent_id, &trouble))
    }

    /// Logs a file that is not a valid answer. It is polled several times a second, but logged once.
    fn passed_over(&self, agent_id: &str, question: &DispatchId, why: &str) {
        if self.memory.is_new(format!("reply {} {agent_id} {question}: {why}", self.id)) {
            tracing::warn!(connector.id = %self.id, agent = agent_id, dispatch.id = %question, "ignored an answer file: it {why}");
        }
    }

    fn receipt(&self, file: String) -> DeliveryReceipt {
        let delivered_at = self.timepiece.now().millis();
        DeliveryReceipt { delivered_at, delivery_id: Some(file), ..DeliveryReceipt::default() }
    }
}

#[async_trait]
impl AgentConnector for FileDropConnector {
    fn implementation(&self) -> &'static str {
        Self::IMPLEMENTATION
    }

    fn features(&self) -> Features {
        Self::FEATURES
    }

    /// The file name contains the dispatch id.
    fn repeats_harmlessly(&self) -> bool {
        true
    }

    /// There is no notification of new files.
    fn collects(&self) -> bool {
        true
    }

    async fn list_agents(&self) -> Result<Vec<AgentDescriptor>, ConnectorError> {
        Ok(self.settings.dirs.descriptors())
    }

    async fn lists(&self, agent_id: &str) -> Result<bool, ConnectorError> {
        Ok(self.settings.dirs.claims(agent_id))
    }

    async fn deliver(&self, agent_id: &str, payload: &Payload) -> Result<DeliveryReceipt, ConnectorError> {
        let place = self.settings.dirs.exactly(agent_id)?;
        let file = match self.settings.format {
            DropFormat::Json => self.keep(agent_id, place, payload, None).await?,
            DropFormat::Text => {
                let stem = stem(agent_id, &payload.meta.dispatch_id)?;
                let text = payload.text.clone().into_bytes();
                let put = move |place: &DropDirectory| place.put(&stem, ".txt", &text, |kept| kept == text);
                self.work(agent_id, place, put).await?
            }
        };
        Ok(self.receipt(file))
    }

    /// Writes a file, which interrupts nobody. Its name is the wake's dispatch id, so a second attempt is harmless.
    async fn wake(
        &self,
        agent_id: &str,
        opts: &WakeOpts,
        emission: &Emission,
    ) -> Result<WakeReceipt, ConnectorError> {
        let meant = self.settings.dirs.addressed(agent_id, opts.session_id.as_deref())?;
        let stem = stem(agent_id, &emission.dispatch_id)?;
        let wake = WakeFile {
            agent_id: meant.agent,
            session_id: meant.session,
            context: opts.context.as_deref().filter(|context| !context.is_empty()),
            sent_at: emission.sent_at.millis(),
        };
        let bytes = serde_json::to_vec(&wake).expect("a wake contains only strings and a number");
        let put = move |place: &DropDirectory| place.put(&stem, ".json", &bytes, |kept| kept == bytes);
        self.work(agent_id, meant.at, put).await?;
        let session_id = meant.session.map(str::to_owned);
        let woken_at = self.timepiece.now().millis();
        let warnings = vec!["a file cannot interrupt the agent: the wake was only written".to_owned()];
        Ok(WakeReceipt { woken_at, session_id, warnings, ..WakeReceipt::default() })
    }

    async fn health_check(&self) -> bool {
        self.diagnose().await.is_ok()
    }

    /// Healthy if a file can be created in every directory.
    async fn diagnose(&self) -> Result<(), String> {
        let probes = self.settings.dirs.0.iter().map(|(agent, place)| async move {
            let probed = self.work(agent, place, DropDirectory::probe).await;
            probed.map_err(|why| format!("the folder {} of agent '{agent}': {why}", place.path().display()))
        });
        futures_util::future::try_join_all(probes).await.map(drop)
    }

    /// Writes the question with the name of the file for its answer. A question is always a whole payload, because its
    /// text alone would not show that somebody waits.
    async fn request_response(
        &self,
        agent_id: &str,
        payload: &Payload,
        _question: &ExpectedReply,
    ) -> Result<AskOutcome, ConnectorError> {
        let place = self.settings.dirs.exactly(agent_id)?;
        let reply_to = reply_file(&stem(agent_id, &payload.meta.dispatch_id)?);
        let file = self.keep(agent_id, place, payload, Some(&reply_to)).await?;
        Ok(AskOutcome::Awaited(self.receipt(file)))
    }

    /// Reads the answer file. A file that is not a valid answer is left alone, because it may be half written.
    async fn collect(
        &self,
        agent_id: &str,
        question: &DispatchId,
        correlation: &CorrelationId,
    ) -> Result<Option<ConnectorReply>, ConnectorError> {
        let place = self.settings.dirs.exactly(agent_id)?;
        let (there, name) = (place.clone(), reply_file(&stem(agent_id, question)?));
        let find = move || there.find(&name, reply::LONGEST_JSON as u64);
        // If all threads are busy, this poll is skipped.
        let found = place.hands.work_if_free(&self.timepiece, find).await;
        let read = match found.map_err(|trouble| failed(agent_id, &trouble))? {
            None | Some(FoundFile::Nothing) => return Ok(None),
            Some(FoundFile::Strange) => Err("is not a regular file, or is too large"),
            Some(FoundFile::Bytes(bytes)) => {
                let value: Result<Value, _> = serde_json::from_slice(&bytes);
                value.map_err(|_| "is not JSON").and_then(|value| ParsedReply::read(&value))
            }
        };
        let reply = match read {
            Ok(reply) => reply,
            Err(why) => {
                tracing::debug!(agent = agent_id, dispatch.id = %question, "an answer file {why}");
                return Ok(None);
            }
        };
        match reply.to(agent_id, correlation) {
            Ok(answer) => Ok(Some(answer)),
            Err(why) => {
                self.passed_over(agent_id, question, why);
                Ok(None)
            }
        }
    }
}

/// The dispatch id as the beginning of a file name.
fn stem(agent_id: &str, dispatch_id: &DispatchId) -> Result<String, ConnectorError> {
    let id = dispatch_id.as_str();
    // Case-insensitive, because some file systems are.
    let plain = is_dispatch_id(id) && !id.starts_with('.') && !id.to_ascii_lowercase().ends_with(".reply");
    if plain {
        return Ok(id.to_owned());
    }
    let message = "the dispatch id cannot be the name of a file".to_owned();
    Err(DeliveryFailed::client_validation(agent_id, message).into())
}

fn reply_file(stem: &str) -> String {
    format!("{stem}.reply.json")
}

/// Whether a file holds the same agent, kind and text. The rest of the envelope may differ in a repeat.
fn is_same(kept: &[u8], agent: &str, payload: &Payload) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(kept) else { return false };
    if value.get("agent_id").and_then(Value::as_str) != Some(agent) {
        return false;
    }
    let kept: Result<Payload, _> = serde_json::from_value(value);
    kept.is_ok_and(|kept| kept.kind == payload.kind && kept.text == payload.text)
}

fn failed(agent_id: &str, trouble: &DropError) -> ConnectorError {
    let cause = match trouble {
        DropError::Io(_) | DropError::Hung => Cause::Network,
        DropError::Crooked | DropError::TooMany => Cause::ClientValidation,
    };
    DeliveryFailed::new(agent_id, cause, trouble.to_string()).into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posthouse_time::Moment;
    use posthouse_wire::delivery::PayloadKind;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_directory_that_hangs_is_not_looked_into_and_fails_what_is_sent_there_in_time() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("q-1.reply.json"), r#"{"content":"42"}"#).unwrap();
        let (memory, timepiece) = (ConnectorMemory::default(), Timepiece::wound(Moment::default()));
        let settings = json!({"dirs": {"desk": folder.path()}});
        let allowed = [folder.path().to_owned()];
        let settings = FileDropSettings::read(&settings, &allowed, &memory, &"ten_1".into()).unwrap();
        let drops = FileDropConnector { id: "con_1".into(), settings, timepiece: timepiece.clone(), memory };
        // All permits are taken, as if every operation hung.
        let hands = drops.memory.hands(folder.path());
        let all = u32::try_from(hands.available_permits()).unwrap();
        let held = hands.acquire_many_owned(all).await.unwrap();
        let collect = || async { drops.collect("desk", &"q-1".into(), &"c-1".into()).await.unwrap() };
        assert_eq!(collect().await, None);
        let meta = json!({"dispatch_id": "d-1", "sent_at": 1, "origin": {"skill_name": "probe", "trigger_kind": "cli"}});
        let meta = serde_json::from_value(meta).unwrap();
        let payload = Payload { kind: PayloadKind::Augment, text: "hello".to_owned(), meta };
        let later = async || timepiece.wind(Duration::from_secs(3600));
        let (delivered, ()) = tokio::join!(drops.deliver("desk", &payload), later());
        let Err(ConnectorError::Failed(failed)) = delivered else { panic!("{delivered:?}") };
        assert_eq!(failed.cause_kind, Cause::Network);
        assert!(!failed.message.contains(folder.path().to_str().unwrap()), "{failed}");
        let (found, ()) = tokio::join!(drops.diagnose(), later());
        assert!(found.unwrap_err().contains(folder.path().to_str().unwrap()));
        drop(held);
        assert_eq!(collect().await.map(|answer| answer.content).as_deref(), Some("42"));
        drops.deliver("desk", &payload).await.unwrap();
    }
}
