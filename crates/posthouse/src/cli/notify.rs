//! `posthouse notify`: messages to agents.

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::message_text;
use super::output::{Output, aligned, cell};
use super::program_client::{CredentialArgs, ProgramClient, Recipient};
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
    connectors: Vec<String>,
    /// Name of the sender, as the agent sees it
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Key that identifies this message if it is sent again
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum MessageKind {
    /// Information
    Augment,
    /// An instruction to carry out
    Template,
}

impl MessageKind {
    fn word(self) -> &'static str {
        match self {
            MessageKind::Augment => "augment",
            MessageKind::Template => "template",
        }
    }
}

impl NotifyArgs {
    pub async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        let message = message_text::needed(self.text)?;
        let mut program = self.credential.connect(server).await?;
        let mut body = json!({ "agent": self.agent, "message": message, "trigger_kind": "cli" });
        say(&mut body, "kind", self.kind.map(MessageKind::word));
        say(&mut body, "event_type", self.event_type);
        say(&mut body, "correlation_id", self.correlation_id);
        self.sending.send(&mut program, output, "notify", self.agent, body).await
    }
}

impl SendArgs {
    pub async fn send(
        self,
        program: &mut ProgramClient,
        output: &Output,
        verb: &str,
        agent: String,
        mut body: Value,
    ) -> anyhow::Result<()> {
        let recipient = Recipient { agent, connectors: self.connectors };
        say(&mut body, "connectors", Some(recipient.connectors.clone()).filter(|named| !named.is_empty()));
        say(&mut body, "from", self.from.or_else(|| program.default_sender().map(str::to_owned)));
        let (status, answer) = program.post(verb, &body, self.idempotency_key.as_deref()).await?;
        if !status.is_success() {
            return Err(program.refusal(&recipient, status, &answer));
        }
        let dispatched: Vec<&Value> = answer["dispatched"].as_array().into_iter().flatten().collect();
        match output.json {
            true => output.value(&answer)?,
            false if dispatched.is_empty() => {}
            false => output.text(&told(&answer, &dispatched))?,
        }
        if dispatched.is_empty() {
            return Err(recipient.unknown_agent());
        }
        if dispatched.iter().all(|one| one["ok"] == json!(false)) {
            bail!("no connector accepted the message");
        }
        Ok(())
    }
}

/// Adds a field to the body if it has a value.
pub fn say(body: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body[name] = value.into();
    }
}

/// The dispatch id, then the result of every connector.
fn told(answer: &Value, dispatched: &[&Value]) -> String {
    let rows: Vec<Vec<String>> = dispatched.iter().map(|one| row(one)).collect();
    format!("{}\n{}", cell(&answer["dispatch_id"]), aligned(&rows))
}

fn row(one: &Value) -> Vec<String> {
    let receipt = &one["receipt"];
    let (outcome, known_by) = match (one["ok"] == json!(true), one["route"].as_str()) {
        (false, _) => ("failed", &one["error"]),
        (true, Some("wake")) if receipt["woken"] == json!(true) => ("woken", &receipt["session_id"]),
        (true, Some("wake")) => ("not woken", &receipt["session_id"]),
        (true, _) if receipt["delivery_skipped"] == json!(true) => ("kept", &receipt["delivery_id"]),
        // The entry is in the agent's inbox. Only the receipt says whether the agent has it.
        (true, _) if one["connector"] == RELAY => ("queued", &receipt["delivery_id"]),
        (true, _) => ("delivered", &receipt["delivery_id"]),
    };
    let warnings = receipt["warnings"].as_array().into_iter().flatten();
    let notes: Vec<String> =
        Some(known_by).filter(|id| id.is_string()).into_iter().chain(warnings).map(cell).collect();
    vec![format!("  {}", cell(&one["connector"])), outcome.to_owned(), notes.join("; ")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_it_is_said_honestly() {
        for (one, outcome) in [
            (json!({ "ok": true, "route": "deliver", "receipt": { "delivered_at": 1 } }), "delivered"),
            (
                json!({ "connector": "relay", "ok": true, "route": "deliver", "receipt": { "delivered_at": 1 } }),
                "queued",
            ),
            (
                json!({ "ok": true, "route": "deliver", "receipt": { "delivered_at": 1, "delivery_skipped": true } }),
                "kept",
            ),
            (json!({ "ok": true, "route": "wake", "receipt": { "woken_at": 1, "woken": true } }), "woken"),
            (
                json!({ "ok": true, "route": "wake", "receipt": { "woken_at": 1, "woken": false } }),
                "not woken",
            ),
            (json!({ "ok": false, "route": "wake", "error": "gone" }), "failed"),
        ] {
            assert_eq!(row(&one)[1], outcome, "{one}");
        }
    }
}
