//! Vectors of Discord: requests and payloads, read and compared with the recorded events.

use edge::OpenedBot;
use edge::discord::Discord;
use edge::platform::{Platform, Reading, VerifiedRequest, WebhookRefusal};
use ledger::Uses;
use posthouse_time::Timepiece;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::actors::bot;
use crate::vector_checks::{check_arrival, check_proof, config, delivered, judge, now, vectors};

const DOOR: &str = "/interactions";

fn discord() -> Discord {
    Discord::new(Discord::API_BASE, Timepiece::wall())
}

/// Fills the directory with the servers and channels that the vector presumes.
fn learn(discord: &Discord, bot: &OpenedBot, context: &Value) {
    let guilds = context["guilds"].as_object().unwrap();
    for (id, guild) in guilds {
        // All channels are in the first server; their names are looked up by id.
        let channels: Vec<Value> = match Some(id) == guilds.keys().next() {
            true => context["channels"].as_object().unwrap().iter().map(named).collect(),
            false => Vec::new(),
        };
        let data = json!({"id": id, "name": guild["name"], "channels": channels}).to_string();
        discord.note_directory(&bot.id, "GUILD_CREATE", &RawValue::from_string(data).unwrap());
    }
}

fn named((id, channel): (&String, &Value)) -> Value {
    let mut channel = channel.clone();
    channel["id"] = json!(id);
    channel
}

#[test]
fn payloads_are_read_as_the_vectors_say() {
    let file = vectors("payloads_discord.json");
    for case in file["cases"].as_array().unwrap() {
        let (context, discord) = (&case["context"], discord());
        let mut bot =
            bot(json!({"bot_user_id": context["bot_user_id"], "application_id": context["application_id"]}));
        bot.id = context["application_id"].as_str().unwrap().into();
        learn(&discord, &bot, context);
        let mut verified = VerifiedRequest::fetched(case["raw"].to_string(), now());
        if case["transport"] == "interaction" {
            verified.door = DOOR.to_owned();
        }
        let reading =
            discord.normalize(&bot, verified).unwrap_or_else(|refusal| panic!("{case}: {refusal:?}"));
        check_payload(case, &reading);
    }
}

fn check_payload(case: &Value, reading: &Reading) {
    let (name, expect) = (&case["name"], &case["expect"]);
    check_capabilities(case, reading);
    if let Some(reply) = expect["edge"].get("reply") {
        assert_eq!(&serde_json::from_slice::<Value>(&reading.reply.body).unwrap(), reply, "{name}");
    }
    let by_bot = expect["edge"]["author_is_bot"] == true;
    assert_eq!(reading.from_bots.len(), usize::from(by_bot), "{name}");
    if let Some(arrival) = delivered(case, reading) {
        // The message id follows, because Discord gives the URL of a file only with its message.
        let message = arrival.event.message_id.as_ref().unwrap();
        check_arrival(case, arrival, |reference| format!("{reference}/{message}"));
    }
}

fn check_capabilities(case: &Value, reading: &Reading) {
    let captured = reading.arrivals.iter().flat_map(|arrival| &arrival.capabilities);
    let captured: Vec<Value> = captured
        .map(|captured| {
            let value: Value = serde_json::from_str(captured.value.expose()).unwrap();
            assert_eq!(captured.uses, Uses::Many);
            json!({
                "kind": captured.kind,
                "value": value["token"],
                "ttl_s": captured.lifetime.map(|lifetime| lifetime.as_secs()),
                "max_uses": null,
                "bind": {
                    "application_id": value["application_id"],
                    "interaction_id": value["interaction_id"],
                    "deferred": value["deferred"],
                },
            })
        })
        .collect();
    assert_eq!(json!(captured), case["expect"]["capabilities"], "{}", case["name"]);
}

#[test]
fn requests_are_proven_as_the_vectors_say() {
    let (file, discord) = (vectors("verify_discord.json"), discord());
    let cases = file["cases"].as_array().unwrap();
    for case in cases {
        let bot = bot(json!({"public_key": config(&file, case)["public_key_hex"]}));
        let judged = judge(&discord, &bot, DOOR, &case["request"]);
        if let Ok(reading) = &judged {
            let is_handshake = case["expect"]["disposition"] == "handshake";
            assert_eq!(reading.arrivals.is_empty(), is_handshake, "{}", case["name"]);
        }
        check_proof(case, &judged, cases, |prior| judge(&discord, &bot, DOOR, prior).unwrap());
    }
}

#[test]
fn a_bot_without_a_key_opens_to_nobody() {
    let file = vectors("verify_discord.json");
    let request = &file["cases"][0]["request"];
    for settings in
        [json!({}), json!({"public_key": ""}), json!({"public_key": "00ff"}), json!({"public_key": "x"})]
    {
        let refusal = judge(&discord(), &bot(settings), DOOR, request).err();
        assert_eq!(refusal, Some(WebhookRefusal::unproven("no_secret")));
    }
}
