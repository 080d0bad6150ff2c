//! Malformed request bodies, at every path that reads one.

use serde_json::{Value, json};

use super::{Fixture, envelope};
use crate::crash::Dice;

/// Bodies per operation.
const BODIES: usize = 250;

/// A valid body of an operation; none for an operation that is missing here.
fn good(path: &str) -> Option<Value> {
    Some(match path {
        "/v1/notify" => json!({ "agent": "heron", "message": "hello", "kind": "augment", "event_type": "e",
            "correlation_id": "c", "connectors": ["relay"], "from": "ci", "trigger_kind": "cli" }),
        "/v1/deliver" => envelope("d-1"),
        "/v1/wake" => {
            json!({ "agent_id": "heron", "context": "hello", "when": "immediate", "session_id": "s",
            "connectors": ["relay"], "from": "ci" })
        }
        "/v1/exchange" => json!({ "agent": "heron", "message": "hello", "timeout": 1, "correlation_id": "q",
            "event_type": "e", "connectors": ["relay"], "from": "ci" }),
        "/v1/replies/{token}" => {
            json!({ "correlation_id": "q", "agent_id": "desk", "content": "x", "sent_at": 5 })
        }
        _ => return None,
    })
}

/// Values that are valid nowhere.
fn strange(dice: &mut Dice) -> Value {
    let all = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1.5e308),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(""),
        json!("\u{0}"),
        json!("\u{feff}\u{202e}heron"),
        json!("heron@"),
        json!("@heron"),
        json!("heron@heron@heron"),
        json!("../../../etc/passwd"),
        json!("'; DROP TABLE receipts; --"),
        json!("inst_"),
        json!("9".repeat(400)),
        json!("💥".repeat(300)),
        json!([]),
        json!({}),
        json!([[[[{}]]]]),
        json!({ "dispatch_id": { "a": [] } }),
        json!(["relay", "relay", "", "x"]),
    ];
    all[dice.below(all.len())].clone()
}

/// Puts an invalid value somewhere into the body.
pub fn spoil(body: &mut Value, dice: &mut Dice) {
    let Some(object) = body.as_object_mut() else {
        *body = strange(dice);
        return;
    };
    let names: Vec<String> = object.keys().cloned().collect();
    let name = if names.is_empty() { "x".to_owned() } else { names[dice.below(names.len())].clone() };
    match dice.below(5) {
        0 => drop(object.remove(&name)),
        1 => drop(object.insert(format!("{name}\u{0}"), strange(dice))),
        2 if object.get(&name).is_some_and(Value::is_object) => spoil(&mut object[&name], dice),
        _ => drop(object.insert(name, strange(dice))),
    }
}

/// Breaks the text itself.
pub fn tear(text: String, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = text.into_bytes();
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
        match dice.below(4) {
            _ if bytes.is_empty() => bytes.push(b'{'),
            0 => bytes.truncate(at),
            1 => bytes[at] = dice.below(256) as u8,
            2 => bytes.insert(at, b"\"\\{}[],:u\x00\xff"[dice.below(11)]),
            _ => drop(bytes.remove(at)),
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_makes_the_post_stumble() {
    let fixture = Fixture::open(&[]).await;
    let mut dice = Dice(0x5851_f42d_4c95_7f2d);
    let mut heard = std::collections::BTreeMap::<u16, usize>::new();
    for operation in post::OPERATIONS.iter().filter(|operation| operation.method == "POST") {
        let Some(good) = good(operation.path) else { panic!("{} has no good body", operation.path) };
        let path = operation.path.replace("{token}", "unknown");
        for number in 0..BODIES {
            let mut body = good.clone();
            for _ in 0..dice.below(4) {
                spoil(&mut body, &mut dice);
            }
            // Nothing of this is about waiting.
            if path != "/v1/deliver" && operation.credential && body.is_object() {
                body["wait"] = json!(0);
            }
            let bytes = match number % 3 {
                0 => tear(body.to_string(), &mut dice),
                _ => body.to_string().into_bytes(),
            };
            let shown = String::from_utf8_lossy(&bytes).into_owned();
            let told = fixture.tells(&path, bytes, None);
            let told = tokio::time::timeout(crate::talk::PATIENCE, told).await;
            let (status, answer) = told.unwrap_or_else(|_| panic!("no answer to {path} {shown}"));
            *heard.entry(status).or_default() += 1;
            let fine = matches!(status, 200 | 202 | 400 | 404 | 409 | 413 | 422 | 504);
            assert!(fine, "{path} {shown}: {status} {answer}");
            assert!(status < 400 || answer["code"].is_string(), "{path} {shown}: {status} {answer}");
        }
    }
    println!("{heard:?}");
    fixture.has_not_panicked();
    // It is as well as before.
    let (status, _) =
        fixture.posts("/v1/notify", &json!({ "agent": "heron", "message": "still there?" })).await;
    assert_eq!(status, 200);
}
