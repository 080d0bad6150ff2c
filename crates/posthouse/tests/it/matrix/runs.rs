//! Permission matrix of runs and events: every operation with the credentials of others. A tenant sees all its runs, an
//! agent only those that it asked for.

use serde_json::{Value, json};

use super::actors::{Actors, Owner, RecordedResponse};
use super::{Cells, Name};

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
