//! Commands for skills: writing, approving with a key of this machine, revoking it, deleting and restoring.

use std::process::Output;

use serde_json::{Value, json};

use crate::post_cli::{err, fails, out, settled, types};
use crate::test_server::{TestServer, files};

/// The bytes of this key appear nowhere else.
pub const PRIVATE_KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----
";
pub const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=
-----END PUBLIC KEY-----
";
/// The end of the private key in base64, and its bytes.
pub const IN_BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

const SKILL: &str = "# Skill: tide-watch\n# Description: Watches the tide\ngo:\n    shell(command=\"curl tide\")\nelse:\n    \
                     notify(agent=\"desk\", message=\"no tide\")\n";

fn skill(server: &TestServer, words: &[&str]) -> Value {
    server.does(&[&["skill"], words, &["--tenant", "acme"]].concat())
}

fn text(server: &TestServer, words: &[&str], env: &[(&str, &str)]) -> Output {
    types(server, &[&["skill"], words, &["--tenant", "acme"]].concat(), None, env)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_is_signed_on_the_operators_machine_and_stops_passing_with_its_key() {
    let (mut server, _) = settled();
    let source = server.secret_file("tide-watch.skill.md", SKILL);
    let (key, public) =
        (server.secret_file("approval.key", PRIVATE_KEY), server.secret_file("approval.pub", PUBLIC_KEY));
    server.does(&["tenant", "set", "acme", "--approval", "signed"]);
    let added = server.does(&["approval-key", "add", "--tenant", "acme", "--public-key-file", &public]);
    let id = added["key_id"].as_str().unwrap().to_owned();
    assert_eq!(skill(&server, &["write", "tide-watch", &source])["status"], "Draft");
    let (code, said) = fails(&server, &["skill", "status", "tide-watch", "Approved", "--tenant", "acme"]);
    assert!(code == 1 && said.contains("not signed"), "{said}");

    // What it touches is shown in plain words, error blocks included, and nothing happens without a yes.
    let env = [("SKILLSCRIPT_APPROVAL_KEY_FILE", key.as_str())];
    let asked = text(&server, &["approve", "tide-watch"], &env);
    assert!(!asked.status.success() && err(&asked).contains("--yes"), "{}", err(&asked));
    assert!(out(&asked).contains("runs the programs curl"), "{}", out(&asked));
    assert!(out(&asked).contains("sends messages to agents (once)"), "{}", out(&asked));
    let approved = text(&server, &["approve", "tide-watch", "--yes"], &env);
    assert!(approved.status.success(), "{}", err(&approved));
    assert_eq!(skill(&server, &["verify"])["items"][0]["passes"], true);
    assert!(
        skill(&server, &["show", "tide-watch"])["source"]
            .as_str()
            .unwrap()
            .contains("# Status: Approved v3:")
    );

    server.does(&["approval-key", "revoke", &id, "--tenant", "acme"]);
    let (code, said) = fails(&server, &["skill", "verify", "tide-watch", "--tenant", "acme"]);
    assert!(code == 1 && said.contains("does not pass"), "{said}");
    assert_eq!(skill(&server, &["reapprove"])["items"], json!([{ "name": "tide-watch" }]));
    let back = server.tries(&["approval-key", "add", "--tenant", "acme", "--public-key-file", &public]);
    assert!(!back.status.success(), "a revoked key came back");
    server.does(&["tenant", "set", "acme", "--approval", "open"]);
    assert_eq!(skill(&server, &["verify"])["items"][0]["passes"], true);

    let log = server.does(&["approval-key", "log", "--tenant", "acme"]);
    let events: Vec<&str> =
        log["items"].as_array().unwrap().iter().map(|row| row["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["approved", "refused"], "{log}");
    assert_eq!(log["items"][0]["key_id"], json!(id));

    // The private key is in the file of the operator and nowhere else.
    server.stop();
    let seed: Vec<u8> = (0..32).collect();
    for (file, content) in files(&server.folder()) {
        let has = |needle: &[u8]| content.windows(needle.len()).any(|window| window == needle);
        let is_key = file.ends_with("approval.key");
        assert!(is_key || !has(IN_BASE64.as_bytes()), "{}", file.display());
        assert!(!has(&seed), "{}", file.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_skill_is_confirmed_checked_for_dependents_and_restored() {
    let (server, _) = settled();
    let source = server.secret_file("tide-watch.skill.md", SKILL);
    let caller = server.secret_file("day.skill.md", "go:\n    $ execute_skill skill_name='tide-watch'\n");
    skill(&server, &["write", "tide-watch", &source]);
    skill(&server, &["write", "day", &caller]);
    assert_eq!(skill(&server, &["list"])["items"].as_array().unwrap().len(), 2);
    for (words, said) in [
        (&["delete", "tide-watch", "--yes"][..], "used by day"),
        (&["delete", "tide-watch", "--force"], "--yes"),
        (&["delete", "ghost", "--yes"], "Skill not found: 'ghost'"),
        (&["write", "../tide", &source], "Storage conflict"),
        (&["write", "tide-watch", &source, "--new"], "the skill exists"),
    ] {
        let refused = text(&server, words, &[]);
        assert!(!refused.status.success() && err(&refused).contains(said), "{words:?}: {}", err(&refused));
    }
    skill(&server, &["status", "tide-watch", "Disabled"]);
    skill(&server, &["delete", "tide-watch", "--force", "--yes"]);
    assert_eq!(skill(&server, &["list", "--deleted"])["items"][0]["name"], "tide-watch");
    assert_eq!(skill(&server, &["restore", "tide-watch"])["status"], "Disabled");
    assert_eq!(skill(&server, &["history", "tide-watch"])["items"].as_array().unwrap().len(), 2);
}
