//! Tests of the limits, and that every platform keeps to them.

use std::sync::mpsc;

use axum::Router;
use axum::routing::any;
use futures_util::FutureExt;
use parking_lot::Mutex as SyncMutex;
use posthouse_time::Timepiece;
use posthouse_wire::action::{PromptKind, PromptOption};
use posthouse_wire::{Action, Secret};
use relay::PermittedAction;
use serde_json::json;
use vault::Credentials;

use super::*;
use crate::bots::OpenedBot;
use crate::follow_up::FollowUp;
use crate::platform::Platform;

/// Everything that a platform needs to make a call with a bot.
const SECRETS: [(&str, &str); 4] =
    [("token", "42:token"), ("auth_token", "token"), ("app_secret", "secret"), ("api_secret", "secret")];
/// The platforms that convert and split texts in their own code. A new one gets its answer, place and secrets below.
const PLATFORMS: [&str; 9] = [
    "discord",
    "feishu",
    "matrix",
    "slack",
    "sms",
    "telegram",
    "wecom_callback",
    "whatsapp",
    "whatsapp_cloud",
];
const LONG_LINE: &str = "some *words* of a long answer\n";

fn chunks(text: &str) -> Vec<String> {
    crate::split::split(text, 4000, crate::split::Unit::Chars)
}

#[tokio::test]
async fn a_long_text_leaves_the_async_workers_while_it_is_split() {
    let (split_limits, bot) = (SplitLimits::default(), BotId::from("7001"));
    let text = LONG_LINE.repeat(2_000);
    // This test has one worker, which runs the test itself.
    let worker = Some(std::thread::current().id());
    let thread = |_: &str| Some(std::thread::current().id());
    assert_ne!(
        split_limits.run(&bot, &text, thread).await,
        worker,
        "it is split on the worker that asks for it"
    );
    assert_eq!(split_limits.run(&bot, "short", thread).await, worker);
    let together = split_limits.run(&bot, &text, chunks).await.concat();
    assert_eq!(together.matches("answer").count(), 2_000);
}

#[tokio::test]
async fn long_texts_of_one_bot_leave_a_turn_for_another() {
    let split_limits = SplitLimits::default();
    let noisy = split_limits.bots.get_with_by_ref(&BotId::from("7001"), Arc::default);
    // One of its texts is being split, and more wait.
    let _own = noisy.lock().await;
    let _turn = split_limits.in_all.acquire().await.unwrap();
    let long = "word ".repeat(2_000);
    let (noisy_bot, quiet_bot) = (BotId::from("7001"), BotId::from("7002"));
    let mut waiting = std::pin::pin!(split_limits.run(&noisy_bot, &long, chunks));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert!(!split_limits.run(&quiet_bot, &long, chunks).await.is_empty());
    assert!(waiting.now_or_never().is_none(), "the other still waits for its own turn");
}

/// A server that accepts every call of every platform, and keeps the bodies.
async fn accepting(bodies: Arc<SyncMutex<Vec<String>>>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let accept = move |method: http::Method, uri: http::Uri, body: String| async move {
        let path = uri.path().to_owned();
        bodies.lock().push(body);
        let answer = json!({ "ok": true, "id": "5", "ts": "5.5", "sid": "SM5", "messages": [{ "id": "wamid.5" }],
            "result": { "message_id": 5 }, "code": 0, "tenant_access_token": "t", "expire": 7200,
            "data": { "message_id": "om_5", "items": [{ "message_id": "om_7", "chat_id": "oc_7" }] }, "errcode": 0,
            "access_token": "t", "expires_in": 7200, "msgid": "5", "event_id": "$5", "joined": {} });
        // A room of Matrix has no encryption, and no other state either.
        let is_state = method == http::Method::GET && path.contains("/state/");
        let answer = if is_state { json!({ "errcode": "M_NOT_FOUND" }) } else { answer };
        let status = if is_state { http::StatusCode::NOT_FOUND } else { http::StatusCode::OK };
        (status, [("content-type", "application/json")], answer.to_string())
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(any(accept))).await });
    base
}

