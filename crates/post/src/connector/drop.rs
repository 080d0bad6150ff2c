//! Agents that look into a directory: everything for them is a file there, whole from the moment it has its name.
//!
//! A file is named after the dispatch id, so a repeat is recognised for as long as the file lies there: the same
//! agent, kind and text again writes nothing. `:` may stand in an id and so in a name; whoever shares such a
//! directory with a system that forbids it chooses other ids. Ids that begin with a dot would be overlooked by most
//! readers, and one that ends in `.reply` would pass for an answer: both are refused.
//!
//! A directory that cannot be written now (gone, full, read-only) is a fault like that of a network and may pass; one
//! that is reached through a symbolic link is refused for good.

mod place;
mod settings;

use async_trait::async_trait;
use posthouse_time::Timepiece;
use posthouse_wire::delivery::{
    AgentDescriptor, Cause, DeliveryFailed, DeliveryReceipt, Payload, WakeOpts, WakeReceipt, is_dispatch_id,
};
use posthouse_wire::{CorrelationId, DispatchId};
use serde::Serialize;
use serde_json::Value;

use super::settings::{BadSettings, Tools};
use super::{AgentConnector, Answer, Emission, Features, Question, Replied, Undone, reply};
use place::{Found, Place, Trouble};
use settings::{Format, Settings};

/// Agents that look into directories of this machine.
pub struct FileDrop {
    settings: Settings,
    timepiece: Timepiece,
}

/// The file of a wake.
#[derive(Serialize)]
struct Knock<'a> {
    agent_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a str>,
    sent_at: i64,
}

impl FileDrop {
    pub const IMPLEMENTATION: &str = "file-drop";

    pub(super) fn read(settings: &Value, with: Tools) -> Result<Self, BadSettings> {
        let settings = Settings::read(settings, &with.config.drop_dirs)?;
        Ok(Self { settings, timepiece: with.timepiece })
    }

    /// Keeps the whole payload, and answers with the name of its file.
    async fn keep(
        &self,
        agent_id: &str,
        place: &Place,
        payload: &Payload,
        reply_to: Option<&str>,
    ) -> Result<String, Undone> {
        let stem = stem(agent_id, &payload.meta.dispatch_id)?;
        let bytes = payload.addressed(agent_id).replying_to(reply_to).json();
        let (place, agent, payload) = (place.clone(), agent_id.to_owned(), payload.clone());
        let same = move |kept: &[u8]| is_same(kept, &agent, &payload);
        blocking(agent_id, move || place.put(&stem, ".json", &bytes, same)).await
    }

    fn receipt(&self, file: String) -> DeliveryReceipt {
        let delivered_at = self.timepiece.now().millis();
        DeliveryReceipt { delivered_at, delivery_id: Some(file), ..DeliveryReceipt::default() }
    }
}

