//! `posthouse ask`: asks an agent a question and waits for its answer.

use std::io::IsTerminal;
use std::pin::pin;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use posthouse_agent::post::{AgentAnswer, Ask, Client, Fault};
use posthouse_wire::CorrelationId;
use posthouse_wire::delivery::TriggerKind;
use serde_json::json;

use super::Exit;
use super::message_text;
use super::output::{Output, for_a_shell, without_control_characters};
use super::program_client::{CredentialArgs, ProgramClient, Recipient};
use super::server_address::ServerOptions;

/// Exit code if no answer came in time.
const TIMED_OUT: u8 = 3;
/// Default timeout of a question in seconds.
const TIMEOUT: u64 = 300;
/// After the timeout of the question, an unreachable server has this long to come back and report the
/// result.
const GRACE: Duration = Duration::from_secs(30);
/// Time limit of one call, in addition to the time that it waits for the answer. A dead connection is noticed then.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// After this time, a user at a terminal is told that there is no answer yet.
const NOTICE: Duration = Duration::from_secs(50);

#[derive(Args)]
pub struct AskArgs {
    /// Agent name (a session is not allowed here)
    #[arg(required_unless_present = "attach")]
    agent: Option<String>,
    /// The question; `-` reads standard input, and so does an absent text if input is piped
    #[arg(allow_hyphen_values = true, value_parser = message_text::argument)]
    text: Option<String>,
    /// Seconds to wait for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Id of the question; repeating an id attaches to the question that has it
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Wait again for the answer to an earlier question
    #[arg(
        long,
        value_name = "CORRELATION_ID",
        conflicts_with_all = ["agent", "text", "correlation_id", "connectors", "from", "event_type"]
    )]
    attach: Option<String>,
    /// Kind of event that the question is about, in your own words
    #[arg(long, value_name = "TYPE")]
    event_type: Option<String>,
    /// Use only this connector; can be repeated
    #[arg(long = "connector", value_name = "NAME")]
    connectors: Vec<String>,
    /// Name of the asker, as the agent sees it
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    #[command(flatten)]
    credential: CredentialArgs,
}

/// A new question, or an earlier one to wait for.
enum AwaitedQuestion {
    New { recipient: Recipient, question: Ask },
    Earlier(CorrelationId),
}

impl AskArgs {
    pub async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        let options = [self.credential.words(), server.words()].concat();
        let (timeout, from) = (Duration::from_secs(self.timeout), self.from);
        let mut awaited = match (self.attach, self.agent) {
            (Some(id), _) => AwaitedQuestion::Earlier(id.into()),
            (None, Some(agent)) => {
                let recipient = Recipient { agent, connectors: self.connectors };
                let mut question = Ask {
                    timeout,
                    event_type: self.event_type,
                    connectors: recipient.only_connectors(),
                    trigger_kind: Some(TriggerKind::Cli),
                    ..Ask::new(&recipient.agent, message_text::needed(self.text)?)
                };
                if let Some(id) = self.correlation_id {
                    question.correlation_id = id.into();
                }
                AwaitedQuestion::New { recipient, question }
            }
            (None, None) => bail!("no agent given"),
        };
        let again = again(awaited.id().as_str(), &options);
        let program = self.credential.connect(server).await?;
        if let AwaitedQuestion::New { question, .. } = &mut awaited {
            question.from = from.or_else(|| program.default_sender());
            // Printed before anything can fail, because a user whose command is interrupted needs it.
            if std::io::stderr().is_terminal() {
                let id = &question.correlation_id;
                eprintln!("posthouse: the question has the id {id}; `{again}` waits for it again");
            }
        }
        let answer = with_notice(awaited.answer(&program.post, timeout)).await;
        let answer = answer.map_err(|fault| awaited.error(&program, &again, fault))?;
        if output.json {
            return output.value(&json!(answer));
        }
        output.text(&spoken(&answer.response.content))
    }
}

impl AwaitedQuestion {
    fn id(&self) -> &CorrelationId {
        match self {
            AwaitedQuestion::New { question, .. } => &question.correlation_id,
            AwaitedQuestion::Earlier(id) => id,
        }
    }

    /// Waits until the question has ended. A server that is not reachable or not available at the timeout has a little
    /// more time to come back and report how.
    async fn answer(&self, post: &Client, timeout: Duration) -> Result<AgentAnswer, Fault> {
        let post = post.clone().attempt_limit(CALL_LIMIT);
        let AwaitedQuestion::New { question, .. } = self else {
            return post.patience(timeout + GRACE).attach(self.id()).await;
        };
        let away = match post.exchange(question).await {
            Err(fault) if fault.may_pass() => fault,
            ended => return ended,
        };
        match post.patience(GRACE).attach(self.id()).await {
            Err(fault) if fault.may_pass() => Err(away),
            ended => ended,
        }
    }

    /// The error of a question that was not answered. `again` is the command that waits for it again.
    fn error(&self, program: &ProgramClient, again: &str, fault: Fault) -> anyhow::Error {
        match (self, &fault) {
            (_, Fault::Timeout(words)) => Exit { code: TIMED_OUT, words: words.clone() }.into(),
            (AwaitedQuestion::New { .. }, Fault::Unreachable { sent: false, .. }) => program.error(fault),
            (_, away) if away.may_pass() => {
                let hint = format!("the question may still be open: `{again}` waits for it again");
                program.error(fault).context(hint)
            }
            (AwaitedQuestion::New { .. }, unknown) if is_unknown(unknown) => {
                anyhow!("the server does not have the question: ask again")
            }
            (AwaitedQuestion::Earlier(id), unknown) if is_unknown(unknown) => {
                anyhow!("you have no question with the id `{id}`")
            }
            (AwaitedQuestion::New { recipient, .. }, _) => program.dispatch_error(recipient, fault),
            (AwaitedQuestion::Earlier(_), _) => program.dispatch_error(&Recipient::default(), fault),
        }
    }
}

/// Whether the server does not have the question. One that could not be delivered may have the same status, but has
/// another code.
fn is_unknown(fault: &Fault) -> bool {
    matches!(fault, Fault::Refused { status: 404, code, .. } if code == "not_found")
}

/// Tells a user at a terminal once that the answer takes its time.
async fn with_notice(
    waiting: impl Future<Output = Result<AgentAnswer, Fault>>,
) -> Result<AgentAnswer, Fault> {
    let mut waiting = pin!(waiting);
    if let Ok(ended) = tokio::time::timeout(NOTICE, waiting.as_mut()).await {
        return ended;
    }
    if std::io::stderr().is_terminal() {
        eprintln!("posthouse: no answer yet");
    }
    waiting.await
}

/// The whole command that attaches to a question again, ready to paste.
fn again(correlation: &str, further: &[String]) -> String {
    let words = ["posthouse", "ask", "--attach", correlation];
    let words = words.into_iter().chain(further.iter().map(String::as_str)).map(for_a_shell);
    words.collect::<Vec<_>>().join(" ")
}

/// The agent's answer, ending with a line break. Control characters are replaced on a terminal, so that
/// they cannot move its cursor; a pipe gets the text unchanged.
fn spoken(content: &str) -> String {
    let mut text = match std::io::stdout().is_terminal() {
        true => without_control_characters(content),
        false => content.to_owned(),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_brings_one_back_to_a_question_is_the_whole_command() {
        let further = ["--tenant", "acme", "--dir", "/srv/my house"].map(str::to_owned);
        assert_eq!(again("q-1", &further), "posthouse ask --attach q-1 --tenant acme --dir '/srv/my house'");
        assert_eq!(again("q:1", &[]), "posthouse ask --attach q:1");
    }
}
