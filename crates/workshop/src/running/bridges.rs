//! Built-in tools of skills: `data_read`, `data_write`, `skill_read`, `skill_write` and `llm`.

use serde_json::{Map, Value, json};
use skill::{ErrorClass, HostFault, SkillObject, SkillValue, ToolRequest};

use super::run_host::RunHost;
use crate::data_stores::{DataAnswer, DataBridge};

/// The names under which the built-in tools are called.
pub const BRIDGES: [&str; 5] = ["data_read", "data_write", "skill_read", "skill_write", "llm"];

impl RunHost {
    /// Whether a built-in tool is there: the data tools need a data store, and `llm` a model.
    pub(super) fn has_bridge(&self, name: &str) -> bool {
        match name {
            "data_read" | "data_write" => self.data.is_some(),
            "skill_read" | "skill_write" => true,
            "llm" => self.resources.model.is_some(),
            _ => false,
        }
    }

    /// Calls a built-in tool. `None` if there is none of this name.
    pub(super) async fn call_bridge(&self, request: &ToolRequest) -> Option<Result<SkillValue, HostFault>> {
        if !self.has_bridge(&request.connector) {
            return None;
        }
        let arguments = match json_arguments(&request.arguments) {
            Ok(arguments) => arguments,
            Err(fault) => return Some(Err(fault)),
        };
        let owner = request.owner.as_deref();
        let result = match (&*request.connector, &self.data) {
            ("data_read", Some(data)) => read_data(data, arguments).await,
            ("data_write", Some(data)) => write_data(data, arguments, owner).await,
            ("skill_read", _) => self.skills.read_tool(&arguments).await,
            ("skill_write", _) => self.skills.write_tool(&arguments, owner).await,
            _ => self.ask_model(&arguments, request).await,
        };
        Some(result.and_then(|result| {
            SkillValue::from_json(&result.to_string()).map_err(|fault| HostFault::plain(fault.to_string()))
        }))
    }

    async fn ask_model(
        &self,
        arguments: &Map<String, Value>,
        request: &ToolRequest,
    ) -> Result<Value, HostFault> {
        let Some(model) = &self.resources.model else {
            return Err(HostFault::new(ErrorClass::ConnectorNotFound, "there is no model"));
        };
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let prompt = text("prompt").ok_or_else(|| HostFault::plain("llm: `prompt` is required"))?;
        let tokens = arguments.get("maxTokens").and_then(Value::as_u64);
        let memory = self.memory.get().cloned();
        model.generate(prompt, text("model"), tokens, request.timeout, memory).await.map(Value::String)
    }
}

/// The arguments of a call as JSON.
fn json_arguments(arguments: &SkillObject) -> Result<Map<String, Value>, HostFault> {
    match serde_json::to_value(SkillValue::from(arguments.clone())) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        _ => Err(HostFault::plain("the arguments cannot be written as JSON")),
    }
}

async fn read_data(data: &DataBridge, arguments: Map<String, Value>) -> Result<Value, HostFault> {
    Ok(json!({ "items": answered(data.data_read(arguments).await)? }))
}

async fn write_data(
    data: &DataBridge,
    arguments: Map<String, Value>,
    owner: Option<&str>,
) -> Result<Value, HostFault> {
    let written = answered(data.data_write(arguments, owner.map(str::to_owned)).await)?;
    Ok(json!({ "id": written.id, "created_at": written.created_at }))
}

fn answered<T>(answer: DataAnswer<T>) -> Result<T, HostFault> {
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(refusal)) => {
            let class = match refusal.reason.class() {
                "Error" => ErrorClass::Plain,
                class => ErrorClass::Other(class.into()),
            };
            Err(HostFault::new(class, refusal.to_string()))
        }
        Err(fault) => {
            tracing::error!(%fault, "a data store cannot be used");
            Err(HostFault::plain("the data store cannot be used now"))
        }
    }
}
