//! Round trips of everything that is written, and random input that must not crash the reader.

use posthouse_wire::action::{MediaKind, Metadata, PromptKind, PromptOption, PromptStyle, RenameGuard};
use posthouse_wire::delivery::{Meta, PayloadKind, PayloadOrigin, Posted, TriggerKind};
use posthouse_wire::event::{ContextLine, Media, MessageType, Quoted, Speaker};
use posthouse_wire::frame::{
    FromGateway, Hello, LineAssembler, Outbound, ToGateway, in_messages, inbound_line, inbound_line_around,
};
use posthouse_wire::passthrough::Forward;
use posthouse_wire::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

/// Any text, blanks and line breaks and emoji included.
fn words() -> BoxedStrategy<String> {
    prop_oneof![any::<String>(), "[a-z0-9:@/\n\r\u{2028}\"\\\\ -]{0,12}", Just("\u{fffd}😀\0".to_owned())]
        .boxed()
}

fn id<T: From<String> + std::fmt::Debug + 'static>() -> BoxedStrategy<T> {
    words().prop_map(T::from).boxed()
}

fn named<T: From<String> + std::fmt::Debug + 'static>() -> BoxedStrategy<T> {
    ".{1,8}".prop_map(T::from).boxed()
}

fn metadata() -> BoxedStrategy<Metadata> {
    (of(id()), of(id()), of(id()), of(id()), of(any::<bool>()), of(any::<bool>()), of(id()), of(words()))
        .prop_map(
            |(scope_id, guild_id, user_id, thread_id, notify, expect_edits, correlation_id, profile)| {
                Metadata {
                    scope_id,
                    guild_id,
                    user_id,
                    thread_id,
                    notify,
                    expect_edits,
                    correlation_id,
                    profile,
                }
            },
        )
        .boxed()
}

fn action() -> BoxedStrategy<Action> {
    prop_oneof![
        (named(), words(), of(id()), metadata()).prop_map(|(chat_id, content, reply_to, metadata)| {
            Action::Send { chat_id, content, reply_to, metadata }
        }),
        (named(), id(), words(), metadata()).prop_map(|(chat_id, message_id, content, metadata)| {
            Action::Edit { chat_id, message_id, content, metadata }
        }),
        (named(), of(words()), metadata()).prop_map(|(chat_id, content, metadata)| Action::Typing {
            chat_id,
            content,
            metadata
        }),
        (id(), id(), words(), metadata()).prop_map(|(session_key, kind, content, metadata)| {
            Action::FollowUp { session_key, kind, content, metadata }
        }),
        named().prop_map(|chat_id| Action::GetChatInfo { chat_id }),
        newer_action(),
        "x_[a-z]{0,6}".prop_map(|op| Action::Unsupported { op, fault: None }),
    ]
    .boxed()
}

fn newer_action() -> BoxedStrategy<Action> {
    let media_kind = prop_oneof![Just(MediaKind::Image), Just(MediaKind::Voice), Just(MediaKind::Document)];
    let prompt_kind =
        prop_oneof![Just(PromptKind::Approval), Just(PromptKind::Clarify), Just(PromptKind::Choice)];
    let style = of(prop_oneof![Just(PromptStyle::Primary), Just(PromptStyle::Danger)]);
    let option = ("[A-Za-z ]{0,40}x", style).prop_map(|(label, style)| (label, style));
    let options = proptest::collection::vec(option, 1..=25).prop_map(|options| {
        (0..)
            .zip(options)
            .map(|(n, (label, style))| PromptOption { id: format!("c{n}").into(), label, style })
            .collect::<Vec<_>>()
    });
    let said = || "[a-z0-9:/.]{1,40}";
    prop_oneof![
        (named(), media_kind, said(), of(said()), of(said()), of(id()), metadata()).prop_map(
            |(chat_id, media_kind, source_url, content, filename, reply_to, metadata)| Action::SendMedia {
                chat_id,
                media_kind,
                source_url,
                content,
                filename,
                reply_to,
                metadata,
            }
        ),
        (named(), prompt_kind, "[A-Za-z0-9_.-]{1,32}", words(), options, of(id()), metadata()).prop_map(
            |(chat_id, prompt_kind, prompt_id, content, options, reply_to, metadata)| Action::Prompt {
                chat_id,
                prompt_kind,
                prompt_id: prompt_id.into(),
                content,
                options,
                reply_to,
                metadata,
            }
        ),
        (named(), id(), said(), any::<bool>(), metadata()).prop_map(
            |(chat_id, message_id, emoji, remove, metadata)| Action::React {
                chat_id,
                message_id,
                emoji,
                remove,
                metadata
            }
        ),
        (named(), said(), of(named()), metadata()).prop_map(
            |(chat_id, thread_name, message_id, metadata)| {
                Action::ThreadCreate { chat_id, thread_name, message_id, metadata }
            }
        ),
        (named(), id(), said(), any::<bool>(), of(words()), metadata()).prop_map(
            |(chat_id, thread_id, thread_name, only_if_connector_created, only_if_current_name, metadata)| {
                let guard = RenameGuard { only_if_connector_created, only_if_current_name };
                Action::ThreadRename { chat_id, thread_id, thread_name, guard, metadata }
            }
        ),
        (named(), 1..i64::MAX, words(), any::<bool>(), metadata()).prop_map(
            |(chat_id, draft_id, content, is_final, metadata)| Action::Draft {
                chat_id,
                draft_id,
                content,
                is_final,
                metadata
            }
        ),
    ]
    .boxed()
}