fn opened(platform: &dyn Platform, base: &str) -> OpenedBot {
    let mut credentials = Credentials::default();
    for (name, secret) in SECRETS {
        credentials.insert(name, Secret::new(secret));
    }
    let settings = json!({ "api_base_url": base, "account_sid": "AC1", "number": "+15550100",
        "phone_number_id": "42", "homeserver_url": base, "user_id": "@posty:example.org", "corp_id": "wwcorp",
        "agent_id": "7" });
    OpenedBot {
        platform: platform.name().into(),
        id: "42".into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

/// A place of a platform, and a message of it.
fn place(platform: &str) -> (&'static str, &'static str) {
    match platform {
        "feishu" => ("oc_7", "om_7"),
        "matrix" => ("!7:example.org", "$7"),
        "slack" => ("C10", "7.7"),
        "sms" => ("+15550177", "SM7"),
        "wecom_callback" => ("wwcorp:ana", "7"),
        _ => ("15550177", "7"),
    }
}

fn permitted(bot: &OpenedBot, action: Action, clock: &Timepiece) -> PermittedAction {
    PermittedAction {
        id: "act_1".into(),
        tenant: "ten_1".into(),
        instance: "inst_1".into(),
        on: bot.bot_ref(),
        action,
        may_redeem: true,
        ends_turn: false,
        stream_cursor: String::new(),
        deadline: clock.instant() + Duration::from_secs(25),
    }
}

/// The actions with text that a platform carries out.
fn actions(platform: &dyn Platform, bot: &OpenedBot, text: &str) -> Vec<Action> {
    let (chat, message) = place(platform.name());
    let ops = platform.descriptor(bot).supported_ops;
    let (content, metadata) = (text.to_owned(), posthouse_wire::action::Metadata::default());
    let actions = vec![
        Action::Send {
            chat_id: chat.into(),
            content: content.clone(),
            reply_to: None,
            metadata: metadata.clone(),
        },
        Action::Edit {
            chat_id: chat.into(),
            message_id: message.into(),
            content: content.clone(),
            metadata: metadata.clone(),
        },
        Action::Prompt {
            chat_id: chat.into(),
            prompt_id: "p1".into(),
            prompt_kind: PromptKind::Clarify,
            content,
            options: vec![PromptOption { id: "o1".into(), label: "Yes".to_owned(), style: None }],
            reply_to: None,
            metadata,
        },
    ];
    actions.into_iter().filter(|action| ops.iter().any(|op| op == action.op())).collect()
}

/// Follow-ups with the capabilities of these platforms.
fn capability(platform: &str, base: &str) -> Option<(&'static str, String)> {
    match platform {
        "feishu" => Some(("feishu.card_token", "t".to_owned())),
        "slack" => Some(("slack.response_url", format!("{base}/response"))),
        "discord" => Some((
            "discord.interaction_token",
            json!({ "application_id": "1", "interaction_id": "2", "token": "t", "deferred": 6 }).to_string(),
        )),
        _ => None,
    }
}

/// The runtime has one blocking thread, and something else holds it. So a text that is converted on the async worker
/// would be sent, and one that waits for a blocking thread is not.
#[test]
fn on_every_platform_a_long_text_waits_for_a_blocking_thread_and_a_short_one_does_not() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let clock = Timepiece::wall();
        let mut tried = 0;
        for platform in crate::platforms::all(&crate::Config::default(), &clock) {
            if !PLATFORMS.contains(&platform.name()) {
                continue;
            }
            let bodies = Arc::new(SyncMutex::new(Vec::new()));
            let base = accepting(Arc::clone(&bodies)).await;
            let bot = opened(&*platform, &base);
            let long = LONG_LINE.repeat(200);
            for (short_action, long_action) in
                actions(&*platform, &bot, "short").into_iter().zip(actions(&*platform, &bot, &long))
            {
                let what = format!("{} on {}", short_action.op(), platform.name());
                let (release, released) = mpsc::channel::<()>();
                let held = tokio::task::spawn_blocking(move || released.recv());
                let waiting = tokio::spawn({
                    let (platform, bot) = (Arc::clone(&platform), bot.clone());
                    let long_action = permitted(&bot, long_action, &clock);
                    async move { platform.perform(&bot, long_action).await.outcome }
                });
                let sent = platform.perform(&bot, permitted(&bot, short_action, &clock)).await.outcome;
                assert!(sent.success, "{what}: {sent:?}");
                let before = std::mem::take(&mut *bodies.lock());
                assert!(before.iter().all(|body| !body.contains("answer")), "{what}: {before:?}");
                release.send(()).unwrap();
                held.await.unwrap().unwrap();
                assert!(waiting.await.unwrap().success, "{what}");
                assert!(std::mem::take(&mut *bodies.lock()).concat().contains("answer"), "{what}");
                tried += 1;
            }
            let Some((kind, value)) = capability(platform.name(), &base) else { continue };
            let (release, released) = mpsc::channel::<()>();
            let held = tokio::task::spawn_blocking(move || released.recv());
            let action = actions(&*platform, &bot, &long).remove(0);
            let (permitted, kind, value) = (permitted(&bot, action, &clock), kind.into(), Secret::new(value));
            let follow_up = |content| FollowUp { permitted: &permitted, kind: &kind, content, value: &value };
            let mut waiting = platform.follow_up(&bot, follow_up(&long));
            assert!(waiting.as_mut().now_or_never().is_none());
            assert!(platform.follow_up(&bot, follow_up("short")).await.outcome.success);
            assert!(waiting.as_mut().now_or_never().is_none());
            assert!(bodies.lock().iter().all(|body| !body.contains("answer")), "{}", platform.name());
            release.send(()).unwrap();
            held.await.unwrap().unwrap();
            assert!(waiting.await.outcome.success);
            tried += 1;
        }
        assert_eq!(tried, 23);
    });
}
