//! `posthouse notify`: messages to agents.

use anyhow::bail;
use clap::{Args, ValueEnum};
use posthouse_agent::post::{ConnectorReceipt, ConnectorReport, DispatchRoute, Notify};
use posthouse_wire::delivery::{PayloadKind, TriggerKind};
use posthouse_wire::{CorrelationId, DispatchId};
use serde_json::json;

use super::message_text;
use super::output::{Output, aligned, cell};
use super::program_client::{CredentialArgs, Recipient};
use super::server_address::ServerOptions;

/// The connector of agents that connect by WebSocket.
const RELAY: &str = "relay";

#[derive(Args)]
pub struct NotifyArgs {
    /// Agent name, optionally with a session; a session is woken
    #[arg(value_name = "AGENT[@SESSION]")]
    agent: String,
    /// The message; `-` reads standard input, and so does an absent text if input is piped
    #[arg(allow_hyphen_values = true, value_parser = message_text::argument)]
    text: Option<String>,
    /// How the agent treats the message
    #[arg(long, value_enum)]
    kind: Option<MessageKind>,
    /// Kind of event that the message is about, in your own words
    #[arg(long, value_name = "TYPE")]
    event_type: Option<String>,
    /// Id of what the message belongs to, in your own words
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    #[command(flatten)]
    sending: SendArgs,
    #[command(flatten)]
    credential: CredentialArgs,
}

/// Options of `notify` and `wake`.
#[derive(Args)]
pub struct SendArgs {
    /// Use only this connector; can be repeated
    #[arg(long = "connector", value_name = "NAME")]
    pub connectors: Vec<String>,
    /// Name of the sender, as the agent sees it
    #[arg(long, value_name = "NAME")]
    pub from: Option<String>,
    /// Key that identifies this message if it is sent again
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum MessageKind {
    /// Information
    Augment,
    /// An instruction to carry out
    Template,
}

impl From<MessageKind> for PayloadKind {
    fn from(kind: MessageKind) -> Self {
        match kind {
            MessageKind::Augment => PayloadKind::Augment,
            MessageKind::Template => PayloadKind::Template,
        }
    }
}

impl NotifyArgs {
    pub async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        let message = message_text::needed(self.text)?;
        let program = self.credential.connect(server).await?;
        let recipient = Recipient { agent: self.agent, connectors: self.sending.connectors };
        let mut request = Notify {
            kind: self.kind.map_or(PayloadKind::Augment, PayloadKind::from),
            event_type: self.event_type,
            correlation_id: self.correlation_id.map(CorrelationId::from),
            connectors: recipient.only_connectors(),
            from: self.sending.from.or_else(|| program.default_sender()),
            trigger_kind: Some(TriggerKind::Cli),
            ..Notify::new(&recipient.agent, message)
        };
        if let Some(key) = self.sending.idempotency_key {
            request.dispatch_id = key.into();
        }
        let sent = program.post.notify(&request).await;
        let sent = sent.map_err(|fault| program.dispatch_error(&recipient, fault))?;
        match output.json {
            true => output.value(&json!(sent))?,
            false => output.text(&render(&sent.dispatch_id, &sent.dispatched))?,
        }
        check_accepted(&recipient, &sent.dispatched)
    }
}

/// Fails if no connector knows the agent, or none accepted the message.
pub fn check_accepted(recipient: &Recipient, dispatched: &[ConnectorReport]) -> anyhow::Result<()> {
    if dispatched.is_empty() {
        return Err(recipient.unknown_agent());
    }
    if dispatched.iter().all(|report| !report.ok) {
        bail!("no connector accepted the message");
    }
    Ok(())
}

/// The dispatch id, then the result of every connector. Empty if no connector knows the agent.
pub fn render(dispatch: &DispatchId, dispatched: &[ConnectorReport]) -> String {
    if dispatched.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = dispatched.iter().map(row).collect();
    format!("{}\n{}", cell(&json!(dispatch)), aligned(&rows))
}

fn row(report: &ConnectorReport) -> Vec<String> {
    let (outcome, known_by, warnings) = match (&report.receipt, report.route) {
        _ if !report.ok => ("failed", &report.error, &[][..]),
        (Some(ConnectorReceipt::Woken(receipt)), _) => {
            (if receipt.woken { "woken" } else { "not woken" }, &receipt.session_id, &receipt.warnings[..])
        }
        (None, DispatchRoute::Wake) => ("not woken", &None, &[][..]),
        (Some(ConnectorReceipt::Delivered(receipt)), _) => {
            let outcome = match receipt.delivery_skipped {
                true => "kept",
                // The entry is in the agent's inbox. Only the receipt says whether the agent has it.
                false if report.connector == RELAY => "queued",
                false => "delivered",
            };
            (outcome, &receipt.delivery_id, &receipt.warnings[..])
        }
        (None, _) => ("delivered", &None, &[][..]),
    };
    let notes: Vec<String> = known_by.iter().chain(warnings).map(|note| cell(&json!(note))).collect();
    vec![format!("  {}", cell(&json!(report.connector))), outcome.to_owned(), notes.join("; ")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_it_is_said_honestly() {
        for (report, outcome, notes) in [
            (
                json!({ "connector": "hook", "ok": true, "route": "deliver", "receipt": { "delivered_at": 1 } }),
                "delivered",
                "",
            ),
            (
                json!({ "connector": "relay", "ok": true, "route": "deliver", "receipt": { "delivered_at": 1, "delivery_id": "ent_1" } }),
                "queued",
                "ent_1",
            ),
            (
                json!({ "connector": "relay", "ok": true, "route": "deliver", "receipt": { "delivered_at": 1, "delivery_skipped": true, "warnings": ["late"] } }),
                "kept",
                "late",
            ),
            (
                json!({ "connector": "relay", "ok": true, "route": "wake", "receipt": { "woken_at": 1, "woken": true, "session_id": "desk", "warnings": ["late"] } }),
                "woken",
                "desk; late",
            ),
            (
                json!({ "connector": "relay", "ok": true, "route": "wake", "receipt": { "woken_at": 1, "woken": false } }),
                "not woken",
                "",
            ),
            (json!({ "connector": "hook", "ok": false, "route": "wake", "error": "gone" }), "failed", "gone"),
        ] {
            let report: ConnectorReport = serde_json::from_value(report).unwrap();
            assert_eq!(row(&report)[1..], [outcome, notes], "{report:?}");
        }
    }
}