fn from_gateway() -> BoxedStrategy<FromGateway> {
    prop_oneof![
        (id(), id(), of(words()), of(any::<u16>())).prop_map(|(platform, bot_id, client, window)| {
            FromGateway::Hello(Hello {
                platform,
                bot_id,
                client,
                window,
                fires: window.is_some(),
                command_manifest: None,
            })
        }),
        named().prop_map(|entry| FromGateway::InboundAck { entry }),
        (named(), action(), of(named()), of(named())).prop_map(|(request_id, action, platform, bot_id)| {
            FromGateway::Outbound(Outbound { request_id, action, platform, bot_id })
        }),
        (id(), of(words())).prop_map(|(session_key, reason)| FromGateway::Interrupt { session_key, reason }),
        Just(FromGateway::GoingIdle),
    ]
    .boxed()
}

fn source() -> BoxedStrategy<Source> {
    let places = (id(), of(id()), words(), of(words()), of(id()), of(words()), of(id()), of(words()));
    let rest = (of(id()), of(id()), of(id()), of(id()), of(id()), of(words()), of(id()));
    (places, rest)
        .prop_map(|(places, rest)| {
            let (platform, chat_id, chat_type, chat_name, user_id, user_name, thread_id, chat_topic) = places;
            let (
                user_id_alt,
                chat_id_alt,
                scope_id,
                parent_chat_id,
                message_id,
                profile,
                prospective_thread_id,
            ) = rest;
            Source {
                platform,
                chat_id,
                chat_type,
                chat_name,
                user_id,
                user_name,
                thread_id,
                chat_topic,
                user_id_alt,
                chat_id_alt,
                scope_id,
                parent_chat_id,
                message_id,
                profile,
                prospective_thread_id,
            }
        })
        .boxed()
}

fn event() -> BoxedStrategy<Event> {
    let kinds = [MessageType::Text, MessageType::Photo, MessageType::Voice, MessageType::Command];
    let line = (words(), of(words()), of(id()))
        .prop_map(|(text, user_name, user_id)| ContextLine { text, source: Speaker { user_name, user_id } });
    let media = (of(words()), words(), of(any::<u64>())).prop_map(|(url, kind, size)| Media {
        url,
        kind,
        size,
        ..Media::default()
    });
    let quoted = (of(words()), of(any::<bool>())).prop_map(|(text, is_own)| Quoted {
        text,
        is_own,
        ..Quoted::default()
    });
    let said = (words(), proptest::sample::select(kinds.to_vec()), source(), of(id()), of(id()));
    let rest = (
        vec(words(), 0..3),
        vec(media, 0..3),
        vec(line, 0..3),
        of(quoted),
        of(id()),
        of(words()),
        of(posted()),
        of((words(), words(), of(words()), of(id()))),
    );
    (said, rest)
        .prop_map(|(said, rest)| {
            let (text, message_type, source, message_id, reply_to_message_id) = said;
            let (media_urls, media, context, reply_to, bot_id, received_at, post, pressed) = rest;
            Event {
                text,
                message_type,
                source,
                message_id,
                reply_to_message_id,
                media_urls,
                media,
                context,
                reply_to,
                bot_id,
                received_at,
                post: post.map(Box::new),
                prompt_response: pressed.map(|(prompt_id, option_id, label, prompt_message_id)| {
                    Box::new(PromptResponse { prompt_id, option_id, label, prompt_message_id })
                }),
            }
        })
        .boxed()
}

