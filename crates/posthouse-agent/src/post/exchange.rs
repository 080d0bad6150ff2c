//! Questions to agents: asking, and waiting for the answer until the deadline.

use std::time::Duration;

use http::StatusCode;
use posthouse_time::{Instant, Moment};
use posthouse_wire::CorrelationId;
use posthouse_wire::delivery::TriggerKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::{ApiRequest, ApiResponse, CallLimits};
use super::{AgentAnswer, Ask, Client, Fault};
use crate::https::NO_ANSWER;

/// Time that one call waits for the answer. A dead connection is noticed shortly after it.
const TURN: Duration = Duration::from_secs(30);
/// Pause before the next call if the server answers "not yet" without waiting.
const BREATH: Duration = Duration::from_millis(250);
/// Shortest timeout of a question.
const LEAST: Duration = Duration::from_millis(1);
/// Time past the deadline in which the server may still report how the question ended.
const GRACE: Duration = Duration::from_secs(10);

/// A question that is answered or still open.
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionProgress {
    Answered(AgentAnswer),
    /// Without an answer until now.
    Open {
        /// Time until which an answer counts, by the server's clock, in ms.
        deadline: Option<i64>,
    },
}

impl QuestionProgress {
    fn of(answer: &ApiResponse) -> Result<Self, Fault> {
        #[derive(Deserialize)]
        struct Open {
            #[serde(default)]
            deadline: Value,
        }
        if answer.status != StatusCode::ACCEPTED {
            return answer.read().map(QuestionProgress::Answered);
        }
        let open: Open = answer.read()?;
        Ok(QuestionProgress::Open { deadline: open.deadline.as_i64() })
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
    pub async fn exchange(&self, request: &Ask) -> Result<AgentAnswer, Fault> {
        let limits = self.limits();
        let deadline = limits.begun + request.timeout;
        let limits = CallLimits { until: deadline, ..limits };
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
        let mut begun = limits.begun;
        let mut progress = QuestionProgress::of(&self.connection.call(limits, put).await?)?;
        loop {
            if let QuestionProgress::Answered(answered) = progress {
                return Ok(answered);
            }
            if self.connection.timepiece.instant() >= deadline + GRACE {
                return Err(Fault::no_answer(NO_ANSWER));
            }
            self.breathe(begun).await;
            begun = self.connection.timepiece.instant();
            let polled = self.poll(&request.correlation_id, deadline, Some(deadline)).await;
            progress = polled.map_err(Fault::after_an_answer)?;
        }
    }

    /// Waits for the answer to a question that was asked before, perhaps before a restart of this program.
    pub async fn attach(&self, question: &CorrelationId) -> Result<AgentAnswer, Fault> {
        let mut until = self.limits().until;
        loop {
            let begun = self.connection.timepiece.instant();
            match self.poll(question, until, None).await? {
                QuestionProgress::Answered(answered) => return Ok(answered),
                // The two clocks may differ, so the server's deadline can only extend the wait.
                QuestionProgress::Open { deadline } => {
                    let timepiece = &self.connection.timepiece;
                    let left = Moment::from_millis(deadline.unwrap_or_default()).since(timepiece.now());
                    until = self.limits().until.max(timepiece.instant() + left);
                }
            }
            self.breathe(begun).await;
        }
    }

    /// The state of a question now, without waiting. A question that has timed out is [`Fault::Timeout`], and one that
    /// never reached the agent is [`Fault::Refused`] with the code `delivery_failed`.
    pub async fn question(&self, question: &CorrelationId) -> Result<QuestionProgress, Fault> {
        let show = |_| ApiRequest::get(["exchanges", question.as_str()]);
        QuestionProgress::of(&self.connection.call(self.limits(), show).await?)
    }

    /// Asks for the state of a question, and waits a while for it to change.
    async fn poll(
        &self,
        question: &CorrelationId,
        until: Instant,
        deadline: Option<Instant>,
    ) -> Result<QuestionProgress, Fault> {
        let poll = |now: Instant| {
            let wait = turn(deadline.map_or(TURN, |deadline| deadline.since(now)));
            let call = ApiRequest::get(["exchanges", question.as_str()]);
            call.asking("wait", Some(wait.as_secs_f64())).waiting(Some(wait))
        };
        let limits = CallLimits { until, ..self.limits() };
        QuestionProgress::of(&self.connection.call(limits, poll).await?)
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
