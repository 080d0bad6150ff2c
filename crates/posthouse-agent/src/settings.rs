//! Settings of the relay connection: address, credential, identities, window.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use posthouse_wire::address::Addresses;
use posthouse_wire::{BotId, GatewayId, Platform, Secret};
use serde::Deserialize;

use crate::Fault;

/// Window that an agent asks for by default; below it, the largest that a server grants.
const WINDOW: u16 = 32;
const WIDEST_WINDOW: u16 = 64;

/// One identity of the agent: a platform, and the agent's bot there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotIdentity {
    pub platform: Platform,
    /// May be empty, which means the only bot on that platform.
    pub bot_id: BotId,
}

impl BotIdentity {
    pub fn new(platform: impl Into<Platform>, bot_id: impl Into<BotId>) -> Self {
        Self { platform: platform.into(), bot_id: bot_id.into() }
    }

    /// The identity of an agent without configured platforms: the server picks the only one it knows.
    pub fn unspecified() -> Self {
        Self::new("relay", "")
    }
}

/// Settings of a [`WebSocketTransport`](crate::WebSocketTransport).
#[derive(Clone)]
pub struct Settings {
    url: String,
    pub(crate) gateway: GatewayId,
    pub(crate) secret: Secret,
    pub(crate) identities: Vec<BotIdentity>,
    pub(crate) window: u16,
    pub(crate) fires: bool,
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
}

impl Settings {
    /// `url` begins with http, https, ws or wss and may end in `/relay`.
    pub fn new(url: impl Into<String>, gateway: impl Into<GatewayId>, secret: Secret) -> Self {
        Self {
            url: url.into(),
            gateway: gateway.into(),
            secret,
            identities: vec![BotIdentity::unspecified()],
            window: WINDOW,
            fires: false,
            tls: None,
        }
    }

    /// Receives cron fires on this connection, so that the agent needs no reachable URL.
    #[must_use]
    pub fn taking_fires(mut self) -> Self {
        self.fires = true;
        self
    }

    /// Reads the variables that `posthouse agent create` prints: `GATEWAY_RELAY_URL`, `_ID`, `_SECRET`,
    /// `_PLATFORMS` (`a,b`) and `_BOT_IDS` (`{"a":{"botId":"…"}}`).
    pub fn from_env() -> Result<Self, Fault> {
        Self::from_vars(|name| std::env::var(name).ok())
    }

    /// Like [`from_env`](Self::from_env), but asks `var` for each variable.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self, Fault> {
        let set = |name: &'static str| {
            var(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let needed = |name| set(name).ok_or(Fault::Unset(name));
        let url = needed("GATEWAY_RELAY_URL")?;
        let gateway = needed("GATEWAY_RELAY_ID")?;
        let secret = Secret::new(needed("GATEWAY_RELAY_SECRET")?);
        let bots: BTreeMap<String, BotIdEntry> = match set("GATEWAY_RELAY_BOT_IDS") {
            Some(json) => serde_json::from_str(&json)
                .map_err(|fault| Fault::Unreadable("GATEWAY_RELAY_BOT_IDS", fault.to_string()))?,
            None => BTreeMap::new(),
        };
        let platforms = set("GATEWAY_RELAY_PLATFORMS").unwrap_or_default();
        let identities =
            platforms.split(',').map(str::trim).filter(|name| !name.is_empty()).map(|platform| {
                let bot_id = bots.get(platform).map_or(BotId::new(""), |bot| bot.bot_id.clone());
                BotIdentity { platform: Platform::new(platform.to_lowercase()), bot_id }
            });
        Ok(Self::new(url, gateway, secret).with_bots(identities))
    }

    /// Sets the identities to announce. The first one that the server accepts is the default. An empty list
    /// means [`BotIdentity::unspecified`].
    pub fn with_bots(mut self, identities: impl IntoIterator<Item = BotIdentity>) -> Self {
        self.identities = identities.into_iter().collect();
        if self.identities.is_empty() {
            self.identities.push(BotIdentity::unspecified());
        }
        self
    }

    /// Most unacknowledged entries that the server may have sent to the agent: 1 to 64. Default: 32.
    pub fn window(mut self, entries: u16) -> Self {
        self.window = entries.clamp(1, WIDEST_WINDOW);
        self
    }

    /// Uses `config` instead of the machine's trusted certificates.
    pub fn tls(mut self, config: Arc<rustls::ClientConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    pub(crate) fn addresses(&self) -> Addresses {
        Addresses::of(&self.url)
    }
}

/// Shows the address and the identities, never the secret.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("url", &self.url)
            .field("gateway", &self.gateway)
            .field("identities", &self.identities)
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct BotIdEntry {
    #[serde(rename = "botId", default = "no_bot")]
    bot_id: BotId,
}

fn no_bot() -> BotId {
    BotId::new("")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[(&str, &str)]) -> Result<Settings, Fault> {
        let vars: BTreeMap<_, _> = vars.iter().copied().collect();
        Settings::from_vars(|name| vars.get(name).map(|value| (*value).to_owned()))
    }

    const BASE: [(&str, &str); 3] = [
        ("GATEWAY_RELAY_URL", "http://127.0.0.1:1"),
        ("GATEWAY_RELAY_ID", "gw-1"),
        ("GATEWAY_RELAY_SECRET", "canary"),
    ];

    #[test]
    fn the_variables_of_a_stock_agent_are_understood() {
        let mut vars = BASE.to_vec();
        vars.push(("GATEWAY_RELAY_PLATFORMS", "alpha, Beta"));
        vars.push(("GATEWAY_RELAY_BOT_IDS", r#"{"alpha":{"botId":"a1"}}"#));
        let settings = read(&vars).unwrap();
        assert_eq!(settings.identities, [BotIdentity::new("alpha", "a1"), BotIdentity::new("beta", "")]);
        assert_eq!(settings.window, 32);
        assert_eq!(read(&BASE).unwrap().identities, [BotIdentity::unspecified()]);
    }

    #[test]
    fn what_is_missing_or_unreadable_is_named() {
        assert_eq!(read(&BASE[..2]).unwrap_err(), Fault::Unset("GATEWAY_RELAY_SECRET"));
        let mut vars = BASE.to_vec();
        vars.push(("GATEWAY_RELAY_BOT_IDS", "nonsense"));
        assert!(matches!(read(&vars), Err(Fault::Unreadable("GATEWAY_RELAY_BOT_IDS", _))));
    }

    #[test]
    fn settings_print_without_the_secret_and_windows_stay_in_bounds() {
        let settings = read(&BASE).unwrap().window(1000);
        assert_eq!(settings.window, 64);
        assert!(!format!("{settings:?}").contains("canary"));
    }
}
