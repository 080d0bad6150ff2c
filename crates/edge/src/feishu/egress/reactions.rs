//! Reactions on Feishu, which has names for its own emoji.

use http::Method;
use posthouse_wire::{ChatId, MessageId, Outcome};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::calls::FeishuCalls;
use crate::feishu::api::{FeishuCall, is_path_part};
use crate::feishu::emoji::name_of;
use crate::feishu::{APP_ID, LABEL};
use crate::platform_calls::{CallFailure, CallRefusal, RefusalKind, RepeatRule};

#[derive(Deserialize)]
struct NewReaction {
    reaction_id: String,
}

#[derive(Deserialize)]
struct ReactionList {
    #[serde(default)]
    items: Vec<ListedReaction>,
}

#[derive(Deserialize)]
struct ListedReaction {
    reaction_id: String,
    operator: ReactionOperator,
}

#[derive(Deserialize)]
struct ReactionOperator {
    operator_id: String,
    operator_type: String,
}

impl FeishuCalls<'_> {
    /// Adds or removes a reaction of the bot.
    pub(super) async fn react(
        &mut self,
        chat: &ChatId,
        message: &MessageId,
        (emoji, remove): (&str, bool),
    ) -> Outcome {
        if let Err(refusal) = self.check_in_chat(chat, message.as_str()).await {
            return refusal;
        }
        let Some(name) = name_of(emoji) else {
            return Outcome::failed(
                "this emoji is not known here by its name on Feishu; use the name instead, such as THUMBSUP",
            );
        };
        let done = match remove {
            false => self.add_reaction(message.as_str(), name).await,
            true => self.remove_reaction(message.as_str(), name).await,
        };
        match done {
            Ok(()) => Outcome::done(),
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }

    async fn add_reaction(&mut self, message: &str, name: &str) -> Result<(), CallFailure> {
        let body = json!({ "reaction_type": { "emoji_type": name } });
        let path = format!("/im/v1/messages/{message}/reactions");
        let call = FeishuCall::json("POST reactions", Method::POST, path, body);
        let added: NewReaction = self.ask(call, RepeatRule::Harmless).await?;
        let key = (self.bot.id.clone(), message.to_owned(), name.to_owned());
        self.feishu.reactions.insert(key, added.reaction_id);
        Ok(())
    }

    /// A reaction that is not there is as the agent wants it.
    async fn remove_reaction(&mut self, message: &str, name: &str) -> Result<(), CallFailure> {
        let key = (self.bot.id.clone(), message.to_owned(), name.to_owned());
        let id = match self.feishu.reactions.remove(&key) {
            Some(id) => Some(id),
            None => self.find_reaction(message, name).await?,
        };
        let Some(id) = id.filter(|id| is_path_part(id)) else { return Ok(()) };
        let path = format!("/im/v1/messages/{message}/reactions/{id}");
        let call = FeishuCall::json("DELETE reactions", Method::DELETE, path, json!({}));
        match self.ask::<IgnoredAny>(call, RepeatRule::Harmless).await {
            Err(CallFailure::Refused(CallRefusal { kind: RefusalKind::Gone, .. })) | Ok(_) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// The bot's own reaction among those of a message.
    async fn find_reaction(&mut self, message: &str, name: &str) -> Result<Option<String>, CallFailure> {
        let path = format!("/im/v1/messages/{message}/reactions?reaction_type={name}&page_size=50");
        let call = FeishuCall::get("GET reactions", path);
        let listed: ReactionList = self.ask(call, RepeatRule::Harmless).await?;
        let app = self.bot.setting(APP_ID).unwrap_or(self.bot.id.as_str());
        let own = listed.items.into_iter().find(|reaction| {
            reaction.operator.operator_type == "app" && reaction.operator.operator_id == app
        });
        Ok(own.map(|reaction| reaction.reaction_id))
    }
}
