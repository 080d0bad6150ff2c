//! Settings of tool connectors, as `config` of an entry in `connectors.json` names them.

use std::ffi::OsString;

use errand::Errand;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

const PROTOCOL_VERSION: &str = "2025-06-18";
const CLIENT_NAME: &str = "posthouse";

/// A tool server behind a URL. It holds secrets in its headers, so it cannot be printed.
pub struct HttpToolSettings {
    pub endpoint: String,
    pub headers: HeaderMap,
    /// The header that names the owner of the skill.
    pub identity_header: Option<HeaderName>,
    pub client_name: String,
    pub client_version: String,
    pub protocol_version: String,
}

/// A tool server that is a child process. It may hold secrets in its environment, so it cannot be printed.
pub struct StdioToolSettings {
    pub command: String,
    pub arguments: Vec<String>,
    /// The whole environment of the child process.
    pub environment: Vec<(OsString, OsString)>,
    pub framing: StdioFraming,
}

/// How messages follow each other on a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdioFraming {
    /// `Content-Length: N`, an empty line, then N bytes.
    Lsp,
    /// One message per line.
    Newline,
}

impl HttpToolSettings {
    pub fn read(config: &Map<String, Value>, errand: &Errand) -> Result<Self, String> {
        let endpoint = required(config, "endpoint")?.to_owned();
        errand.check(&endpoint).map_err(|refusal| format!("`endpoint`: {refusal}"))?;
        let mut headers = HeaderMap::new();
        for (name, value) in members(config, "headers")? {
            let read = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
            let (name, mut value) = read.ok_or_else(|| format!("`headers`: '{name}' cannot be sent"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let identity_header = match optional(config, "identityHeader")? {
            None => None,
            Some(name) => Some(
                HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| format!("`identityHeader`: '{name}' is not a header name"))?,
            ),
        };
        let text = |name: &str, default: &str| -> Result<String, String> {
            Ok(optional(config, name)?.unwrap_or(default).to_owned())
        };
        Ok(Self {
            endpoint,
            headers,
            identity_header,
            client_name: text("clientName", CLIENT_NAME)?,
            client_version: text("clientVersion", env!("CARGO_PKG_VERSION"))?,
            protocol_version: text("protocolVersion", PROTOCOL_VERSION)?,
        })
    }
}

impl StdioToolSettings {
    /// `environment` is what every child process gets; `None` if none may be started.
    pub fn read(
        config: &Map<String, Value>,
        environment: Option<&[(OsString, OsString)]>,
    ) -> Result<Self, String> {
        let environment = environment.ok_or("the operator does not allow child processes")?;
        let arguments = match config.get("args") {
            None | Some(Value::Null) => Vec::new(),
            Some(list) => list
                .as_array()
                .and_then(|list| list.iter().map(|item| item.as_str().map(str::to_owned)).collect())
                .ok_or("`args` must be a list of texts")?,
        };
        let own = members(config, "env")?;
        let own = own.into_iter().map(|(name, value)| (name.into(), value.into()));
        let framing = match optional(config, "framing")? {
            None | Some("lsp") => StdioFraming::Lsp,
            Some("newline") => StdioFraming::Newline,
            Some(other) => return Err(format!("`framing` is '{other}'; known are lsp, newline")),
        };
        Ok(Self {
            command: required(config, "command")?.to_owned(),
            arguments,
            environment: environment.iter().cloned().chain(own).collect(),
            framing,
        })
    }
}

fn optional<'c>(config: &'c Map<String, Value>, name: &str) -> Result<Option<&'c str>, String> {
    match config.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => Err(format!("`{name}` must be a text that is not empty")),
    }
}

fn required<'c>(config: &'c Map<String, Value>, name: &str) -> Result<&'c str, String> {
    optional(config, name)?.ok_or_else(|| format!("`{name}` is missing"))
}

fn members<'c>(config: &'c Map<String, Value>, name: &str) -> Result<Vec<(&'c str, &'c str)>, String> {
    let wrong = || format!("`{name}` must be an object of texts");
    match config.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(members)) => members
            .iter()
            .map(|(name, value)| Some((name.as_str(), value.as_str()?)))
            .collect::<Option<_>>()
            .ok_or_else(wrong),
        Some(_) => Err(wrong()),
    }
}
