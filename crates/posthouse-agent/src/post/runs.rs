//! Runs of skills, and events that start them.

use http::Method;
use serde_json::{Map, Value};

use super::call::ApiRequest;
use super::{Client, Fault, ListPage};

/// Filter and page of a list of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQuery {
    pub skill: Option<String>,
    /// `queued`, `running`, `succeeded`, `failed`, `cancelled` or `interrupted`.
    pub state: Option<String>,
    pub after: Option<String>,
    pub limit: Option<u32>,
}

impl Client {
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
