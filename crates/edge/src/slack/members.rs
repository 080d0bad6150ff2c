//! Members of channels, for the question whether a person can see one.

use std::time::Duration;

use posthouse_wire::{ChatId, UserId};
use serde::Deserialize;

use super::Slack;
use super::api::WebApiCall;
use super::egress::channel_id;
use crate::bots::OpenedBot;

const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Members in one answer, and answers that are read. A person who is not in them counts as not a member.
const IN_A_PAGE: u32 = 1000;
const PAGES: usize = 10;

#[derive(Deserialize)]
struct MembersPage {
    #[serde(default)]
    members: Vec<String>,
    #[serde(default)]
    response_metadata: PageCursor,
}

#[derive(Default, Deserialize)]
struct PageCursor {
    #[serde(default)]
    next_cursor: String,
}

impl Slack {
    /// Whether this person is a member of the channel. False also if Slack does not answer.
    pub(super) async fn is_member(&self, bot: &OpenedBot, user: &UserId, chat: &ChatId) -> bool {
        // The direct message with the person themselves.
        if chat.as_str() == user.as_str() {
            return true;
        }
        let Some(channel) = channel_id(chat.as_str()) else { return false };
        let mut cursor = String::new();
        for _ in 0..PAGES {
            let mut arguments = vec![("channel", channel.to_owned()), ("limit", IN_A_PAGE.to_string())];
            if !cursor.is_empty() {
                arguments.push(("cursor", cursor));
            }
            let call = WebApiCall::form("conversations.members", arguments);
            let Ok(page) = self.call::<MembersPage>(bot, call, TIME_LIMIT).await else { return false };
            if page.members.iter().any(|member| member == user.as_str()) {
                return true;
            }
            cursor = page.response_metadata.next_cursor;
            if cursor.is_empty() {
                return false;
            }
        }
        false
    }
}
