//! The relay's settings.

use posthouse_time::Span;
use serde::{Deserialize, Serialize};

/// `[relay]` in the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How long a stock agent is left alone after it dialed in: it drops what reaches it earlier. Default 4s.
    pub settle: Span,
    /// How long an agent may sit on an entry before its socket counts as bad. A stock agent that is told
    /// /stop in the middle of a turn acknowledges only after its own 30 s, so stay above that. Default 45s.
    pub ack_lease: Span,
    /// How often an idle socket is pinged. Default 30s.
    pub ping_every: Span,
    /// How long a peer may be silent before its socket is dropped. Default 90s.
    pub silent_after: Span,
    /// How long a socket may stay without an accepted hello. Default 25s.
    pub hello_within: Span,
    /// When a request is answered at the latest, done or not. Default 25s.
    pub answer_within: Span,
    /// How long a superseded socket without requests is kept. Default 60s.
    pub standby: Span,
    /// How far past its expiry a token is still good at the door. Default 60s.
    pub token_leeway: Span,
    /// How long an access token is good. Stock agents renew theirs two minutes before its end, so no less
    /// than 15m. Default 1h.
    pub access_token: Span,
    /// The least time between two pokes of one agent's wake URL. Default 60s.
    pub wake_cooldown: Span,
    /// The longest time between two pokes, after backing off. Default 15m.
    pub wake_at_most: Span,
    /// Entries kept for one agent; past it the oldest are dropped and counted. Default 10000.
    pub inbox_entries: i64,
    /// Bytes kept for one agent, likewise. Default 256 MiB.
    pub inbox_bytes: i64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            settle: Span::seconds(4),
            ack_lease: Span::seconds(45),
            ping_every: Span::seconds(30),
            silent_after: Span::seconds(90),
            hello_within: Span::seconds(25),
            answer_within: Span::seconds(25),
            standby: Span::seconds(60),
            token_leeway: Span::seconds(60),
            access_token: Span::seconds(3600),
            wake_cooldown: Span::seconds(60),
            wake_at_most: Span::seconds(15 * 60),
            inbox_entries: 10_000,
            inbox_bytes: 256 * 1024 * 1024,
        }
    }
}

impl Config {
    /// Relations between settings that must hold, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.silent_after <= self.ping_every {
            return Err("relay.silent_after must be longer than relay.ping_every".to_owned());
        }
        if self.answer_within > Span::seconds(29) {
            return Err("relay.answer_within must stay below the 30s an agent waits".to_owned());
        }
        if self.hello_within > Span::seconds(29) {
            return Err("relay.hello_within must stay below the 30s an agent waits".to_owned());
        }
        if self.access_token.0 < vault::SHORTEST_ACCESS {
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
        // A truth of our own, which other collections need not have.
        let text = read(&folder).or_else(|_| read(ours)).unwrap();
        let habits: serde_json::Value = serde_json::from_str(&text).unwrap();
        let lease = Config::default().ack_lease.0.as_secs_f64();
        for case in habits["cases"].as_array().unwrap() {
            assert!(case["seconds"].as_f64().unwrap() < lease, "{case}");
        }
    }
}