#[async_trait]
impl AgentConnector for FileDrop {
    fn implementation(&self) -> &'static str {
        Self::IMPLEMENTATION
    }

    fn features(&self) -> Features {
        Features { agent_status: false, ..Features::ALL }
    }

    /// The directory knows the dispatch id.
    fn repeats_harmlessly(&self) -> bool {
        true
    }

    /// Nobody tells us of a new file.
    fn collects(&self) -> bool {
        true
    }

    async fn list_agents(&self) -> Result<Vec<AgentDescriptor>, Undone> {
        Ok(self.settings.dirs.descriptors())
    }

    async fn lists(&self, agent_id: &str) -> Result<bool, Undone> {
        Ok(self.settings.dirs.claims(agent_id))
    }

    async fn deliver(&self, agent_id: &str, payload: &Payload) -> Result<DeliveryReceipt, Undone> {
        let place = self.settings.dirs.exactly(agent_id)?;
        let file = match self.settings.format {
            Format::Json => self.keep(agent_id, place, payload, None).await?,
            Format::Text => {
                let stem = stem(agent_id, &payload.meta.dispatch_id)?;
                let (place, text) = (place.clone(), payload.text.clone().into_bytes());
                blocking(agent_id, move || place.put(&stem, ".txt", &text, |kept| kept == text)).await?
            }
        };
        Ok(self.receipt(file))
    }

    /// Nobody is interrupted by a file. It bears the wake's own dispatch id, which makes a second attempt harmless.
    async fn wake(
        &self,
        agent_id: &str,
        opts: &WakeOpts,
        emission: &Emission,
    ) -> Result<WakeReceipt, Undone> {
        let meant = self.settings.dirs.addressed(agent_id, opts.session_id.as_deref())?;
        let stem = stem(agent_id, &emission.dispatch_id)?;
        let knock = Knock {
            agent_id: meant.agent,
            session_id: meant.session,
            context: opts.context.as_deref().filter(|context| !context.is_empty()),
            sent_at: emission.sent_at.millis(),
        };
        let bytes = serde_json::to_vec(&knock).expect("a wake holds texts and a number");
        let place = meant.at.clone();
        blocking(agent_id, move || place.put(&stem, ".json", &bytes, |kept| kept == bytes)).await?;
        let session_id = meant.session.map(str::to_owned);
        let woken_at = self.timepiece.now().millis();
        Ok(WakeReceipt { woken_at, session_id, ..WakeReceipt::default() })
    }

    /// Whether a file can be made in every directory.
    async fn health_check(&self) -> bool {
        let places: Vec<Place> = self.settings.dirs.0.values().cloned().collect();
        let probed = blocking("", move || places.iter().try_for_each(Place::probe)).await;
        probed.inspect_err(|why| tracing::debug!(%why, "a drop directory is of no use")).is_ok()
    }

    /// Puts the question, which names the file that its answer is awaited in. A question is always a whole payload,
    /// since its text alone would not say that anybody waits.
    async fn request_response(
        &self,
        agent_id: &str,
        payload: &Payload,
        _question: &Question,
    ) -> Result<Replied, Undone> {
        let place = self.settings.dirs.exactly(agent_id)?;
        let reply_to = reply_file(&stem(agent_id, &payload.meta.dispatch_id)?);
        let file = self.keep(agent_id, place, payload, Some(&reply_to)).await?;
        Ok(Replied::Awaited(self.receipt(file)))
    }

    /// What is not an answer to this question, or not one yet, is left alone: it may be half written.
    async fn collect(
        &self,
        agent_id: &str,
        question: &DispatchId,
        correlation: &CorrelationId,
    ) -> Result<Option<Answer>, Undone> {
        let place = self.settings.dirs.exactly(agent_id)?.clone();
        let name = reply_file(&stem(agent_id, question)?);
        let found = blocking(agent_id, move || place.find(&name, reply::LONGEST_JSON as u64)).await?;
        let read = match &found {
            Found::Nothing => return Ok(None),
            Found::Strange => Err("is no plain file of bearable size"),
            Found::Bytes(bytes) => {
                let value: Result<Value, _> = serde_json::from_slice(bytes);
                value.map_err(|_| "is no JSON").and_then(|value| reply::read(&value))
            }
        };
        match read {
            // The name of the file says which question is meant, so the id need not stand in it.
            Ok((answer, named)) if named.as_ref().is_none_or(|named| named == correlation) => {
                Ok(Some(answer))
            }
            Ok(_) => {
                tracing::debug!(agent = agent_id, dispatch.id = %question, "an answer file belongs to another question");
                Ok(None)
            }
            Err(why) => {
                tracing::debug!(agent = agent_id, dispatch.id = %question, "an answer file {why}");
                Ok(None)
            }
        }
    }
}

/// The id as the beginning of a file name.
fn stem(agent_id: &str, dispatch_id: &DispatchId) -> Result<String, Undone> {
    let id = dispatch_id.as_str();
    // Letter case is looked through, as some file systems do.
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

/// Whether this file tells the same agent the same thing. The rest of the envelope may differ in a repeat.
fn is_same(kept: &[u8], agent: &str, payload: &Payload) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(kept) else { return false };
    if value.get("agent_id").and_then(Value::as_str) != Some(agent) {
        return false;
    }
    let kept: Result<Payload, _> = serde_json::from_value(value);
    kept.is_ok_and(|kept| kept.kind == payload.kind && kept.text == payload.text)
}

/// Disks take their time, which is not taken from everybody else.
async fn blocking<T: Send + 'static>(
    agent_id: &str,
    work: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
) -> Result<T, Undone> {
    let done = tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other);
    done.map_err(Trouble::from).flatten().map_err(|trouble| {
        let cause = match trouble {
            Trouble::Io(_) => Cause::Network,
            Trouble::Crooked | Trouble::TooMany => Cause::ClientValidation,
        };
        DeliveryFailed::new(agent_id, cause, trouble.to_string()).into()
    })
}
