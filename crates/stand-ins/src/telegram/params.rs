//! Parameters of a call, from JSON, a form, the query, or several of them.

use axum::{
    body::Body,
    extract::{FromRequest, Query},
    http::Request,
};
use bytes::Bytes;
use http::{HeaderMap, Uri, header};
use serde_json::{Map, Value, json, value::RawValue};

use super::answer::{ApiRefusal, raw};
use crate::harness::form;

type Pairs = Vec<(String, String)>;

/// Parameters by name. In forms every value is text, so numbers, flags and objects are parsed from text
/// too.
#[derive(Default)]
pub(super) struct Params(Map<String, Value>, Option<UploadedFile>);

/// The file of a form.
pub(super) struct UploadedFile {
    /// The field that holds it.
    pub field: String,
    pub name: String,
    pub content: Bytes,
}

impl Params {
    /// Reads the query, then the body, which takes precedence.
    pub async fn read(uri: &Uri, headers: &HeaderMap, body: Bytes) -> Result<Params, ApiRefusal> {
        let mut params = Params::query(uri)?;
        if body.is_empty() {
            return Ok(params);
        }
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        let kind = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        match kind.as_str() {
            "multipart/form-data" => params.read_multipart(headers, &body)?,
            "application/json" => match serde_json::from_slice(&body) {
                Ok(Value::Object(fields)) => params.0.extend(fields),
                _ => return Err(ApiRefusal::bad_request("can't parse JSON object")),
            },
            "application/x-www-form-urlencoded" => params.extend(read_form(body).await?),
            _ => return Err(ApiRefusal::bad_request("the stand-in reads JSON and forms only")),
        }
        Ok(params)
    }

    /// Reads the query alone.
    pub fn query(uri: &Uri) -> Result<Params, ApiRefusal> {
        let mut params = Params::default();
        if uri.query().is_some() {
            let Query(pairs) = Query::<Pairs>::try_from_uri(uri)
                .map_err(|_| ApiRefusal::bad_request("can't parse the query"))?;
            params.extend(pairs);
        }
        Ok(params)
    }

    /// The file of the form, if there is one.
    pub fn file(&self) -> Option<&UploadedFile> {
        self.1.as_ref()
    }

    fn read_multipart(&mut self, headers: &HeaderMap, body: &Bytes) -> Result<(), ApiRefusal> {
        let unreadable = || ApiRefusal::bad_request("can't parse the form");
        for part in form::parts(headers, body).ok_or_else(unreadable)? {
            match part.file_name {
                Some(name) => {
                    // The transcript shows what was sent, without the bytes.
                    let described = json!({"file_name": name, "file_size": part.content.len()});
                    self.0.insert(part.name.clone(), described);
                    self.1 = Some(UploadedFile { field: part.name, name, content: part.content });
                }
                None => {
                    let text = String::from_utf8(part.content.to_vec()).map_err(|_| unreadable())?;
                    self.0.insert(part.name, Value::String(text));
                }
            }
        }
        Ok(())
    }

    fn extend(&mut self, pairs: Pairs) {
        self.0.extend(pairs.into_iter().map(|(name, value)| (name, Value::String(value))));
    }

    /// The parameters as received, for the transcript.
    pub fn raw(&self) -> Box<RawValue> {
        raw(&self.0)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    pub fn integer(&self, name: &str) -> Option<i64> {
        integer(self.0.get(name)?)
    }

    /// True for `true`, `True` and `1`.
    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(flag)
    }

    /// A list or object, also if it came as JSON in a form field. Invalid text is `Err`.
    pub fn structure(&self, name: &str) -> Result<Option<Value>, ApiRefusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => serde_json::from_str(text)
                .map(Some)
                .map_err(|_| ApiRefusal::bad_request(format!("can't parse {name} JSON object"))),
            Some(value) => Ok(Some(value.clone())),
        }
    }

    /// A list of names. Absent is `None`, and invalid text is `Err`.
    pub fn names(&self, name: &str) -> Result<Option<Vec<String>>, ApiRefusal> {
        let Some(value) = self.structure(name)? else { return Ok(None) };
        serde_json::from_value(value)
            .map(Some)
            .map_err(|_| ApiRefusal::bad_request(format!("can't parse {name} JSON object")))
    }
}

/// A number, or a number in text.
pub(super) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// True for `true`, `"true"`, `"True"` and 1 in either form.
pub(super) fn flag(value: &Value) -> bool {
    match value {
        Value::Bool(set) => *set,
        Value::String(text) => text.eq_ignore_ascii_case("true") || text == "1",
        other => other.as_i64() == Some(1),
    }
}

async fn read_form(body: Bytes) -> Result<Pairs, ApiRefusal> {
    let unreadable = || ApiRefusal::bad_request("can't parse the form");
    let request = Request::post("/")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Body::from(body))
        .map_err(|_| unreadable())?;
    let axum::Form(pairs) =
        axum::Form::<Pairs>::from_request(request, &()).await.map_err(|_| unreadable())?;
    Ok(pairs)
}
