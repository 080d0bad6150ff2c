//! Tools for data: `data_read` and `data_write`.

use post::Caller;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::tool_failure::ToolFailure;
use crate::data_stores::{DataAnswer, DataBridge, DataRefusalReason, PortableData};

/// What `data_read` found.
#[derive(Serialize)]
#[serde(untagged)]
pub enum DataReadAnswer {
    Entry(Option<Box<PortableData>>),
    Items { items: Vec<PortableData> },
}

impl DataReadAnswer {
    /// About how long it is as JSON.
    pub fn length(&self) -> usize {
        match self {
            DataReadAnswer::Entry(entry) => entry.as_ref().map_or(0, |entry| entry.length()),
            DataReadAnswer::Items { items } => items.iter().map(PortableData::length).sum(),
        }
    }
}

/// `data_read` of the reference runtime's server: one entry by its id, or null.
pub async fn look_up(
    data: &DataBridge,
    arguments: &Map<String, Value>,
) -> Result<DataReadAnswer, ToolFailure> {
    if let Some(store) = arguments.get("store").and_then(Value::as_str).filter(|store| *store != "primary") {
        return Err(ToolFailure::refused(format!(
            "`data_read` requires a DataStore registered as '{store}'; none found in registry."
        )));
    }
    let Some(id) = arguments.get("id").and_then(Value::as_str) else {
        return Err(ToolFailure::arguments("data_read: `id` is required (non-empty string)."));
    };
    Ok(DataReadAnswer::Entry(answered(data.store().get(id).await)?.map(Box::new)))
}

/// `data_read` in both forms: an `id` without a `query` is a look-up, and everything else a search.
pub async fn read(data: &DataBridge, arguments: Map<String, Value>) -> Result<DataReadAnswer, ToolFailure> {
    let is_given = |name: &str| arguments.get(name).is_some_and(|value| !value.is_null());
    if is_given("id") && !is_given("query") {
        return look_up(data, &arguments).await;
    }
    Ok(DataReadAnswer::Items { items: answered(data.data_read(arguments).await)? })
}

pub async fn write(
    data: &DataBridge,
    by: &Caller,
    arguments: Map<String, Value>,
) -> Result<Value, ToolFailure> {
    Ok(json!(answered(data.data_write(arguments, by.agent_id()).await)?))
}

/// The answer of a data store, or the failure that the caller gets.
pub fn answered<T>(answer: DataAnswer<T>) -> Result<T, ToolFailure> {
    let refusal = match answer {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(refusal)) => refusal,
        Err(fault) => return Err(ToolFailure::fault(&fault)),
    };
    let mut details = json!({ "class": refusal.reason.class(), "code": refusal.reason.code() });
    match &refusal.reason {
        DataRefusalReason::UnsupportedFilter { unsupported, supported, .. } => {
            details["unsupported_keys"] = json!(unsupported);
            details["supported_keys"] = json!(supported);
            Err(ToolFailure::refused(refusal.to_string()).with(details))
        }
        DataRefusalReason::QueryMissing
        | DataRefusalReason::ContentMissing
        | DataRefusalReason::Invalid { .. } => Err(ToolFailure::arguments(refusal.to_string()).with(details)),
        _ => Err(ToolFailure::refused(refusal.to_string()).with(details)),
    }
}
