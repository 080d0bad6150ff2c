//! The targets: readers of frames, actions, tokens and bodies, with what must hold for everything they accept.

use std::collections::HashSet;

use posthouse_agent::verify::{KeySet, check_claims};
use posthouse_time::Moment;
use posthouse_wire::enrolment::EnrollRequest;
use posthouse_wire::frame::{FromGateway, LineAssembler, ToGateway};
use posthouse_wire::relevance::DeclaredRelevance;
use posthouse_wire::token::{TokenVerdict, claimed_gateway, mint, verify};
use posthouse_wire::{Action, GatewayId, Secret};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Target, root};

/// The kind of a value: the first word of its debug text.
fn kind(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}")
        .split(|c: char| !c.is_alphanumeric())
        .find(|word| !word.is_empty())
        .unwrap_or("")
        .to_owned()
}

/// Which members of a JSON text have which types, as a short description of its shape.
fn shape(json: &str) -> String {
    let Ok(Value::Object(members)) = serde_json::from_str(json) else { return String::new() };
    let types = members.iter().map(|(name, value)| match value {
        Value::Null => format!("{name}:null"),
        Value::Bool(_) => format!("{name}:bool"),
        Value::Number(_) => format!("{name}:number"),
        Value::String(text) => format!("{name}:text{}", usize::from(text.is_empty())),
        Value::Array(items) => format!("{name}:list{}", items.len().min(2)),
        Value::Object(inner) => {
            format!("{name}:object({})", inner.keys().cloned().collect::<Vec<_>>().join(" "))
        }
    });
    types.collect::<Vec<_>>().join(",")
}

/// What was written is read as it was.
fn reads_again(frame: &FromGateway) {
    let line = frame.line();
    assert_eq!(line.matches('\n').count(), 1, "one line: {line}");
    let again = FromGateway::read(line.trim_end().as_bytes()).expect("our own line");
    assert_eq!(again.line(), line);
}

pub fn frames() -> Target {
    let read = |input: &[u8]| {
        let mut whole = Vec::new();
        let is_whole = LineAssembler::new(1 << 20).push(input, |line| whole.push(line.to_vec())).is_ok();
        // The same bytes in two messages give the same lines.
        let (first, second) = input.split_at(input.len() / 3);
        let (mut parts, mut assembler) = (Vec::new(), LineAssembler::new(1 << 20));
        let mut push = |part: &[u8]| assembler.push(part, |line| parts.push(line.to_vec())).is_ok();
        if push(first) && push(second) {
            assert!(is_whole && parts == whole, "the border of a message changed its lines");
        }
        let result = FromGateway::read(input);
        let answer = ToGateway::read(input);
        match (&result, &answer) {
            (Ok(frame), _) => {
                reads_again(frame);
                format!("{} {}", kind(frame), shape(&frame.line()))
            }
            (_, Ok(frame)) => {
                ToGateway::read(frame.line().trim_end().as_bytes()).expect("our own line");
                format!("to the gateway: {}", kind(frame))
            }
            (Err(unreadable), _) => format!("{unreadable:?}").chars().take(60).collect(),
        }
    };
    let vectors = &[
        "stock_habits.json",
        "events.json",
        "descriptors.json",
        "passthrough.json",
        "hermes-0.20.5/hello.json",
        "hermes-0.20.5/outbound.json",
        "hermes-0.20.5/prompts.json",
        "hermes-0.20.5/media.json",
    ];
    Target { corpus: "frames", vectors, read: Box::new(read) }
}

