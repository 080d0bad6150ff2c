//! Taking a bot into the house, and letting it go.

use ledger::{Created, Identity, Removed};
use posthouse_wire::id::is_bot_id;
use posthouse_wire::{BotId, Platform as PlatformName, Secret};
use serde_json::{Map, Value};
use vault::Credentials;

use crate::bots::Bot;
use crate::platform::Met;
use crate::{Edge, Fault};

/// A bot as its operator describes it.
#[derive(Clone, Default)]
pub struct BotDraft {
    pub platform: String,
    /// What the platform calls it, when not given.
    pub id: Option<String>,
    pub shared: bool,
    pub settings: Map<String, Value>,
    pub credentials: Credentials,
}

/// Why a bot was not taken; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    #[error("this house does not speak `{0}`")]
    UnknownPlatform(String),
    #[error("`{0}` is no bot id: letters, digits, dot, dash and underscore, at most 64")]
    BadId(String),
    #[error("it needs a {0}")]
    Missing(&'static str),
    #[error("{0}")]
    Refused(String),
    #[error("there already is a bot {0}:{1}")]
    Taken(String, String),
}

impl Edge {
    /// Tries a bot's credentials with its platform, seals them and begins to serve it.
    pub async fn keep_bot(&self, draft: BotDraft) -> Result<Result<Bot, NotKept>, Fault> {
        let Some(platform) = self.platform(&draft.platform).cloned() else {
            return Ok(Err(NotKept::UnknownPlatform(draft.platform)));
        };
        let mut bot = Bot {
            platform: PlatformName::from(draft.platform.as_str()),
            id: BotId::from(draft.id.unwrap_or_default()),
            shared: draft.shared,
            settings: draft.settings,
            credentials: draft.credentials,
        };
        for need in platform.needs() {
            match bot.credentials.get(need.name) {
                Some(secret) if !secret.is_empty() => {}
                _ if need.generated => {
                    let made: Secret = vault::random_hex(32)?;
                    bot.credentials.insert(need.name, made);
                }
                _ => return Ok(Err(NotKept::Missing(need.name))),
            }
        }
        let Met { id, settings } = match platform.meet(&bot).await {
            Ok(met) => met,
            Err(trouble) => return Ok(Err(NotKept::Refused(trouble.to_string()))),
        };
        if bot.id.is_empty() {
            bot.id = BotId::from(id);
        }
        if !is_bot_id(bot.id.as_str()) {
            return Ok(Err(NotKept::BadId(bot.id.to_string())));
        }
        // What the operator said stands; the platform's word fills in the rest.
        for (name, value) in settings {
            bot.settings.entry(name).or_insert(value);
        }
        let record = ledger::Bot {
            platform: bot.platform.clone(),
            id: bot.id.clone(),
            shared: bot.shared,
            settings: Value::Object(bot.settings.clone()).to_string(),
            created: self.0.timepiece.now(),
        };
        if self.0.roster.create_bot(record).await? != Created::Made {
            return Ok(Err(NotKept::Taken(bot.platform.to_string(), bot.id.to_string())));
        }
        self.0.vault.keep(&bot.platform, &bot.id, &bot.credentials).await?;
        self.0.relay.roster_changed();
        Ok(Ok(bot))
    }

    /// Lets a bot go, with its secrets and routes; the platform stops calling us.
    pub async fn release_bot(&self, identity: &Identity) -> Result<Removed, Fault> {
        if let (Some(bot), Some(platform)) =
            (self.0.bots.find(identity).await?, self.platform(identity.platform.as_str()))
            && let Err(trouble) = platform.settle_in(&bot, None).await
        {
            tracing::warn!(bot.id = %bot.id, %trouble, "the platform could not be told that a bot left");
        }
        let removed = self.0.roster.remove_bot(&identity.platform, &identity.bot).await?;
        // At once: one of the same name that is made next must not find this one's source running.
        self.stop(identity);
        self.0.relay.roster_changed();
        Ok(removed)
    }
}
