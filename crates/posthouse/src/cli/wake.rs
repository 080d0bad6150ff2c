//! `posthouse wake`: wakes an agent, now or at a given time.

use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use posthouse_agent::post::Wake;
use posthouse_time::{Span, Timepiece};
use posthouse_wire::cron::FireAt;
use posthouse_wire::delivery::{WakeOpts, WakeTime};
use serde_json::json;

use super::message_text;
use super::notify::{SendArgs, check_accepted, render};
use super::output::Output;
use super::program_client::{CredentialArgs, Recipient};
use super::server_address::ServerOptions;

#[derive(Args)]
pub struct WakeArgs {
    /// Agent name, optionally with a session
    #[arg(value_name = "AGENT[@SESSION]")]
    agent: String,
    /// The message; `-` reads standard input
    #[arg(allow_hyphen_values = true, value_parser = message_text::argument)]
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
    credential: CredentialArgs,
}

impl WakeArgs {
    pub async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        let when = self.when.as_deref().map(|when| moment(when, &Timepiece::wall())).transpose()?;
        let wait = self.wait.map(Duration::try_from_secs_f64).transpose();
        let wait = wait.map_err(|_| anyhow!("`wait` must be a number of seconds, zero or more"))?;
        let context = message_text::optional(self.text)?;
        let program = self.credential.connect(server).await?;
        let recipient = Recipient { agent: self.agent, connectors: self.sending.connectors };
        let mut request = Wake {
            opts: WakeOpts {
                context,
                when: when.map_or(WakeTime::Immediate, WakeTime::At),
                session_id: self.session,
            },
            connectors: recipient.only_connectors(),
            from: self.sending.from.or_else(|| program.default_sender()),
            wait,
            ..Wake::new(&recipient.agent)
        };
        if let Some(key) = self.sending.idempotency_key {
            request.dispatch_id = key.into();
        }
        let sent = program.post.wake(&request).await;
        let sent = sent.map_err(|fault| program.dispatch_error(&recipient, fault))?;
        match output.json {
            true => output.value(&json!(sent))?,
            false => output.text(&render(&sent.dispatch_id, &sent.dispatched))?,
        }
        check_accepted(&recipient, &sent.dispatched)
    }
}

/// Parses `+5m` from now, or a time with its offset, to milliseconds since 1970.
fn moment(text: &str, timepiece: &Timepiece) -> anyhow::Result<i64> {
    if let Some(span) = text.strip_prefix('+') {
        let span: Span = span.parse().map_err(anyhow::Error::msg)?;
        return Ok((timepiece.now() + span.0).millis());
    }
    match FireAt::parse(text) {
        Ok(at) => Ok(at.due_ms()),
        Err(_) => bail!("`{text}` is not a time: use 2030-01-31T09:00:00Z or +5m"),
    }
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
        let refused = format!("{:#}", moment("tomorrow", &timepiece).unwrap_err());
        assert_eq!(refused, "`tomorrow` is not a time: use 2030-01-31T09:00:00Z or +5m");
    }
}
