//! Runs of skills, and events that start them.

use std::time::Duration;

use http::Method;
use serde::Serialize;
use serde_json::{Map, Value};

use super::call::ApiRequest;
use super::{Client, Fault, ListPage};

/// The longest time that an operator can allow a run: a day.
const LONGEST_RUN: Duration = Duration::from_secs(24 * 3600);

/// Filter and page of a list of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQuery {
    pub skill: Option<String>,
    /// `queued`, `running`, `succeeded`, `failed`, `cancelled` or `interrupted`.
    pub state: Option<String>,
    pub after: Option<String>,
    pub limit: Option<u32>,
}

/// A stored skill that is to run now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillExecution {
    pub name: String,
    /// Values of its variables.
    pub inputs: Map<String, Value>,
    /// Whether the skill only shows what it would do.
    pub mechanical: bool,
}

impl SkillExecution {
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), inputs: Map::new(), mechanical: false }
    }
}

impl Client {
    /// Runs a stored skill to its end, and returns its result. A skill that may not run, or that fails, is a result with
    /// `errors`. The call is never repeated, because it may have had effects.
    pub async fn execute_skill(&self, execution: &SkillExecution) -> Result<Value, Fault> {
        let limits = self.limits().without_repeats();
        let make = |_| ApiRequest::tool("execute_skill", execution).waiting(Some(LONGEST_RUN));
        let answer: Value = self.connection.call(limits, make).await?.read()?;
        if let Some(message) = answer["error"]["message"].as_str() {
            let (code, detail) = ("json_rpc_error".to_owned(), message.to_owned());
            return Err(Fault::Refused { status: 200, code, detail, cause_kind: None, dispatch_id: None });
        }
        let result = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        serde_json::from_str(result).map_err(|fault| Fault::Malformed(fault.to_string()))
    }

    /// Runs, newest first, one page at a time.
    pub async fn runs(&self, query: &RunQuery) -> Result<ListPage<Value>, Fault> {
        self.ask(|| {
            ApiRequest::get(["runs"])
                .asking("skill", query.skill.as_deref())
                .asking("state", query.state.as_deref())
                .asking("after", query.after.as_deref())
                .asking("limit", query.limit)
        })
        .await
    }

    /// A run with its trace and the dispatches that it sent.
    pub async fn run(&self, id: &str) -> Result<Value, Fault> {
        self.ask(|| ApiRequest::get(["runs", id])).await
    }

    /// Cancels a run. The result says whether it waited or ran.
    pub async fn cancel_run(&self, id: &str) -> Result<Value, Fault> {
        self.ask(|| ApiRequest::to(Method::POST, &["runs", id, "cancel"])).await
    }

    /// Starts the skill that waits for an event. A repeat after a lost answer can start it again.
    pub async fn send_event(&self, name: &str, params: &Map<String, Value>) -> Result<Value, Fault> {
        self.ask(|| ApiRequest::with_body(Method::POST, &["events", name], Some(params))).await
    }
}
