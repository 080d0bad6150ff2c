//! OpenAPI document of the post's HTTP API.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde_json::{Value, json};

use crate::routes::Door;

/// Written by hand. Version, server URL and token URL are filled in.
const DOCUMENT: &str = include_str!("openapi.json");

/// The document for a server with this public URL.
pub(crate) fn document(public_url: &str) -> Bytes {
    let mut document: Value =
        serde_json::from_str(DOCUMENT).expect("openapi.json is valid JSON, as a test checks");
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    document["servers"] = json!([{ "url": public_url }]);
    let flow = &mut document["components"]["securitySchemes"]["access_token"]["flows"]["clientCredentials"];
    flow["tokenUrl"] = format!("{public_url}/oauth/token").into();
    Bytes::from(document.to_string())
}

/// Public: the document describes the API and reveals nothing about tenants.
pub(crate) async fn show(State(door): State<Door>) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "public, max-age=300")];
    (headers, door.description.clone()).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::routes::OPERATIONS;

    const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

    fn read() -> Value {
        serde_json::from_slice(&document("https://house.example/under")).unwrap()
    }

    fn described(document: &Value) -> Vec<(String, String, Value)> {
        let paths = document["paths"].as_object().unwrap();
        let methods = paths.iter().flat_map(|(path, item)| {
            let methods =
                item.as_object().unwrap().iter().filter(|(name, _)| METHODS.contains(&name.as_str()));
            methods.map(move |(name, told)| (name.to_uppercase(), path.clone(), told.clone()))
        });
        methods.collect()
    }

    fn references<'d>(value: &'d Value, found: &mut Vec<&'d str>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str));
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_operation_is_described_and_nothing_else_is() {
        let mounted: BTreeSet<_> =
            OPERATIONS.iter().map(|one| (one.method.to_owned(), one.path.to_owned())).collect();
        let told: BTreeSet<_> =
            described(&read()).into_iter().map(|(method, path, _)| (method, path)).collect();
        assert_eq!(told, mounted);
    }

    #[test]
    fn an_operation_is_described_with_its_names_answers_and_whether_it_asks_for_a_credential() {
        let mut ids = BTreeSet::new();
        for (method, path, told) in described(&read()) {
            let one = OPERATIONS.iter().find(|one| one.method == method && one.path == path).unwrap();
            assert!(ids.insert(told["operationId"].as_str().unwrap().to_owned()), "{path}");
            assert!(told["summary"].is_string(), "{path}");
            // In OpenAPI an empty list means that this operation needs no credential.
            assert_eq!(told["security"] != json!([]), one.credential, "{path}");
            let answers = told["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with('2')), "{path}");
            assert_eq!(answers.contains_key("401"), one.credential || path.contains("replies"), "{path}");
            let named: Vec<_> = path.split('/').filter_map(|part| part.strip_prefix('{')).collect();
            let parameters = told["parameters"].as_array().cloned().unwrap_or_default();
            let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(in_path, named.len(), "{path}");
            assert_eq!(told["requestBody"].is_object(), method == "POST", "{path}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_schema_is_used() {
        let document = read();
        let mut found = Vec::new();
        references(&document, &mut found);
        for reference in &found {
            let target = reference.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
            assert!(target.is_some(), "{reference}");
        }
        for section in ["schemas", "responses", "parameters"] {
            for name in document["components"][section].as_object().unwrap().keys() {
                assert!(found.contains(&format!("#/components/{section}/{name}").as_str()), "{name}");
            }
        }
    }

    #[test]
    fn the_description_names_the_house_it_came_from() {
        let document = read();
        assert_eq!(document["openapi"], "3.1.0");
        assert_eq!(document["servers"][0]["url"], "https://house.example/under");
        let scheme = &document["components"]["securitySchemes"]["access_token"];
        let flow = &scheme["flows"]["clientCredentials"];
        assert_eq!(flow["tokenUrl"], "https://house.example/under/oauth/token");
    }
}
