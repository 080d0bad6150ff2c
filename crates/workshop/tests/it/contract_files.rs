//! The recorded contract files: every one is compared by a test.

use std::collections::BTreeSet;

use crate::recorded;

/// Contract files, and the tests that compare all of them or a part.
const COMPARED: &[(&str, &str)] = &[
    ("agent-webhook.json", "post: webhook_vectors"),
    ("approval.json", "skill: approval_vectors"),
    ("connectors-config.json", "workshop: connectors_vectors"),
    ("content-hash.json", "skill: content_hash_vectors"),
    ("cron.json", "skill: trigger_vectors"),
    ("data-store.json", "workshop: data_store_vectors"),
    ("header-rewrite.json", "workshop: header_rewrite_vectors"),
    ("host-http.json", "posthouse: tools::rpc_vectors"),
    ("lint-rules.json", "skill: lint_vectors"),
    ("mcp-http-client.json", "workshop: http_client_vectors"),
    ("mcp-wire.json", "posthouse: tools::rpc_vectors"),
    ("store-filesystem.json", "workshop: store_vectors"),
    ("store-sqlite.json", "workshop: store_vectors"),
    ("trace-record.json", "skill: trigger_vectors"),
    ("trace-sampling.json", "skill: trigger_vectors"),
    ("version-token.json", "workshop: version_token_vectors"),
];

#[test]
fn vectors_every_contract_file_is_compared() {
    let known: BTreeSet<&str> = COMPARED.iter().map(|(file, _)| *file).collect();
    let files = recorded::contract_files();
    let unknown: Vec<&String> = files.iter().filter(|file| !known.contains(file.as_str())).collect();
    assert!(unknown.is_empty(), "no test compares {unknown:?}");
    for (file, by) in COMPARED {
        println!("{file}: {by}");
    }
}
