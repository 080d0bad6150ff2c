//! Permission matrix of the admin API: every operation, tried by everybody who is not the operator.

use serde_json::{Value, json};

use super::actors::Actors;
use super::{Cells, Name};

/// Values of path parameters, by their name in the router; none for a parameter that is missing here.
fn named(actors: &Actors, parameter: &str) -> Option<Name> {
    Some(match parameter {
        "tenant" => Name::new("acme", "acne"),
        "agent" => actors.instance.clone(),
        "client" => Name::of_id(actors.heron["client_id"].as_str().unwrap()),
        "platform" => Name::new("web", "wed"),
        "bot" => actors.instance.clone(),
        "name" => Name::new("kestrel", "buzzard"),
        "dispatch" => actors.dispatch.clone(),
        "entry" | "id" => actors.entry.clone(),
        "job" => Name::new("job", "jab"),
        "invite" => Name::new("ana", "ann"),
        "token" => Name::new("enr_019a0000", "enr_019a1111"),
        "key" => Name::new("3f0c9d52a1b4e677", "3f0c9d52a1b40000"),
        _ => return None,
    })
}

/// A body that would be valid for the operator. For all others it is not even read.
fn body(method: &str, is_there: bool) -> Option<Value> {
    let tenant = if is_there { "acme" } else { "acne" };
    match method {
        "POST" => Some(json!({ "tenant": tenant, "name": "new", "kind": "noop", "agent": "heron" })),
        "PATCH" => Some(json!({ "peer_post": "none" })),
        _ => None,
    }
}

pub async fn fill(actors: &Actors, cells: &mut Cells) {
    let unknown = actors.unknown.iter().filter(|owner| owner.who != "the admin token");
    let all: Vec<_> = unknown
        .chain(&actors.ours)
        .chain(&actors.other_instances)
        .chain(&actors.other_tenants)
        .chain(&actors.revoked)
        .collect();
    let nowhere = actors.asks(&actors.unknown[0], "GET", "/admin/nowhere", None, None).await;
    for operation in console::OPERATIONS {
        let (method, at) = (operation.method, operation.path);
        let mut paths = [String::new(), String::new()];
        for part in at.split('/').skip(1) {
            let name = match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                None => Name::new(part, part),
                Some(parameter) => named(actors, parameter)
                    .unwrap_or_else(|| panic!("{method} {at}: what could stand for `{parameter}`?")),
            };
            paths[0].push_str(&format!("/{}", name.there));
            paths[1].push_str(&format!("/{}", name.absent));
        }
        for owner in &all {
            for (is_there, path) in [(true, &paths[0]), (false, &paths[1])] {
                let heard = actors.asks(owner, method, path, body(method, is_there).as_ref(), None).await;
                let what = format!("{method} {path} by {}", owner.who);
                let refused = heard.status == 401 && heard.json()["code"] == "unauthorized";
                // The answer does not even reveal whether the path exists.
                cells.cell("/admin", &what, refused, &heard.whole(), &nowhere.whole());
            }
        }
    }
}
