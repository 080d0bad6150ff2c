//! Members of groups, for the question whether a person can see one.

use std::time::Duration;

use posthouse_wire::{ChatId, UserId};
use serde::Deserialize;

use super::Feishu;
use super::api::{FeishuCall, is_path_part};
use crate::bots::OpenedBot;

/// Time limit for the whole question. A message waits for its answer.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Members in one answer, and answers that are read. A person who is not in them counts as not a member.
const IN_A_PAGE: u32 = 100;
const PAGES: usize = 50;

#[derive(Deserialize)]
struct MemberPage {
    #[serde(default)]
    items: Vec<GroupMember>,
    #[serde(default)]
    has_more: bool,
    #[serde(default)]
    page_token: String,
}

#[derive(Deserialize)]
struct GroupMember {
    #[serde(default)]
    member_id: String,
}

impl Feishu {
    /// Whether this person is a member of the group. False also if Feishu does not answer. Feishu has no question about
    /// one person, so that the members are listed.
    pub(super) async fn is_member(&self, bot: &OpenedBot, user: &UserId, chat: &ChatId) -> bool {
        let (user, chat) = (user.as_str(), chat.as_str());
        is_path_part(chat)
            && self.timepiece.within(TIME_LIMIT, self.lists(bot, user, chat)).await.unwrap_or(false)
    }

    async fn lists(&self, bot: &OpenedBot, user: &str, chat: &str) -> bool {
        // A person without an id in the company is known by the one that the app sees.
        let kind = if user.starts_with("ou_") { "open_id" } else { "user_id" };
        let first = format!("/im/v1/chats/{chat}/members?member_id_type={kind}&page_size={IN_A_PAGE}");
        let mut path = first.clone();
        for _ in 0..PAGES {
            let call = FeishuCall::get("GET members", path);
            let Ok(page) = self.call::<MemberPage>(bot, &call, TIME_LIMIT).await else { return false };
            if page.items.iter().any(|member| member.member_id == user) {
                return true;
            }
            if !page.has_more || page.page_token.is_empty() {
                return false;
            }
            let token: String = form_urlencoded::byte_serialize(page.page_token.as_bytes()).collect();
            path = format!("{first}&page_token={token}");
        }
        false
    }
}
