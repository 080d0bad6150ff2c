//! Hostile and malformed lines.

use posthouse_wire::action::ActionFault;
use posthouse_wire::frame::{FromGateway, Outbound, ToGateway, UnreadableFrame};
use posthouse_wire::{Action, RequestId};
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn heard(line: &str) -> Result<FromGateway, UnreadableFrame> {
    FromGateway::read(line.as_bytes())
}

fn content_of(line: &str) -> String {
    match heard(line) {
        Ok(FromGateway::Outbound(outbound)) => match outbound.action {
            Action::Send { content, .. } => content,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn send(content: &str) -> String {
    format!(
        r#"{{"type":"outbound","requestId":"r1","action":{{"op":"send","chat_id":"c","content":"{content}"}}}}"#
    )
}

#[test]
fn what_is_no_object_with_a_type_we_know_is_ignored() {
    let deep_array = format!(r#"{{"type":"hello","platform":{}}}"#, "[".repeat(100_000));
    let closed_bomb =
        format!(r#"{{"type":"hello","platform":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    for line in [
        "",
        " ",
        "null",
        "true",
        "1",
        "-1e999",
        "NaN",
        "\"hello\"",
        "[]",
        "{}",
        "{",
        "}",
        "[{\"type\":\"going_idle\"}]",
        r#"["going_idle",null,null,null,null,null,null,null,null,null,null,null,null,null,null,null]"#,
        r#"{"type":null}"#,
        r#"{"type":5}"#,
        r#"{"type":["hello"]}"#,
        r#"{"type":"HELLO"}"#,
        r#"{"type":"nope"}"#,
        r#"{"type":"descriptor"}"#,
        r#"{"type":"inbound","event":{}}"#,
        r#"{"type":"going_idle"} x"#,
        r#"{"type":"hello"}"#,
        r#"{"type":"hello","platform":{}}"#,
        r#"{"type":"hello","platform":null}"#,
        r#"{"type":"inbound_ack"}"#,
        r#"{"type":"inbound_ack","bufferId":""}"#,
        r#"{"type":"inbound_ack","bufferId":[]}"#,
        r#"{"type":"outbound","action":{"op":"send"}}"#,
        r#"{"type":"outbound","requestId":"","action":{}}"#,
        r#"{"type":"interrupt"}"#,
        r#"{"type":"interrupt","session_key":{}}"#,
        &deep_array,
        &closed_bomb,
        &"{\"type\":".repeat(100_000),
    ] {
        assert_eq!(heard(line), Err(UnreadableFrame::Ignored), "{}", &line[..line.len().min(80)]);
    }
}

#[test]
fn an_object_of_any_depth_in_a_field_that_we_do_not_know_does_no_harm() {
    let bomb = format!(r#"{{"x":{}{},"type":"going_idle"}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(heard(&bomb), Ok(FromGateway::GoingIdle));
    assert_eq!(heard("  {\"type\":\"going\\u005fidle\"}\r"), Ok(FromGateway::GoingIdle));
}

#[test]
fn a_request_that_cannot_be_understood_is_still_answerable() {
    let answerable = Err(UnreadableFrame::Answerable { request_id: RequestId::new("r1") });
    for action in ["", r#","action":null"#, r#","action":[]"#, r#","action":"send""#, r#","action":7"#] {
        assert_eq!(heard(&format!(r#"{{"type":"outbound","requestId":"r1"{action}}}"#)), answerable);
    }
    for (action, op, missing) in [
        ("{}", "", None),
        (r#"{"op":5}"#, "", None),
        (r#"{"op":"sing"}"#, "sing", None),
        (r#"{"op":"send"}"#, "send", Some("chat_id")),
        (r#"{"op":"send","chat_id":"","content":"x"}"#, "send", Some("chat_id")),
        (r#"{"op":"send","chat_id":"c","content":null}"#, "send", Some("content")),
        (r#"{"op":"edit","chat_id":"c","content":"x"}"#, "edit", Some("message_id")),
        (r#"{"op":"follow_up","session_key":"k","content":"x"}"#, "follow_up", Some("kind")),
    ] {
        assert_eq!(fault_of(action), (op.to_owned(), missing.map(ActionFault::Missing)), "{action}");
    }
}

/// The op and the fault of an action that cannot be carried out.
fn fault_of(action: &str) -> (String, Option<ActionFault>) {
    let line = format!(r#"{{"type":"outbound","requestId":"r1","action":{action}}}"#);
    match heard(&line) {
        Ok(FromGateway::Outbound(Outbound { action: Action::Unsupported { op, fault }, .. })) => (op, fault),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn a_newer_op_with_a_missing_or_forbidden_field_is_refused_and_the_field_is_named() {
    let long = "x".repeat(33);
    let prompt = |id: &str, options: &str| {
        format!(
            r#"{{"op":"prompt","chat_id":"c","content":"?","prompt_kind":"choice","prompt_id":"{id}","options":{options}}}"#
        )
    };
    let yes = r#"[{"id":"yes","label":"Yes"}]"#;
    let many = format!(
        "[{}]",
        (0..26).map(|n| format!(r#"{{"id":"c{n}","label":"x"}}"#)).collect::<Vec<_>>().join(",")
    );
    let (missing, invalid) = (ActionFault::Missing, ActionFault::Invalid);
    for (action, fault) in [
        (r#"{"op":"send_media","chat_id":"c","source_url":"https://a"}"#.to_owned(), missing("media_kind")),
        (r#"{"op":"send_media","chat_id":"c","media_kind":"hologram","source_url":"u"}"#.to_owned(), invalid("media_kind")),
        (r#"{"op":"send_media","chat_id":"c","media_kind":"image"}"#.to_owned(), missing("source_url")),
        (
            format!(r#"{{"op":"send_media","chat_id":"c","media_kind":"image","source_url":"{}"}}"#, "u".repeat(2049)),
            invalid("source_url"),
        ),
        (prompt("", yes), invalid("prompt_id")),
        (prompt("a:b", yes), invalid("prompt_id")),
        (prompt("ä", yes), invalid("prompt_id")),
        (prompt("a\\n", yes), invalid("prompt_id")),
        (prompt(&long, yes), invalid("prompt_id")),
        (prompt("p", "null"), missing("options")),
        (prompt("p", "[]"), invalid("options")),
        (prompt("p", &many), invalid("options")),
        (prompt("p", "[7]"), invalid("options")),
        (prompt("p", r#"[["id"]]"#), invalid("options")),
        (prompt("p", r#"[{"label":"Yes"}]"#), invalid("options")),
        (prompt("p", r#"[{"id":"yes","label":" "}]"#), invalid("options")),
        (prompt("p", r#"[{"id":"a b","label":"Yes"}]"#), invalid("options")),
        (prompt("p", r#"[{"id":"a","label":"Yes"},{"id":"a","label":"No"}]"#), invalid("options")),
        // Together they are one byte too long for a button.
        (prompt(&"p".repeat(32), &format!(r#"[{{"id":"{}","label":"Yes"}}]"#, "o".repeat(28))), invalid("options")),
        (r#"{"op":"prompt","chat_id":"c","content":"?","prompt_kind":"poll","prompt_id":"p","options":[]}"#.to_owned(), invalid("prompt_kind")),
        (r#"{"op":"react","chat_id":"c","emoji":"x"}"#.to_owned(), missing("message_id")),
        (r#"{"op":"react","chat_id":"c","message_id":"m","emoji":""}"#.to_owned(), invalid("emoji")),
        (
            format!(r#"{{"op":"react","chat_id":"c","message_id":"m","emoji":"{}"}}"#, "x".repeat(65)),
            invalid("emoji"),
        ),
        (r#"{"op":"thread_create","chat_id":"c","thread_name":" "}"#.to_owned(), invalid("thread_name")),
        (r#"{"op":"thread_rename","chat_id":"c","thread_name":"n"}"#.to_owned(), missing("message_id")),
        (
            r#"{"op":"thread_rename","chat_id":"c","message_id":"t","thread_name":"n","only_if_current_name":[]}"#.to_owned(),
            invalid("only_if_current_name"),
        ),
        (
            r#"{"op":"thread_rename","chat_id":"c","message_id":"t","thread_name":"n","only_if_connector_created":"yes"}"#.to_owned(),
            invalid("only_if_connector_created"),
        ),
        (r#"{"op":"draft","chat_id":"c","draft_id":0,"content":"x"}"#.to_owned(), invalid("draft_id")),
        (r#"{"op":"draft","chat_id":"c","draft_id":"7x","content":"x"}"#.to_owned(), missing("draft_id")),
    ] {
        assert_eq!(fault_of(&action).1, Some(fault), "{action}");
    }
}

#[test]
fn long_labels_and_thread_names_are_cut_by_characters() {
    let read = |action: Value| Action::read(&RawValue::from_string(action.to_string()).unwrap());
    let long = "ä".repeat(200);
    let options = json!([{ "id": "a", "label": long, "style": "neon" }]);
    let asked = json!({
        "op": "prompt", "chat_id": "c", "content": "?", "prompt_kind": "choice", "prompt_id": "p", "options": options,
    });
    let Action::Prompt { options, .. } = read(asked) else { panic!("a prompt") };
    assert_eq!(options[0].label, "ä".repeat(75));
    assert_eq!(options[0].style, None);
    let asked = json!({ "op": "thread_create", "chat_id": "c", "thread_name": long });
    let Action::ThreadCreate { thread_name, .. } = read(asked) else { panic!("a thread") };
    assert_eq!(thread_name, "ä".repeat(100));
}

#[test]
fn lone_surrogates_are_answered_with_the_replacement_character_and_pairs_stay() {
    assert_eq!(content_of(&send(r"a\ud83d b")), "a\u{fffd} b");
    assert_eq!(content_of(&send(r"\uDE00")), "\u{fffd}");
    assert_eq!(content_of(&send(r"\ud83d\ude00 \ud83d")), "😀 \u{fffd}");
    assert_eq!(content_of(&send(r"\ud83d\ude00 \uD83D\uDE00")), "😀 😀");
    assert_eq!(content_of(&send(r"path\\ud83d")), r"path\ud83d");
}

#[test]
fn numbers_that_are_none_and_bytes_that_are_no_text_do_not_cost_the_request() {
    let line = r#"{"type":"outbound","requestId":"r1","score":NaN,"action":{"op":"send","chat_id":"c","content":"NaN","metadata":{"notify":-Infinity,"user_id":"u"}}}"#;
    assert_eq!(content_of(line), "NaN");
    let mut bytes = send("a?b").into_bytes();
    let at = bytes.iter().position(|byte| *byte == b'?').unwrap();
    bytes[at] = 0xff;
    let Ok(FromGateway::Outbound(outbound)) = FromGateway::read(&bytes) else { panic!() };
    assert!(matches!(outbound.action, Action::Send { content, .. } if content == "a\u{fffd}b"));
}

#[test]
fn wrong_types_of_optional_fields_read_as_absent() {
    let line = r#"{"type":"outbound","requestId":7,"platform":{},"botId":[],"action":{"op":"send","chat_id":-100,"content":"x","reply_to":{},"metadata":["s","g","u","t",true]}}"#;
    let Ok(FromGateway::Outbound(outbound)) = heard(line) else { panic!() };
    assert_eq!((outbound.platform, outbound.bot_id), (None, None));
    assert_eq!(outbound.request_id, "7");
    let Action::Send { chat_id, reply_to, metadata, .. } = outbound.action else { panic!() };
    assert_eq!(chat_id, "-100");
    assert_eq!((reply_to, metadata), (None, Default::default()));
    let Ok(FromGateway::Hello(hello)) =
        heard(r#"{"type":"hello","platform":"web","botId":null,"window":-3,"client":9}"#)
    else {
        panic!()
    };
    assert!(hello.bot_id.is_empty() && hello.window.is_none() && hello.client.is_none());
}

#[test]
fn a_command_manifest_marks_a_newer_gateway() {
    for (manifest, told) in [("[]", true), (r#"[{"name":"new"}]"#, true), ("null", false)] {
        let line =
            format!(r#"{{"type":"hello","platform":"discord","botId":"b","command_manifest":{manifest}}}"#);
        let Ok(FromGateway::Hello(hello)) = heard(&line) else { panic!("{line}") };
        assert_eq!(hello.has_command_manifest, told);
    }
}

#[test]
fn arrays_where_objects_belong_fill_no_struct() {
    let event = json!({"type": "inbound", "event": {"source": ["web", "c", "dm"], "context": [["x", {}]], "text": "t"}});
    let Ok(ToGateway::Inbound { event, .. }) = ToGateway::read(event.to_string().as_bytes()) else {
        panic!()
    };
    assert!(event.source.platform.is_empty() && event.context.is_empty());
    for line in [
        r#"{"type":"inbound","event":["t"]}"#,
        r#"{"type":"descriptor","descriptor":[1]}"#,
        r#"{"type":"passthrough_forward","forward":["discord","b","POST","/",[],""]}"#,
    ] {
        assert_eq!(ToGateway::read(line.as_bytes()), Err(UnreadableFrame::Ignored), "{line}");
    }
}
