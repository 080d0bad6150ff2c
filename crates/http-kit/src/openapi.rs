//! The OpenAPI document: merged from a base and one fragment per plane.
//!
//! A fragment is an OpenAPI document in JSON with `paths`, `components` and `tags`. It may refer to components of the
//! base (`openapi/base.json`), such as the schema `Problem`. These members of a fragment shorten it:
//!
//! - `security`: the default of its operations, not of the whole document.
//! - `x-responses`: responses that each of its operations has besides its own.
//! - `x-body-responses`: the same for its operations with a request body.

mod check;

pub use check::{check_document, check_fragment};

use serde_json::{Map, Value, json};

/// What all planes share: information about the API, security schemes, the schema `Problem`, and the responses of the
/// listener.
const BASE: &str = include_str!("openapi/base.json");

/// The methods that a path item can have here.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Why fragments do not fit together. Tests check that the fragments of a build do.
#[derive(Debug, thiserror::Error)]
pub enum MergeFault {
    #[error("a fragment is not valid JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("{0} is described twice, differently")]
    Twice(String),
}

/// The document for a server with this version and public URL.
pub fn merge(fragments: &[&str], version: &str, public_url: &str) -> Result<Value, MergeFault> {
    let mut document: Value = serde_json::from_str(BASE)?;
    for fragment in fragments {
        add(&mut document, serde_json::from_str(fragment)?)?;
    }
    document["info"]["version"] = version.into();
    document["servers"] = json!([{ "url": public_url }]);
    let public_url = public_url.trim_end_matches('/');
    let flow = &mut document["components"]["securitySchemes"]["access_token"]["flows"]["clientCredentials"];
    flow["tokenUrl"] = format!("{public_url}/oauth/token").into();
    Ok(document)
}

fn add(document: &mut Value, mut fragment: Value) -> Result<(), MergeFault> {
    spread_defaults(&mut fragment);
    if let (Some(tags), Value::Array(more)) = (document["tags"].as_array_mut(), fragment["tags"].take()) {
        tags.extend(more);
    }
    unite("paths", &mut document["paths"], fragment["paths"].take())?;
    let Value::Object(sections) = fragment["components"].take() else { return Ok(()) };
    for (section, components) in sections {
        unite(&section, &mut document["components"][&section], components)?;
    }
    Ok(())
}

/// Adds named entries to an object. The same entry twice is fine.
fn unite(section: &str, into: &mut Value, entries: Value) -> Result<(), MergeFault> {
    let Value::Object(entries) = entries else { return Ok(()) };
    if into.is_null() {
        *into = json!({});
    }
    for (name, entry) in entries {
        match into.get(&name) {
            Some(known) if *known != entry => return Err(MergeFault::Twice(format!("{section}/{name}"))),
            _ => into[&name] = entry,
        }
    }
    Ok(())
}

/// Writes the defaults of a fragment into each of its operations.
fn spread_defaults(fragment: &mut Value) {
    let security = fragment["security"].take();
    let (every, with_body) = (fragment["x-responses"].take(), fragment["x-body-responses"].take());
    let Some(paths) = fragment["paths"].as_object_mut() else { return };
    for operation in paths.values_mut().flat_map(operations_mut) {
        if operation.get("security").is_none() && !security.is_null() {
            operation.insert("security".to_owned(), security.clone());
        }
        add_responses(operation, &every);
        if operation.contains_key("requestBody") {
            add_responses(operation, &with_body);
        }
    }
}

fn operations_mut(item: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let members = item.as_object_mut().into_iter().flat_map(Map::iter_mut);
    members
        .filter(|(name, _)| METHODS.contains(&name.as_str()))
        .filter_map(|(_, value)| value.as_object_mut())
}

fn add_responses(operation: &mut Map<String, Value>, more: &Value) {
    let Some(more) = more.as_object() else { return };
    let responses = operation.entry("responses").or_insert_with(|| json!({}));
    for (status, response) in more {
        if responses.get(status).is_none() {
            responses[status] = response.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THINGS: &str = r##"{
        "tags": [{ "name": "things", "description": "Things." }],
        "security": [{ "client": [] }],
        "x-responses": { "500": { "$ref": "#/components/responses/fault" } },
        "x-body-responses": { "408": { "$ref": "#/components/responses/too_slow" } },
        "paths": { "/things": {
            "get": { "operationId": "list", "responses": { "200": { "description": "All." } } },
            "post": {
                "operationId": "make", "security": [], "requestBody": { "content": {} },
                "responses": { "500": { "description": "Broken." } }
            }
        } }
    }"##;

    #[test]
    fn defaults_of_a_fragment_apply_to_its_operations_alone() {
        let document = merge(&[THINGS], "1.2.3", "https://house.example/under").unwrap();
        let (list, make) = (&document["paths"]["/things"]["get"], &document["paths"]["/things"]["post"]);
        assert_eq!(list["security"], json!([{ "client": [] }]));
        assert_eq!(make["security"], json!([]));
        assert!(list["responses"]["408"].is_null() && list["responses"]["500"]["$ref"].is_string());
        assert_eq!(make["responses"]["500"]["description"], "Broken.");
        assert!(make["responses"]["408"].is_object());
        assert!(document["security"].is_null() && document["x-responses"].is_null());
    }

    #[test]
    fn the_document_names_the_server_it_comes_from() {
        let document = merge(&[], "1.2.3", "https://house.example/under").unwrap();
        assert_eq!((&document["openapi"], &document["info"]["version"]), (&json!("3.1.0"), &json!("1.2.3")));
        assert_eq!(document["servers"][0]["url"], "https://house.example/under");
        let flow = &document["components"]["securitySchemes"]["access_token"]["flows"]["clientCredentials"];
        assert_eq!(flow["tokenUrl"], "https://house.example/under/oauth/token");
    }

    #[test]
    fn two_fragments_cannot_describe_one_thing_differently() {
        let other = r#"{ "paths": { "/things": { "get": { "operationId": "other" } } } }"#;
        assert!(merge(&[THINGS, THINGS], "1", "/").is_ok());
        let refused = merge(&[THINGS, other], "1", "/").unwrap_err();
        assert_eq!(refused.to_string(), "paths//things is described twice, differently");
        assert!(merge(&["{"], "1", "/").is_err());
    }
}
