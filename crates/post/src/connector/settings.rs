//! From what is stored about a connector to the connector.

mod fields;

use std::sync::Arc;

use errand::Errand;
use posthouse_time::Timepiece;
use posthouse_wire::ConnectorId;
use serde_json::Value;
use vault::Stamps;

use super::barred::Barred;
use super::drop::FileDrop;
use super::memory::Memory;
use super::noop::Noop;
use super::tmux::Tmux;
use super::webhook::Webhook;
use super::{AgentConnector, Features};
use crate::{Config, Unmade};

pub(super) use fields::{Fields, wired};

/// The kinds that can be made.
pub const KINDS: [&str; 4] =
    [Webhook::IMPLEMENTATION, Tmux::IMPLEMENTATION, FileDrop::IMPLEMENTATION, Noop::IMPLEMENTATION];

/// What a connector works with.
pub struct Tools<'a> {
    pub id: ConnectorId,
    pub errand: Errand,
    pub stamps: Stamps,
    pub timepiece: Timepiece,
    /// Of the connectors that were here before it.
    pub memory: Memory,
    /// Holds the house's consent to panes and directories.
    pub config: &'a Config,
}

/// Why settings make no connector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    /// The setting, as a path of names, and what is wrong with it.
    #[error("`{field}` {why}")]
    Malformed { field: String, why: String },
    /// Well said, and the house has not allowed it.
    #[error("{0}")]
    NotAllowed(String),
}

impl BadSettings {
    pub(super) fn malformed(field: impl Into<String>, why: impl Into<String>) -> Self {
        BadSettings::Malformed { field: field.into(), why: why.into() }
    }
}

impl From<BadSettings> for Unmade {
    fn from(bad: BadSettings) -> Self {
        match bad {
            BadSettings::Malformed { field, why } => Unmade::Malformed { field, why },
            BadSettings::NotAllowed(why) => Unmade::NotAllowed(why),
        }
    }
}

/// The connector of this kind. Nothing is opened or called yet: whether it works is for its health check to say.
pub fn build(kind: &str, settings: &Value, with: Tools) -> Result<Arc<dyn AgentConnector>, BadSettings> {
    Ok(match kind {
        Webhook::IMPLEMENTATION => Arc::new(Webhook::read(settings, with)?),
        Tmux::IMPLEMENTATION => Arc::new(Tmux::read(settings, with)?),
        FileDrop::IMPLEMENTATION => Arc::new(FileDrop::read(settings, with)?),
        Noop::IMPLEMENTATION => {
            Fields::read(settings, "", &[])?;
            Arc::new(Noop::new(with.timepiece))
        }
        _ => return Err(BadSettings::malformed("kind", format!("is none of {}", KINDS.join(", ")))),
    })
}

/// As [`build`], for one that was stored earlier: if it can no longer be built it stays, and says why with every
/// failure, because one that vanished would take its agents' names with it.
pub fn rebuild(kind: &str, settings: &Value, with: Tools) -> Arc<dyn AgentConnector> {
    let (id, memory) = (with.id.clone(), with.memory.clone());
    build(kind, settings, with).unwrap_or_else(|bad| {
        // Connectors are opened anew every few seconds; the operator is told when it is news.
        if memory.is_new(format!("barred {id}: {bad}")) {
            tracing::warn!(connector.id = %id, kind, why = %bad, "a stored connector cannot be opened: what is sent by it fails");
        }
        let implementation = KINDS.into_iter().find(|known| *known == kind).unwrap_or("unknown");
        let maps = ["agents", "sessions", "sessionMap", "dirs"];
        let map = maps.iter().find_map(|name| settings.get(name)?.as_object());
        let bare = || settings.as_object().filter(|map| map.values().all(Value::is_object));
        let agents = map.or_else(bare).map(|map| map.keys().cloned().collect()).unwrap_or_default();
        Arc::new(Barred::new(implementation, features(kind), agents, bad.to_string()))
    })
}

/// What a connector of this kind can do at most.
fn features(kind: &str) -> Features {
    match kind {
        Webhook::IMPLEMENTATION => Webhook::FEATURES,
        Tmux::IMPLEMENTATION => Tmux::FEATURES,
        FileDrop::IMPLEMENTATION => FileDrop::FEATURES,
        Noop::IMPLEMENTATION => Noop::FEATURES,
        _ => Features::default(),
    }
}
