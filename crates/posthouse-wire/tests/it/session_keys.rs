//! Session keys, equal to those of the gateways.

use posthouse_wire::event::Undeliverable;
use posthouse_wire::session_key::{self, KNOWN_PLATFORMS, Options, Unkeyable};
use posthouse_wire::{SessionKey, Source};
use serde_json::{Value, json};

use crate::vectors::{cases, text};

fn source(case: &Value) -> Source {
    serde_json::from_str(&case["source"].to_string()).unwrap()
}

fn options(case: &Value) -> Options {
    let options = &case["options"];
    Options {
        group_sessions_per_user: options["group_sessions_per_user"].as_bool().unwrap(),
        thread_sessions_per_user: options["thread_sessions_per_user"].as_bool().unwrap(),
        profile: options["profile"].as_str().map(str::to_owned),
    }
}

#[test]
fn stock_keys_equal_the_vectors_and_what_kills_the_client_is_never_written() {
    let mut refused = 0;
    for case in cases("session_keys.json", "cases") {
        let (id, source) = (text(&case, "id"), source(&case));
        let key = session_key::stock(&source, &options(&case));
        match case["expect"]["key"].as_str() {
            Some(expected) => assert_eq!(key.unwrap(), expected, "{id}"),
            None => {
                refused += 1;
                never_written(id, &case["source"], &source);
            }
        }
    }
    // The number of vectors is fixed only for the project's own folder.
    if std::env::var_os("POSTHOUSE_VECTORS").is_none() {
        assert!(refused >= 5, "the vectors hold cases that kill the client");
    }
}

/// A source that crashes the client is either refused or repaired when it is written.
fn never_written(id: &str, wire: &Value, source: &Source) {
    match source.deliverable() {
        Err(Undeliverable::Unkeyable(_)) => {
            assert!(session_key::plausible(source).is_empty(), "{id}");
        }
        Err(other) => panic!("{id}: {other}"),
        Ok(()) => {
            let written = serde_json::to_value(source).unwrap();
            assert_ne!(&written, wire, "{id}");
            assert!(written["chat_type"].is_string(), "{id}");
            for part in ["chat_id", "thread_id", "user_id"] {
                assert!(written[part].is_string() || written[part].is_null(), "{id}: {part}");
            }
        }
    }
}

#[test]
fn newer_keys_equal_the_vectors() {
    for case in cases("session_keys_newer.json", "cases") {
        let key = session_key::newer(&source(&case), &options(&case)).unwrap();
        assert_eq!(key, text(&case["expect"], "key"), "{}", case["id"]);
    }
}

#[test]
fn every_key_of_the_vectors_is_plausible_for_its_source() {
    for (file, generation) in [("session_keys.json", 0), ("session_keys_newer.json", 1)] {
        for case in cases(file, "cases") {
            let Some(expected) = case["expect"]["key"].as_str() else { continue };
            // The event carries the profile when the gateway hosts several.
            let mut source = source(&case);
            source.profile = case["options"]["profile"].as_str().map(str::to_owned);
            let keys = session_key::plausible(&source);
            assert!(keys.contains(&SessionKey::new(expected)), "{generation} {}: {keys:?}", case["id"]);
            let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
            assert_eq!(distinct.len(), keys.len(), "{}", case["id"]);
            let default = session_key::stock(&source, &Options::default()).unwrap();
            assert_eq!(keys[0], default, "the stock default comes first");
        }
    }
}

#[test]
fn interaction_keys_of_the_vectors_are_plausible_for_the_normalized_event() {
    for case in cases("passthrough.json", "cases") {
        let seen = &case["expect"]["interaction"];
        let (Some(chat), Some(key)) = (seen["chat_id"].as_str(), seen["session_key"].as_str()) else {
            continue;
        };
        let direct = seen["chat_type"] == "dm";
        let group = json!({"platform": "discord", "chat_id": chat, "user_id": seen["user_id"],
            "chat_type": if direct { "dm" } else { "group" }, "scope_id": seen["scope_id"]});
        let thread = json!({"platform": "discord", "chat_id": chat, "user_id": seen["user_id"],
            "chat_type": if direct { "dm" } else { "thread" }, "thread_id": (!direct).then_some(chat)});
        for source in [group, thread] {
            let source: Source = serde_json::from_str(&source.to_string()).unwrap();
            let keys = session_key::plausible_of_interaction(&source);
            assert!(keys.contains(&SessionKey::new(key)), "{}: {keys:?}", case["id"]);
            assert!(keys.contains(&session_key::stock(&source, &Options::default()).unwrap()));
        }
    }
}

#[test]
fn a_top_level_direct_message_may_be_a_thread_of_its_own() {
    let source: Source = serde_json::from_str(
        r#"{"platform": "slack", "chat_id": "D1", "chat_type": "dm", "message_id": "17.4", "scope_id": "T1"}"#,
    )
    .unwrap();
    let keys = session_key::plausible(&source);
    assert!(keys.contains(&SessionKey::new("agent:main:slack:dm:T1:D1:17.4")), "{keys:?}");
}

#[test]
fn events_without_a_platform_a_type_a_place_or_a_foldable_id_are_not_deliverable() {
    let check = |source: Value, expected: Result<(), Undeliverable>| {
        let source: Source = serde_json::from_str(&source.to_string()).unwrap();
        assert_eq!(source.deliverable(), expected, "{source:?}");
    };
    check(json!({"platform": "web", "chat_id": "r1", "chat_type": "dm"}), Ok(()));
    check(json!({"platform": "web", "user_id": "u1"}), Ok(()));
    check(json!({"chat_id": "r1", "chat_type": "dm"}), Err(Undeliverable::NoPlatform));
    check(json!({"platform": "web", "chat_id": "r1", "chat_type": ""}), Err(Undeliverable::NoChatType));
    check(json!({"platform": "web", "chat_type": "dm"}), Err(Undeliverable::FromNowhere));
    let unkeyable = |part| Err(Undeliverable::Unkeyable(Unkeyable(part)));
    check(json!({"platform": "whatsapp", "chat_id": "a b", "chat_type": "dm"}), unkeyable("chat_id"));
    check(json!({"platform": "WhatsApp", "chat_id": "+", "chat_type": "dm", "user_id": "1"}), Ok(()));
    check(
        json!({"platform": "whatsapp", "chat_id": "1@g.us", "chat_type": "group", "user_id": "名前"}),
        unkeyable("user_id"),
    );
    check(json!({"platform": "whatsapp_cloud", "chat_id": "a b", "chat_type": "dm"}), Ok(()));
}

#[test]
fn known_platforms_are_listed_once_and_in_order() {
    assert!(KNOWN_PLATFORMS.is_sorted_by(|a, b| a < b));
}
