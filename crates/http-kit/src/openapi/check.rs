//! Checks of OpenAPI fragments, for tests: they return what is wrong, in words.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{METHODS, merge};
use crate::Operation;

/// What is wrong with the fragment of these operations: an operation that is not described, a description without an
/// operation, or one that lacks something. `beside` are other fragments to whose components it refers.
pub fn check_fragment(fragment: &str, beside: &[&str], operations: &[Operation]) -> Vec<String> {
    let merged = |fragments: &[&str]| merge(fragments, "0", "/");
    let (alone, others) = match (merged(&[fragment]), merged(beside)) {
        (Ok(alone), Ok(others)) => (alone, others),
        (Err(fault), _) | (_, Err(fault)) => return vec![fault.to_string()],
    };
    let whole = match merged(&[beside, &[fragment]].concat()) {
        Ok(whole) => whole,
        Err(fault) => return vec![fault.to_string()],
    };
    let is_of_others = |section: &str, name: &str| others["components"][section].get(name).is_some();
    let mut wrong = check_operations(&alone, &whole, operations);
    wrong.extend(check_references(&whole, is_of_others));
    wrong
}

/// What is wrong with the merged document of these operations.
pub fn check_document(document: &Value, operations: &[Operation]) -> Vec<String> {
    let mut wrong = check_operations(document, document, operations);
    wrong.extend(check_references(document, |_, _| false));
    wrong
}

/// The operations that a document describes: method, path and description.
fn described(document: &Value) -> Vec<(String, &str, &Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let operations = paths.flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flatten();
        let methods = methods.filter(|(name, _)| METHODS.contains(&name.as_str()));
        methods.map(move |(name, operation)| (name.to_uppercase(), path.as_str(), operation))
    });
    operations.collect()
}

/// Checks the operations of a document. Their references lead into the whole.
fn check_operations(document: &Value, whole: &Value, operations: &[Operation]) -> Vec<String> {
    let mut wrong = Vec::new();
    let described = described(document);
    for (at, Operation { method, path, .. }) in operations.iter().enumerate() {
        if !described.iter().any(|(known, at, _)| known == method && at == path) {
            wrong.push(format!("{method} {path} is not described"));
        }
        let same = |other: &Operation| other.method == *method && other.path == *path;
        if operations.iter().take(at).any(same) {
            wrong.push(format!("{method} {path} is listed twice"));
        }
    }
    let mut ids = BTreeSet::new();
    for (method, path, described) in described {
        let mut field_error = |what: &str| wrong.push(format!("{method} {path}: {what}"));
        match operations.iter().find(|one| one.method == method && one.path == path) {
            None => field_error("is described but is not an operation"),
            Some(operation) if operation.credential != asks_for_credential(described) => {
                field_error("`security` does not say whether it requires a credential");
            }
            Some(_) => {}
        }
        let id = described["operationId"].as_str().unwrap_or_default();
        if id.is_empty() || !ids.insert(id) {
            field_error("has no operationId of its own");
        }
        if described["summary"].as_str().is_none_or(str::is_empty) {
            field_error("has no summary");
        }
        let responses = described["responses"].as_object();
        if !responses.is_some_and(|all| all.keys().any(|status| status.starts_with(['1', '2', '3']))) {
            field_error("has no response for success");
        }
        let named: BTreeSet<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
        if parameters(whole, described) != named {
            field_error("the parameters in its path are not those of its description");
        }
    }
    wrong
}

/// Whether every way to call the operation needs a credential. `{}` stands for none.
fn asks_for_credential(described: &Value) -> bool {
    let ways = described["security"].as_array();
    ways.is_some_and(|ways| !ways.is_empty() && !ways.contains(&json!({})))
}

/// The names of the path parameters of an operation.
fn parameters<'d>(document: &'d Value, described: &'d Value) -> BTreeSet<&'d str> {
    let parameters = described["parameters"].as_array().into_iter().flatten();
    let resolved = parameters.map(|parameter| match parameter["$ref"].as_str() {
        Some(reference) => target(document, reference).unwrap_or(parameter),
        None => parameter,
    });
    resolved
        .filter(|parameter| parameter["in"] == "path" && parameter["required"] == true)
        .filter_map(|parameter| parameter["name"].as_str())
        .collect()
}

