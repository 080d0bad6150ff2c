//! Vectors of Matrix: transactions and payloads, read and compared with the recorded events.

use edge::OpenedBot;
use edge::matrix::{Matrix, MatrixRoom};
use edge::platform::{Platform, Reading, VerifiedRequest};
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::{Value, json};

use super::actors::{bot, matrix};
use crate::vector_checks::{check_arrival, check_proof, config, delivered, judge, now, vectors};

fn nowhere() -> Matrix {
    matrix("http://127.0.0.1:9", &Timepiece::wall())
}

/// The path of a request below the bot's address.
fn door(request: &Value) -> String {
    let url = request["url"].as_str().unwrap();
    let path = url.split_once("/matrix/as-1").unwrap().1;
    path.split('?').next().unwrap().to_owned()
}

fn bot_of(config: &Value) -> OpenedBot {
    let mut bot = bot(false);
    if let Some(secret) = config["hs_token"].as_str() {
        bot.credentials.insert("hs_token", Secret::new(secret));
    }
    if config["allow_query_token"] == true {
        bot.settings.insert("allow_query_token".to_owned(), json!("true"));
    }
    bot
}

#[test]
fn requests_are_proven_as_the_vectors_say() {
    let (file, matrix) = (vectors("verify_matrix.json"), nowhere());
    let cases = file["cases"].as_array().unwrap();
    for case in cases {
        let bot = bot_of(&config(&file, case));
        let request = &case["request"];
        let judged = judge(&matrix, &bot, &door(request), request);
        check_proof(case, &judged, cases, |prior| judge(&matrix, &bot, &door(prior), prior).unwrap());
    }
}

#[test]
fn a_token_in_the_query_counts_only_where_it_is_allowed_and_never_beside_another() {
    let (file, matrix) = (vectors("verify_matrix.json"), nowhere());
    let mut config = file["config"].clone();
    config["allow_query_token"] = json!(true);
    let cases = file["cases"].as_array().unwrap();
    let case = |name: &str| cases.iter().find(|case| case["name"] == name).unwrap()["request"].clone();
    let judged = |request: &Value| judge(&matrix, &bot_of(&config), &door(request), request).map(drop);
    let in_query = case("query token while disabled");
    assert!(judged(&in_query).is_ok());
    assert_eq!(judged(&case("query and header disagree")).unwrap_err().reason, "ambiguous_header");
    let mut twice = in_query.clone();
    twice["url"] = json!(format!("{}&access_token=x", in_query["url"].as_str().unwrap()));
    assert_eq!(judged(&twice).unwrap_err().reason, "missing_header");
}

#[test]
fn a_bot_without_secrets_opens_to_nobody() {
    let file = vectors("verify_matrix.json");
    for secrets in [json!({}), json!({ "hs_token": "" })] {
        for case in file["cases"].as_array().unwrap() {
            let request = &case["request"];
            let refusal = judge(&nowhere(), &bot_of(&secrets), &door(request), request).err();
            assert!(refusal.is_some_and(|refusal| refusal.status.is_client_error()), "{}", case["name"]);
        }
    }
}

/// Reads a payload with the rooms and people that the vector presumes.
fn read(case: &Value) -> Reading {
    let (context, matrix) = (&case["context"], nowhere());
    let mut bot = bot(true);
    bot.settings.insert("user_id".to_owned(), context["as_user"].clone());
    for (id, room) in context["rooms"].as_object().unwrap() {
        let text = |name: &str| room[name].as_str().map(str::to_owned);
        let known = MatrixRoom {
            name: text("name"),
            topic: text("topic"),
            members: room["members"].as_u64().unwrap() as usize,
            is_direct: room["is_direct"] == true,
            is_encrypted: false,
        };
        matrix.note_room(&bot.id, id, known);
    }
    for (id, name) in context["users"].as_object().unwrap() {
        matrix.note_person(&bot.id, id, name.as_str().unwrap());
    }
    matrix.normalize(&bot, VerifiedRequest::fetched(case["raw"].to_string(), now())).unwrap()
}

fn check_payloads(file: &str) {
    for case in vectors(file)["cases"].as_array().unwrap() {
        let reading = read(case);
        assert!(!reading.incomplete, "{}", case["name"]);
        let from_bots = usize::from(case["expect"]["edge"]["reason"] == "bot_author");
        assert_eq!(reading.from_bots.len(), from_bots, "{}", case["name"]);
        if let Some(arrival) = delivered(case, &reading) {
            assert!(arrival.capabilities.is_empty(), "{}", case["name"]);
            check_arrival(case, arrival, str::to_owned);
        }
    }
}

#[test]
fn payloads_are_read_as_the_vectors_say() {
    check_payloads("payloads_matrix.json");
}

/// Events as a real homeserver sends them, in a room whose id names no server.
#[test]
fn payloads_of_a_room_of_version_12_are_read_as_recorded() {
    check_payloads("payloads_matrix_v12.json");
}
