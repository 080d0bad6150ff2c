//! Settings of the webhook connector.

use std::borrow::Cow;
use std::time::Duration;

use errand::{Errand, UrlRefusal};
use serde_json::Value;

use super::super::configured_agents::ConfiguredAgents;
use super::super::settings::{BadSettings, SettingFields, configured_agents};

/// The default timeout of one request.
const TIMEOUT_MS: u64 = 5000;
/// The longest timeout.
const LONGEST_TIMEOUT_MS: u64 = 600_000;

#[derive(Debug)]
pub(super) struct WebhookSettings {
    pub agents: ConfiguredAgents<WebhookReceiver>,
    pub timeout: Duration,
    pub standard_webhooks: bool,
}

/// The URLs of one agent.
#[derive(Debug)]
pub(super) struct WebhookReceiver {
    pub url: String,
    pub wake_url: Option<String>,
    pub status_url: Option<String>,
}

impl WebhookSettings {
    /// Reads the settings, or the bare map from agents to URLs of the reference implementation.
    pub fn read(settings: &Value, errand: &Errand) -> Result<Self, BadSettings> {
        let receiver = |value: &Value, path: String| WebhookReceiver::read(value, path, errand);
        if is_bare_map(settings) {
            let agents = configured_agents(settings, "", receiver)?;
            let timeout = Duration::from_millis(TIMEOUT_MS);
            return Ok(Self { agents, timeout, standard_webhooks: false });
        }
        let fields = SettingFields::read(settings, "", &["agents", "timeout_ms", "standard_webhooks"])?;
        let map = fields.given("agents").ok_or_else(|| fields.wrong("agents", "is missing"))?;
        // The reference implementation keeps the map as a JSON string in an environment variable.
        let map = match map {
            Value::String(text) => Cow::Owned(
                serde_json::from_str(text).map_err(|_| fields.wrong("agents", "must be a JSON object"))?,
            ),
            map => Cow::Borrowed(map),
        };
        let timeout = fields.number("timeout_ms", 1..=LONGEST_TIMEOUT_MS)?.unwrap_or(TIMEOUT_MS);
        Ok(Self {
            agents: configured_agents(&map, "agents", receiver)?,
            timeout: Duration::from_millis(timeout),
            standard_webhooks: fields.flag("standard_webhooks")?.unwrap_or(false),
        })
    }
}

impl WebhookReceiver {
    fn read(value: &Value, path: String, errand: &Errand) -> Result<Self, BadSettings> {
        let fields = SettingFields::read(value, path, &["url", "wake_url", "status_url"])?;
        let read = |name| match fields.text(name)? {
            None => Ok(None),
            Some(url) => match errand.check(url) {
                Ok(_) => Ok(Some(url.to_owned())),
                // The operator can allow these two. All other refusals are errors of the URL.
                Err(refusal @ (UrlRefusal::PlainHttp | UrlRefusal::Address(_))) => {
                    Err(BadSettings::NotAllowed(format!("`{}`: {refusal}", fields.path_of(name))))
                }
                Err(refusal) => Err(fields.wrong(name, format!("cannot be called: {refusal}"))),
            },
        };
        Ok(Self {
            url: read("url")?.ok_or_else(|| fields.wrong("url", "is missing"))?,
            wake_url: read("wake_url")?,
            status_url: read("status_url")?,
        })
    }
}

/// A map of objects with a `url`, without our own field `agents`.
fn is_bare_map(settings: &Value) -> bool {
    let Some(map) = settings.as_object() else { return false };
    !map.is_empty() && !map.contains_key("agents") && map.values().all(|value| value.get("url").is_some())
}