fn posted() -> BoxedStrategy<Posted> {
    let kind = proptest::sample::select([PayloadKind::Augment, PayloadKind::Template].to_vec());
    let origin =
        (words(), of(words()), of(words())).prop_map(|(skill_name, entry_skill_name, caller_agent_id)| {
            PayloadOrigin {
                skill_name,
                entry_skill_name,
                trigger_kind: TriggerKind::Cron,
                caller_agent_id,
                rest: serde_json::Map::default(),
            }
        });
    let meta = (id(), any::<i64>(), origin, of(words()), of(id())).prop_map(
        |(dispatch_id, sent_at, origin, event_type, correlation_id)| Meta {
            dispatch_id,
            sent_at,
            origin,
            event_type,
            correlation_id,
            rest: serde_json::Map::default(),
        },
    );
    (kind, of(meta), any::<bool>(), of(words()))
        .prop_map(|(kind, meta, expects_reply, preamble)| Posted { kind, meta, expects_reply, preamble })
        .boxed()
}

fn outcome() -> BoxedStrategy<Outcome> {
    let info = (words(), words()).prop_map(|(name, kind)| ChatInfo { name, kind });
    let thread = (of(id()), of(words()));
    (any::<bool>(), of(id()), of(words()), of(words()), of(info), thread)
        .prop_map(|(success, message_id, error, code, chat_info, (thread_id, auto_thread_name))| Outcome {
            success,
            message_id,
            error,
            code,
            chat_info,
            thread_id,
            auto_thread_name,
        })
        .boxed()
}

fn to_gateway() -> BoxedStrategy<ToGateway> {
    let forward =
        (id(), id(), words(), words(), vec((words(), words()), 0..3), vec(any::<u8>(), 0..20), of(words()))
            .prop_map(|(platform, bot_id, method, path, headers, body, profile)| Forward {
                platform,
                bot_id,
                method,
                path,
                headers,
                body_b64: Forward::encoded(&body),
                profile,
            });
    prop_oneof![
        (words(), words(), 1..100_000_u32, any::<bool>(), vec(words(), 0..3)).prop_map(
            |(platform, label, max_message_length, supports_edit, supported_ops)| {
                let new = Descriptor::new(platform, &label);
                ToGateway::Descriptor(Box::new(Descriptor {
                    max_message_length,
                    supports_edit,
                    supported_ops,
                    ..new
                }))
            }
        ),
        (event(), of(named()))
            .prop_map(|(event, entry)| ToGateway::Inbound { event: Box::new(event), entry }),
        (named(), outcome())
            .prop_map(|(request_id, result)| ToGateway::OutboundResult { request_id, result }),
        (id(), id()).prop_map(|(session_key, chat_id)| ToGateway::InterruptInbound { session_key, chat_id }),
        (forward, of(named()))
            .prop_map(|(forward, entry)| ToGateway::PassthroughForward { forward: Box::new(forward), entry }),
        Just(ToGateway::GoingIdleAck),
    ]
    .boxed()
}

/// Ids that a stock reader accepts only as strings, at any place. A gateway numbers its drafts.
fn ids_are_strings(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().all(|(name, value)| {
            let id = (name.ends_with("_id") && name != "draft_id")
                || name.ends_with("Id")
                || matches!(name.as_str(), "session_key" | "platform");
            (!id || value.is_string() || value.is_null()) && ids_are_strings(value)
        }),
        Value::Array(items) => items.iter().all(ids_are_strings),
        _ => true,
    }
}

