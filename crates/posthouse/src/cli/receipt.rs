//! `posthouse receipt`

use clap::Subcommand;
use posthouse_time::Moment;
use serde_json::Value;

use super::client::Client;
use super::paper::{Paper, aligned, cell};

#[derive(Subcommand)]
pub enum Command {
    /// Lists what became of what programs sent, newest first
    #[command(after_help = "Examples:\n  posthouse receipt list\n  \
        posthouse receipt list --tenant acme --agent heron --state failed")]
    List {
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// Only what was sent to this agent
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// scheduled, queued, delivered, acknowledged, failed or expired
        #[arg(long)]
        state: Option<String>,
        /// How many at most
        #[arg(long, default_value_t = 50)]
        limit: u32,
        /// Only those before this one: `next` of the page before, as --json shows it
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
    },
    /// Shows everything that one dispatch reached, and what agents said to it
    #[command(after_help = "Example:\n  posthouse receipt show 0193c0de-…")]
    Show {
        /// As `posthouse notify` printed it
        dispatch: String,
    },
}

impl Command {
    pub async fn act(self, paper: &Paper, client: &Client) -> anyhow::Result<()> {
        match self {
            Command::List { tenant, agent, state, limit, after } => {
                let limit = limit.to_string();
                let query = [
                    ("tenant", tenant.as_deref()),
                    ("agent", agent.as_deref()),
                    ("state", state.as_deref()),
                    ("limit", Some(limit.as_str())),
                    ("after", after.as_deref()),
                ];
                // One page: the newest are what is asked for.
                let page = client.get(&["receipts"], &query).await?;
                if paper.json {
                    return paper.value(&page);
                }
                let columns = [
                    ("DISPATCH", "dispatch_id"),
                    ("TENANT", "tenant"),
                    ("AGENT", "agent_id"),
                    ("CONNECTOR", "connector"),
                    ("ROUTE", "route"),
                    ("STATE", "state"),
                    ("ACCEPTED", "accepted_at"),
                    ("WHY", "error"),
                ];
                let mut items = page["items"].as_array().cloned().unwrap_or_default();
                for receipt in &mut items {
                    receipt["accepted_at"] = at(&receipt["accepted_at"]).into();
                }
                paper.list(items, &columns, "nothing was sent")
            }
            Command::Show { dispatch } => {
                let shown = client.get(&["receipts", &dispatch], &[]).await?;
                if paper.json {
                    return paper.value(&shown);
                }
                let receipts: Vec<String> =
                    shown["items"].as_array().into_iter().flatten().map(told).collect();
                paper.text(&receipts.join("\n"))
            }
        }
    }
}

/// One receipt: whom it was for, how far it has come, and the agent's words.
fn told(receipt: &Value) -> String {
    let mut text = format!(
        "{} {}  {} of {} through {}  {}\n",
        cell(&receipt["dispatch_id"]),
        cell(&receipt["route"]),
        cell(&receipt["agent_id"]),
        cell(&receipt["tenant"]),
        cell(&receipt["connector"]),
        cell(&receipt["state"]),
    );
    let mut rows = Vec::new();
    for (name, step) in [
        ("sent_at", "emitted"),
        ("accepted_at", "accepted"),
        ("delivered_at", "delivered"),
        ("acknowledged_at", "acknowledged"),
        ("due_at", "due"),
    ] {
        if receipt[name].is_number() {
            rows.push(vec![format!("  {}", at(&receipt[name])), step.to_owned()]);
        }
    }
    for reply in receipt["replies"].as_array().into_iter().flatten() {
        rows.push(vec![format!("  {}", at(&reply["at"])), cell(&reply["kind"]), cell(&reply["text"])]);
    }
    text.push_str(&aligned(&rows));
    let contract = &receipt["receipt"];
    for (name, value) in [
        ("error", &receipt["error"]),
        ("queue lag (ms)", &receipt["queue_lag_ms"]),
        ("delivery id", &contract["delivery_id"]),
        ("session", &receipt["session_id"]),
        ("woken", &contract["woken"]),
    ] {
        if !value.is_null() {
            text.push_str(&format!("  {name}: {}\n", cell(value)));
        }
    }
    for warning in contract["warnings"].as_array().into_iter().flatten() {
        text.push_str(&format!("  warning: {}\n", cell(warning)));
    }
    text
}

/// A time that is told in ms, as people read it.
fn at(ms: &Value) -> String {
    ms.as_i64().map_or_else(|| "-".to_owned(), |ms| Moment::from_millis(ms).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_receipt_tells_every_step_that_was_reached_and_nothing_else() {
        let text = told(&json!({
            "dispatch_id": "d-1", "route": "deliver", "agent_id": "heron", "tenant": "acme",
            "connector": "relay", "state": "delivered",
            "sent_at": 1_765_000_000_000_i64, "accepted_at": 1_765_000_000_007_i64,
            "delivered_at": 1_765_000_001_000_i64, "queue_lag_ms": 1000,
            "receipt": { "delivered_at": 1, "delivery_id": "ent_1", "warnings": ["slow"] },
            "replies": [{ "at": 1_765_000_002_000_i64, "kind": "said", "text": "on\nit" }],
        }));
        let expected = "d-1 deliver  heron of acme through relay  delivered\n\
            \x20 2025-12-06T05:46:40.000Z  emitted\n\
            \x20 2025-12-06T05:46:40.007Z  accepted\n\
            \x20 2025-12-06T05:46:41.000Z  delivered\n\
            \x20 2025-12-06T05:46:42.000Z  said       on\u{fffd}it\n\
            \x20 queue lag (ms): 1000\n\
            \x20 delivery id: ent_1\n\
            \x20 warning: slow\n";
        assert_eq!(text, expected);
    }
}
