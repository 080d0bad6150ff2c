//! Permission matrix of the webhooks of platforms: a delivery for one bot with the proof of another.

use serde_json::json;
use stand_ins::telegram::Injection;

use super::actors::{
    Actors, DISCORD_BOT, FEISHU_BOT, MATRIX_BOT, RecordedResponse, SLACK_BOT, SMS_BOT, WEBHOOK_BOT,
    WECOM_BOT, WHATSAPP_BOT,
};
use super::doors::{self, DoorRequest, DoorRow, Probe, WrongCaller, asks, callers};
use super::{Cells, Name};

const SIGNATURE: &str = "x-signature-ed25519";
const TIMESTAMP: &str = "x-signature-timestamp";
const SECRET: &str = "x-telegram-bot-api-secret-token";

fn row(actors: &Actors, method: &str, at: &str) -> Option<DoorRow> {
    match (method, at) {
        ("POST", "/door/{platform}/{bot}") => {
            let umbrellas = actors.telegram.webhook_secret(8001).unwrap();
            let mut all = vec![
                WrongCaller::new("umbrella's bot", &[(SECRET, &umbrellas)]),
                WrongCaller::new("a removed bot", &[(SECRET, &actors.removed_bot_secret)]),
                WrongCaller::new("a guess", &[(SECRET, "guess")]),
                WrongCaller::new("the bot's token", &[(SECRET, "7001:token")]),
                WrongCaller::new("two secrets", &[(SECRET, "guess"), (SECRET, &umbrellas)]),
            ];
            all.extend(callers(actors.other_tenants.iter().chain(&actors.unknown).chain(&actors.ours)));
            let delivers = |bot: &str| {
                let person = json!({ "id": 66, "is_bot": false, "first_name": "Eve" });
                let chat = json!({ "id": 66, "type": "private", "first_name": "Eve" });
                let message =
                    json!({ "message_id": 1, "date": 1, "from": person, "chat": chat, "text": "psst" });
                DoorRequest::to(&format!("/door/telegram/{bot}"))
                    .json(&json!({ "update_id": 1, "message": message }))
            };
            let bots = [("7001", "7009"), ("9001", "9009")];
            let probe = |(there, absent): (&str, &str)| {
                Probe::new(&Name::new(there, absent), delivers).refused_to(&all, |heard| heard.status == 401)
            };
            let mut probes: Vec<Probe> = bots.map(probe).into();
            probes.extend([signed_notification(actors), signed_form(actors), bearer_webhook(actors)]);
            probes.extend([sealed_callback(actors), signed_event(actors)]);
            asks(probes)
        }
        // Telegram has no further doors. Everybody gets the same answer for a bot and for none.
        ("GET", "/door/{platform}/{bot}") => {
            asks([no_door(actors, "", |heard| heard.status == 405), handshake(actors)])
        }
        ("POST", "/door/{platform}/{bot}/{*door}") => {
            let signed = |by: &'static str, signature: String, time: &str| {
                WrongCaller::new(by, &[(SIGNATURE, &signature), (TIMESTAMP, time)])
            };
            let mut all = vec![
                signed("a guess", "ab".repeat(64), "1765000000"),
                signed("no signature", String::new(), "1765000000"),
                signed("the secret of another platform", actors.removed_bot_secret.clone(), "1765000000"),
            ];
            all.extend(callers(actors.other_tenants.iter().chain(&actors.unknown).chain(&actors.ours)));
            let ping = |bot: &str| {
                DoorRequest::to(&format!("/door/discord/{bot}/interactions")).json(&json!({ "type": 1 }))
            };
            let probe = Probe::new(&Name::new(DISCORD_BOT, "4009"), ping);
            let slack_bots = Name::new(SLACK_BOT, "UBOT9");
            let challenge = |bot: &str, door: &str| {
                let body = json!({ "type": "url_verification", "challenge": "psst" });
                DoorRequest::to(&format!("/door/slack/{bot}{door}")).json(&body)
            };
            let slack = slack_callers(actors);
            let slack = ["/events", "/interactions", "/commands"].map(|door| {
                let request = move |bot: &str| challenge(bot, door);
                Probe::new(&slack_bots, request).refused_to(&slack, |heard| heard.status == 401)
            });
            let [events, interactions, commands] = slack;
            asks([
                events,
                interactions,
                commands,
                probe.refused_to(&all, |heard| heard.status == 401),
                no_door(actors, "/events", |heard| heard.status == 404),
            ])
        }
        ("PUT", "/door/{platform}/{bot}/{*door}") => {
            let [wrong, without] = transaction(actors);
            asks([no_door(actors, "/events", |heard| heard.status == 404), wrong, without])
        }
        (_, "/door/{platform}/{bot}/{*door}") => {
            asks([no_door(actors, "/events", |heard| heard.status == 404)])
        }
        _ => None,
    }
}