pub fn actions() -> Target {
    let read = |input: &[u8]| {
        // Whatever stands where an action belongs, even if it is no action.
        let Ok(raw) = serde_json::from_slice::<Box<RawValue>>(input) else { return "not JSON".to_owned() };
        let action = Action::read(&raw);
        let _ = (action.chat_id(), action.metadata());
        let outbound = posthouse_wire::frame::Outbound {
            request_id: "r-1".into(),
            action: action.clone(),
            platform: None,
            bot_id: None,
        };
        match &action {
            Action::Unsupported { fault, .. } => format!("{fault:?}"),
            _ => {
                reads_again(&FromGateway::Outbound(outbound));
                let written = serde_json::to_string(&action).unwrap_or_default();
                format!("{} {}", action.op(), shape(&written))
            }
        }
    };
    let vectors = &["hermes-0.20.5/outbound.json", "hermes-0.20.5/prompts.json", "stock_habits.json"];
    Target { corpus: "actions", vectors, read: Box::new(read) }
}

/// A secret that signs no token of the vectors or the corpus.
const UNUSED: &str = "a secret that nobody has";

pub fn tokens() -> Target {
    let ours = Secret::new("the secret of gw-fuzz");
    let gateway = GatewayId::new("gw-fuzz");
    let minted = mint(&gateway, &ours, 300, 1_790_000_000);
    let vector = std::fs::read(root().join("vectors/fire_tokens.json")).unwrap();
    let vector: Value = serde_json::from_slice(&vector).unwrap();
    let keys = KeySet::read(vector["jwks"].to_string().as_bytes()).unwrap();
    let now = Moment::from_seconds(vector["now"].as_i64().unwrap());
    let cases = vector["cases"].as_array().unwrap();
    // The signed parts of all recorded tokens. Nobody can sign anything else.
    let signed: HashSet<String> =
        cases.iter().filter_map(|case| signed_part(case["token"].as_str()?)).collect();
    let read = move |input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        let unproven = verify(&text, [&Secret::new(UNUSED)], 1_790_000_000);
        assert_eq!(unproven, TokenVerdict::Refused, "a token that nobody signed");
        assert_eq!(verify(&text, [], 1_790_000_000), TokenVerdict::Refused);
        // A token that is right may be written in other ways, but names no other gateway.
        let at = input.len() % minted.len();
        let changed = format!("{}{text}{}", &minted[..at], &minted[at..]);
        if let TokenVerdict::Good(named) = verify(&changed, [&ours], 1_790_000_000) {
            assert_eq!(named, gateway);
        }
        let claimed = claimed_gateway(&text).is_some();
        let fired = check_claims(&text, "agent:inst_7f3a", &keys, None, now).is_some();
        if fired {
            let part = signed_part(&text).expect("a token has a signed part");
            assert!(signed.contains(&part), "a fire token that nobody signed");
        }
        let enrols = EnrollRequest::read(input).map(|request| request.gateway_id.len().min(2));
        format!(
            "claims {claimed}, fires {fired}, dots {}, enrols {enrols:?}",
            text.matches('.').count().min(4)
        )
    };
    let vectors = &["upgrade_tokens.json", "hermes-0.20.5/upgrade_tokens.json", "fire_tokens.json"];
    Target { corpus: "tokens", vectors, read: Box::new(read) }
}

/// What the signature of a compact token covers.
fn signed_part(token: &str) -> Option<String> {
    token.trim().rsplit_once('.').map(|(signed, _)| signed.to_owned())
}

pub fn policies() -> Target {
    let read = |input: &[u8]| {
        let declared = DeclaredRelevance::read(input);
        if let Ok(policy) = &declared {
            assert!((1..=64).contains(&policy.platform.as_str().len()));
            assert!(policy.free_response_scopes.len() <= 256);
            assert!(policy.free_response_scopes.iter().all(|scope| scope.len() <= 256));
        }
        let enrols = EnrollRequest::read(input);
        if let Ok(request) = &enrols {
            let fits = |text: &str| (1..=256).contains(&text.len()) && !text.chars().any(char::is_control);
            assert!(fits(request.enrollment_token.expose()) && fits(&request.gateway_id));
        }
        let scopes = declared.as_ref().map(|policy| policy.free_response_scopes.len().min(3));
        format!("{scopes:?} {:?}", enrols.map(|_| ()))
    };
    Target { corpus: "policies", vectors: &[], read: Box::new(read) }
}
