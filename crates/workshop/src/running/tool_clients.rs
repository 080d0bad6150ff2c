//! MCP tool connectors of skills: clients over HTTP and over child processes, each connected once and kept.

mod http_client;
mod mcp_message;
mod settings;
mod stdio_client;
mod stdio_frames;
mod tool_answer;

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use errand::Errand;
use posthouse_time::Timepiece;
use serde_json::Value;
use skill::check::{ConnectorFacts, ToolSchema};
use skill::{ErrorClass, HostFault, RunMemory, SkillValue, ToolConnector, ToolRequest};

use self::http_client::HttpToolClient;
use self::settings::{HttpToolSettings, StdioToolSettings};
use self::stdio_client::StdioToolClient;
pub(super) use self::tool_answer::AnswerMemory;
use super::connectors_file::{ConnectorClass, FileConnector};

/// Largest message of a tool server. The answer inside it is limited by the executor.
const LARGEST_MESSAGE: usize = 20 * 1024 * 1024;
/// How long lint waits for the tool list of a connector.
const LISTING: Duration = Duration::from_secs(2);
/// Largest tool list, as JSON. A longer one is not read.
const LARGEST_LIST: usize = 1024 * 1024;
/// Shorter values of a configuration are not removed from error texts: they occur in other words too.
const SHORTEST_REDACTED: usize = 6;

/// What tool clients need from their surroundings.
#[derive(Clone)]
pub struct ToolClientParts {
    pub errand: Errand,
    /// The tenant for whom calls are made.
    pub tenant: Option<Arc<str>>,
    /// The environment of child processes. `None` if no child process may be started.
    pub child_environment: Option<Vec<(OsString, OsString)>>,
    pub timepiece: Timepiece,
}

/// The tool connectors of one configuration.
#[derive(Default)]
pub struct ToolClients {
    clients: HashMap<String, ToolClient>,
}

struct ToolClient {
    allowed_tools: Option<Vec<String>>,
    class: ConnectorClass,
    transport: ToolTransport,
    /// Values of the configuration that may be secrets.
    redacted: Vec<String>,
}

enum ToolTransport {
    Http(Box<HttpToolClient>),
    Stdio(StdioToolClient),
}

impl ToolClients {
    /// Builds the clients. Nothing is connected yet. Entries that cannot be used are reported and left out.
    pub fn new(connectors: Vec<FileConnector>, parts: &ToolClientParts) -> (Self, Vec<String>) {
        let (mut clients, mut errors) = (HashMap::new(), Vec::new());
        for connector in connectors {
            let FileConnector { name, class, config, allowed_tools } = connector;
            let redacted = secret_texts(&config);
            let transport = match class {
                ConnectorClass::Http => HttpToolSettings::read(&config, &parts.errand)
                    .map(|settings| ToolTransport::Http(Box::new(HttpToolClient::new(settings, parts)))),
                ConnectorClass::Stdio => StdioToolSettings::read(&config, parts.child_environment.as_deref())
                    .map(|settings| ToolTransport::Stdio(StdioToolClient::new(settings, parts))),
            };
            match transport {
                Ok(transport) => {
                    clients.insert(name, ToolClient { allowed_tools, class, transport, redacted });
                }
                Err(why) => errors.push(format!("connectors.json: entry '{name}': {why}")),
            }
        }
        (Self { clients }, errors)
    }

    /// The connector as the executor sees it. Which tools it has is known only after a call.
    pub fn connector(&self, name: &str) -> Option<ToolConnector> {
        let client = self.clients.get(name)?;
        Some(ToolConnector { allowed_tools: client.allowed_tools.clone(), ..ToolConnector::default() })
    }

    /// Names and classes, in the order of names.
    pub fn list(&self) -> Vec<(&str, ConnectorClass, Option<&[String]>)> {
        let mut all: Vec<_> = self
            .clients
            .iter()
            .map(|(name, client)| (name.as_str(), client.class, client.allowed_tools.as_deref()))
            .collect();
        all.sort_unstable_by_key(|(name, ..)| *name);
        all
    }

