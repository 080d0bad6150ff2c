//! Membership of rooms: answers to invitations, and the refusal of encrypted rooms.

use std::time::Duration;

use http::Method;
use ledger::Uses;
use posthouse_wire::Secret;
use serde::de::IgnoredAny;
use serde_json::json;
use vault::CapturedCapability;

use super::api::MatrixCall;
use super::ids::server_of;
use super::{INVITATIONS, LABEL, Matrix, USER_ID};
use crate::bots::OpenedBot;
use crate::platform::InteractionAck;
use crate::platform_calls::{CallFailure, CallsWithDeadline, RepeatRule};

/// The calls that an event can lead to. Each names a room.
pub(super) const JOIN: &str = "matrix.join";
pub(super) const DECLINE: &str = "matrix.decline";
pub(super) const REFUSE_ENCRYPTED: &str = "matrix.refuse_encrypted";
/// Time limit for such a call with its retries.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Notice in an encrypted room. It is the only message that is ever sent there.
pub(super) const ENCRYPTED: &str = "This bot cannot read encrypted rooms, so it does not answer here and leaves now. \
     Please invite it to a room without encryption.";
const DECLINED: &str = "This bot accepts invitations only from people whom its operator has allowed.";

pub(super) fn room_call(kind: &str, room: &str) -> InteractionAck {
    InteractionAck(CapturedCapability {
        kind: kind.into(),
        value: Secret::new(room),
        lifetime: None,
        uses: Uses::Left(1),
    })
}

/// Whether the bot follows an invitation of this person. The setting lists user ids and server names, or `*` for
/// everybody. By default the people of the bot's own homeserver may invite it.
pub(super) fn accepts_invitation(bot: &OpenedBot, inviter: &str) -> bool {
    let server = server_of(inviter);
    match bot.setting(INVITATIONS) {
        Some(list) => list.split(',').map(str::trim).any(|allowed| {
            allowed == "*" || allowed == inviter || (server.is_some() && Some(allowed) == server)
        }),
        None => server.is_some() && server == bot.setting(USER_ID).and_then(server_of),
    }
}

impl Matrix {
    /// Makes the call that an event led to.
    pub(super) async fn call_for_room(&self, bot: &OpenedBot, ack: &InteractionAck) {
        let room = ack.0.value.expose();
        match ack.0.kind.as_str() {
            JOIN => self.join(bot, room).await,
            DECLINE => self.leave(bot, room, DECLINED).await,
            REFUSE_ENCRYPTED => self.refuse_encrypted(bot, room).await,
            _ => {}
        }
    }

    /// Joins a room, and leaves it again if it is encrypted.
    async fn join(&self, bot: &OpenedBot, room: &str) {
        let call = MatrixCall::in_room(Method::POST, "POST join", room, &["join"]).with_json(json!({}));
        if !self.repeated(bot, call).await {
            return;
        }
        self.rooms.forget(&bot.id, room);
        if let Ok(found) = self.look_up_room(bot, room, TIME_LIMIT).await
            && found.is_encrypted
        {
            self.refuse_encrypted(bot, room).await;
        }
    }

    /// Says once in an encrypted room that the bot cannot read it, and leaves it.
    async fn refuse_encrypted(&self, bot: &OpenedBot, room: &str) {
        // Several events may ask for it at the same time.
        let key = (bot.id.clone(), room.to_owned());
        if !self.refused_rooms.entry(key.clone()).or_insert(()).is_fresh() {
            return;
        }
        let content = json!({ "msgtype": "m.notice", "body": ENCRYPTED });
        if let Ok(transaction) = vault::random_hex(16) {
            let path = ["send", "m.room.message", transaction.expose()];
            let call = MatrixCall::in_room(Method::PUT, "PUT notice", room, &path).with_json(content);
            self.repeated(bot, call).await;
        }
        self.leave(bot, room, ENCRYPTED).await;
        // Another invitation to it gets the notice again.
        self.refused_rooms.invalidate(&key);
    }

    async fn leave(&self, bot: &OpenedBot, room: &str, reason: &str) {
        let call = MatrixCall::in_room(Method::POST, "POST leave", room, &["leave"]);
        self.repeated(bot, call.with_json(json!({ "reason": reason }))).await;
    }

    /// Makes a call that has the same result when it is repeated. False if it failed.
    async fn repeated(&self, bot: &OpenedBot, call: MatrixCall<'_>) -> bool {
        let end = self.timepiece.instant() + TIME_LIMIT;
        let mut calls = CallsWithDeadline::new(&self.timepiece, end);
        let made: Result<IgnoredAny, CallFailure> =
            calls.call(call.name, RepeatRule::Harmless, |left| self.call(bot, call.clone(), left)).await;
        if let Err(failure) = &made {
            tracing::warn!(bot.id = %bot.id, call = call.name, "a call about a room failed: {}", failure.cause(LABEL));
        }
        made.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn invitations_are_accepted_from_those_whom_the_operator_names() {
        let accepts = |invitations: Option<&str>, inviter: &str| {
            let mut settings = json!({ "user_id": "@posty:hs.test" }).as_object().unwrap().clone();
            if let Some(invitations) = invitations {
                settings.insert(INVITATIONS.to_owned(), Value::from(invitations));
            }
            let credentials = crate::Credentials::default();
            let (platform, id) = ("matrix".into(), "posty.hs.test".into());
            accepts_invitation(&OpenedBot { platform, id, shared: false, settings, credentials }, inviter)
        };
        assert!(accepts(None, "@ana:hs.test") && !accepts(None, "@ana:other.test"));
        assert!(!accepts(None, "@ana:evil.hs.test") && !accepts(None, "nonsense"));
        assert!(accepts(Some("*"), "@ana:other.test"));
        let listed = Some("other.test, @bo:third.test");
        assert!(accepts(listed, "@ana:other.test") && accepts(listed, "@bo:third.test"));
        assert!(!accepts(listed, "@ana:third.test") && !accepts(listed, "@ana:hs.test"));
    }
}