fn check_line(line: &str) {
    assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "one line: {line:?}");
    let value: Value = serde_json::from_str(line).unwrap();
    assert!(value.is_object() && value["type"].is_string(), "{line}");
    assert!(ids_are_strings(&value), "{line}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_gateway_says_reads_back(frame in from_gateway()) {
        let line = frame.line();
        check_line(&line);
        prop_assert_eq!(FromGateway::read(line.trim_end_matches('\n').as_bytes()), Ok(frame));
    }

    #[test]
    fn what_a_connector_says_is_one_object_a_line_with_string_ids_and_reads_back(frame in to_gateway()) {
        let line = frame.line();
        check_line(&line);
        prop_assert_eq!(ToGateway::read(line.as_bytes()), Ok(frame));
    }

    #[test]
    fn a_kept_event_goes_out_as_it_would_have_gone_at_once(event in event(), entry in named::<EntryId>()) {
        let kept = RawValue::from_string(serde_json::to_string(&event).unwrap()).unwrap();
        let pretty = RawValue::from_string(serde_json::to_string_pretty(&event).unwrap()).unwrap();
        let at_once = ToGateway::Inbound { event: Box::new(event), entry: Some(entry.clone()) };
        prop_assert_eq!(inbound_line(&kept, &entry), at_once.line());
        prop_assert_eq!(inbound_line_around(kept.get().as_bytes(), &entry), Some(at_once.line()));
        let spread = inbound_line(&pretty, &entry);
        check_line(&spread);
        prop_assert_eq!(ToGateway::read(spread.as_bytes()), Ok(at_once));
    }

    #[test]
    fn lines_survive_being_cut_into_messages(frames in vec(to_gateway(), 1..4), most in 1..64_usize) {
        let sent: String = frames.iter().map(ToGateway::line).collect();
        let (mut lines, mut heard) = (LineAssembler::new(usize::MAX), Vec::new());
        for message in in_messages(&sent, most) {
            lines.push(message.as_bytes(), |line| heard.push(ToGateway::read(line).unwrap())).unwrap();
        }
        prop_assert_eq!(heard, frames);
    }

    #[test]
    fn any_bytes_at_all_are_read_or_ignored(bytes in vec(any::<u8>(), 0..200)) {
        let _ = (FromGateway::read(&bytes), ToGateway::read(&bytes));
    }

    #[test]
    fn any_text_at_all_is_a_token_or_is_none(text in words()) {
        let _ = token::verify(&text, [&Secret::new("s")], 0);
    }

    #[test]
    fn a_deliverable_source_has_a_plausible_key(source in source()) {
        prop_assert_eq!(session_key::stock(&source, &Default::default()).is_ok(), !session_key::plausible(&source).is_empty());
        if source.deliverable().is_ok() {
            prop_assert!(!session_key::plausible(&source).is_empty());
        }
    }
}

/// A deterministic generator, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}

fn spoiled(line: &[u8], dice: &mut Dice) -> Vec<u8> {
    const SHARDS: [&[u8]; 10] =
        [b"\\ud83d", b"\\ude00", b"NaN", b"\"", b"\\", b"{", b"]", b"null", b"\xff", b"-Infinity"];
    let mut bytes = line.to_vec();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(bytes.len().max(1)).min(bytes.len());
        match dice.roll(4) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= 1 << dice.roll(8),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ => drop(bytes.splice(at..at, SHARDS[dice.roll(SHARDS.len())].iter().copied())),
        }
    }
    bytes
}

#[test]
fn frames_made_of_spoiled_vectors_never_bring_the_reader_down() {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for (file, field, kind) in [
        ("events.json", "event", "inbound"),
        ("descriptors.json", "wire", "descriptor"),
        ("passthrough.json", "forward", "passthrough_forward"),
    ] {
        for case in crate::vectors::cases(file, "cases") {
            let name = if field == "wire" { "descriptor" } else { field };
            lines.push(
                serde_json::json!({"type": kind, name: case[field], "bufferId": "ent_1"})
                    .to_string()
                    .into_bytes(),
            );
        }
    }
    for action in
        [r#"{"op":"send","chat_id":"c","content":"\ud83d\ude00"}"#, r#"{"op":"typing","chat_id":7}"#]
    {
        lines.push(format!(r#"{{"type":"outbound","requestId":"r","action":{action}}}"#).into_bytes());
    }
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for _ in 0..6_000 {
        let bytes = spoiled(&lines[dice.roll(lines.len())], &mut dice);
        let _ = FromGateway::read(&bytes);
        if let Ok(frame) = ToGateway::read(&bytes) {
            // Everything that can be read can be written, and is then safe for a stock reader.
            check_line(&frame.line());
        }
    }
}
