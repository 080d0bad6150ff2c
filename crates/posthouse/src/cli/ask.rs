//! `posthouse ask`: asks an agent a question and waits for its answer.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::RequestId;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::Exit;
use super::agent::for_a_shell;
use super::message_text;
use super::notify::say;
use super::output::{Output, tame};
use super::program_client::{CredentialArgs, ProgramClient, Recipient, unreached};
use super::server_address::ServerOptions;

/// Exit code if no answer came in time.
const TIMED_OUT: u8 = 3;
/// Longest wait of one call in seconds. The question stays open, and the next call attaches to it.
const CALL: u64 = 50;
/// Default timeout of a question in seconds.
const TIMEOUT: u64 = 300;
/// After the timeout of the question, an unreachable server has this long to come back and report the
/// result.
const GRACE: Duration = Duration::from_secs(30);
/// Pause between two attempts to reach the server.
const BREATH: Duration = Duration::from_millis(500);

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
enum QuestionToWaitFor {
    /// Asking again under the same id attaches, so a call that was cut off is repeated as it was.
    Put {
        recipient: Recipient,
        body: Value,
    },
    Attach,
}

impl AskArgs {
    pub async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        let timepiece = Timepiece::wall();
        let fresh = || RequestId::mint(timepiece.now().millis()).to_string();
        let (correlation, mut question) = match (self.attach, self.agent) {
            (Some(correlation), _) => (correlation, QuestionToWaitFor::Attach),
            (None, Some(agent)) => {
                let correlation = self.correlation_id.unwrap_or_else(fresh);
                let mut body = json!({
                    "agent": agent,
                    "message": message_text::needed(self.text)?,
                    "timeout": self.timeout,
                    "correlation_id": correlation,
                    "trigger_kind": "cli",
                    "wait": self.timeout.min(CALL),
                });
                let recipient = Recipient { agent, connectors: self.connectors };
                say(&mut body, "event_type", self.event_type);
                say(
                    &mut body,
                    "connectors",
                    Some(recipient.connectors.clone()).filter(|named| !named.is_empty()),
                );
                (correlation, QuestionToWaitFor::Put { recipient, body })
            }
            (None, None) => bail!("no agent given"),
        };
        let again = again(&correlation, &[self.credential.words(), server.words()].concat());
        let mut program = self.credential.connect(server).await?;
        if let QuestionToWaitFor::Put { body, .. } = &mut question {
            say(body, "from", self.from.or_else(|| program.default_sender().map(str::to_owned)));
            // Printed before anything can fail, because a user whose command is interrupted needs it.
            if std::io::stderr().is_terminal() {
                eprintln!("posthouse: the question has the id {correlation}; `{again}` waits for it again");
            }
        }
        let until = timepiece.instant() + Duration::from_secs(self.timeout) + GRACE;
        let wait = AnswerWait { correlation: &correlation, again, until, timepiece: &timepiece };
        let answer = wait.answer(&mut program, question).await?;
        if output.json {
            return output.value(&answer);
        }
        output.text(&spoken(answer["content"].as_str().unwrap_or_default()))
    }
}

/// The whole command that attaches to a question again, ready to paste.
fn again(correlation: &str, further: &[String]) -> String {
    let words = ["posthouse", "ask", "--attach", correlation];
    let words = words.into_iter().chain(further.iter().map(String::as_str)).map(for_a_shell);
    words.collect::<Vec<_>>().join(" ")
}

struct AnswerWait<'a> {
    correlation: &'a str,
    again: String,
    until: Instant,
    timepiece: &'a Timepiece,
}

impl AnswerWait<'_> {
    async fn answer(
        &self,
        program: &mut ProgramClient,
        mut question: QuestionToWaitFor,
    ) -> anyhow::Result<Value> {
        let mut heard = false;
        loop {
            let told = match &question {
                QuestionToWaitFor::Put { body, .. } => program.post("exchange", body, None).await,
                QuestionToWaitFor::Attach => {
                    let wait = CALL.to_string();
                    program.get(&["exchanges", self.correlation], &[("wait", Some(&wait))]).await
                }
            };
            let (status, answer) = match told {
                Ok(told) => told,
                Err(error) => {
                    // A server that was never reached is an error at once. A server that became unreachable
                    // may come back.
                    let hopeless = unreached(&error).is_none_or(|reached| reached.unheard && !heard);
                    if hopeless || self.timepiece.instant() > self.until {
                        return Err(if heard { error.context(self.hint()) } else { error });
                    }
                    heard = true;
                    tokio::time::sleep(BREATH).await;
                    continue;
                }
            };
            match (status, &question) {
                (StatusCode::OK, _) => return Ok(answer),
                (StatusCode::ACCEPTED, _) => {
                    if !heard && std::io::stderr().is_terminal() {
                        eprintln!("posthouse: no answer yet");
                    }
                    (heard, question) = (true, QuestionToWaitFor::Attach);
                }
                // Another node, or the same node after its start, may have it in a moment.
                (StatusCode::SERVICE_UNAVAILABLE, _) if heard && self.timepiece.instant() <= self.until => {
                    tokio::time::sleep(BREATH).await;
                }
                (StatusCode::GATEWAY_TIMEOUT, _) if answer["code"] == "timeout" => {
                    let words = answer["detail"].as_str().unwrap_or("no answer in time").to_owned();
                    return Err(Exit { code: TIMED_OUT, words }.into());
                }
                // A question whose agent is gone has this status too, but another code.
                (StatusCode::NOT_FOUND, QuestionToWaitFor::Attach) if answer["code"] == "not_found" => {
                    bail!("you have no question with the id `{}`", self.correlation);
                }
                (_, QuestionToWaitFor::Put { recipient, .. }) => {
                    return Err(program.refusal(recipient, status, &answer));
                }
                (_, QuestionToWaitFor::Attach) => {
                    return Err(program.refusal(&Recipient::default(), status, &answer));
                }
            }
        }
    }

    fn hint(&self) -> String {
        format!("the question may still be open: `{}` waits for it again", self.again)
    }
}

/// The agent's answer, ending with a line break. Control characters are replaced on a terminal, so that
/// they cannot move its cursor; a pipe gets the text unchanged.
fn spoken(content: &str) -> String {
    let mut text = match std::io::stdout().is_terminal() {
        true => tame(content),
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
