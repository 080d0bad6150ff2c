//! The `$` operation: arguments, routing to a connector, the call, and what its result means.

use std::sync::Arc;

use super::secrets::{Masks, Unmasked};
use super::time_limits::AllowedTime;
use super::{BoundVariable, Executor};
use crate::run::host::{ToolConnector, ToolRequest};
use crate::run::json_text::{self, JsonFault};
use crate::run::limits::too_large;
use crate::run::literal::{bare_argument, coerce};
use crate::run::object::{ObjectBuilder, SkillObject};
use crate::run::run_error::{CutOperation, ErrorClass, RunError};
use crate::run::utf16::utf16_preview;
use crate::run::value::SkillValue;
use crate::syntax::blanks::{trim, unquoted};
use crate::syntax::tree::{ArgumentValue, DispatchOp, JsonTemplate, ToolCall};

/// Tools without effects outside of the run. If a call of one is cut off, nothing is uncertain.
const WITHOUT_EFFECT: &[&str] = &["data_read", "json_parse", "execute_skill", "llm"];

/// Tools that the server itself provides, and what is missing if they are not there.
const BRIDGES: &[(&str, &str)] =
    &[("llm", "a model"), ("data_read", "a data store"), ("data_write", "a data store")];

impl<'r> Executor<'r> {
    /// A call that needs nothing from the host. `None` if it does.
    pub(super) fn dispatch_without_host(
        &mut self,
        op: &'r DispatchOp,
    ) -> Option<Result<BoundVariable<'r>, RunError>> {
        let call = op.call.as_ref().filter(|call| &*call.tool == "json_parse")?;
        if op.connector.is_some() || self.context.is_mechanical {
            return None;
        }
        Some(self.check_declared([&call.rest]).and_then(|()| self.json_parse(op, call)))
    }

    pub(super) async fn dispatch(&mut self, op: &'r DispatchOp) -> Result<BoundVariable<'r>, RunError> {
        let Some(call) = &op.call else {
            let message = format!("'{}' does not begin with the name of a tool", op.body);
            return Err(RunError::op_error(message).with_remedy("Write `$ tool name=value …`"));
        };
        self.check_declared([&call.rest])?;
        let is_bare = op.connector.is_none();
        let mut masks = Masks::default();
        let mut arguments = self.arguments(call, &mut masks)?;
        let timeout = arguments.remove("timeout");
        if self.context.is_mechanical {
            return self.preview_call(op, call, arguments, &masks);
        }
        if is_bare && &*call.tool == "execute_skill" {
            return self.execute_skill(op, arguments, &masks).await;
        }
        let connector_name = op.connector.as_deref().unwrap_or(&call.tool);
        let connector = self.host.tool_connector(connector_name);
        if let Some(connector) = connector.as_ref().filter(|_| !is_bare) {
            check_tool(connector, connector_name, &call.tool)?;
        }
        let allowed = self.allowed_time(timeout.as_ref())?;
        let mut unmasked = Unmasked::default();
        let answer =
            self.call_connector(op, call, connector, arguments, &masks, &allowed, &mut unmasked).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(mut error) if error.ends_run() => {
                error.cut.get_or_insert_with(|| {
                    let is_uncertain = !WITHOUT_EFFECT.contains(&&*call.tool);
                    Box::new(CutOperation { op_kind: "$", label: label(op, call), is_uncertain })
                });
                return Err(error);
            }
            Err(error) => {
                let error = unmasked.redact(error);
                return match fallback_of(op) {
                    Some(value) => {
                        let reason = format!("$ {} failed: {}", label(op, call), error.message);
                        self.bind_fallback(&op.binding, "$", value, reason)
                    }
                    None => Err(error),
                };
            }
        };
        if let Some(text) = tool_error(&answer) {
            let message = unmasked.redacted(format!("tool {} returned isError: {text}", label(op, call)));
            return Err(RunError::op_error(message).with_remedy("The tool itself failed; read its own text"));
        }
        let value = self.unwrapped(op, call, answer)?;
        match fallback_of(op).filter(|_| value.is_blank()) {
            Some(fallback) => {
                let reason = format!("$ {} returned empty result", label(op, call));
                self.bind_fallback(&op.binding, "$", fallback, reason)
            }
            None => self.bind(&op.binding, value),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one call, which exist only here")]
    async fn call_connector(
        &self,
        op: &DispatchOp,
        call: &ToolCall,
        connector: Option<ToolConnector>,
        arguments: SkillObject,
        masks: &Masks,
        allowed: &AllowedTime,
        unmasked: &mut Unmasked,
    ) -> Result<SkillValue, RunError> {
        *unmasked = self.unmask(masks).await?;
        let name = op.connector.as_deref().unwrap_or(&call.tool);
        let Some(connector) = connector else { return Err(missing_connector(op, name)) };
        let request = ToolRequest {
            connector: name.into(),
            tool: (&*call.tool).into(),
            arguments: unmasked.fill_object(arguments),
            owner: self.context.owner.clone(),
            timeout: allowed.timeout,
        };
        let clean_up = connector.outlives_call.then_some(name);
        let answer = self.within(allowed, "$", clean_up, self.host.call_tool(request)).await??;
        let limit = self.limits().tool_answer;
        if answer.weight() > limit {
            return Err(too_large(&format!("the answer of '{}'", label(op, call)), limit));
        }
        Ok(answer)
    }

    /// The content of an answer: the text of its first element, as JSON if it is JSON. Any other answer is the value
    /// itself.
    fn unwrapped(
        &self,
        op: &DispatchOp,
        call: &ToolCall,
        answer: SkillValue,
    ) -> Result<SkillValue, RunError> {
        let content = answer.as_object().and_then(|object| object.get("content")).cloned();
        Ok(match content.as_ref().map(|content| (content, first_text(content))) {
            Some((_, Some(Some(text)))) => {
                let limit = self.limits().tool_answer;
                match json_text::parse_within(&text, limit) {
                    Ok(value) => value,
                    Err(JsonFault::TooLarge(_)) => {
                        return Err(too_large(&format!("the answer of '{}'", label(op, call)), limit));
                    }
                    Err(_) => SkillValue::Text(text),
                }
            }
            Some((content, Some(None))) => content.clone(),
            _ => answer,
        })
    }

    /// The arguments of a call. Secrets in them are masked.
    fn arguments(&self, call: &ToolCall, masks: &mut Masks) -> Result<SkillObject, RunError> {
        // A reference that does not resolve is an error, even in a value that a later argument replaces.
        for argument in &call.overwritten {
            self.argument(&argument.value, masks)?;
        }
        let mut arguments = ObjectBuilder::default();
        for argument in &call.arguments {
            let value = self.argument(&argument.value, masks)?;
            arguments.set((&*argument.name).into(), value);
            self.scope().bounded(arguments.weight())?;
        }
        Ok(arguments.finish())
    }

    fn argument(&self, value: &ArgumentValue, masks: &mut Masks) -> Result<SkillValue, RunError> {
        Ok(match value {
            ArgumentValue::Json(json) => self.json_argument(json, masks)?,
            ArgumentValue::Quoted(text) => SkillValue::Text(self.masked(text, masks)?),
            ArgumentValue::Bare(text) => {
                let text = self.masked(text, masks)?;
                // Data that is in quotes itself loses one pair of them.
                match unquoted(&text) {
                    inside if inside.len() < text.len() => inside.into(),
                    _ => bare_argument(text),
                }
            }
        })
    }

    fn json_argument(&self, json: &JsonTemplate, masks: &mut Masks) -> Result<SkillValue, RunError> {
        Ok(match json {
            JsonTemplate::Null => SkillValue::Null,
            JsonTemplate::Bool(value) => SkillValue::Bool(*value),
            JsonTemplate::Number(number) => SkillValue::Number(*number),
            JsonTemplate::Text(text) => SkillValue::Text(self.masked(text, masks)?),
            JsonTemplate::List(items) => {
                let items: Result<Vec<_>, _> =
                    items.iter().map(|item| self.json_argument(item, masks)).collect();
                SkillValue::list(items?)
            }
            JsonTemplate::Object(members) => {
                let mut object = ObjectBuilder::default();
                for (name, value) in members {
                    object.set((&**name).into(), self.json_argument(value, masks)?);
                }
                object.finish().into()
            }
        })
    }

    fn preview_call(
        &mut self,
        op: &'r DispatchOp,
        call: &ToolCall,
        arguments: SkillObject,
        masks: &Masks,
    ) -> Result<BoundVariable<'r>, RunError> {
        let arguments = masks.marked_value(&arguments.into()).json();
        let text =
            format!("Would call tool {} with {arguments} (mechanical: true preview).", label(op, call));
        self.emit(Arc::new(text))?;
        let name = op.binding.variable.as_deref().unwrap_or(&self.target_output);
        let placeholder = SkillValue::Placeholder(name.into());
        self.bind(&op.binding, placeholder)
    }

    /// `$ json_parse TEXT -> VARIABLE`: the rest of the line is one text.
    fn json_parse(&mut self, op: &'r DispatchOp, call: &ToolCall) -> Result<BoundVariable<'r>, RunError> {
        let substituted;
        let text = match call.rest.constant() {
            Some(text) => text,
            None => {
                substituted = self.scope().text(&call.rest)?;
                &substituted
            }
        };
        let input = trim(text);
        if input.is_empty() {
            return Err(RunError::op_error("`$ json_parse` has nothing to parse")
                .with_remedy("Name a variable: `$ json_parse ${VARIABLE} -> PARSED`"));
        }
        self.shared.work.note(input.len());
        match (json_text::parse(input), fallback_of(op)) {
            (Ok(value), _) => {
                let limit = self.limits().value;
                if value.weight() > limit {
                    return Err(too_large("the parsed value", limit));
                }
                self.bind(&op.binding, value)
            }
            (Err(fault), Some(value)) => {
                self.bind_fallback(&op.binding, "$", value, format!("$ json_parse failed: {fault}"))
            }
            (Err(fault), None) => {
                let message =
                    format!("`$ json_parse`: '{}' is not valid JSON: {fault}", utf16_preview(input, 40));
                Err(RunError::op_error(message).with_remedy("Check the text, or add `(fallback: …)`"))
            }
        }
    }
}

/// The connector and the tool as an author writes them.
pub(super) fn label(op: &DispatchOp, call: &ToolCall) -> String {
    match &op.connector {
        Some(connector) => format!("{connector}.{}", call.tool),
        None => call.tool.to_string(),
    }
}

pub(super) fn fallback_of(op: &DispatchOp) -> Option<SkillValue> {
    op.binding.fallback.as_ref().map(|text| coerce(Arc::new(text.to_string())))
}

/// Refuses tools that are not allowed or not declared. Lint refuses them too, but the configuration may have changed
/// since.
fn check_tool(connector: &ToolConnector, name: &str, tool: &str) -> Result<(), RunError> {
    let lacks = |tools: &Option<Vec<String>>| {
        tools.as_ref().is_some_and(|tools| !tools.iter().any(|known| known == tool))
    };
    let message = if lacks(&connector.allowed_tools) {
        format!("the tool '{tool}' is not allowed on connector '{name}'")
    } else if lacks(&connector.declared_tools) {
        format!("the connector '{name}' has no tool '{tool}'")
    } else {
        return Ok(());
    };
    Err(RunError::op_error(message)
        .with_remedy("Use a tool that the connector offers and the operator allows"))
}

fn missing_connector(op: &DispatchOp, name: &str) -> RunError {
    let bridge = BRIDGES.iter().find(|(tool, _)| op.connector.is_none() && *tool == name);
    let (message, remedy) = match bridge {
        Some((tool, what)) => (format!("there is no connector for `{tool}`"), format!("Configure {what}")),
        None => (
            format!("there is no tool connector '{name}'"),
            "Check the name, or configure the connector; tools of a connector are written `$ connector.tool`"
                .to_owned(),
        ),
    };
    RunError::new(ErrorClass::ConnectorNotFound, message).with_remedy(remedy)
}

/// The text of an answer that says it is an error.
fn tool_error(answer: &SkillValue) -> Option<String> {
    let object = answer.as_object()?;
    if !matches!(object.get("isError"), Some(SkillValue::Bool(true))) {
        return None;
    }
    let text = object.get("content").and_then(first_text).flatten();
    Some(text.map_or_else(|| answer.json(), |text| text.to_string()))
}

/// The text of the first element of a list of content. `None` if there is no element, `Some(None)` if it is not a text.
fn first_text(content: &SkillValue) -> Option<Option<Arc<String>>> {
    let SkillValue::List(list) = content else { return None };
    let first = list.get(0).filter(|first| first.is_truthy() || matches!(first, SkillValue::List(_)))?;
    let is_text = first.field("type").is_some_and(|kind| kind.as_text() == Some("text"));
    Some(match first.field("text") {
        Some(SkillValue::Text(text)) if is_text => Some(text),
        _ => None,
    })
}
