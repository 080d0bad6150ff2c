//! `GET /v1/agents` and `/v1/agents/{name}`: the agent directory.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use http::request::Parts;
use http_kit::{Fields, Problem, QueryReader, decode_cursor, opaque, unfit};
use serde_json::{Value, json};

use super::{Answer, LONGEST_ADDRESS, PostApi, problem};
use crate::Caller;
use crate::requests::{DirectoryEntry, PAGE};

pub(crate) async fn list(State(door): State<PostApi>, head: Parts) -> Answer {
    let by = door.authenticate(&head).await?;
    let mut query = QueryReader::read(&head.uri)?;
    let (after, limit) = (query.after(|name| Some(name.to_owned()))?, query.limit(PAGE)?);
    query.end()?;
    let agents = door.post.directory().agents(&by, after.as_deref(), limit).await?;
    Ok(Json(opaque(agents.map(|agent| listed(&agent)))).into_response())
}

pub(crate) async fn show(
    State(door): State<PostApi>,
    path: Result<Path<String>, PathRejection>,
    head: Parts,
) -> Answer {
    let by = door.authenticate(&head).await?;
    QueryReader::read(&head.uri)?.end()?;
    match path {
        Ok(Path(name)) if unfit(&name, LONGEST_ADDRESS).is_none() => {
            Ok(Json(listed(&door.post.directory().agent(&by, &name).await?)).into_response())
        }
        _ => Err(problem::absent()),
    }
}

impl PostApi {
    /// Lists the agents of the caller's tenant, or shows one, with the arguments of a tool.
    pub async fn agents(&self, by: &Caller, mut fields: Fields) -> Result<Value, Problem> {
        let directory = self.post.directory();
        if let Some(name) = fields.optional_label("agent", LONGEST_ADDRESS)? {
            fields.end()?;
            return Ok(listed(&directory.agent(by, &name).await?));
        }
        let limit = match fields.optional_whole("limit")? {
            None => PAGE.default,
            Some(limit) => usize::try_from(limit)
                .ok()
                .filter(|limit| (1..=PAGE.largest).contains(limit))
                .ok_or_else(|| fields.field_error("limit", "must be a number from 1 to 200"))?,
        };
        let after = match fields.optional_text("after")? {
            None => None,
            Some(cursor) => Some(
                decode_cursor(&cursor)
                    .ok_or_else(|| fields.field_error("after", "is not the `next` of a page"))?,
            ),
        };
        fields.end()?;
        let agents = directory.agents(by, after.as_deref(), limit).await?;
        Ok(json!(opaque(agents.map(|agent| listed(&agent)))))
    }
}

fn listed(agent: &DirectoryEntry) -> Value {
    let mut line = json!({ "agent_id": agent.agent_id, "connectors": agent.connectors });
    if let Some(name) = &agent.agent_name {
        line["agent_name"] = name.as_str().into();
    }
    if let Some(status) = agent.status {
        line["status"] = json!(status);
    }
    line
}

#[cfg(test)]
mod tests {
    use posthouse_wire::delivery::AgentStatus;

    use super::*;

    #[test]
    fn an_agent_is_listed_with_the_connectors_that_know_it() {
        let mut agent = DirectoryEntry {
            agent_id: "desk".to_owned(),
            agent_name: None,
            connectors: vec!["relay".to_owned(), "hook".to_owned()],
            status: None,
        };
        assert_eq!(listed(&agent), json!({ "agent_id": "desk", "connectors": ["relay", "hook"] }));
        (agent.agent_name, agent.status) = (Some("Desk".to_owned()), Some(AgentStatus::Asleep));
        assert_eq!(listed(&agent)["agent_name"], "Desk");
        assert_eq!(listed(&agent)["status"], "asleep");
    }
}
