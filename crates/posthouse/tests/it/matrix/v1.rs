//! Permission matrix of the API for programs: every operation in the router's own list.

use http_kit::Operation;
use serde_json::{Value, json};

use super::actors::{Actors, NEWS, Owner, RecordedResponse};
use super::{Cells, Name};

/// Owner of the object that an operation names.
#[derive(PartialEq)]
enum OwnerKind {
    /// Every credential of its tenant.
    Tenants,
    /// The agent itself, and the programs of its tenant.
    Instances,
    /// The holder of one token.
    Holders,
    /// The operation names nothing that has an owner.
    Nobodys,
}

struct Row {
    whose: OwnerKind,
    asks: Vec<Ask>,
}

/// One way in which an operation names an object.
struct Ask {
    name: Name,
    path: Box<dyn Fn(&str) -> String>,
    body: Option<fn(&str) -> Value>,
}

fn path(name: &Name, path: impl Fn(&str) -> String + 'static) -> Ask {
    Ask { name: name.clone(), path: Box::new(path), body: None }
}

fn body(name: &Name, path: &'static str, body: fn(&str) -> Value) -> Ask {
    Ask { name: name.clone(), path: Box::new(|_| path.to_owned()), body: Some(body) }
}

/// The row of an operation; none if it is missing here.
fn row(actors: &Actors, method: &str, at: &'static str) -> Option<Row> {
    use OwnerKind::{Holders, Instances, Nobodys, Tenants};
    // Every name of an agent.
    let called = [&actors.agent, &actors.instance, &actors.alias, &actors.wired];
    let to_each = |write: fn(&str) -> Value| called.map(|name| body(name, at, write)).into();
    let row = |whose, asks| Some(Row { whose, asks });
    match (method, at) {
        ("POST", "/v1/notify") => {
            let mut asks: Vec<Ask> = to_each(|name| json!({ "agent": name, "message": "psst" }));
            asks.push(body(
                &actors.agent,
                at,
                |name| json!({ "agent": format!("{name}@desk"), "message": "psst", "connectors": ["relay"] }),
            ));
            row(Tenants, asks)
        }
        ("POST", "/v1/deliver") => row(
            Tenants,
            to_each(|name| {
                let origin = json!({ "skill_name": "probe", "trigger_kind": "cron" });
                let meta = json!({ "dispatch_id": "d-probe", "sent_at": 5, "origin": origin });
                json!({ "agent_id": name, "kind": "augment", "content": "psst", "meta": meta })
            }),
        ),
        ("POST", "/v1/wake") => {
            let mut asks: Vec<Ask> = to_each(|name| json!({ "agent_id": name, "context": "psst" }));
            asks.push(body(&actors.agent, at, |name| json!({ "agent": format!("{name}@desk") })));
            asks.push(body(
                &actors.agent,
                at,
                |name| json!({ "agent": name, "when": 4_000_000_000_000_i64, "session_id": "desk" }),
            ));
            row(Tenants, asks)
        }
        ("POST", "/v1/exchange") => row(
            Tenants,
            to_each(
                |name| json!({ "agent": name, "message": "psst", "correlation_id": "q-probe", "wait": 0 }),
            ),
        ),
        ("GET", "/v1/exchanges") => {
            // The page after a question, by the cursor that its owner gets.
            let cursor = Name::new("NDAwMDAwMDAwMDAwMC9xLW9mLWhlcm9u", "NDAwMDAwMDAwMDAwMC9xLW9mLXJvYmlu");
            row(Instances, vec![path(&cursor, |after| format!("/v1/exchanges?after={after}"))])
        }
        ("GET", "/v1/exchanges/{correlation_id}") => row(
            Instances,
            vec![
                path(&actors.correlation, |id| format!("/v1/exchanges/{id}")),
                path(&actors.correlation, |id| format!("/v1/exchanges/{id}?wait=0.1")),
                path(&actors.asked, |id| format!("/v1/exchanges/{id}")),
            ],
        ),
        ("GET", "/v1/receipts") => row(
            Instances,
            vec![
                path(&actors.wired, |agent| format!("/v1/receipts?agent={agent}")),
                path(&Name::new("crane", "robin"), |agent| {
                    format!("/v1/receipts?agent={agent}&state=queued&limit=1")
                }),
            ],
        ),
        ("GET", "/v1/receipts/{dispatch_id}") => {
            row(Instances, vec![path(&actors.dispatch, |id| format!("/v1/receipts/{id}"))])
        }
        ("GET", "/v1/agents") => row(
            Tenants,
            // A page that starts at a name must not depend on whether the name exists.
            vec![path(&Name::new("ZGVzaw", "ZGlzaw"), |after| format!("/v1/agents?after={after}"))],
        ),
        ("GET", "/v1/agents/{name}") => {
            row(Tenants, called.map(|name| path(name, |name| format!("/v1/agents/{name}"))).into())
        }
        ("POST", "/v1/replies/{token}") => row(Holders, Vec::new()),
        ("GET", "/openapi.json") => row(Nobodys, vec![path(&Name::new("", ""), |_| at.to_owned())]),
        _ => None,
    }
}

