//! Asking, and waiting for the answer for as long as the question is open.

use std::time::Duration;

use http::StatusCode;
use posthouse_time::Moment;
use posthouse_wire::CorrelationId;
use posthouse_wire::delivery::TriggerKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::{Answer, Call};
use super::{Answered, Ask, Client, Fault};

/// How long one call waits for the answer. A line that died in silence is noticed a little after it.
const TURN: Duration = Duration::from_secs(30);
/// A house that answers "not yet" without waiting is not asked again at once.
const BREATH: Duration = Duration::from_millis(250);
/// The least time that a question has.
const INSTANT: Duration = Duration::from_millis(1);
/// How long past its deadline a question is left to the house, which knows best how it ended.
const GRACE: Duration = Duration::from_secs(10);

/// Where a question stands.
enum Standing {
    Answered(Answered),
    /// With the deadline by the house's clock, if it said one.
    Open(Option<Moment>),
}

impl Standing {
    fn of(answer: &Answer) -> Result<Self, Fault> {
        #[derive(Deserialize)]
        struct Open {
            #[serde(default)]
            deadline: Value,
        }
        if answer.status != StatusCode::ACCEPTED {
            return answer.read().map(Standing::Answered);
        }
        let open: Open = answer.read()?;
        Ok(Standing::Open(open.deadline.as_i64().map(Moment::from_millis)))
    }
}

#[derive(Serialize)]
struct Question<'a> {
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
    /// Asks an agent and waits until it answered or its time is up, also over a restart of the house.
    /// [`Fault::Unreachable`] when the house is away at the deadline: the answer may be there all the same,
    /// and [`attach`](Self::attach) finds it by the wish's correlation id.
    pub async fn exchange(&self, wish: &Ask) -> Result<Answered, Fault> {
        let deadline = self.line.timepiece.now() + wish.timeout;
        // A question that reached the house before it went away is found again by its id; one that did
        // not is put with the time that is left.
        let put = |now: Moment| {
            let left = deadline.since(now);
            let wait = turn(left);
            let question = Question {
                agent: &wish.agent,
                message: &wish.message,
                correlation_id: &wish.correlation_id,
                timeout: left.max(INSTANT).as_secs_f64(),
                wait: wait.as_secs_f64(),
                event_type: wish.event_type.as_deref(),
                connectors: wish.connectors.as_deref(),
                from: wish.from.as_deref(),
                trigger_kind: wish.trigger_kind,
            };
            Call::post("exchange", &question).waiting(Some(wait))
        };
        let mut begun = self.line.timepiece.now();
        let mut standing = Standing::of(&self.line.call(deadline, put).await?)?;
        loop {
            if let Standing::Answered(answered) = standing {
                return Ok(answered);
            }
            if self.line.timepiece.now() >= deadline + GRACE {
                return Err(Fault::Timeout);
            }
            self.breathe(begun).await;
            begun = self.line.timepiece.now();
            standing = self.look(&wish.correlation_id, deadline, Some(deadline)).await?;
        }
    }

    /// Waits for the answer to a question that was asked before, perhaps by an earlier life of this
    /// program.
    pub async fn attach(&self, question: &CorrelationId) -> Result<Answered, Fault> {
        let mut until = self.enough();
        loop {
            let begun = self.line.timepiece.now();
            match self.look(question, until, None).await? {
                Standing::Answered(answered) => return Ok(answered),
                // The two clocks may differ, so the house's deadline only ever makes us more patient.
                Standing::Open(deadline) => until = self.enough().max(deadline.unwrap_or_default()),
            }
            self.breathe(begun).await;
        }
    }

    /// Asks how a question stands, waiting a while for that to change.
    async fn look(
        &self,
        question: &CorrelationId,
        until: Moment,
        deadline: Option<Moment>,
    ) -> Result<Standing, Fault> {
        let look = |now: Moment| {
            let wait = turn(deadline.map_or(TURN, |deadline| deadline.since(now)));
            let call = Call::get(["exchanges", question.as_str()]);
            call.asking("wait", Some(wait.as_secs_f64())).waiting(Some(wait))
        };
        Standing::of(&self.line.call(until, look).await?)
    }

    async fn breathe(&self, begun: Moment) {
        let timepiece = &self.line.timepiece;
        if timepiece.now().since(begun) < BREATH {
            timepiece.after(BREATH).await;
        }
    }
}

/// How long the next call waits, with so much time left.
fn turn(left: Duration) -> Duration {
    left.clamp(Duration::from_secs(1), TURN)
}
