//! Benchmark case of Feishu: an encrypted and signed message.

use std::hint::black_box;

use aws_lc_rs::cipher::{
    AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::digest;
use aws_lc_rs::iv::FixedLength;
use axum::body::Bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use edge::feishu::{Feishu, FeishuChat};
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::json;

use super::cases::{Delivered, EdgeCase, bot, now, webhook};

const APP: &str = "cli_a1b2c3d4e5f6a7b8";
const ENCRYPT_KEY: &str = "bench_encrypt_key_4188e7d569a7";
const VERIFICATION_TOKEN: &str = "bench_verification_6401";
const BLOCK: usize = 16;

pub fn cases() -> Vec<EdgeCase> {
    let ids = json!({"open_id": "ou_7d8a6e6df7621556ce0d21922b676706", "user_id": "e33ggbyz",
        "union_id": "on_8ed6aa67826108097d9ee143816345"});
    let payload = json!({
        "schema": "2.0",
        "header": {"event_id": "5e3702a84e847582be8db7fb73283c02", "event_type": "im.message.receive_v1",
            "create_time": "1765000000000", "token": VERIFICATION_TOKEN, "app_id": APP,
            "tenant_key": "2ca1d211f64f6438"},
        "event": {
            "sender": {"sender_id": ids, "sender_type": "user", "tenant_key": "2ca1d211f64f6438"},
            "message": {"message_id": "om_5ce6d572455d361153b7cb51da133945", "create_time": "1765000000000",
                "chat_id": "oc_5ce6d572455d361153b7xx51da133945", "chat_type": "group", "message_type": "text",
                "content": "{\"text\":\"@_user_1 Hello, what is on the agenda for tomorrow, and who takes notes?\"}",
                "mentions": [{"key": "@_user_1", "name": "Posty", "tenant_key": "2ca1d211f64f6438",
                    "id": {"open_id": "ou_bot", "user_id": "", "union_id": "on_bot"}}]}
        }
    })
    .to_string();
    let key: [u8; 32] = hash(&[ENCRYPT_KEY.as_bytes()]).as_ref().try_into().expect("SHA-256 has 32 bytes");
    let (iv, ciphertext) = encrypted(&key, &payload);
    let body = json!({"encrypt": STANDARD.encode([&iv[..], &ciphertext].concat())}).to_string();
    let (time, nonce) = ((now().millis() / 1000).to_string(), "bench-nonce");
    let signed = [time.as_bytes(), nonce.as_bytes(), ENCRYPT_KEY.as_bytes(), body.as_bytes()].concat();
    let signature = hash(&[&signed]);
    let digits: String = signature.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let headers = [
        ("x-lark-request-timestamp", time.as_str()),
        ("x-lark-request-nonce", nonce),
        ("x-lark-signature", digits.as_str()),
    ];
    let mut bot = bot("feishu", APP, json!({"app_id": APP, "bot_open_id": "ou_bot"}));
    bot.credentials.insert("encrypt_key", Secret::new(ENCRYPT_KEY));
    bot.credentials.insert("verification_token", Secret::new(VERIFICATION_TOKEN));
    let feishu = Feishu::new(Feishu::API_BASE, Timepiece::wall());
    feishu.note_person(&bot.id, "ou_7d8a6e6df7621556ce0d21922b676706", "Ana Ruiz");
    let chat = FeishuChat { name: "Team".to_owned(), is_direct: false };
    feishu.note_chat(&bot.id, "oc_5ce6d572455d361153b7xx51da133945", chat);
    let body = Bytes::from(body);
    let delivered = Delivered::Webhook(webhook("", &headers, &body));
    vec![EdgeCase {
        name: "encrypted message",
        platform: Box::new(feishu),
        bot,
        delivered,
        json: Bytes::from(payload),
        // The hash of the body, and its decryption.
        bare_proof: Box::new(move || {
            let proven = hash(&[black_box(&signed[..])]).as_ref() == signature.as_ref();
            let mut text = black_box(&ciphertext).clone();
            let key = UnboundCipherKey::new(&AES_256, &key).and_then(DecryptingKey::cbc);
            let context = DecryptionContext::Iv128(FixedLength::from(&iv));
            proven && key.is_ok_and(|key| key.decrypt(&mut text, context).is_ok())
        }),
    }]
}

fn hash(parts: &[&[u8]]) -> digest::Digest {
    let mut context = digest::Context::new(&digest::SHA256);
    parts.iter().for_each(|part| context.update(part));
    context.finish()
}

/// A text with its padding, encrypted.
fn encrypted(key: &[u8; 32], text: &str) -> ([u8; BLOCK], Vec<u8>) {
    let iv = [7; BLOCK];
    let padding = BLOCK - text.len() % BLOCK;
    let mut bytes = text.as_bytes().to_vec();
    bytes.extend(std::iter::repeat_n(padding as u8, padding));
    let key =
        UnboundCipherKey::new(&AES_256, key).and_then(EncryptingKey::cbc).expect("the key has 32 bytes");
    let context = EncryptionContext::Iv128(FixedLength::from(&iv));
    key.less_safe_encrypt(&mut bytes, context).expect("whole blocks can be encrypted");
    (iv, bytes)
}
