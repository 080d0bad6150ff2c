//! `connectors.json` of the reference runtime, compared with recorded results (`connectors-config.json`).

use serde_json::{Value, json};
use workshop::ConnectorsFile;

use crate::recorded::{contract, list};

#[test]
fn vectors_connectors_config_are_read_as_recorded() {
    for case in list(&contract("connectors-config.json")) {
        let label = &case["label"];
        let variable = |name: &str| case["env"][name].as_str().map(str::to_owned);
        let read = match case.get("file") {
            Some(file) => ConnectorsFile::read(&file.to_string(), &variable),
            None if label == "malformed" => ConnectorsFile::read("{x", &variable),
            None => ConnectorsFile::default(),
        };
        let connectors: Vec<Value> = read
            .connectors
            .iter()
            .map(|connector| {
                json!({
                    "name": connector.name,
                    "class": connector.class.word(),
                    "config": connector.config,
                    "allowedTools": connector.allowed_tools,
                })
            })
            .collect();
        if let Some(expected) = case.get("connectors") {
            assert_eq!(json!(connectors), *expected, "{label}");
        }
        if let Some(expected) = case.get("substrate") {
            assert_eq!(json!(read.substrate), *expected, "{label}");
        }
        // The texts of errors are ours; each names the entry that the recorded one names.
        let recorded = case["errors"].as_array().unwrap();
        assert_eq!(read.errors.len(), recorded.len(), "{label}: {:?}", read.errors);
        for recorded in recorded.iter().filter_map(Value::as_str) {
            let entry = recorded.split('\'').nth(1).filter(|_| recorded.contains("entry '"));
            let slot = recorded.split("substrate.").nth(1).and_then(|rest| rest.split(' ').next());
            if let Some(name) = entry.or(slot) {
                assert!(read.errors.iter().any(|error| error.contains(name)), "{label}: {:?}", read.errors);
            }
        }
    }
}

#[test]
fn a_model_with_an_openai_compatible_api_can_be_configured_beside_ollama() {
    let file =
        json!({ "substrate": { "local_model": { "type": "openai", "config": { "apiKey": "${KEY}" } } } });
    let read = ConnectorsFile::read(&file.to_string(), &|_| Some("k".to_owned()));
    assert_eq!(read.errors, Vec::<String>::new());
    assert_eq!(read.slot("local_model").unwrap()["config"]["apiKey"], "k");
}
