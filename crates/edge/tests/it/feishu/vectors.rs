//! Vectors of Feishu: requests, payloads and frames, read and compared with the recorded ones.

use bytes::Bytes;
use edge::OpenedBot;
use edge::feishu::frames::FeishuFrame;
use edge::feishu::{Feishu, FeishuChat};
use edge::platform::{Platform, Reading, VerifiedRequest, WebhookRefusal};
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::{Value, json};
use vault::Credentials;

use crate::vector_checks::{check_arrival, check_proof, config, delivered, judge, now, vectors};

fn feishu() -> Feishu {
    Feishu::new(Feishu::API_BASE, Timepiece::wall())
}

fn bot(settings: Value) -> OpenedBot {
    let mut credentials = Credentials::default();
    credentials.insert("app_secret", Secret::new("canary-app-secret"));
    OpenedBot {
        platform: "feishu".into(),
        id: "cli_1".into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

#[test]
fn payloads_are_read_as_the_vectors_say() {
    for case in vectors("payloads_feishu.json")["cases"].as_array().unwrap() {
        let (name, context, feishu) = (&case["name"], &case["context"], feishu());
        let bot = bot(json!({"bot_open_id": context["bot_open_id"]}));
        for (id, person) in context["users"].as_object().unwrap() {
            feishu.note_person(&bot.id, id, person["name"].as_str().unwrap());
        }
        for (id, chat) in context["chats"].as_object().unwrap() {
            let name = chat["name"].as_str().unwrap().to_owned();
            feishu.note_chat(&bot.id, id, FeishuChat { name, is_direct: false });
        }
        let reading =
            feishu.normalize(&bot, VerifiedRequest::fetched(case["raw"].to_string(), now())).unwrap();
        let is_of_bot = case["expect"]["edge"]["reason"] == "bot_author";
        assert_eq!(reading.from_bots.len(), usize::from(is_of_bot), "{name}");
        let captured: Vec<_> = reading.arrivals.iter().flat_map(|arrival| &arrival.capabilities).collect();
        assert_eq!(json!(captured.len()), json!(case["expect"]["capabilities"].as_array().unwrap().len()));
        if let Some(arrival) = delivered(case, &reading) {
            assert!(!reading.incomplete, "{name}");
            check_arrival(case, arrival, str::to_owned);
        }
    }
}

/// The bot of a case of the request vectors.
fn proven_bot(config: &Value) -> OpenedBot {
    let mut bot = bot(json!({}));
    for name in ["encrypt_key", "verification_token"] {
        bot.credentials.insert(name, Secret::new(config[name].as_str().unwrap()));
    }
    bot
}

#[test]
fn requests_are_proven_as_the_vectors_say() {
    let (file, feishu) = (vectors("verify_feishu.json"), feishu());
    let cases = file["cases"].as_array().unwrap();
    for case in cases {
        let bot = proven_bot(&config(&file, case));
        let judged = judge(&feishu, &bot, "", &case["request"]);
        if let Ok(reading) = &judged {
            let is_handshake = case["expect"]["disposition"] == "handshake";
            assert_eq!(reading.arrivals.is_empty(), is_handshake, "{}", case["name"]);
        }
        check_proof(case, &judged, cases, |prior| judge(&feishu, &bot, "", prior).unwrap());
    }
}

#[test]
fn a_bot_without_a_secret_opens_to_nobody() {
    let file = vectors("verify_feishu.json");
    for case in file["cases"].as_array().unwrap() {
        let mut empty = bot(json!({}));
        empty.credentials.insert("encrypt_key", Secret::new(""));
        for bot in [bot(json!({})), empty] {
            let refusal = judge(&feishu(), &bot, "", &case["request"]).err();
            assert_eq!(refusal, Some(WebhookRefusal::unproven("no_secret")), "{}", case["name"]);
        }
    }
}

/// A request of the vectors whose body is not encrypted, for a bot without an encrypt key.
#[test]
fn without_an_encrypt_key_the_token_inside_decides() {
    let file = vectors("verify_feishu.json");
    let cases = file["cases"].as_array().unwrap();
    let plain = cases.iter().find(|case| case["expect"]["reason"] == "not_encrypted").unwrap();
    let mut bot = bot(json!({}));
    bot.credentials.insert("verification_token", Secret::new("phVerifyssssssss"));
    let read =
        |bot: &OpenedBot| -> Result<Reading, WebhookRefusal> { judge(&feishu(), bot, "", &plain["request"]) };
    assert_eq!(read(&bot).unwrap().arrivals.len(), 1);
    bot.credentials.insert("verification_token", Secret::new("another"));
    assert_eq!(read(&bot).err(), Some(WebhookRefusal::unproven("bad_token")));
}

/// Frames as the official client's own encoder writes them.
#[test]
fn frames_are_read_and_written_like_the_vectors() {
    let file = vectors("frames_feishu.json");
    for case in file["cases"].as_array().unwrap() {
        let name = &case["name"];
        let bytes = hex::decode(case["hex"].as_str().unwrap()).unwrap();
        let read = FeishuFrame::read(&bytes);
        if case["valid"] == false {
            assert_eq!(read, None, "{name}");
            continue;
        }
        let (fields, text) = (&case["frame"], |value: &Value| value.as_str().map(str::to_owned));
        let frame = FeishuFrame {
            sequence: fields["SeqID"].as_u64().unwrap(),
            log_id: fields["LogID"].as_u64().unwrap(),
            service: fields["service"].as_i64().unwrap().try_into().unwrap(),
            method: fields["method"].as_i64().unwrap().try_into().unwrap(),
            headers: fields["headers"]
                .as_array()
                .unwrap()
                .iter()
                .map(|pair| (text(&pair[0]).unwrap(), text(&pair[1]).unwrap()))
                .collect(),
            payload_encoding: text(&fields["payload_encoding"]),
            payload_type: text(&fields["payload_type"]),
            payload: fields["payload_hex"].as_str().map(|digits| Bytes::from(hex::decode(digits).unwrap())),
            new_log_id: text(&fields["LogIDNew"]),
        };
        assert_eq!(read.as_ref(), Some(&frame), "{name}");
        if case["rewritten"] != false {
            assert_eq!(hex::encode(frame.write()), case["hex"].as_str().unwrap(), "{name}");
        }
    }
}
