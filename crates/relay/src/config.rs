//! Settings of the relay.

use posthouse_time::Span;
use serde::{Deserialize, Serialize};

/// `[relay]` in the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Time after connecting in which a stock agent gets no messages, because it drops earlier ones. Default 4s.
    pub settle: Span,
    /// Time for an agent to acknowledge an entry before its socket is closed. A stock agent that gets /stop in the
    /// middle of a turn acknowledges only after its own 30 s, so keep this above 30s. Default 45s.
    pub ack_lease: Span,
    /// Lifetime of an access token, at least 15m. Stock agents renew theirs two minutes before it expires.
    /// Default 1h.
    pub access_token: Span,
    /// Shortest time between two calls of one agent's wake URL. Default 60s.
    pub wake_cooldown: Span,
    /// Longest time between two calls of a wake URL, after backing off. Default 15m.
    pub wake_at_most: Span,
    /// Maximum number of entries in one agent's inbox; further ones are refused. One person or chat can fill at most
    /// a quarter of it, one program's credential three quarters. Default 10000.
    pub inbox_entries: i64,
    /// Maximum number of bytes in one agent's inbox, with the same shares. Default 256 MiB.
    pub inbox_bytes: i64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            settle: Span::seconds(4),
            ack_lease: Span::seconds(45),
            access_token: Span::seconds(3600),
            wake_cooldown: Span::seconds(60),
            wake_at_most: Span::seconds(15 * 60),
            inbox_entries: 10_000,
            inbox_bytes: 256 * 1024 * 1024,
        }
    }
}

impl Config {
    /// Checks relations between settings. The error text names the violated one.
    pub fn check(&self) -> Result<(), String> {
        if self.access_token.0 < identity::SHORTEST_ACCESS {
            return Err("relay.access_token must be at least 15m".to_owned());
        }
        if self.inbox_entries < 1 || self.inbox_bytes < 1 {
            return Err("relay.inbox_entries and relay.inbox_bytes must be at least 1".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_outlasts_every_silence_in_the_vectors() {
        let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors");
        let folder = std::env::var("POSTHOUSE_VECTORS").unwrap_or_else(|_| ours.to_owned());
        let read = |folder: &str| std::fs::read_to_string(format!("{folder}/stock_habits.json"));
        // This file is specific to this project; other vector collections may lack it.
        let text = read(&folder).or_else(|_| read(ours)).unwrap();
        let habits: serde_json::Value = serde_json::from_str(&text).unwrap();
        let lease = Config::default().ack_lease.0.as_secs_f64();
        for case in habits["cases"].as_array().unwrap() {
            assert!(case["seconds"].as_f64().unwrap() < lease, "{case}");
        }
    }
}
