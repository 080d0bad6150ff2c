//! Strangers on every platform, played by the payloads of the vectors.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use edge::OpenedBot;
use edge::platform::{Platform, Reading, VerifiedRequest};
use ledger::{Discriminator, PrincipalPolicy};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::Secret;
use serde_json::{Value, json};
use vault::Credentials;

use crate::slack::actors::form;
use crate::telegram::test_server::TestServer;
use crate::vector_checks::{now, payload_cases};

/// Platforms whose messages are complete only after further calls, or that are answered over a socket. The tests beside
/// their stand-ins have a stranger each.
const ASKED_FOR_MORE: [&str; 3] = ["feishu", "matrix", "wecom"];

/// What was sent to a platform.
pub type SentBodies = Arc<Mutex<Vec<String>>>;

/// A server that accepts every call of every platform.
pub async fn accepting() -> (String, SentBodies) {
    let (listener, sent) =
        (tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(), SentBodies::default());
    let base = format!("http://{}", listener.local_addr().unwrap());
    let bodies = Arc::clone(&sent);
    let accept = move |body: String| async move {
        bodies.lock().unwrap().push(body);
        let answer = json!({ "ok": true, "id": "5", "ts": "5.5", "sid": "SM5", "messages": [{ "id": "wamid.5" }],
            "result": { "message_id": 5 }, "errcode": 0, "access_token": "token",
            "expires_in": 7200, "msgid": "5" });
        ([("content-type", "application/json")], answer.to_string())
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(any(accept))).await });
    (base, sent)
}

