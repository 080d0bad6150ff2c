//! Members of chats, by `getChatMember`.

use std::time::Duration;

use posthouse_wire::{ChatId, UserId};
use serde::{Deserialize, Serialize};

use crate::bots::OpenedBot;

use super::Telegram;

/// Time limit of the question. A message waits for its answer.
const TIME_LIMIT: Duration = Duration::from_secs(3);

#[derive(Serialize)]
struct GetChatMember {
    chat_id: i64,
    user_id: i64,
}

#[derive(Deserialize)]
struct ChatMember {
    status: String,
    #[serde(default)]
    is_member: bool,
}

impl Telegram {
    /// Whether this person is in this chat. False also when Telegram does not answer.
    pub(super) async fn is_member(&self, bot: &OpenedBot, user: &UserId, chat: &ChatId) -> bool {
        let (Ok(chat_id), Ok(user_id)) = (chat.as_str().parse(), user.as_str().parse()) else { return false };
        let params = GetChatMember { chat_id, user_id };
        match self.call::<ChatMember>(bot, "getChatMember", &params, TIME_LIMIT).await {
            Ok(member) => sees(&member),
            Err(_) => false,
        }
    }
}

fn sees(member: &ChatMember) -> bool {
    match member.status.as_str() {
        "creator" | "administrator" | "member" => true,
        "restricted" => member.is_member,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_see_a_chat_and_those_who_left_or_were_banned_do_not() {
        let asked = |json: &str| sees(&serde_json::from_str(json).unwrap());
        for status in ["creator", "administrator", "member"] {
            assert!(asked(&format!(r#"{{"status":"{status}"}}"#)));
        }
        assert!(asked(r#"{"status":"restricted","is_member":true}"#));
        assert!(!asked(r#"{"status":"restricted","is_member":false}"#));
        for status in ["left", "kicked", "something new"] {
            assert!(!asked(&format!(r#"{{"status":"{status}"}}"#)));
        }
    }
}
