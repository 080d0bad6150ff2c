//! Arguments of a method, from JSON, a form or the query.

use http::request::Parts;
use serde_json::{Map, Value};

use crate::harness::form;

/// Arguments by name. In forms every value is text, so lists and flags are read from text too.
pub(super) struct Arguments(Map<String, Value>);

impl Arguments {
    pub fn read(head: &Parts, body: &[u8]) -> Arguments {
        let kind = head.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let mut found = Map::new();
        let query = form::read_pairs(head.uri.query().unwrap_or_default().as_bytes());
        found.extend(query.into_iter().map(|(name, value)| (name, Value::String(value))));
        if kind.starts_with("application/json") {
            if let Ok(Value::Object(fields)) = serde_json::from_slice(body) {
                found.extend(fields);
            }
        } else if kind.starts_with("application/x-www-form-urlencoded") {
            let pairs = form::read_pairs(body);
            found.extend(pairs.into_iter().map(|(name, value)| (name, Value::String(value))));
        }
        Arguments(found)
    }

    /// The token: in the header, or an argument.
    pub fn token(&self, head: &Parts) -> Option<String> {
        let header = head.headers.get("authorization").and_then(|value| value.to_str().ok());
        let bearer = header.and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned);
        bearer.or_else(|| self.text("token"))
    }

    pub fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// A list or object, also if it came as JSON in text.
    pub fn structure(&self, name: &str) -> Option<Value> {
        match self.0.get(name)? {
            Value::String(text) => serde_json::from_str(text).ok(),
            Value::Null => None,
            other => Some(other.clone()),
        }
    }

    /// All arguments without the token, for the transcript.
    pub fn described(&self) -> Value {
        let mut fields = self.0.clone();
        fields.remove("token");
        for name in ["blocks", "chunks", "files"] {
            if let Some(value) = self.structure(name) {
                fields.insert(name.to_owned(), value);
            }
        }
        Value::Object(fields)
    }
}
