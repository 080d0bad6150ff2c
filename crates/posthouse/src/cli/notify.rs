//! `posthouse notify` and `posthouse wake`: messages to agents.

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use posthouse_time::{Span, Timepiece};
use posthouse_wire::cron::FireAt;
use serde_json::{Value, json};

use super::output::{Output, aligned, cell};
use super::reach::Reach;
use super::speaker::{As, ProgramClient, Whom};
use super::text;

/// The connector of agents that connect by WebSocket.
const LINE: &str = "relay";

#[derive(Args)]
pub struct NotifyArgs {
    /// Agent name, optionally with a session; a session is woken
    #[arg(value_name = "AGENT[@SESSION]")]
    agent: String,
    /// The message; `-` reads standard input, and so does an absent text if input is piped
    #[arg(allow_hyphen_values = true, value_parser = text::argument)]
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
    speaking: As,
}

#[derive(Args)]
pub struct WakeArgs {
    /// Agent name, optionally with a session
    #[arg(value_name = "AGENT[@SESSION]")]
    agent: String,
    /// The message; `-` reads standard input
    #[arg(allow_hyphen_values = true, value_parser = text::argument)]
    text: Option<String>,
    /// When to wake: a time such as 2030-01-31T09:00:00Z, or +5m from now
    #[arg(long, value_name = "TIME|+SPAN")]
    when: Option<String>,
    /// Seconds to wait until the agent has accepted the wake
    #[arg(long, value_name = "SECONDS")]
    wait: Option<f64>,
    /// The session to wake; overrides the one in the address
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    sending: SendArgs,
    #[command(flatten)]
    speaking: As,
}

/// Options for sending.
#[derive(Args)]
struct SendArgs {
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
    pub async fn act(self, output: &Output, reach: &Reach) -> anyhow::Result<()> {
        let message = text::needed(self.text)?;
        let mut speaker = self.speaking.speaker(reach).await?;
        let mut body = json!({ "agent": self.agent, "message": message, "trigger_kind": "cli" });
        say(&mut body, "kind", self.kind.map(MessageKind::word));
        say(&mut body, "event_type", self.event_type);
        say(&mut body, "correlation_id", self.correlation_id);
        self.sending.send(&mut speaker, output, "notify", self.agent, body).await
    }
}

impl WakeArgs {
    pub async fn act(self, output: &Output, reach: &Reach) -> anyhow::Result<()> {
        let when = self.when.as_deref().map(|when| moment(when, &Timepiece::wall())).transpose()?;
        let context = text::optional(self.text)?;
        let mut speaker = self.speaking.speaker(reach).await?;
        let mut body = json!({ "agent": self.agent });
        say(&mut body, "context", context);
        say(&mut body, "when", when);
        say(&mut body, "wait", self.wait);
        say(&mut body, "session_id", self.session);
        self.sending.send(&mut speaker, output, "wake", self.agent, body).await
    }
}

impl SendArgs {
    async fn send(
        self,
        speaker: &mut ProgramClient,
        output: &Output,
        verb: &str,
        agent: String,
        mut body: Value,
    ) -> anyhow::Result<()> {
        let whom = Whom { agent, connectors: self.connectors };
        say(&mut body, "connectors", Some(whom.connectors.clone()).filter(|named| !named.is_empty()));
        say(&mut body, "from", self.from.or_else(|| speaker.goes_by().map(str::to_owned)));
        let (status, answer) = speaker.post(verb, &body, self.idempotency_key.as_deref()).await?;
        if !status.is_success() {
            return Err(speaker.refusal(&whom, status, &answer));
        }
        let dispatched: Vec<&Value> = answer["dispatched"].as_array().into_iter().flatten().collect();
        match output.json {
            true => output.value(&answer)?,
            false if dispatched.is_empty() => {}
            false => output.text(&told(&answer, &dispatched))?,
        }
        if dispatched.is_empty() {
            return Err(whom.nobody());
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
        (true, _) if one["connector"] == LINE => ("queued", &receipt["delivery_id"]),
        (true, _) => ("delivered", &receipt["delivery_id"]),
    };
    let warnings = receipt["warnings"].as_array().into_iter().flatten();
    let notes: Vec<String> =
        Some(known_by).filter(|id| id.is_string()).into_iter().chain(warnings).map(cell).collect();
    vec![format!("  {}", cell(&one["connector"])), outcome.to_owned(), notes.join("; ")]
}

/// Parses `+5m` from now, or a time with its offset, to milliseconds since 1970.
fn moment(text: &str, timepiece: &Timepiece) -> anyhow::Result<i64> {
    if let Some(span) = text.strip_prefix('+') {
        let span: Span = span.parse().map_err(anyhow::Error::msg)?;
        return Ok((timepiece.now() + span.0).millis());
    }
    let at = FireAt::parse(text)
        .with_context(|| format!("`{text}` is not a time: use 2030-01-31T09:00:00Z or +5m"))?;
    Ok(at.due_ms())
}

#[cfg(test)]
mod tests {
    use posthouse_time::Moment;

    use super::*;

    #[test]
    fn a_time_is_written_whole_or_as_a_span_from_now() {
        let timepiece = Timepiece::wound(Moment::from_seconds(1_765_000_000));
        assert_eq!(moment("+5m", &timepiece).unwrap(), 1_765_000_300_000);
        assert_eq!(moment("2025-12-06T05:46:40Z", &timepiece).unwrap(), 1_765_000_000_000);
        assert_eq!(moment("2025-12-06T06:46:40.007+01:00", &timepiece).unwrap(), 1_765_000_000_007);
        for bad in ["tomorrow", "+5", "2025-12-06T05:46:40", "1765000000000", "+-5m", ""] {
            assert!(moment(bad, &timepiece).is_err(), "{bad}");
        }
    }

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
