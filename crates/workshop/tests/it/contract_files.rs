//! The recorded contract files: every one is compared by a test.

use std::collections::BTreeSet;
use std::path::Path;

use crate::recorded;

/// Contract files, and the file below `crates` whose tests compare all of them or a part.
const COMPARED: &[(&str, &str)] = &[
    ("agent-webhook.json", "post/tests/it/webhook_vectors.rs"),
    ("approval.json", "skill/tests/it/approval_vectors.rs"),
    ("connectors-config.json", "workshop/tests/it/connectors_vectors.rs"),
    ("content-hash.json", "skill/tests/it/content_hash_vectors.rs"),
    ("cron.json", "skill/tests/it/trigger_vectors.rs"),
    ("data-store.json", "workshop/tests/it/data_store_vectors.rs"),
    ("header-rewrite.json", "workshop/tests/it/header_rewrite_vectors.rs"),
    ("host-http.json", "posthouse/tests/it/tools/rpc_vectors.rs"),
    ("lint-rules.json", "skill/tests/it/lint_vectors.rs"),
    ("mcp-http-client.json", "workshop/src/tools/mcp/tests/http_client_vectors.rs"),
    ("mcp-wire.json", "posthouse/tests/it/tools/rpc_vectors.rs"),
    ("store-filesystem.json", "workshop/tests/it/store_vectors.rs"),
    ("store-sqlite.json", "workshop/tests/it/store_vectors.rs"),
    ("trace-record.json", "skill/tests/it/trigger_vectors.rs"),
    ("trace-sampling.json", "skill/tests/it/trigger_vectors.rs"),
    ("version-token.json", "workshop/tests/it/version_token_vectors.rs"),
];

#[test]
fn vectors_every_contract_file_is_compared() {
    let known: BTreeSet<&str> = COMPARED.iter().map(|(file, _)| *file).collect();
    let files = recorded::contract_files();
    let unknown: Vec<&String> = files.iter().filter(|file| !known.contains(file.as_str())).collect();
    assert!(unknown.is_empty(), "no test compares {unknown:?}");
    if recorded::is_own_folder() {
        let gone: Vec<&&str> = known.iter().filter(|file| !files.iter().any(|it| it == **file)).collect();
        assert!(gone.is_empty(), "there is no {gone:?}");
    }
    for (file, by) in COMPARED {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(by);
        let tests = std::fs::read_to_string(&tests).unwrap_or_else(|fault| panic!("{by}: {fault}"));
        assert!(
            by.contains("_vectors") || tests.contains("_vectors") || tests.contains("vectors_"),
            "{by} has no test of vectors"
        );
        assert!(tests.contains(&format!("{file}\"")), "{by} does not read {file}");
        println!("{file}: {by}");
    }
}
