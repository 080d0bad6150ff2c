//! Permission matrix of skills: every operation of the workshop with the credentials of others, and with those of agents
//! for what only the operator and the programs of the tenant may do.

use serde_json::{Value, json};

use super::actors::{Actors, Owner, RecordedResponse};
use super::{Cells, Name};

/// One operation on one skill.
struct SkillAsk {
    path: fn(&str) -> String,
    body: Option<Value>,
    /// An agent of the same tenant may do it, too.
    for_agents: bool,
}

/// A text that no list shows: only readers of the skill get it.
const TEXT: &str = "# Skill: tide-watch\n# Status: Approved\ngo:\n    emit(\"high water at noon\")\n";

/// The row of an operation; none if it is missing here.
fn ask(method: &str, at: &str, version: &str) -> Option<SkillAsk> {
    let for_all = |path, body| Some(SkillAsk { path, body, for_agents: true });
    let for_programs = |path, body| Some(SkillAsk { path, body, for_agents: false });
    match (method, at) {
        ("GET", "/v1/skills") => for_all(|name| format!("/v1/skills?name_pattern=^{name}$"), None),
        ("GET", "/v1/skills/{name}") => for_all(|name| format!("/v1/skills/{name}"), None),
        // Everybody can write under any name in the own tenant. The version is that of acme's skill.
        ("PUT", "/v1/skills/{name}") => for_all(
            |name| format!("/v1/skills/{name}"),
            Some(json!({ "source": "low water", "if_version": version, "status": "Draft" })),
        ),
        ("DELETE", "/v1/skills/{name}") => for_programs(|name| format!("/v1/skills/{name}?force=true"), None),
        ("GET", "/v1/skills/{name}/versions") => for_all(|name| format!("/v1/skills/{name}/versions"), None),
        ("GET", "/v1/skills/{name}/dependents") => {
            for_all(|name| format!("/v1/skills/{name}/dependents"), None)
        }
        ("POST", "/v1/skills/{name}/status") => {
            for_programs(|name| format!("/v1/skills/{name}/status"), Some(json!({ "status": "Approved" })))
        }
        ("POST", "/v1/skills/{name}/restore") => {
            for_programs(|name| format!("/v1/skills/{name}/restore"), None)
        }
        // They name no skill: their answers must be those of a tenant without any.
        ("GET", "/v1/deleted-skills") => for_programs(|_| "/v1/deleted-skills".to_owned(), None),
        ("GET", "/v1/skill-catalogue") => {
            for_all(|name| format!("/v1/skill-catalogue?name_prefix={name}"), None)
        }
        ("GET", "/v1/skill-store") => for_all(|_| "/v1/skill-store".to_owned(), None),
        _ => None,
    }
}

pub async fn fill(actors: &Actors, cells: &mut Cells) {
    let skill = Name::new("tide-watch", "tide-match");
    let write = json!({ "source": TEXT });
    let written = actors.asks(&actors.acme, "PUT", "/v1/skills/tide-watch", Some(&write), None).await;
    assert_eq!((written.status, &written.json()["status"]), (200, &json!("Approved")), "{}", written.whole());
    let version = written.json()["version"].as_str().unwrap().to_owned();
    for operation in workshop::OPERATIONS.iter().filter(|operation| operation.path.contains("skill")) {
        let (method, at) = (operation.method, operation.path);
        let Some(ask) = ask(method, at, &version) else {
            panic!("{method} {at} has no row: how is a skill asked for, and may an agent do it?");
        };
        assert!(operation.credential, "{at}");
        if method == "GET" && ask.for_agents {
            for owner in &actors.ours {
                let heard = actors.asks(owner, method, &(ask.path)(&skill.there), None, None).await;
                assert_eq!(heard.status, 200, "{}", heard.whole());
            }
        }
        for owner in actors.other_tenants.iter().chain(&actors.revoked).chain(&actors.unknown) {
            let is_agent = owner.who.contains("agent of umbrella") && !ask.for_agents;
            cell(actors, cells, (method, at), &ask, &skill, owner, is_agent).await;
        }
        if !ask.for_agents {
            for owner in actors.other_instances.iter().chain([&actors.ours[2]]) {
                cell(actors, cells, (method, at), &ask, &skill, owner, true).await;
            }
        }
    }
    is_unchanged(actors, &version).await;
}

/// One operation with one wrong credential, on acme's skill and on one that is not there.
async fn cell(
    actors: &Actors,
    cells: &mut Cells,
    (method, at): (&'static str, &'static str),
    ask: &SkillAsk,
    skill: &Name,
    owner: &Owner,
    is_agent: bool,
) {
    let (mut heard, mut refused) = (Vec::new(), true);
    for is_there in [true, false] {
        let path = (ask.path)(skill.form(is_there));
        let answer = actors.asks(owner, method, &path, ask.body.as_ref(), None).await;
        refused &= is_refused(actors, at, owner, is_agent, &answer);
        heard.push(skill.without(is_there, &answer.whole()));
    }
    let what = format!("{method} {at} by {}", owner.who);
    cells.cell("/v1/skills", &what, refused, &heard[0], &heard[1]);
}

fn is_refused(actors: &Actors, at: &str, owner: &Owner, is_agent: bool, heard: &RecordedResponse) -> bool {
    let is = |list: &[Owner]| list.iter().any(|known| known.who == owner.who);
    let code = || heard.json()["code"].as_str().unwrap_or_default().to_owned();
    if is(&actors.revoked) || is(&actors.unknown) {
        return (heard.status, code().as_str()) == (401, "unauthorized");
    }
    assert!(!heard.body.contains("high water"), "{}: {}", owner.who, heard.whole());
    if is_agent {
        return heard.status == 403 && ["forbidden", "approval_rejected"].contains(&code().as_str());
    }
    if owner.who.ends_with("in heron's name") && !owner.who.contains("program") {
        return (heard.status, code().as_str()) == (403, "forbidden");
    }
    match at {
        "/v1/skills" | "/v1/deleted-skills" => heard.status == 200 && heard.json() == json!({ "items": [] }),
        "/v1/skill-catalogue" => {
            let lists = ["receives", "skills", "headless"].map(|list| heard.json()[list].clone());
            heard.status == 200 && lists.iter().all(|list| list.is_null() || *list == json!([]))
        }
        "/v1/skill-store" => heard.status == 200,
        "/v1/skills/{name}" => [404, 409].contains(&heard.status),
        _ => heard.status == 404,
    }
}

/// Refused requests changed nothing, and what an agent writes is a Draft.
async fn is_unchanged(actors: &Actors, version: &str) {
    let kept = actors.asks(&actors.acme, "GET", "/v1/skills/tide-watch", None, None).await.json();
    assert_eq!((&kept["version"], &kept["source"]), (&json!(version), &json!(TEXT)), "{kept}");
    let listed = actors.asks(&actors.umbrella, "GET", "/v1/skills", None, None).await.json();
    assert_eq!(listed, json!({ "items": [] }));
    let heron = &actors.ours[2];
    let write = json!({ "source": TEXT, "status": "Approved" });
    let written = actors.asks(heron, "PUT", "/v1/skills/tide-watch", Some(&write), None).await;
    assert_eq!((written.status, &written.json()["status"]), (200, &json!("Draft")), "{}", written.whole());
}
