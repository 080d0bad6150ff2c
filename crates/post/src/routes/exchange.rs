//! `POST /v1/exchange` and `GET /v1/exchanges`: ask an agent, attach to a question, list questions.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use http_kit::{Fields, LONGEST_LABEL, Problem, QueryReader, opaque};
use ledger::Exchange;
use posthouse_wire::CorrelationId;
use posthouse_wire::delivery::is_dispatch_id;
use serde_json::{Value, json};

use super::idempotency_key::NO_ID;
use super::{Answer, LONGEST_ADDRESS, PostApi, problem, trigger};
use crate::Caller;
use crate::answers::{is_recorded_id, read_position};
use crate::dispatch::fresh_id;
use crate::requests::{AskCommand, AskState, LONGEST_TIMEOUT, LONGEST_WAIT, PAGE};

pub(crate) async fn ask(State(door): State<PostApi>, request: Request) -> Answer {
    let (by, _, fields) = door.authenticate_and_read(request).await?;
    Ok(stands(door.ask(by, fields, None).await?))
}

pub(crate) async fn attach(
    State(door): State<PostApi>,
    path: Result<Path<String>, PathRejection>,
    head: Parts,
) -> Answer {
    let by = door.authenticate(&head).await?;
    let mut query = QueryReader::read(&head.uri)?;
    let wait = query.seconds("wait", LONGEST_WAIT)?.unwrap_or_default();
    query.end()?;
    match path {
        Ok(Path(id)) if is_recorded_id(&id) => {
            Ok(stands(door.post.answers().attach(&by, &CorrelationId::from(id), wait).await?))
        }
        _ => Err(problem::absent()),
    }
}

pub(crate) async fn list(State(door): State<PostApi>, head: Parts) -> Answer {
    let by = door.authenticate(&head).await?;
    let mut query = QueryReader::read(&head.uri)?;
    let (after, limit) = (query.after(read_position)?, query.limit(PAGE)?);
    query.end()?;
    let questions = door.post.answers().list(&by, after, limit).await?;
    Ok(Json(opaque(questions.map(|query| question(&query)))).into_response())
}

impl PostApi {
    /// Asks a question with the fields of an exchange, and waits for the answer.
    pub async fn ask(
        &self,
        by: Caller,
        mut fields: Fields,
        default_wait: Option<Duration>,
    ) -> Result<AskState, Problem> {
        let correlation_id = fields.optional_text("correlation_id")?;
        if correlation_id.as_deref().is_some_and(|id| !is_dispatch_id(id)) {
            return Err(fields.field_error("correlation_id", NO_ID));
        }
        let id = CorrelationId::from(correlation_id.unwrap_or_else(|| fresh_id(self.now())));
        let timeout = fields.optional_seconds("timeout", LONGEST_TIMEOUT)?;
        let wait = fields.optional_seconds("wait", LONGEST_WAIT)?;
        let request = AskCommand {
            agent: fields.label("agent", LONGEST_ADDRESS)?,
            message: fields.text("message")?,
            timeout,
            correlation_id: id.clone(),
            event_type: fields.optional_label("event_type", LONGEST_LABEL)?,
            connectors: fields.optional_names("connectors")?,
            from: fields.optional_label("from", LONGEST_LABEL)?,
            trigger_kind: trigger(&by, &mut fields)?,
            origin: None,
            dispatch_id: None,
        };
        fields.end()?;
        let unless_given = default_wait.unwrap_or(LONGEST_WAIT);
        let wait = wait.unwrap_or(unless_given.min(timeout.unwrap_or(LONGEST_WAIT)));
        let with_id = |problem: Problem| problem::under(problem, "correlation_id", id.as_str());
        // The question is put even if the client disconnects. Only the waiting ends then.
        let asker = by.clone();
        let query = self.to_the_end(|post| async move { post.questions().ask(&asker, request).await }).await;
        let answer = self.post.answers().wait_for(&by, &query.map_err(with_id)?, wait).await;
        answer.map_err(|refused| with_id(refused.into()))
    }
}

fn stands(exchanged: AskState) -> Response {
    let status = match &exchanged {
        AskState::Answered(_) => StatusCode::OK,
        AskState::Open { .. } => StatusCode::ACCEPTED,
    };
    (status, Json(rendered(exchanged))).into_response()
}

/// The state of a question as JSON.
pub(super) fn rendered(exchanged: AskState) -> Value {
    match exchanged {
        AskState::Answered(response) => {
            // Saves the caller from parsing an answer that is JSON.
            let data = serde_json::from_str::<Value>(&response.content).ok();
            let mut body = json!(response);
            if let Some(data) = data.filter(|data| data.is_object() || data.is_array()) {
                body["data"] = data;
            }
            body
        }
        AskState::Open { correlation_id, deadline } => {
            json!({ "correlation_id": correlation_id, "deadline": deadline.millis() })
        }
    }
}

/// A question in a list, without its answer, because answers may be long.
fn question(exchange: &Exchange) -> Value {
    let mut line = json!({
        "correlation_id": exchange.correlation,
        "agent_id": exchange.agent,
        "connector": exchange.connector,
        "dispatch_id": exchange.dispatch,
        "state": exchange.state.word(),
        "opened_at": exchange.opened.millis(),
        "deadline": exchange.deadline.millis(),
    });
    if let Some(ended) = exchange.ended {
        line["ended_at"] = ended.millis().into();
    }
    if let Some(error) = &exchange.error {
        super::receipts::error(error, &mut line);
    }
    line
}

#[cfg(test)]
mod tests {
    use posthouse_wire::delivery::Response as Said;

    use super::*;

    async fn body(response: Response) -> (u16, Value) {
        let status = response.status().as_u16();
        let bytes = axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn an_answer_that_is_an_object_or_a_list_is_also_given_as_data() {
        let answered = |content: &str| {
            stands(AskState::Answered(Said {
                correlation_id: "q-1".into(),
                content: content.to_owned(),
                sent_at: 7,
                agent_id: "desk".to_owned(),
            }))
        };
        let plain = json!({ "correlation_id": "q-1", "content": "42", "sent_at": 7, "agent_id": "desk" });
        assert_eq!(body(answered("42")).await, (200, plain));
        let (_, listed) = body(answered("[1]")).await;
        assert_eq!(listed["data"], json!([1]));
        assert_eq!(listed["content"], "[1]");
    }

    #[tokio::test]
    async fn an_open_question_is_202_with_its_deadline() {
        let open =
            AskState::Open { correlation_id: "q-1".into(), deadline: posthouse_time::Moment::from_millis(9) };
        assert_eq!(body(stands(open)).await, (202, json!({ "correlation_id": "q-1", "deadline": 9 })));
    }
}