/// Callers of Slack's doors whose signature is none of the bot's.
fn slack_callers(actors: &Actors) -> Vec<WrongCaller> {
    let signed = |by: &'static str, signature: &str, time: &str| {
        WrongCaller::new(by, &[("x-slack-signature", signature), ("x-slack-request-timestamp", time)])
    };
    let now = (posthouse_time::Timepiece::wall().now().millis() / 1000).to_string();
    let guess = format!("v0={}", "ab".repeat(32));
    let mut all = vec![
        signed("a guess", &guess, &now),
        signed("an old guess", &guess, "1765000000"),
        signed("no signature", "", &now),
        signed("the secret itself", "slack.secret", &now),
        signed("the secret of another platform", &actors.removed_bot_secret, &now),
    ];
    all.extend(callers(actors.other_tenants.iter().chain(&actors.unknown).chain(&actors.ours)));
    all
}

/// An event of Feishu, with the signature of somebody else, and one that is not encrypted.
fn signed_event(actors: &Actors) -> Probe {
    let signed = |by: &'static str, signature: &str| {
        let now = (posthouse_time::Timepiece::wall().now().millis() / 1000).to_string();
        WrongCaller::new(
            by,
            &[
                ("x-lark-signature", signature),
                ("x-lark-request-timestamp", now.as_str()),
                ("x-lark-request-nonce", "nonce"),
            ],
        )
    };
    let mut all = vec![
        signed("a guess", &"ab".repeat(32)),
        signed("no signature", ""),
        signed("the encrypt key itself", "encrypt-canary"),
        WrongCaller::new("only the token inside", &[("x-lark-request-nonce", "nonce")]),
    ];
    all.extend(callers(actors.other_tenants.iter().chain(&actors.unknown).chain(&actors.ours)));
    let request = |bot: &str| {
        let header =
            json!({ "event_id": "e1", "event_type": "im.message.receive_v1", "token": "verify-canary" });
        DoorRequest::to(&format!("/door/feishu/{bot}"))
            .json(&json!({ "schema": "2.0", "header": header, "event": {} }))
    };
    Probe::new(&Name::new(FEISHU_BOT, "cli_a9"), request).refused_to(&all, |heard| heard.status == 401)
}

/// A notification of WhatsApp, with the signature of somebody else.
fn signed_notification(actors: &Actors) -> Probe {
    const HUB_SIGNATURE: &str = "x-hub-signature-256";
    let mut all = vec![
        WrongCaller::new("a guess", &[(HUB_SIGNATURE, &format!("sha256={}", "ab".repeat(32)))]),
        WrongCaller::new("no signature", &[(HUB_SIGNATURE, "sha256=")]),
        WrongCaller::new("the app secret itself", &[(HUB_SIGNATURE, "app-canary")]),
    ];
    all.extend(callers(actors.other_tenants.iter().chain(&actors.unknown).chain(&actors.ours)));
    let message = json!({ "id": "wamid.1", "from": "15550166", "type": "text", "text": { "body": "psst" } });
    let request = move |bot: &str| {
        let value = json!({ "metadata": { "phone_number_id": bot }, "messages": [message] });
        let change = json!({ "field": "messages", "value": value });
        DoorRequest::to(&format!("/door/whatsapp_cloud/{bot}"))
            .json(&json!({ "object": "whatsapp_business_account", "entry": [{ "changes": [change] }] }))
    };
    Probe::new(&Name::new(WHATSAPP_BOT, "3009"), request).refused_to(&all, |heard| heard.status == 401)
}

/// A message of Twilio, with the signature of somebody else.
fn signed_form(actors: &Actors) -> Probe {
    const TWILIO_SIGNATURE: &str = "x-twilio-signature";
    let mut all = vec![
        WrongCaller::new("a guess", &[(TWILIO_SIGNATURE, "AAAAAAAAAAAAAAAAAAAAAAAAAAA=")]),
        WrongCaller::new("no signature", &[(TWILIO_SIGNATURE, "")]),
        WrongCaller::new("the auth token itself", &[(TWILIO_SIGNATURE, "twilio-canary")]),
    ];
    all.extend(callers(actors.other_tenants.iter().chain(&actors.unknown).chain(&actors.ours)));
    let request = |bot: &str| {
        let to = format!("+{bot}");
        let fields =
            [("MessageSid", "SM1"), ("AccountSid", "AC1"), ("From", "+15550166"), ("To", &to), ("Body", "x")];
        DoorRequest::to(&format!("/door/sms/{bot}")).form(&fields)
    };
    Probe::new(&Name::new(SMS_BOT, "15550199"), request).refused_to(&all, |heard| heard.status == 403)
}

