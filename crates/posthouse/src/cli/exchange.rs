//! `posthouse ask`

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::RequestId;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::Exit;
use super::agent::for_a_shell;
use super::notify::say;
use super::paper::{Paper, tame};
use super::reach::Reach;
use super::speaker::{As, Speaker, Whom, unreached};
use super::text;

/// Nobody answered in time.
const TIMED_OUT: u8 = 3;
/// One call waits this long; the question stays open, and the next call attaches to it.
const CALL: u64 = 50;
/// How long a question lives unless it is said.
const TIMEOUT: u64 = 300;
/// How long after its end a house that is away may still come back to tell of it.
const GRACE: Duration = Duration::from_secs(30);
/// Between two tries to reach a house that is away.
const BREATH: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct Ask {
    /// Whom; a session cannot be asked
    #[arg(required_unless_present = "attach")]
    agent: Option<String>,
    /// The question; `-`, or nothing where something is piped in, reads that
    #[arg(allow_hyphen_values = true, value_parser = text::said)]
    text: Option<String>,
    /// Seconds until nobody waits for an answer any more
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// What the question is known by; the same one again attaches to the first
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Waits again for the answer to a question that was asked before
    #[arg(
        long,
        value_name = "CORRELATION_ID",
        conflicts_with_all = ["agent", "text", "correlation_id", "connectors", "from", "event_type"]
    )]
    attach: Option<String>,
    /// What kind of event this is about, in the sender's own words
    #[arg(long, value_name = "TYPE")]
    event_type: Option<String>,
    /// Only through this connector; may be said several times
    #[arg(long = "connector", value_name = "NAME")]
    connectors: Vec<String>,
    /// Who asks, as the agent is told
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    #[command(flatten)]
    speaking: As,
}

/// The question, or what is left of it.
enum Question {
    /// Asking again under the same id attaches, so a call that broke off is simply made again.
    Put {
        whom: Whom,
        body: Value,
    },
    Attach,
}

impl Ask {
    pub async fn act(self, paper: &Paper, reach: &Reach) -> anyhow::Result<()> {
        let timepiece = Timepiece::wall();
        let fresh = || RequestId::mint(timepiece.now().millis()).to_string();
        let (correlation, mut question) = match (self.attach, self.agent) {
            (Some(correlation), _) => (correlation, Question::Attach),
            (None, Some(agent)) => {
                let correlation = self.correlation_id.unwrap_or_else(fresh);
                let mut body = json!({
                    "agent": agent,
                    "message": text::needed(self.text)?,
                    "timeout": self.timeout,
                    "correlation_id": correlation,
                    "trigger_kind": "cli",
                    "wait": self.timeout.min(CALL),
                });
                let whom = Whom { agent, connectors: self.connectors };
                say(&mut body, "event_type", self.event_type);
                say(&mut body, "connectors", Some(whom.connectors.clone()).filter(|named| !named.is_empty()));
                (correlation, Question::Put { whom, body })
            }
            (None, None) => bail!("ask whom?"),
        };
        let again = again(&correlation, &[self.speaking.words(), reach.words()].concat());
        let mut speaker = self.speaking.speaker(reach).await?;
        if let Question::Put { body, .. } = &mut question {
            say(body, "from", self.from.or_else(|| speaker.goes_by().map(str::to_owned)));
            // Said before anything can go wrong: whoever is cut off from here on needs it.
            if std::io::stderr().is_terminal() {
                eprintln!("posthouse: asking as {correlation}; `{again}` comes back to it");
            }
        }
        let until = timepiece.now() + Duration::from_secs(self.timeout) + GRACE;
        let wait = Wait { correlation: &correlation, again, until, timepiece: &timepiece };
        let answer = wait.answer(&mut speaker, question).await?;
        if paper.json {
            return paper.value(&answer);
        }
        paper.text(&spoken(answer["content"].as_str().unwrap_or_default()))
    }
}

/// How one comes back to a question: the whole command, ready to be typed.
fn again(correlation: &str, further: &[String]) -> String {
    let words = ["posthouse", "ask", "--attach", correlation];
    let words = words.into_iter().chain(further.iter().map(String::as_str)).map(for_a_shell);
    words.collect::<Vec<_>>().join(" ")
}

struct Wait<'a> {
    correlation: &'a str,
    again: String,
    until: Moment,
    timepiece: &'a Timepiece,
}

impl Wait<'_> {
    async fn answer(&self, speaker: &mut Speaker, mut question: Question) -> anyhow::Result<Value> {
        let mut heard = false;
        loop {
            let told = match &question {
                Question::Put { body, .. } => speaker.post("exchange", body, None).await,
                Question::Attach => {
                    let wait = CALL.to_string();
                    speaker.get(&["exchanges", self.correlation], &[("wait", Some(&wait))]).await
                }
            };
            let (status, answer) = match told {
                Ok(told) => told,
                Err(error) => {
                    // A house that was never there is said at once; one that went away may come back.
                    let hopeless = unreached(&error).is_none_or(|reached| reached.unheard && !heard);
                    if hopeless || self.timepiece.now() > self.until {
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
                    (heard, question) = (true, Question::Attach);
                }
                // Another node, or the same one while it starts, may have it in a moment.
                (StatusCode::SERVICE_UNAVAILABLE, _) if heard && self.timepiece.now() <= self.until => {
                    tokio::time::sleep(BREATH).await;
                }
                (StatusCode::GATEWAY_TIMEOUT, _) if answer["code"] == "timeout" => {
                    let words = answer["detail"].as_str().unwrap_or("no answer in time").to_owned();
                    return Err(Exit { code: TIMED_OUT, words }.into());
                }
                // A question whose agent is gone is answered with that status too, and with another code.
                (StatusCode::NOT_FOUND, Question::Attach) if answer["code"] == "not_found" => {
                    bail!("no question of yours is known as `{}`", self.correlation);
                }
                (_, Question::Put { whom, .. }) => return Err(speaker.refusal(whom, status, &answer)),
                (_, Question::Attach) => return Err(speaker.refusal(&Whom::default(), status, &answer)),
            }
        }
    }

    fn hint(&self) -> String {
        format!("the question may be open still: `{}` waits for it again", self.again)
    }
}

/// What the agent said, ending its last line. A terminal is not to be moved about by it; a pipe gets it as
/// it is.
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