pub async fn fill(actors: &Actors, cells: &mut Cells) {
    let description = Operation { method: "GET", path: "/openapi.json", credential: false };
    for operation in post::OPERATIONS.iter().chain([&description]) {
        let (method, at) = (operation.method, operation.path);
        let Some(row) = row(actors, method, at) else {
            panic!("{method} {at} has no row: whose is what it names, and how is that asked for?");
        };
        assert_eq!(
            operation.credential,
            matches!(row.whose, OwnerKind::Tenants | OwnerKind::Instances),
            "{at}"
        );
        for ask in &row.asks {
            is_there_for_its_owner(actors, method, ask).await;
            for owner in actors.other_tenants.iter().chain(&actors.revoked).chain(&actors.unknown) {
                cell(actors, cells, method, at, ask, owner, &row).await;
            }
            if row.whose == OwnerKind::Instances {
                for owner in &actors.other_instances {
                    cell(actors, cells, method, at, ask, owner, &row).await;
                }
            }
        }
        // If agents may not write to each other, another agent is unknown to them. A page of the directory
        // names nobody.
        if let (OwnerKind::Tenants, true) = (&row.whose, at != "/v1/agents") {
            for ask in row.asks.into_iter().filter(|ask| ask.name.there == actors.agent.there) {
                let ask = Ask { name: actors.silent.clone(), ..ask };
                let row = Row { whose: OwnerKind::Tenants, asks: Vec::new() };
                cell(actors, cells, method, at, &ask, &actors.silenced, &row).await;
            }
        }
    }
    replies(actors, cells).await;
}