/// A webhook with the token of somebody else. Tokens of this server's own APIs prove nothing here.
fn bearer_webhook(actors: &Actors) -> Probe {
    let mut all = vec![
        WrongCaller::bearer("a guess", "guess"),
        WrongCaller::bearer("an empty token", ""),
        WrongCaller::new(
            "two tokens",
            &[("authorization", "Bearer guess"), ("authorization", "Bearer webhook-canary")],
        ),
    ];
    all.extend(callers(actors.other_tenants.iter().chain(&actors.unknown).chain(&actors.ours)));
    let request =
        |bot: &str| DoorRequest::to(&format!("/door/webhook/{bot}")).json(&json!({ "text": "psst" }));
    Probe::new(&Name::new(WEBHOOK_BOT, "other"), request).refused_to(&all, |heard| heard.status == 401)
}

/// A callback of WeCom, with the signature of somebody else.
fn sealed_callback(actors: &Actors) -> Probe {
    let all = callers(actors.other_tenants.iter().chain(&actors.unknown).chain(&actors.ours));
    let request = |bot: &str| {
        let query = format!("msg_signature={}&timestamp=1765000000&nonce=n", "ab".repeat(20));
        DoorRequest::to(&format!("/door/wecom/{bot}?{query}")).json(&json!({ "encrypt": "AAAA" }))
    };
    Probe::new(&Name::new(WECOM_BOT, "AIB9"), request).refused_to(&all, |heard| heard.status == 401)
}

/// The handshake of WhatsApp, with a token that is not the bot's.
fn handshake(actors: &Actors) -> Probe {
    let all = callers(actors.other_tenants.iter().chain(&actors.unknown).chain(&actors.ours));
    let request = |bot: &str| {
        let query = "hub.mode=subscribe&hub.verify_token=verify-canary&hub.challenge=1";
        DoorRequest::to(&format!("/door/whatsapp_cloud/{bot}?{query}"))
    };
    Probe::new(&Name::new(WHATSAPP_BOT, "3009"), request).refused_to(&all, |heard| heard.status == 403)
}

/// A transaction of a homeserver, with the token of somebody else, or without one. A bot that does not exist answers
/// alike.
fn transaction(actors: &Actors) -> [Probe; 2] {
    let guesses = [
        WrongCaller::bearer("a guess", "guess"),
        WrongCaller::bearer("the as_token", "matrix-as-canary"),
        WrongCaller::bearer("the secret of another platform", &actors.removed_bot_secret),
    ];
    let bots = Name::new(MATRIX_BOT, "noone.hs.test");
    let request = |bot: &str| {
        let message = json!({ "type": "m.room.message", "event_id": "$1", "room_id": "!r", "sender": "@eve:hs.test",
            "content": { "msgtype": "m.text", "body": "psst" } });
        DoorRequest::to(&format!("/door/matrix/{bot}/_matrix/app/v1/transactions/1"))
            .json(&json!({ "events": [message] }))
    };
    let without = [
        WrongCaller::new("no token", &[]),
        WrongCaller::new("another scheme", &[("authorization", "Basic x")]),
    ];
    [
        Probe::new(&bots, request).refused_to(&guesses, |heard| heard.status == 403),
        Probe::new(&bots, request).refused_to(&without, |heard| heard.status == 401),
    ]
}

fn no_door(actors: &Actors, door: &'static str, refused: fn(&RecordedResponse) -> bool) -> Probe {
    let mut all = vec![WrongCaller::new("a guess", &[(SECRET, "guess")])];
    all.extend(callers(actors.other_tenants.iter().chain(&actors.unknown).chain(&actors.ours)));
    let request = move |bot: &str| DoorRequest::to(&format!("/door/telegram/{bot}{door}"));
    Probe::new(&Name::new("7001", "7009"), request).refused_to(&all, refused)
}

pub async fn fill(actors: &mut Actors, cells: &mut Cells) {
    doors::fill(actors, cells, "edge", edge::OPERATIONS, |method, at| row(actors, method, at)).await;
    // Whatever somebody delivered would have arrived before this.
    actors.telegram.inject(Injection::text(77, "sent by Telegram itself").to_bot(7001)).unwrap();
    assert_eq!(actors.heron_rides.hears().await.event.text, "sent by Telegram itself");
}
