//! Host names that an operator maps to bots: a request to such a host reaches the webhook of its bot, whatever its path.

use std::collections::HashMap;
use std::sync::Arc;

use ledger::BotRef;
use parking_lot::RwLock;

/// Longest host name.
const LONGEST_HOST: usize = 253;

/// The mapped hosts. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct MappedHosts(Arc<RwLock<HashMap<String, BotRef>>>);

/// A host name in lower case, without its port. `None` for anything that is no host name.
pub(crate) fn host_name(text: &str) -> Option<String> {
    let name = text.split_once(':').map_or(text, |(name, _)| name).trim_end_matches('.');
    let is_name = (1..=LONGEST_HOST).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    is_name.then(|| name.to_ascii_lowercase())
}

impl MappedHosts {
    /// The path of the webhook of the bot that a host is mapped to.
    pub fn door(&self, host: &str) -> Option<String> {
        let hosts = self.0.read();
        if hosts.is_empty() {
            return None;
        }
        let on = hosts.get(&host_name(host)?)?;
        Some(format!("/door/{}/{}", on.platform, on.bot))
    }

    /// Maps a bot to its host, and to no other. A host that belongs to another bot stays with that one.
    pub(crate) fn map(&self, on: &BotRef, host: Option<&str>) {
        let mut hosts = self.0.write();
        let host = host.and_then(host_name);
        hosts.retain(|name, mapped| mapped != on || Some(name) == host.as_ref());
        let Some(host) = host else { return };
        let mapped = hosts.entry(host).or_insert_with(|| on.clone());
        if mapped != on {
            tracing::warn!(bot.id = %on.bot, other.id = %mapped.bot, "the host name of a bot is mapped to another bot already");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_leads_to_its_bot_and_to_no_other() {
        let on = |bot: &str| BotRef { platform: "webhook".into(), bot: bot.into() };
        let hosts = MappedHosts::default();
        assert_eq!(hosts.door("a.example"), None);
        hosts.map(&on("build"), Some("A.example"));
        hosts.map(&on("other"), Some("a.example"));
        for host in ["a.example", "A.EXAMPLE:8443", "a.example."] {
            assert_eq!(hosts.door(host).as_deref(), Some("/door/webhook/build"), "{host}");
        }
        for host in ["b.example", "", "a.example/../x", "[::1]"] {
            assert_eq!(hosts.door(host), None, "{host}");
        }
        hosts.map(&on("build"), Some("c.example"));
        assert_eq!((hosts.door("a.example"), hosts.door("c.example").is_some()), (None, true));
        hosts.map(&on("build"), None);
        assert_eq!(hosts.door("c.example"), None);
    }
}
