//! Options of `route` and `agent`: what happens to messages that waited too long.

use clap::{Args, ValueEnum};
use posthouse_time::Span;
use serde_json::{Value, json};

/// A staleness policy.
#[derive(Args)]
#[group(skip)]
pub struct StaleArgs {
    /// Time after which a waiting message is stale, such as 2h; at most 7d
    #[arg(long, value_name = "TIME", requires = "stale")]
    stale_after: Option<Span>,
    /// What happens to a stale message
    #[arg(long, value_enum, requires = "stale_after")]
    stale: Option<StaleChoice>,
}

#[derive(Clone, Copy, ValueEnum)]
enum StaleChoice {
    /// Deliver it like any other
    Deliver,
    /// Deliver it with a line that says how old it is
    Mark,
    /// Do not deliver it, and tell its sender
    Expire,
}

impl StaleArgs {
    /// The policy for the admin API, if there is one.
    pub fn setting(&self) -> Option<Value> {
        let (after, action) = (self.stale_after.as_ref()?, self.stale?);
        let action = match action {
            StaleChoice::Deliver => "deliver",
            StaleChoice::Mark => "mark",
            StaleChoice::Expire => "expire",
        };
        Some(json!({ "after_seconds": after.0.as_secs(), "action": action }))
    }
}

/// A policy of a shown record, in one line.
pub fn shown(setting: &Value) -> Value {
    match (setting["after_seconds"].as_u64(), setting["action"].as_str()) {
        (Some(seconds), Some(action)) => format!("{action} after {seconds} s").into(),
        _ => Value::Null,
    }
}
