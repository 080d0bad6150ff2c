//! Permission matrix of runs and events: every operation with the credentials of others. A tenant sees all its runs, an
//! agent only those that it asked for.

use serde_json::{Value, json};

use super::actors::{Actors, Owner, RecordedResponse};
use super::{Cells, Name};
use crate::receiver::Receiver;
use crate::test_server::TestServer;
use crate::tools::ToolClient;

const SKILL: &str = "# Skill: ebb\n# Status: Approved\n# Triggers: event: ebb.tide\ngo:\n    emit(text=\"low\")\ndefault: go\n";

/// The path and body of an operation; none if it is missing here.
fn ask(method: &str, at: &str, run: &str, event: &str) -> Option<(String, Option<Value>)> {
    match (method, at) {
        ("GET", "/v1/runs") => Some((at.to_owned(), None)),
        ("GET", "/v1/runs/{run}") => Some((format!("/v1/runs/{run}"), None)),
        ("POST", "/v1/runs/{run}/cancel") => Some((format!("/v1/runs/{run}/cancel"), None)),
        ("POST", "/v1/events/{name}") => Some((format!("/v1/events/{event}"), Some(json!({})))),
        ("POST", "/event") => Some((at.to_owned(), Some(json!({ "event_name": event })))),
        _ => None,
    }
}

pub async fn fill(actors: &Actors, cells: &mut Cells) {
    let write = json!({ "source": SKILL });
    let written = actors.asks(&actors.acme, "PUT", "/v1/skills/ebb", Some(&write), None).await;
    assert_eq!(written.status, 200, "{}", written.whole());
    let sent = actors.asks(&actors.acme, "POST", "/v1/events/ebb.tide", Some(&json!({})), None).await;
    assert_eq!(sent.status, 202, "{}", sent.whole());
    let run = Name::of_id(sent.json()["run_id"].as_str().unwrap());
    let event = Name::new("ebb.tide", "ebb.tyde");
    for operation in workshop::RUN_OPERATIONS {
        let (method, at) = (operation.method, operation.path);
        assert!(operation.credential, "{at}");
        let strangers = actors.other_tenants.iter().chain(&actors.revoked).chain(&actors.unknown);
        // Agents of the tenant may send events, and see only the runs that they asked for.
        let own_agents = actors.other_instances.iter().filter(|_| at.starts_with("/v1/runs"));
        for owner in strangers.chain(own_agents) {
            let (mut heard, mut refused) = (Vec::new(), true);
            for is_there in [true, false] {
                let Some((path, body)) = ask(method, at, run.form(is_there), event.form(is_there)) else {
                    panic!("{method} {at} has no row: how is a run asked for?");
                };
                let answer = actors.asks(owner, method, &path, body.as_ref(), None).await;
                refused &= is_refused(actors, at, owner, &answer);
                heard.push(event.without(is_there, &run.without(is_there, &answer.whole())));
            }
            let what = format!("{method} {at} by {}", owner.who);
            cells.cell("/v1/runs", &what, refused, &heard[0], &heard[1]);
        }
    }
    let shown = actors.asks(&actors.acme, "GET", &format!("/v1/runs/{}", run.there), None, None).await;
    assert_eq!((shown.status, &shown.json()["skill"]), (200, &json!("ebb")), "{}", shown.whole());
}

fn is_refused(actors: &Actors, at: &str, owner: &Owner, heard: &RecordedResponse) -> bool {
    let is = |list: &[Owner]| list.iter().any(|known| known.who == owner.who);
    if is(&actors.revoked) || is(&actors.unknown) {
        return heard.status == 401;
    }
    if owner.who.ends_with("in heron's name") && !owner.who.contains("program") {
        return heard.status == 403;
    }
    match at {
        "/v1/runs" => heard.status == 200 && heard.json() == json!({ "items": [] }),
        _ => heard.status == 404,
    }
}

/// The result of a tool at `/rpc`, where a tenant's program may approve.
async fn calls(client: &ToolClient, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let (_, _, answer) = client.post("/rpc", &[], &body.to_string()).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    serde_json::from_str(text).unwrap()
}

/// An approved skill with one target.
async fn writes(client: &ToolClient, name: &str, ops: &str) {
    let source = format!("# Skill: {name}\n# Status: Approved\ngo:\n{ops}\ndefault: go\n");
    let written =
        calls(client, "skill_write", json!({ "name": name, "source": source, "overwrite": true })).await;
    assert_eq!(written["status"], "Approved", "{written}");
}

async fn runs(client: &ToolClient, name: &str, ops: &str) -> Value {
    writes(client, name, ops).await;
    calls(client, "execute_skill", json!({ "name": name })).await
}

