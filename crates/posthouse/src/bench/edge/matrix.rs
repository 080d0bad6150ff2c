//! Benchmark case of Matrix: a transaction with one message, whose proof is a token in a header.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::body::Bytes;
use edge::matrix::{Matrix, MatrixRoom};
use http::Method;
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::json;

use super::cases::{Delivered, EdgeCase, bot, now, webhook};

const TOKEN: &str = "bench_a1191ecff8c7ed68a5b9f5247cc3d685";
const ROOM: &str = "!fzKXVvYzXuGkJnTbqL:hs.test";
const ANA: &str = "@ana:hs.test";

pub fn cases() -> Vec<EdgeCase> {
    let body = json!({ "events": [{
        "type": "m.room.message", "event_id": "$W3d0mZ5cUe6LhFfNwQ7yKx2bVtRsPa9GiJoEuTqXlYs",
        "room_id": ROOM, "sender": ANA, "origin_server_ts": now().millis(), "user_id": ANA,
        "age": 113, "unsigned": { "age": 113 },
        "content": {
            "msgtype": "m.text", "body": "Hello, what is on the agenda for tomorrow, and who takes notes?",
            "format": "org.matrix.custom.html",
            "formatted_body": "<strong>Hello</strong>, what is on the agenda for tomorrow, and who takes notes?",
            "m.mentions": { "user_ids": ["@posty:hs.test"] },
        },
    }] });
    let body = Bytes::from(body.to_string());
    let settings = json!({ "user_id": "@posty:hs.test", "display_name": "Posty" });
    let mut bot = bot("matrix", "posty.hs.test", settings);
    bot.credentials.insert("hs_token", Secret::new(TOKEN));
    let matrix = Matrix::new(Matrix::API_BASE, Timepiece::wall());
    let room = MatrixRoom { name: Some("Ops".to_owned()), members: 5, ..MatrixRoom::default() };
    matrix.note_room(&bot.id, ROOM, room);
    matrix.note_person(&bot.id, ANA, "Ana");
    let authorization = format!("Bearer {TOKEN}");
    let mut delivered =
        webhook("/_matrix/app/v1/transactions/1", &[("authorization", &authorization)], &body);
    delivered.method = Method::PUT;
    let sent = TOKEN.to_owned();
    vec![EdgeCase {
        name: "transaction",
        platform: Box::new(matrix),
        bot,
        delivered: Delivered::Webhook(delivered),
        json: body,
        bare_proof: Box::new(move || {
            verify_slices_are_equal(std::hint::black_box(sent.as_bytes()), TOKEN.as_bytes()).is_ok()
        }),
    }]
}
