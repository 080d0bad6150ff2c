//! Questions to agents: asking, and waiting for the answer until the deadline.

use std::time::Duration;

use http::StatusCode;
use posthouse_time::{Instant, Moment};
use posthouse_wire::CorrelationId;
use posthouse_wire::delivery::TriggerKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::{ApiRequest, ApiResponse};
use super::{AgentAnswer, AskRequest, Client, Fault};

/// Time that one call waits for the answer. A dead connection is noticed shortly after it.
const TURN: Duration = Duration::from_secs(30);
/// Pause before the next call if the server answers "not yet" without waiting.
const BREATH: Duration = Duration::from_millis(250);
/// Shortest timeout of a question.
const LEAST: Duration = Duration::from_millis(1);
/// Time past the deadline in which the server may still report how the question ended.
const GRACE: Duration = Duration::from_secs(10);

/// State of a question.
enum PollResult {
    Answered(AgentAnswer),
    /// With the deadline by the server's clock, if the server sent one.
    Open(Option<Moment>),
}

impl PollResult {
    fn of(answer: &ApiResponse) -> Result<Self, Fault> {
        #[derive(Deserialize)]
        struct Open {
            #[serde(default)]
            deadline: Value,
        }
        if answer.status != StatusCode::ACCEPTED {
            return answer.read().map(PollResult::Answered);
        }
        let open: Open = answer.read()?;
        Ok(PollResult::Open(open.deadline.as_i64().map(Moment::from_millis)))
    }
}

#[derive(Serialize)]
struct ExchangeBody<'a> {
    agent: &'a str,
    message: &'a str,
    correlation_id: &'a CorrelationId,
    timeout: f64,
    wait: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connectors: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_kind: Option<TriggerKind>,
}

impl Client {
    /// Asks an agent and waits until it has answered or the time is up, also across a restart of the
    /// server. The result is [`Fault::Unreachable`] if the server is not reachable at the deadline. There
    /// may be an answer even then; [`attach`](Self::attach) finds it by the request's correlation id.
    pub async fn exchange(&self, request: &AskRequest) -> Result<AgentAnswer, Fault> {
        let deadline = self.connection.timepiece.instant() + request.timeout;
        // If the question reached the server before a failure, its id finds it again. Otherwise it is asked
        // with the time that is left.
        let put = |now: Instant| {
            let left = deadline.since(now);
            let wait = turn(left);
            let question = ExchangeBody {
                agent: &request.agent,
                message: &request.message,
                correlation_id: &request.correlation_id,
                timeout: left.max(LEAST).as_secs_f64(),
                wait: wait.as_secs_f64(),
                event_type: request.event_type.as_deref(),
                connectors: request.connectors.as_deref(),
                from: request.from.as_deref(),
                trigger_kind: request.trigger_kind,
            };
            ApiRequest::post("exchange", &question).waiting(Some(wait))
        };
        let mut begun = self.connection.timepiece.instant();
        let mut result = PollResult::of(&self.connection.call(deadline, put).await?)?;
        loop {
            if let PollResult::Answered(answered) = result {
                return Ok(answered);
            }
            if self.connection.timepiece.instant() >= deadline + GRACE {
                return Err(Fault::Timeout);
            }
            self.breathe(begun).await;
            begun = self.connection.timepiece.instant();
            result = self.look(&request.correlation_id, deadline, Some(deadline)).await?;
        }
    }

    /// Waits for the answer to a question that was asked before, perhaps before a restart of this program.
    pub async fn attach(&self, question: &CorrelationId) -> Result<AgentAnswer, Fault> {
        let mut until = self.enough();
        loop {
            let begun = self.connection.timepiece.instant();
            match self.look(question, until, None).await? {
                PollResult::Answered(answered) => return Ok(answered),
                // The two clocks may differ, so the server's deadline can only extend the wait.
                PollResult::Open(deadline) => {
                    let timepiece = &self.connection.timepiece;
                    let left = deadline.unwrap_or_default().since(timepiece.now());
                    until = self.enough().max(timepiece.instant() + left);
                }
            }
            self.breathe(begun).await;
        }
    }

    /// Asks for the state of a question, and waits a while for it to change.
    async fn look(
        &self,
        question: &CorrelationId,
        until: Instant,
        deadline: Option<Instant>,
    ) -> Result<PollResult, Fault> {
        let look = |now: Instant| {
            let wait = turn(deadline.map_or(TURN, |deadline| deadline.since(now)));
            let call = ApiRequest::get(["exchanges", question.as_str()]);
            call.asking("wait", Some(wait.as_secs_f64())).waiting(Some(wait))
        };
        PollResult::of(&self.connection.call(until, look).await?)
    }

    async fn breathe(&self, begun: Instant) {
        let timepiece = &self.connection.timepiece;
        if timepiece.instant().since(begun) < BREATH {
            timepiece.after(BREATH).await;
        }
    }
}

/// Time that the next call waits, given the time that is left.
fn turn(left: Duration) -> Duration {
    left.clamp(Duration::from_secs(1), TURN)
}