/// What the skills of one tenant reach of another: its skills, its folders, its model with the key.
pub async fn reach(cells: &mut Cells) {
    let receiver = Receiver::open().await;
    let folders = tempfile::tempdir().unwrap();
    let root = folders.path().canonicalize().unwrap();
    let server = TestServer::open(&[("POSTHOUSE_WORKSHOP__FILE_ROOTS", root.to_str().unwrap())]);
    let client = |tenant: &str| {
        server.does(&["tenant", "create", tenant]);
        let folder = root.join(tenant);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("letter"), format!("letter of {tenant}")).unwrap();
        let change = ["run-settings", "change", "--tenant", tenant, "--folder", folder.to_str().unwrap()];
        server.does(&change);
        ToolClient::create(&server, &["--tenant", tenant])
    };
    let (acme, umbrella) = (client("acme"), client("umbrella"));
    let model = |config: Value| {
        let file = json!({ "substrate": { "local_model": { "type": "openai", "config": config } } });
        server.secret_file("connectors.json", &file.to_string())
    };
    let key = "key-of-acme-for-its-model";
    let url = receiver.at("model");
    let file = model(json!({ "baseUrl": url, "defaultModelTag": "m", "apiKey": key }));
    server.does(&["run-settings", "change", "--tenant", "acme", "--connectors", &file]);
    writes(&acme, "ebb", "    emit(text=\"low\")").await;
    let own = runs(&acme, "all", &everything(&root.join("acme/letter").display().to_string())).await;
    assert_eq!(own["transcript"], json!(["low", "letter of acme"]), "{own}");
    let asked = receiver.calls().into_iter().filter(|call| call.headers.contains_key("authorization"));
    assert_eq!(asked.count(), 1, "acme's own run asks its model with its key");

    let skill = Name::new("ebb", "abb");
    let mut heard = Vec::new();
    for is_there in [true, false] {
        let ops =
            format!("    $ execute_skill name=\"{}\" -> R\n    emit(text=\"${{R}}\")", skill.form(is_there));
        let run = runs(&umbrella, "probe", &ops).await;
        heard.push((run["transcript"] == json!([]), skill.without(is_there, &errors(&run))));
    }
    let refused =
        heard.iter().all(|(nothing, errors)| *nothing && errors.contains("no such skill is stored"));
    cells.cell("reach of runs", "a skill of acme by a skill of umbrella", refused, &heard[0].1, &heard[1].1);

    std::os::unix::fs::symlink(root.join("acme/letter"), root.join("umbrella/link-2")).unwrap();
    std::os::unix::fs::symlink(root.join("acme/nobody"), root.join("umbrella/link-3")).unwrap();
    for (there, absent) in [
        (root.join("acme/letter"), root.join("acme/nobody")),
        (root.join("umbrella/../acme/letter"), root.join("umbrella/../acme/nobody")),
        (root.join("umbrella/link-2"), root.join("umbrella/link-3")),
    ] {
        let path = Name::new(there.to_str().unwrap(), absent.to_str().unwrap());
        for op in ["file_read(path=\"PATH\")", "file_write(path=\"PATH\", content=\"x\", approved=\"yes\")"] {
            let mut heard = Vec::new();
            for is_there in [true, false] {
                let run =
                    runs(&umbrella, "probe", &format!("    {}", op.replace("PATH", path.form(is_there))))
                        .await;
                heard.push(path.without(is_there, &errors(&run)));
            }
            let refused = heard[0].contains("FilePathNotAllowedError");
            cells.cell(
                "reach of runs",
                &format!("{op} of {} by umbrella", path.there),
                refused,
                &heard[0],
                &heard[1],
            );
        }
    }
    assert_eq!(std::fs::read_to_string(root.join("acme/letter")).unwrap(), "letter of acme");
    assert!(!root.join("acme/nobody").exists());

    // Without a model of its own it asks none, and with one it sends no key of somebody else.
    let before = receiver.calls().len();
    let ops = "    $ llm prompt=\"hello\" -> R\n    emit(text=\"${R}\")";
    let run = runs(&umbrella, "probe", ops).await;
    let refused = run["transcript"] == json!([]) && receiver.calls().len() == before;
    cells.cell("reach of runs", "the model of acme by umbrella", refused, "", "");
    let file = model(json!({ "baseUrl": url, "defaultModelTag": "m" }));
    server.does(&["run-settings", "change", "--tenant", "umbrella", "--connectors", &file]);
    runs(&umbrella, "probe", ops).await;
    let asked = &receiver.calls()[before..];
    let refused = asked.len() == 1 && !asked[0].headers.contains_key("authorization");
    cells.cell("reach of runs", "the key of acme's model by umbrella", refused, "", "");
}

/// Runs a skill, reads a file, and asks the model.
fn everything(letter: &str) -> String {
    format!(
        "    $ execute_skill name=\"ebb\" -> R\n    emit(text=\"${{R.outputs.text}}\")\n    \
         file_read(path=\"{letter}\") -> L\n    emit(text=\"${{L}}\")\n    $ llm prompt=\"hello\" -> M"
    )
}

fn errors(run: &Value) -> String {
    run["errors"].to_string()
}
