//! Tests of actions on Discord: messages, edits, reactions, threads, files, rate limits and errors.

use edge::platform::Platform;
use posthouse_time::Timepiece;
use posthouse_wire::Action;
use posthouse_wire::action::{Metadata, RenameGuard};
use serde_json::json;
use stand_ins::discord::{DiscordLimits, Settings};
use stand_ins::harness::{CallFault, CallFaultKind};

use super::actors::{APPLICATION, CHANNEL, TOKEN, bot, error, open, open_on_wall_time, send};

#[tokio::test]
async fn a_long_answer_becomes_several_messages_and_an_edit_changes_all_of_them() {
    let fixture = open_on_wall_time().await;
    let text = "a line of a long answer\n".repeat(200);
    let sent = fixture.outcome(send(CHANNEL, &text)).await;
    assert!(sent.success, "{sent:?}");
    let parts = fixture.sent(CHANNEL);
    assert_eq!(parts.len(), 3);
    assert!(parts.iter().all(|part| part.chars().count() <= 2000));
    let edit = |content: &str| Action::Edit {
        chat_id: CHANNEL.into(),
        message_id: sent.message_id.clone().unwrap(),
        content: content.to_owned(),
        metadata: Metadata::default(),
    };
    assert!(fixture.outcome(edit("short")).await.success);
    let rows = |kind: &str| {
        let filter = serde_json::from_value(json!({"chat": CHANNEL, "kind": kind})).unwrap();
        fixture.stand_in.transcript(&filter).len()
    };
    assert_eq!((rows("edited"), rows("deleted")), (1, 2));
}

#[tokio::test]
async fn a_message_whose_answer_is_lost_is_sent_again_and_appears_once() {
    let fixture = open_on_wall_time().await;
    let call = "POST /channels/{channel}/messages";
    let lost = fixture.stand_in.fault(CallFault::new(CallFaultKind::DropAfterWrite).on(call));
    let sent = fixture.outcome(send(CHANNEL, "once")).await;
    assert!(sent.success, "{sent:?}");
    assert_eq!(fixture.stand_in.struck(lost), 1);
    assert_eq!(fixture.sent(CHANNEL), ["once"], "Discord recognises the nonce");
}

#[tokio::test]
async fn rate_limits_are_waited_for_and_never_run_into() {
    let settings = Settings {
        limits: Some(DiscordLimits { messages_per_5_seconds: 2, ..Default::default() }),
        ..Settings::default()
    };
    let fixture = open(Timepiece::wall(), settings).await;
    for number in 0..3 {
        let sent = fixture.outcome(send(CHANNEL, &format!("message {number}"))).await;
        assert!(sent.success, "{sent:?}");
    }
    assert_eq!(fixture.sent(CHANNEL).len(), 3);
    assert!(fixture.stand_in.refusals(&Default::default()).is_empty(), "the third waited instead");
}

#[tokio::test]
async fn a_request_to_wait_is_honoured_within_the_deadline_and_told_beyond_it() {
    let fixture = open_on_wall_time().await;
    let wait = |retry_after| CallFault::new(CallFaultKind::TooManyRequests { retry_after, global: false });
    fixture.stand_in.fault(wait(0.2));
    assert!(fixture.outcome(send(CHANNEL, "a moment later")).await.success);
    fixture.stand_in.fault(wait(40.0));
    let refused = fixture.outcome(send("911", "never")).await;
    assert!(error(&refused).contains("rate limit: Discord asks to wait 40 s"));
}

#[tokio::test]
async fn what_cannot_be_carried_out_is_told_in_words_that_gateways_know() {
    let fixture = open_on_wall_time().await;
    assert!(error(&fixture.outcome(send("404404", "x")).await).contains("chat not found"));
    assert!(error(&fixture.outcome(send("../users/@me", "x")).await).contains("chat not found"));
    assert!(error(&fixture.outcome(send(CHANNEL, " ")).await).contains("empty"));
    let edit = Action::Edit {
        chat_id: CHANNEL.into(),
        message_id: "5".into(),
        content: "x".to_owned(),
        metadata: Metadata::default(),
    };
    assert!(error(&fixture.outcome(edit).await).contains("message to edit not found"));
    let stranger = fixture.order(send(CHANNEL, "x"));
    let mut wrong = bot(json!({}));
    wrong.credentials.insert("token", posthouse_wire::Secret::new("canary-wrong"));
    let refused = fixture.discord.perform(&wrong, stranger).await.outcome;
    assert!(error(&refused).starts_with("unauthorized"));
}