    /// Calls a tool. A tool that is not allowed is refused here too, because a bare call is not checked before. The answer
    /// counts in `memory` until it is a value.
    pub async fn call(
        &self,
        request: &ToolRequest,
        memory: Option<Arc<dyn RunMemory>>,
    ) -> Result<SkillValue, HostFault> {
        let Some(client) = self.clients.get(&*request.connector) else {
            return Err(HostFault::new(ErrorClass::ConnectorNotFound, "the connector is gone"));
        };
        if client
            .allowed_tools
            .as_ref()
            .is_some_and(|tools| !tools.iter().any(|tool| **tool == *request.tool))
        {
            let message =
                format!("the tool '{}' is not allowed on connector '{}'", request.tool, request.connector);
            return Err(HostFault::new(ErrorClass::OpError, message));
        }
        let called = match &client.transport {
            ToolTransport::Http(http) => http.call(request, memory).await,
            ToolTransport::Stdio(stdio) => stdio.call(request, memory).await,
        };
        let what = format!("tool {}", request.tool);
        called.and_then(|answer| answer.value(&what)).map_err(|fault| client.redact(fault))
    }

    /// What lint may know about the connectors: their tools are asked for, all at once and not for long.
    pub async fn facts(&self, timepiece: &Timepiece) -> Vec<(String, ConnectorFacts)> {
        let listing = self.clients.iter().map(async |(name, client)| {
            let listed = timepiece.within(LISTING, client.list_tools()).await;
            let schemas = listed.ok().and_then(Result::ok).map(|listed| schemas(&listed)).unwrap_or_default();
            let allowed_tools = client.allowed_tools.clone();
            (name.clone(), ConnectorFacts { allowed_tools, declared_tools: None, schemas })
        });
        futures_util::future::join_all(listing).await
    }
}

impl ToolClient {
    async fn list_tools(&self) -> Result<Value, HostFault> {
        let listed = match &self.transport {
            ToolTransport::Http(http) => http.list_tools().await,
            ToolTransport::Stdio(stdio) => stdio.list_tools().await,
        };
        let listed = listed?.message.result("tools/list")?;
        let read = Some(listed.get()).filter(|text| text.len() <= LARGEST_LIST);
        read.and_then(|text| serde_json::from_str(text).ok())
            .ok_or_else(|| HostFault::plain("tools/list: the answer is too large"))
    }

    /// Removes values of the configuration from an error text: a server may repeat the header that it refused.
    fn redact(&self, mut fault: HostFault) -> HostFault {
        for secret in &self.redacted {
            if fault.message.contains(secret.as_str()) {
                fault.message = fault.message.replace(secret.as_str(), "[redacted]");
            }
        }
        fault
    }
}

/// Values of headers, of the environment and of arguments, with the parts behind a scheme such as `Bearer`, and the query
/// of the URL with the values in it.
fn secret_texts(config: &serde_json::Map<String, Value>) -> Vec<String> {
    let values = ["headers", "env"].into_iter().filter_map(|part| config.get(part)?.as_object());
    let arguments = config.get("args").and_then(Value::as_array).into_iter().flatten();
    let texts = values.flat_map(|members| members.values()).chain(arguments).filter_map(Value::as_str);
    let parts = texts.flat_map(|text| [Some(text), text.split_once(' ').map(|(_, behind)| behind)]).flatten();
    let query = config.get("endpoint").and_then(Value::as_str).and_then(|url| url.split_once('?'));
    let query = query.into_iter().flat_map(|(_, query)| {
        let values = query.split('&').filter_map(|part| part.split_once('=').map(|(_, value)| value));
        std::iter::once(query).chain(values)
    });
    parts.chain(query).filter(|text| text.len() >= SHORTEST_REDACTED).map(str::to_owned).collect()
}

/// The arguments of the tools in a tool list.
fn schemas(listed: &Value) -> HashMap<String, ToolSchema> {
    let names = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let tools = listed["tools"].as_array().into_iter().flatten();
    let read = tools.filter_map(|tool| {
        let schema = &tool["inputSchema"];
        let arguments = schema["properties"].as_object().map(|members| members.keys().cloned().collect());
        let is_open = schema["additionalProperties"] != Value::Bool(false);
        let schema = ToolSchema { arguments, required: names(&schema["required"]), is_open };
        Some((tool["name"].as_str()?.to_owned(), schema))
    });
    read.collect()
}
