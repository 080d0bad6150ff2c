//! Benchmark case of Telegram: a message by webhook, whose proof is a secret in a header.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::body::Bytes;
use edge::telegram::Telegram;
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::json;

use super::cases::{Delivered, EdgeCase, bot, now, webhook};

const SECRET: &str = "bench_4188e7d569a7afdd467c6401";

pub fn cases() -> Vec<EdgeCase> {
    let person = json!({"id": 5_000_000_005_i64, "is_bot": false, "first_name": "Ana", "last_name": "Ruiz",
        "username": "ana", "language_code": "en"});
    let body = json!({"update_id": 10, "message": {
        "message_id": 11, "date": now().millis() / 1000, "from": person,
        "chat": {"id": 5_000_000_005_i64, "type": "private", "first_name": "Ana", "last_name": "Ruiz",
            "username": "ana"},
        "text": "Hello, what is on the agenda for tomorrow, and who takes notes?",
        "entities": [{"offset": 0, "length": 5, "type": "bold"}]
    }});
    let body = Bytes::from(body.to_string());
    let settings = json!({"username": "posty_bot", "bot_user_id": "666"});
    let mut bot = bot("telegram", "666", settings);
    bot.credentials.insert("webhook_secret", Secret::new(SECRET));
    let headers = [("x-telegram-bot-api-secret-token", SECRET)];
    let sent = SECRET.to_owned();
    vec![EdgeCase {
        name: "message",
        platform: Box::new(Telegram::new(Telegram::API_BASE, Timepiece::wall())),
        bot,
        delivered: Delivered::Webhook(webhook("", &headers, &body)),
        json: body,
        bare_proof: Box::new(move || {
            verify_slices_are_equal(std::hint::black_box(sent.as_bytes()), SECRET.as_bytes()).is_ok()
        }),
    }]
}
