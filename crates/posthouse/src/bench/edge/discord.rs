//! Benchmark cases of Discord: a signed slash command, and a message of its gateway.

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use axum::body::Bytes;
use edge::OpenedBot;
use edge::discord::Discord;
use posthouse_time::Timepiece;
use serde_json::{Value, json};

use super::cases::{Delivered, EdgeCase, bot, now, webhook};

const APPLICATION: &str = "1100000000000000001";

pub fn cases() -> Vec<EdgeCase> {
    vec![command(), message()]
}

fn platform() -> Box<Discord> {
    Box::new(Discord::new(Discord::API_BASE, Timepiece::wall()))
}

fn bot_with_key(key: &str) -> OpenedBot {
    let settings = json!({"application_id": APPLICATION, "bot_user_id": APPLICATION, "public_key": key});
    bot("discord", APPLICATION, settings)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn author() -> Value {
    json!({"id": "77", "username": "ana", "global_name": "Ana Ruiz", "discriminator": "0", "avatar": null,
        "public_flags": 0, "clan": null, "primary_guild": null, "avatar_decoration_data": null})
}

fn member(user: &Value) -> Value {
    json!({"user": user, "nick": null, "roles": ["901", "902"], "permissions": "2248473465835073",
        "joined_at": "2024-01-01T00:00:00+00:00", "deaf": false, "mute": false, "flags": 0, "pending": false,
        "premium_since": null, "communication_disabled_until": null, "unusual_dm_activity_until": null})
}

fn command() -> EdgeCase {
    let body = json!({
        "id": "1201", "application_id": APPLICATION, "type": 2, "token": "aW50ZXJhY3Rpb246MTIwMQ".repeat(8),
        "version": 1, "channel_id": "910", "guild_id": "900", "locale": "en-US", "guild_locale": "en-US",
        "data": {"id": "5000", "type": 1, "name": "ask", "options": [
            {"type": 3, "name": "question", "value": "What is on the agenda for tomorrow, and who takes notes?"}]},
        "channel": {"id": "910", "type": 0, "name": "general", "topic": "Daily talk", "guild_id": "900",
            "last_message_id": "1000", "nsfw": false, "parent_id": null, "permissions": "2248473465835073",
            "position": 0, "rate_limit_per_user": 0, "flags": 0},
        "app_permissions": "2248473465835073", "entitlements": [], "context": 0,
        "authorizing_integration_owners": {"0": "900"}, "attachment_size_limit": 10_485_760,
        "guild": {"id": "900", "locale": "en-US", "features": ["COMMUNITY", "NEWS"]},
        "member": member(&author())
    });
    let body = Bytes::from(body.to_string());
    let keys = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("any 32 bytes are a seed");
    let timestamp = (now().millis() / 1000).to_string();
    let signed = [timestamp.as_bytes(), &body].concat();
    let signature = keys.sign(&signed);
    let key = keys.public_key().as_ref().to_vec();
    let signature_header = hex(signature.as_ref());
    let headers =
        [("x-signature-ed25519", signature_header.as_str()), ("x-signature-timestamp", timestamp.as_str())];
    EdgeCase {
        name: "slash command",
        platform: platform(),
        bot: bot_with_key(&hex(&key)),
        delivered: Delivered::Webhook(webhook("/interactions", &headers, &body)),
        json: body,
        bare_proof: Box::new(move || {
            UnparsedPublicKey::new(&ED25519, &key).verify(&signed, signature.as_ref()).is_ok()
        }),
    }
}

fn message() -> EdgeCase {
    let mut member = member(&Value::Null);
    member.as_object_mut().map(|member| member.remove("user"));
    let body = json!({"op": 0, "s": 42, "t": "MESSAGE_CREATE", "d": {
        "id": "1006", "channel_id": "910", "guild_id": "900", "author": author(), "member": member,
        "content": format!("<@{APPLICATION}> what is on the agenda for tomorrow, and who takes notes?"),
        "timestamp": "2025-12-06T05:46:40.000000+00:00", "edited_timestamp": null, "tts": false,
        "mention_everyone": false, "mentions": [{"id": APPLICATION, "username": "posty", "bot": true}],
        "mention_roles": [], "attachments": [], "embeds": [], "components": [], "pinned": false, "type": 0,
        "flags": 0, "nonce": "1180000000000000000", "channel_type": 0
    }});
    let body = Bytes::from(body.to_string());
    EdgeCase {
        name: "gateway message",
        platform: platform(),
        bot: bot_with_key(""),
        delivered: Delivered::Fetched(body.clone(), now()),
        json: body,
        bare_proof: Box::new(|| true),
    }
}