/// The object exists for its owner; otherwise a refusal would prove nothing. Writes are not tried, because
/// they would be delivered.
async fn is_there_for_its_owner(actors: &Actors, method: &str, ask: &Ask) {
    if method != "GET" {
        return;
    }
    for owner in &actors.ours[..2] {
        let heard = actors.asks(owner, method, &(ask.path)(&ask.name.there), None, None).await;
        assert!(heard.status < 300 && !heard.body.contains(r#""items":[]"#), "{}", heard.whole());
    }
}

/// One operation with one wrong credential, on an existing object and on an absent one.
async fn cell(
    actors: &Actors,
    cells: &mut Cells,
    method: &str,
    at: &'static str,
    ask: &Ask,
    owner: &Owner,
    row: &Row,
) {
    let mut heard = Vec::new();
    let mut refused = true;
    for is_there in [true, false] {
        let name = ask.name.form(is_there);
        let body = ask.body.as_ref().map(|body| body(name));
        let answer = actors.asks(owner, method, &(ask.path)(name), body.as_ref(), Some("d-probe")).await;
        refused &= row.whose == OwnerKind::Nobodys || is_refused(actors, at, owner, &answer);
        heard.push(ask.name.without(is_there, &answer.whole()));
    }
    let what = format!("{method} {} by {}", (ask.path)(&ask.name.there), owner.who);
    cells.cell("/v1", &what, refused, &heard[0], &heard[1]);
}

/// An unknown caller gets 401; everybody else gets the answer for an absent object.
fn is_refused(actors: &Actors, at: &str, owner: &Owner, heard: &RecordedResponse) -> bool {
    let is = |list: &[Owner]| list.iter().any(|known| known.who == owner.who);
    let code = || heard.json()["code"].as_str().unwrap_or_default().to_owned();
    if is(&actors.revoked) || is(&actors.unknown) {
        return (heard.status, code().as_str()) == (401, "unauthorized");
    }
    if owner.who.ends_with("in heron's name") && !owner.who.contains("program") {
        return (heard.status, code().as_str()) == (403, "forbidden");
    }
    assert!(!heard.body.contains(NEWS), "{}: {}", owner.who, heard.whole());
    match at {
        // An agent without a connector is not an error here.
        "/v1/notify" => heard.status == 200 && heard.json()["dispatched"] == json!([]),
        "/v1/receipts" => heard.status == 200 && heard.json() == json!({ "items": [] }),
        "/v1/exchanges" => {
            let mine = |item: &Value| item["correlation_id"] == "q-of-umbrella";
            heard.status == 200 && heard.json()["items"].as_array().unwrap().iter().all(mine)
        }
        "/v1/agents" => {
            let names = ["crane", "otter", "till"];
            let mine = |item: &Value| names.contains(&item["agent_id"].as_str().unwrap());
            heard.status == 200 && heard.json()["items"].as_array().unwrap().iter().all(mine)
        }
        _ => heard.status == 404,
    }
}

/// A token is valid for one question by one agent only. The holder of another token gets the same answer as
/// a guess.
async fn replies(actors: &Actors, cells: &mut Cells) {
    let good =
        json!({ "correlation_id": actors.correlation.there, "agent_id": "desk", "content": "I am desk" });
    let with = |name: &str, value: &str| {
        let mut body = good.clone();
        body[name] = value.into();
        body
    };
    let token = &actors.reply_token;
    let asks = [
        ("the token of another tenant's question", &actors.other_reply_token, good.clone()),
        ("the token, for another question", &token.there, with("correlation_id", &actors.asked.there)),
        ("the token, for no question", &token.there, with("correlation_id", &actors.correlation.absent)),
        ("the token, by another agent", &token.there, with("agent_id", "heron")),
        ("the token, by an agent that is not there", &token.there, with("agent_id", "disk")),
        ("the correlation id for a token", &actors.correlation.there, good.clone()),
    ];
    let all = actors
        .other_tenants
        .iter()
        .chain(&actors.revoked)
        .chain(&actors.unknown)
        .chain(&actors.other_instances);
    for owner in all.chain(&actors.ours) {
        for (what, token, body) in &asks {
            let there = actors.asks(owner, "POST", &format!("/v1/replies/{token}"), Some(body), None).await;
            let path = format!("/v1/replies/{}", actors.reply_token.absent);
            let absent = actors.asks(owner, "POST", &path, Some(&good), None).await;
            let what = format!("an answer under {what} by {}", owner.who);
            cells.cell("/v1/replies", &what, there.status == 404, &there.whole(), &absent.whole());
        }
    }
}

/// The id of another agent's question is not revealed: it can be used as if it were free.
pub async fn taken_correlation(actors: &Actors) {
    for owner in &actors.other_instances[..3] {
        let mut heard = Vec::new();
        for id in [&actors.correlation.there, &actors.correlation.absent] {
            let ask = json!({ "agent": "desk", "message": "another", "wait": 0, "correlation_id": id });
            let answer = actors.asks(owner, "POST", "/v1/exchange", Some(&ask), None).await;
            assert!(!answer.body.contains(NEWS), "{}", answer.whole());
            heard.push((answer.status, answer.json()["code"].clone()));
        }
        assert_eq!(heard[0], heard[1], "{}", owner.who);
    }
}

/// Another tenant with an agent of the same name sends the same words under the same ids.
pub async fn namesakes(actors: &Actors) {
    let message = json!({ "agent": "crane", "message": "good morning" });
    let mut told = Vec::new();
    for owner in [&actors.acme, &actors.umbrella] {
        let heard = actors.asks(owner, "POST", "/v1/notify", Some(&message), Some("release-7")).await;
        let delivery = heard.json()["dispatched"][0]["receipt"]["delivery_id"].clone();
        assert!(delivery.is_string(), "{}", heard.whole());
        told.push(delivery);
        let ask = json!({ "agent": "crane", "message": "well?", "correlation_id": "q-7", "wait": 0 });
        let heard = actors.asks(owner, "POST", "/v1/exchange", Some(&ask), None).await;
        assert_eq!(heard.status, 202, "{}", heard.whole());
    }
    assert_ne!(told[0], told[1]);
    for (owner, delivery) in [&actors.acme, &actors.umbrella].into_iter().zip(&told) {
        let shown = actors.asks(owner, "GET", "/v1/receipts/release-7", None, None).await.json();
        assert_eq!(shown["items"].as_array().unwrap().len(), 1, "{shown}");
        assert_eq!(shown["items"][0]["receipt"]["delivery_id"], *delivery);
    }
}