#[tokio::test]
async fn reactions_typing_threads_and_chat_names_have_their_calls() {
    let fixture = open_on_wall_time().await;
    let message = fixture.outcome(send(CHANNEL, "hello")).await.message_id.unwrap();
    for remove in [false, true] {
        let react = Action::React {
            chat_id: CHANNEL.into(),
            message_id: message.clone(),
            emoji: "✅".to_owned(),
            remove,
            metadata: Metadata::default(),
        };
        assert!(fixture.outcome(react).await.success);
    }
    let typing = Action::Typing { chat_id: CHANNEL.into(), content: None, metadata: Metadata::default() };
    assert!(fixture.outcome(typing).await.success);
    let info = fixture.outcome(Action::GetChatInfo { chat_id: CHANNEL.into() }).await;
    assert_eq!(info.chat_info.unwrap().name, "general");
    for (chat, under) in [(CHANNEL, Some(message)), (CHANNEL, None), ("912", None)] {
        let create = Action::ThreadCreate {
            chat_id: chat.into(),
            thread_name: "notes".to_owned(),
            message_id: under,
            metadata: Metadata::default(),
        };
        let created = fixture.outcome(create).await;
        assert!(created.success, "{chat}: {created:?}");
        let thread = created.thread_id.unwrap();
        let inside = Action::Send {
            chat_id: chat.into(),
            content: "inside".to_owned(),
            reply_to: None,
            metadata: Metadata { thread_id: Some(thread.clone()), ..Metadata::default() },
        };
        assert!(fixture.outcome(inside).await.success);
        assert!(fixture.sent(thread.as_str()).contains(&"inside".to_owned()));
        let rename = Action::ThreadRename {
            chat_id: chat.into(),
            thread_id: thread,
            thread_name: "better".to_owned(),
            guard: RenameGuard::default(),
            metadata: Metadata::default(),
        };
        let renamed = fixture.outcome(rename).await;
        assert!(renamed.success, "{renamed:?}");
    }
}

#[tokio::test]
async fn a_person_sees_a_channel_if_their_permissions_allow_it() {
    let fixture = open_on_wall_time().await;
    let guild = json!({"id": "901", "name": "Two", "channels": [{"id": "920", "name": "open"},
        {"id": "921", "name": "closed", "permission_overwrites": [{"id": "901", "deny": "1024"},
            {"id": "5", "allow": "1024"}, {"id": APPLICATION, "type": 1, "allow": "1024"}]}],
        "roles": [{"id": "901", "permissions": "1024"}, {"id": "5", "name": "staff"}],
        "members": [{"user": {"id": "77"}}, {"user": {"id": "78"}, "roles": ["5"]}]});
    fixture.stand_in.add_guild(serde_json::from_value(guild).unwrap());
    let sees =
        async |user: &str, chat: &str| fixture.discord.sees(&fixture.bot, &user.into(), &chat.into()).await;
    assert!(sees("77", "920").await && sees("78", "920").await);
    assert!(!sees("77", "921").await && sees("78", "921").await);
    assert!(!sees("79", "920").await, "not a member");
    assert!(!sees("77", "404404").await);
    let guild = json!({"id": "902", "name": "Three", "channels": [{"id": "930", "name": "open"},
        {"id": "931", "type": 12, "name": "private", "parent_id": "930", "thread_members": ["78"]},
        {"id": "932", "type": 11, "name": "public", "parent_id": "930"}],
        "members": [{"user": {"id": "77"}}, {"user": {"id": "78"}}]});
    fixture.stand_in.add_guild(serde_json::from_value(guild).unwrap());
    assert!(sees("77", "930").await && sees("77", "932").await);
    assert!(!sees("77", "931").await && sees("78", "931").await, "a private thread is seen by its members");
}

#[tokio::test]
async fn the_token_is_checked_and_the_key_for_interactions_is_read_from_discord() {
    let fixture = open_on_wall_time().await;
    let met = fixture.discord.check_credentials(&bot(json!({}))).await.unwrap();
    assert_eq!(met.id, APPLICATION);
    assert_eq!(met.settings["public_key"], json!(fixture.stand_in.public_key(APPLICATION)));
    let mut wrong = bot(json!({}));
    wrong.credentials.insert("token", posthouse_wire::Secret::new("canary-wrong"));
    let refused = fixture.discord.check_credentials(&wrong).await.unwrap_err();
    assert_eq!(refused.to_string(), "Discord does not accept this token");
    assert!(!format!("{refused:?}").contains(TOKEN));
}

#[tokio::test]
async fn announced_commands_become_the_commands_of_the_application() {
    let fixture = open_on_wall_time().await;
    let manifest =
        serde_json::value::to_raw_value(&json!([{"name": "ask", "description": "Ask me"}])).unwrap();
    let manifest = posthouse_wire::frame::CommandManifest::read(Some(&manifest)).unwrap();
    fixture.discord.register_commands(&fixture.bot, &manifest).await.unwrap();
    fixture.inject(json!({"do": "command", "name": "ask"}));
}
