//! Remote stores by the command line: the example in Python, its secret, and data through the client of the SDK.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use posthouse_agent::post::{ApiCredential, Client, DataQuery, Fault, NewData};
use posthouse_wire::Secret;
use serde_json::json;

use crate::post_cli::{fails, settled};
use crate::test_server::{TestServer, files};

/// The bytes of this secret appear nowhere else.
const SECRET: &str = "canary-of-the-remote-store-4f1d";

struct Example {
    child: Child,
    url: String,
}

impl Example {
    fn start(server: &TestServer) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/store.py");
        let mut child = Command::new("python3")
            .arg(script)
            .arg(server.dir.path().join("store.db"))
            .arg("0")
            .env("POSTHOUSE_STORE_SECRET", SECRET)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("listening on ").unwrap();
        Self { url: format!("http://127.0.0.1:{port}/"), child }
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client(server: &TestServer) -> Client {
    let made = server.does(&["client", "create", "--tenant", "acme"]);
    let text = |member: &str| made[member].as_str().unwrap().to_owned();
    let secret = Secret::new(text("client_secret"));
    Client::new(&server.url, ApiCredential::Client { id: text("client_id"), secret }).patience(Duration::ZERO)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_uses_a_store_elsewhere_and_its_secret_is_shown_nowhere() {
    let (mut server, _) = settled();
    let example = Example::start(&server);
    let secret = server.secret_file("remote.secret", SECRET);
    let (code, said) = fails(&server, &["tenant", "set", "acme", "--skill-store", &example.url]);
    assert!(code == 1 && said.contains("needs a secret"), "{said}");
    for kind in ["skill", "data"] {
        let (store, file) = (format!("--{kind}-store"), format!("--{kind}-store-hmac-secret-file"));
        let set = server.does(&["tenant", "set", "acme", &store, &example.url, &file, &secret]);
        assert_eq!(set[format!("{kind}_store")], example.url);
        assert_eq!(set["store_problems"], json!(null), "{set}");
        assert!(!set.to_string().contains(SECRET));
    }
    assert!(!server.does(&["tenant", "show", "acme"]).to_string().contains(SECRET));
    let skill = server.secret_file("tide.skill.md", "# Skill: tide\n# Status: Approved\n");
    server.does(&["skill", "write", "tide", &skill, "--tenant", "acme"]);
    assert_eq!(server.does(&["skill", "list", "--tenant", "acme"])["items"][0]["name"], "tide");

    let client = client(&server);
    let new = NewData { tags: vec!["sea".into()], ..NewData::new("Harbour opened early\nat five") };
    let written = client.write_data(&new).await.unwrap();
    let entry = client.data_entry(&written.id).await.unwrap();
    assert_eq!((entry.summary.as_str(), entry.created_at), ("Harbour opened early", written.created_at));
    let mut query = DataQuery::new("harbour");
    query.filters.insert("domain_tags".into(), json!("sea"));
    assert_eq!(client.query_data(&query).await.unwrap()[0].id, written.id);
    query.filters.insert("vault".into(), json!("x"));
    let Err(Fault::Refused { code, .. }) = client.query_data(&query).await else {
        panic!("a filter was ignored")
    };
    assert_eq!(code, "unsupported_filter");
    assert_eq!(client.data(None, None).await.unwrap().items.len(), 1);
    assert_eq!(client.data_store().await.unwrap()["implementation"], "RemoteDataStore");

    // Without the store, the operator and the callers are told, and nothing hangs.
    drop(example);
    let dead = server.does(&["tenant", "set", "acme", "--skill-store-hmac-secret-file", &secret]);
    assert!(dead["store_problems"].to_string().contains("was not reached"), "{dead}");
    let Err(Fault::Refused { code, .. }) = client.data_entry(&written.id).await else { panic!("it is gone") };
    assert_eq!(code, "store_unreachable");
    server.stop();
    for (file, content) in files(&server.folder()) {
        let found = content.windows(SECRET.len()).any(|bytes| bytes == SECRET.as_bytes());
        assert!(!found || file.ends_with("remote.secret"), "{file:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_of_a_tenant_has_a_limit_that_the_operator_sets_and_sees() {
    let (server, _) = settled();
    let set = server.does(&["tenant", "set", "acme", "--data-bytes", "3000"]);
    assert_eq!((&set["data_limit_bytes"], &set["data_limit"]), (&json!(3000), &json!("tenant")));
    let client = client(&server);
    let refused = async {
        loop {
            match client.write_data(&NewData::new("x".repeat(500))).await {
                Ok(_) => {}
                Err(Fault::Refused { code, .. }) => break code,
                Err(fault) => panic!("{fault}"),
            }
        }
    };
    assert_eq!(refused.await, "quota_exceeded");
    let shown = server.does(&["tenant", "show", "acme"]);
    assert!(shown["data_used_bytes"].as_i64().is_some_and(|used| used > 500), "{shown}");
    let set = server.does(&["tenant", "set", "acme", "--data-bytes", "default"]);
    assert_eq!(
        (&set["data_limit_bytes"], &set["data_limit"]),
        (&json!(10_737_418_240_i64), &json!("default"))
    );
    client.write_data(&NewData::new("fits again")).await.unwrap();
}
