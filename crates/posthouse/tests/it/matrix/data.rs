//! Permission matrix of data: every operation with the credentials of others. Data belongs to the tenant, so all agents of
//! the tenant may use all of it.

use serde_json::{Value, json};

use super::actors::{Actors, Owner, RecordedResponse};
use super::{Cells, Name};

/// A text that nobody else may find.
const TEXT: &str = "Spring tide\nhigh water at noon";

/// The path and body of an operation that asks for one entry; none if it is missing here.
fn ask(method: &str, at: &str, id: &str) -> Option<(String, Option<Value>)> {
    match (method, at) {
        // They name no entry: their answers must be those of a tenant without any.
        ("GET", "/v1/data" | "/v1/data-store") => Some((at.to_owned(), None)),
        // Everybody may write in the own tenant, so only the body is wrong.
        ("POST", "/v1/data") => Some((at.to_owned(), Some(json!({ "content": "" })))),
        ("GET", "/v1/data/{id}") => Some((format!("/v1/data/{id}"), None)),
        ("POST", "/v1/data/query") => Some((at.to_owned(), Some(json!({ "query": "water" })))),
        _ => None,
    }
}

pub async fn fill(actors: &Actors, cells: &mut Cells) {
    let write = json!({ "content": TEXT });
    let written = actors.asks(&actors.acme, "POST", "/v1/data", Some(&write), None).await;
    assert_eq!(written.status, 201, "{}", written.whole());
    let id = written.json()["id"].as_str().unwrap().to_owned();
    let entry = Name::of_id(&id);
    for operation in workshop::DATA_OPERATIONS {
        let (method, at) = (operation.method, operation.path);
        assert!(operation.credential, "{at}");
        for owner in actors.other_tenants.iter().chain(&actors.revoked).chain(&actors.unknown) {
            let (mut heard, mut refused) = (Vec::new(), true);
            for is_there in [true, false] {
                let Some((path, body)) = ask(method, at, entry.form(is_there)) else {
                    panic!("{method} {at} has no row: how is an entry asked for?");
                };
                let answer = actors.asks(owner, method, &path, body.as_ref(), None).await;
                refused &= is_refused(actors, (method, at), owner, &answer);
                heard.push(entry.without(is_there, &answer.whole()));
            }
            let what = format!("{method} {at} by {}", owner.who);
            cells.cell("/v1/data", &what, refused, &heard[0], &heard[1]);
        }
    }
    // Every credential of the tenant finds it.
    for owner in &actors.ours {
        let found = json!({ "query": "water" });
        let heard = actors.asks(owner, "POST", "/v1/data/query", Some(&found), None).await;
        assert_eq!(heard.json()["items"][0]["id"], id, "{}", heard.whole());
    }
}

fn is_refused(actors: &Actors, operation: (&str, &str), owner: &Owner, heard: &RecordedResponse) -> bool {
    let is = |list: &[Owner]| list.iter().any(|known| known.who == owner.who);
    let code = heard.json()["code"].as_str().unwrap_or_default().to_owned();
    if is(&actors.revoked) || is(&actors.unknown) {
        return (heard.status, code.as_str()) == (401, "unauthorized");
    }
    assert!(!heard.body.contains("high water"), "{}: {}", owner.who, heard.whole());
    if owner.who.ends_with("in heron's name") && !owner.who.contains("program") {
        return (heard.status, code.as_str()) == (403, "forbidden");
    }
    match operation {
        ("GET", "/v1/data") | ("POST", "/v1/data/query") => {
            heard.status == 200 && heard.json() == json!({ "items": [] })
        }
        ("GET", "/v1/data-store") => heard.status == 200,
        ("POST", "/v1/data") => heard.status == 422,
        _ => (heard.status, code.as_str()) == (404, "data_not_found"),
    }
}