/// The bot that a payload is for.
pub fn bot(platform: &str, base: &str, context: &Value) -> OpenedBot {
    let mut credentials = Credentials::default();
    for (name, secret) in [("token", "666:token"), ("auth_token", "token"), ("api_secret", "s")] {
        credentials.insert(name, Secret::new(secret));
    }
    let mut settings = json!({ "api_base_url": base, "account_sid": "AC1", "number": "+15550001111",
        "corp_id": "wwcorp", "agent_id": "1000002" });
    for (name, value) in context.as_object().into_iter().flatten() {
        settings[name] = value.clone();
    }
    let id = match platform {
        "telegram" => &context["bot_id"],
        "discord" => &context["application_id"],
        "slack" => &context["bot_user_id"],
        _ => &Value::Null,
    };
    settings["username"] = context["bot_username"].clone();
    OpenedBot {
        platform: platform.into(),
        id: id.as_str().unwrap_or("P1").into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

/// Reads a payload as it comes from the platform.
pub fn read(platform: &dyn Platform, bot: &OpenedBot, case: &Value) -> Reading {
    let (door, body) = match case["transport"].as_str().unwrap() {
        "interaction" => ("/interactions", case["raw"].to_string()),
        "form" if platform.name() == "slack" => ("/commands", form(&case["raw"])),
        "form" => ("", form(&case["raw"])),
        "form_payload" => ("/interactions", form(&json!({ "payload": case["raw"].to_string() }))),
        "xml" => ("", case["raw"].as_str().unwrap().to_owned()),
        _ => ("", case["raw"].to_string()),
    };
    let mut verified = VerifiedRequest::fetched(body, now());
    verified.door = door.to_owned();
    platform.normalize(bot, verified).unwrap_or_else(|refusal| panic!("{case}: {refusal:?}"))
}

/// The payloads of a platform. Twilio has one file for its two platforms.
pub fn cases_of(platform: &str) -> Vec<Value> {
    let is_whatsapp = |case: &Value| {
        ["From", "To"]
            .iter()
            .any(|name| case["raw"][name].as_str().is_some_and(|address| address.starts_with("whatsapp:")))
    };
    let mut cases = match platform {
        "sms" | "whatsapp" => payload_cases("sms"),
        other => payload_cases(other),
    };
    cases.retain(|case| match platform {
        "sms" => !is_whatsapp(case),
        "whatsapp" => is_whatsapp(case),
        _ => true,
    });
    cases.retain(|case| case["expect"]["disposition"] == "deliver");
    cases
}

fn is_press(case: &Value) -> bool {
    let raw = &case["raw"];
    let whatsapp = &raw["entry"][0]["changes"][0]["value"]["messages"][0]["type"];
    !raw["callback_query"].is_null()
        || (case["transport"] == "interaction" && raw["type"] == 3)
        || raw["type"] == "block_actions"
        || whatsapp == "interactive"
        || raw.as_str().is_some_and(|xml| xml.contains("template_card_event"))
}

/// What became of the payloads of a platform.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcomes {
    messages: usize,
    presses: usize,
    /// Strangers who were told a pairing code.
    told: usize,
}

/// Plays each payload to a server that does not know its sender.
async fn play(platform: &Arc<dyn Platform>, base: &str, sent: &SentBodies) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for case in cases_of(platform.name()) {
        let what = format!("{}: {}", platform.name(), case["name"]);
        let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
        let bot = Arc::new(bot(platform.name(), base, &case["context"]));
        let server = TestServer::closed(&bot, Discriminator::Any, &clock).await;
        let reading = read(&**platform, &bot, &case);
        let arrival = reading.arrivals.first().unwrap_or_else(|| panic!("{what}: nothing arrived"));
        let source = arrival.event.source.clone();
        // Nobody is addressed in a private chat or a channel, where every message is for the bot.
        let is_addressed = arrival.addressed || arrival.is_direct() || source.chat_type == "channel";
        let taken = server.intake().take(platform, &bot, reading, None).await.unwrap();
        // The code is sent in a task of its own.
        let told = async {
            while !server.relay.tasks().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), told).await.expect("a notice is never sent");
        assert!(taken.entries.is_empty() && server.texts().await.is_empty(), "{what}");
        let codes = server.access().pairings(Some(&bot.bot_ref())).await.unwrap();
        let is_told = |sent: &Vec<String>| {
            codes.iter().any(|pairing| sent.iter().any(|body| body.contains(&pairing.code)))
        };
        // A channel is not answered. In a thread of Discord the server first asks which channel it is in.
        if is_addressed && source.chat_type != "channel" && source.thread_id.is_none() {
            assert!(
                is_told(&sent.lock().unwrap()),
                "{what}: no pairing code among {:?}",
                sent.lock().unwrap()
            );
        }
        outcomes.told += usize::from(is_told(&sent.lock().unwrap()));
        sent.lock().unwrap().clear();
        match is_press(&case) {
            true => outcomes.presses += 1,
            false => outcomes.messages += 1,
        }
        // The same payload reaches the agent when the operator opens the bot, so that the rule held it back before.
        server.access().set_policy(&bot.bot_ref(), PrincipalPolicy::Any).await.unwrap();
        let again = read(&**platform, &bot, &case);
        let taken = server.intake().take(platform, &bot, again, None).await.unwrap();
        assert_eq!(taken.entries.is_empty(), !is_addressed, "{what}");
    }
    outcomes
}

#[tokio::test]
async fn on_every_platform_messages_and_presses_of_strangers_reach_nobody() {
    // Already installed by another test of this process, or by this line.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (base, sent) = accepting().await;
    let mut played = Vec::new();
    for platform in edge::platforms::all(&edge::Config::default(), &Timepiece::wall()) {
        if platform.proves_senders() {
            // Whoever has the secret of the webhook may write, so nobody is a stranger.
            assert_eq!(platform.name(), "webhook");
            continue;
        }
        if ASKED_FOR_MORE.contains(&platform.name()) {
            continue;
        }
        let has_buttons = !["sms", "whatsapp"].contains(&platform.name());
        let outcomes = play(&platform, &base, &sent).await;
        assert!(outcomes.messages > 0 && outcomes.told > 0, "{}: {outcomes:?}", platform.name());
        assert_eq!(outcomes.presses > 0, has_buttons, "{}: {outcomes:?}", platform.name());
        played.push(platform.name());
    }
    let all = ["discord", "slack", "sms", "telegram", "wecom_callback", "whatsapp", "whatsapp_cloud"];
    assert!(all.iter().all(|platform| played.contains(platform)), "{played:?}");
}