fn target<'d>(document: &'d Value, reference: &str) -> Option<&'d Value> {
    document.pointer(reference.strip_prefix('#')?)
}

/// References that lead nowhere, and components that nothing refers to and that need not be used.
fn check_references(document: &Value, is_optional: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let (mut found, mut wrong) = (BTreeSet::new(), Vec::new());
    references(document, &mut found);
    for reference in &found {
        if target(document, reference).is_none() {
            wrong.push(format!("{reference} leads nowhere"));
        }
    }
    for section in ["schemas", "responses", "parameters"] {
        for name in document["components"][section].as_object().into_iter().flat_map(|all| all.keys()) {
            let reference = format!("#/components/{section}/{name}");
            if !found.contains(reference.as_str()) && !is_optional(section, name) {
                wrong.push(format!("{reference} is not used"));
            }
        }
    }
    wrong
}

fn references<'d>(value: &'d Value, found: &mut BTreeSet<&'d str>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get("$ref").and_then(Value::as_str));
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THING: Operation = Operation { method: "GET", path: "/things/{name}", credential: true };

    fn fragment(operation: &Value) -> String {
        json!({ "paths": { "/things/{name}": { "get": operation } } }).to_string()
    }

    fn good() -> Value {
        json!({
            "operationId": "show_thing",
            "summary": "Show a thing",
            "security": [{ "client": [] }],
            "parameters": [{ "name": "name", "in": "path", "required": true, "schema": { "type": "string" } }],
            "responses": {
                "200": { "description": "The thing." },
                "500": { "$ref": "#/components/responses/fault" },
            },
        })
    }

    #[test]
    fn a_fragment_that_describes_its_operations_has_nothing_wrong() {
        assert_eq!(check_fragment(&fragment(&good()), &[], &[THING]), Vec::<String>::new());
    }

    #[test]
    fn an_operation_without_description_and_a_description_without_operation_are_found() {
        let other = Operation { path: "/others", ..THING };
        assert_eq!(
            check_fragment(&fragment(&good()), &[], &[THING, other]),
            ["GET /others is not described"]
        );
        let wrong = check_fragment(&fragment(&good()), &[], &[]);
        assert_eq!(wrong, ["GET /things/{name}: is described but is not an operation"]);
        let wrong = check_fragment(&fragment(&good()), &[], &[THING, THING]);
        assert_eq!(wrong, ["GET /things/{name} is listed twice"]);
    }

    #[test]
    fn what_a_description_lacks_is_found() {
        for (member, value, expected) in [
            ("operationId", Value::Null, "has no operationId of its own"),
            ("summary", Value::Null, "has no summary"),
            ("security", json!([]), "`security` does not say whether it requires a credential"),
            (
                "security",
                json!([{ "client": [] }, {}]),
                "`security` does not say whether it requires a credential",
            ),
            ("parameters", json!([]), "the parameters in its path are not those of its description"),
            ("responses", json!({ "404": { "description": "No." } }), "has no response for success"),
        ] {
            let mut described = good();
            described[member] = value;
            let wrong = check_fragment(&fragment(&described), &[], &[THING]);
            assert_eq!(wrong, [format!("GET /things/{{name}}: {expected}")], "{member}");
        }
    }

    #[test]
    fn references_must_lead_somewhere_and_components_must_be_used() {
        let mut described = good();
        described["responses"]["404"] = json!({ "$ref": "#/components/responses/nothing" });
        assert_eq!(
            check_fragment(&fragment(&described), &[], &[THING]),
            ["#/components/responses/nothing leads nowhere"]
        );
        let mut unused: Value = serde_json::from_str(&fragment(&good())).unwrap();
        unused["components"] = json!({ "schemas": { "Thing": { "type": "object" } } });
        assert_eq!(
            check_fragment(&unused.to_string(), &[], &[THING]),
            ["#/components/schemas/Thing is not used"]
        );
    }
}
