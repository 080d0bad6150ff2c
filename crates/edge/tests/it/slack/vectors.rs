//! Vectors of Slack: requests and payloads, read and compared with the recorded events.

use edge::OpenedBot;
use edge::platform::{Platform, Reading, VerifiedRequest, WebhookRefusal};
use edge::slack::{Slack, SlackChat, SlackChatKind};
use ledger::Uses;
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::{Value, json};

use super::actors::{bot, form};
use crate::vector_checks::{check_arrival, check_proof, config, delivered, judge, now, vectors};

fn slack() -> Slack {
    Slack::new(Slack::API_BASE, Timepiece::wall())
}

/// Notes the people and channels that the vector presumes.
fn learn(slack: &Slack, bot: &OpenedBot, context: &Value) {
    for (id, person) in context["users"].as_object().unwrap() {
        slack.note_person(&bot.id, id, person["display_name"].as_str().unwrap());
    }
    for (id, channel) in context["channels"].as_object().unwrap() {
        let topic = channel["topic"].as_str().filter(|topic| !topic.is_empty()).map(str::to_owned);
        let name = channel["name"].as_str().unwrap().to_owned();
        slack.note_chat(&bot.id, id, SlackChat { name, topic, kind: SlackChatKind::Channel });
    }
}

/// The body of a case, as Slack writes it for this transport.
fn body(case: &Value) -> String {
    match case["transport"].as_str().unwrap() {
        "form" => form(&case["raw"]),
        "form_payload" => form(&json!({ "payload": case["raw"].to_string() })),
        _ => case["raw"].to_string(),
    }
}

fn read(case: &Value) -> Reading {
    let (context, slack) = (&case["context"], slack());
    let bot = bot(json!({"bot_user_id": context["bot_user_id"], "bot_id": context["bot_id"]}));
    learn(&slack, &bot, context);
    let reading = slack.normalize(&bot, VerifiedRequest::fetched(body(case), now()));
    reading.unwrap_or_else(|refusal| panic!("{case}: {refusal:?}"))
}

#[test]
fn payloads_are_read_as_the_vectors_say() {
    let file = vectors("payloads_slack.json");
    let cases = file["cases"].as_array().unwrap();
    for case in cases {
        let (name, expect, reading) = (&case["name"], &case["expect"], read(case));
        assert!(!reading.incomplete, "{name}");
        let captured = reading.arrivals.iter().flat_map(|arrival| &arrival.capabilities);
        let captured: Vec<Value> = captured
            .map(|captured| {
                let Uses::Left(uses) = captured.uses else { panic!("{name}: unlimited") };
                let seconds = captured.lifetime.map(|lifetime| lifetime.as_secs());
                json!({"kind": captured.kind, "value": captured.value.expose(), "ttl_s": seconds, "max_uses": uses})
            })
            .collect();
        assert_eq!(json!(captured), expect["capabilities"], "{name}");
        assert_eq!(reading.from_bots.len(), usize::from(expect["edge"]["reason"] == "bot_author"), "{name}");
        if expect["disposition"] == "duplicate" {
            let prior = cases.iter().find(|other| other["name"] == expect["edge"]["prior"]).unwrap();
            let (first, again) = (&read(prior).arrivals[0], &reading.arrivals[0]);
            assert_eq!(first.dedup, again.dedup, "{name}");
            assert!(again.dedup.as_str().ends_with(expect["edge"]["dedup_key"].as_str().unwrap()), "{name}");
            continue;
        }
        if let Some(arrival) = delivered(case, &reading) {
            check_arrival(case, arrival, str::to_owned);
        }
    }
}

/// Over Socket Mode the same payloads come as JSON.
#[test]
fn payloads_of_a_socket_are_read_like_those_of_webhooks_in_the_vectors() {
    for case in vectors("payloads_slack.json")["cases"].as_array().unwrap() {
        let door = match case["transport"].as_str().unwrap() {
            "form" => "/commands",
            "form_payload" => "/interactions",
            _ => "/events",
        };
        let slack = slack();
        let bot =
            bot(json!({"bot_user_id": case["context"]["bot_user_id"], "bot_id": case["context"]["bot_id"]}));
        learn(&slack, &bot, &case["context"]);
        let mut verified = VerifiedRequest::fetched(case["raw"].to_string(), now());
        verified.door = door.to_owned();
        let (reading, by_webhook) = (slack.normalize(&bot, verified).unwrap(), read(case));
        let events = |reading: &Reading| -> Vec<Value> {
            reading.arrivals.iter().map(|arrival| json!([arrival.event, arrival.addressed])).collect()
        };
        assert_eq!(events(&reading), events(&by_webhook), "{}", case["name"]);
        assert_eq!(reading.ignored, by_webhook.ignored, "{}", case["name"]);
    }
}

#[test]
fn requests_are_proven_as_the_vectors_say() {
    let (file, slack) = (vectors("verify_slack.json"), slack());
    let cases = file["cases"].as_array().unwrap();
    for case in cases {
        let mut bot = bot(json!({}));
        let secret = config(&file, case)["signing_secret"].as_str().unwrap_or_default().to_owned();
        bot.credentials.insert("signing_secret", Secret::new(secret));
        for door in ["", "/events", "/interactions", "/commands"] {
            // By HTTP an event comes to the address of events, or to one address for everything.
            let is_event = case["request"]["body_text"].as_str().unwrap().starts_with('{');
            if is_event && ["/interactions", "/commands"].contains(&door) {
                continue;
            }
            let judged = judge(&slack, &bot, door, &case["request"]);
            if let Ok(reading) = &judged {
                let is_handshake = case["expect"]["disposition"] == "handshake";
                assert_eq!(reading.arrivals.is_empty(), is_handshake, "{}", case["name"]);
            }
            check_proof(case, &judged, cases, |prior| judge(&slack, &bot, door, prior).unwrap());
        }
    }
}

#[test]
fn a_bot_without_a_signing_secret_opens_to_nobody() {
    let file = vectors("verify_slack.json");
    let request = &file["cases"][0]["request"];
    let mut unsigned = bot(json!({}));
    unsigned.credentials.insert("signing_secret", Secret::new(""));
    for bot in [unsigned, OpenedBot { credentials: Default::default(), ..bot(json!({})) }] {
        let refusal = judge(&slack(), &bot, "/events", request).err();
        assert_eq!(refusal, Some(WebhookRefusal::unproven("no_secret")));
    }
}
