//! Builds connectors from their stored settings.

mod fields;

use std::sync::Arc;

use errand::Errand;
use posthouse_time::Timepiece;
use posthouse_wire::{ConnectorId, TenantId};
use serde_json::Value;
use vault::WebhookSigner;

use super::drop::FileDropConnector;
use super::memory::ConnectorMemory;
use super::noop::NoopConnector;
use super::tmux::TmuxConnector;
use super::unavailable::UnavailableConnector;
use super::webhook::WebhookConnector;
use super::{AgentConnector, Features};
use crate::{Config, ConnectorNotCreated};

pub(super) use fields::{SettingFields, configured_agents};

/// The kinds of connectors that can be created.
pub const KINDS: [&str; 4] = [
    WebhookConnector::IMPLEMENTATION,
    TmuxConnector::IMPLEMENTATION,
    FileDropConnector::IMPLEMENTATION,
    NoopConnector::IMPLEMENTATION,
];

/// The dependencies of a connector.
pub struct Tools<'a> {
    pub id: ConnectorId,
    pub tenant: TenantId,
    pub errand: Errand,
    pub webhook_signer: WebhookSigner,
    pub timepiece: Timepiece,
    /// State that outlives connectors.
    pub memory: ConnectorMemory,
    /// Decides which panes and directories are allowed.
    pub config: &'a Config,
}

/// Why settings are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    /// A setting, by its dotted path, is invalid.
    #[error("`{field}` {why}")]
    Malformed { field: String, why: String },
    /// Valid, but the configuration of the server does not allow it.
    #[error("{0}")]
    NotAllowed(String),
}

impl BadSettings {
    pub(super) fn malformed(field: impl Into<String>, why: impl Into<String>) -> Self {
        BadSettings::Malformed { field: field.into(), why: why.into() }
    }
}

impl From<BadSettings> for ConnectorNotCreated {
    fn from(bad: BadSettings) -> Self {
        match bad {
            BadSettings::Malformed { field, why } => ConnectorNotCreated::Malformed { field, why },
            BadSettings::NotAllowed(why) => ConnectorNotCreated::NotAllowed(why),
        }
    }
}

/// Builds a connector. Nothing is opened or called yet: the health check shows whether it works.
pub fn build(kind: &str, settings: &Value, with: Tools) -> Result<Arc<dyn AgentConnector>, BadSettings> {
    Ok(match kind {
        WebhookConnector::IMPLEMENTATION => Arc::new(WebhookConnector::read(settings, with)?),
        TmuxConnector::IMPLEMENTATION => Arc::new(TmuxConnector::read(settings, with)?),
        FileDropConnector::IMPLEMENTATION => Arc::new(FileDropConnector::read(settings, with)?),
        NoopConnector::IMPLEMENTATION => {
            SettingFields::read(settings, "", &[])?;
            Arc::new(NoopConnector::new(with.timepiece))
        }
        _ => return Err(BadSettings::malformed("kind", format!("must be one of {}", KINDS.join(", ")))),
    })
}

/// As [`build`], for a stored connector. If it can no longer be built, the result fails every operation with the
/// reason. Without it, the names of its agents would disappear.
pub fn rebuild(kind: &str, settings: &Value, with: Tools) -> Arc<dyn AgentConnector> {
    let (id, memory) = (with.id.clone(), with.memory.clone());
    build(kind, settings, with).unwrap_or_else(|bad| {
        // Connectors are rebuilt every few seconds, so each reason is logged once.
        if memory.is_new(format!("barred {id}: {bad}")) {
            tracing::warn!(connector.id = %id, kind, why = %bad, "a stored connector cannot be opened: everything sent by it fails");
        }
        let implementation = KINDS.into_iter().find(|known| *known == kind).unwrap_or("unknown");
        let maps = ["agents", "sessions", "sessionMap", "dirs"];
        let map = maps.iter().find_map(|name| settings.get(name)?.as_object());
        let bare = || settings.as_object().filter(|map| map.values().all(Value::is_object));
        let agents = map.or_else(bare).map(|map| map.keys().cloned().collect()).unwrap_or_default();
        Arc::new(UnavailableConnector::new(implementation, features(kind), agents, bad.to_string()))
    })
}

/// The features of a connector of this kind.
fn features(kind: &str) -> Features {
    match kind {
        WebhookConnector::IMPLEMENTATION => WebhookConnector::FEATURES,
        TmuxConnector::IMPLEMENTATION => TmuxConnector::FEATURES,
        FileDropConnector::IMPLEMENTATION => FileDropConnector::FEATURES,
        NoopConnector::IMPLEMENTATION => NoopConnector::FEATURES,
        _ => Features::default(),
    }
}
