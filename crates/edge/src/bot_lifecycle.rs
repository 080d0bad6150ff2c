//! Creation and removal of bots, and replacement of their credentials.

use ledger::{BotRef, Created, PrincipalPolicy, Removed};
use posthouse_wire::id::is_bot_id;
use posthouse_wire::{BotId, Platform as PlatformName, Secret};
use serde_json::{Map, Value};
use vault::Credentials;

use crate::bots::OpenedBot;
use crate::platform::{BotField, FieldPresence, PlatformBot, is_placeholder};
use crate::{Edge, Fault};

/// A new bot, as the operator describes it.
#[derive(Clone, Default)]
pub struct BotDraft {
    pub platform: String,
    /// Default: the bot's id on the platform.
    pub id: Option<String>,
    pub shared: bool,
    /// Everybody may write to it.
    pub open: bool,
    pub settings: Map<String, Value>,
    pub credentials: Credentials,
}

/// The reason why a bot was not created or not changed. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BotNotChanged {
    /// A name, and the platforms that there are.
    #[error("this server has no platform `{0}`; it has {1}")]
    UnknownPlatform(String, String),
    #[error("`{0}` is not a valid bot id: use at most 64 letters, digits, dots, dashes and underscores")]
    BadId(String),
    #[error("the bot's {0} is missing")]
    Missing(MissingField),
    #[error("the bot's secret `{0}` is a placeholder of an example, not a secret")]
    Placeholder(&'static str),
    #[error("{0}")]
    Refused(String),
    #[error("bot {0}:{1} already exists")]
    Taken(String, String),
    #[error("there is no bot {0}:{1}")]
    Absent(String, String),
}

/// A field that a bot needs and does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingField {
    pub name: &'static str,
    pub secret: bool,
}

impl std::fmt::Display for MissingField {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.secret { "secret" } else { "setting" };
        write!(out, "{kind} `{}`", self.name)
    }
}

impl BotNotChanged {
    fn missing(field: &BotField) -> Self {
        BotNotChanged::Missing(MissingField { name: field.name, secret: field.secret })
    }
}

/// Generates the field if the platform allows that, and refuses a bot that lacks it otherwise.
fn fill(bot: &mut OpenedBot, field: &BotField) -> Result<Result<(), BotNotChanged>, Fault> {
    let given = match field.secret {
        true => bot.credentials.get(field.name).map(|secret| secret.expose()).filter(|text| !text.is_empty()),
        false => bot.setting(field.name),
    };
    if given.is_some_and(|text| field.secret && is_placeholder(text)) {
        return Ok(Err(BotNotChanged::Placeholder(field.name)));
    }
    match field.presence {
        _ if given.is_some() => {}
        FieldPresence::Optional => {}
        FieldPresence::NeededWith { setting, word } => {
            let list = bot.setting(setting).unwrap_or_default();
            if list.split(',').any(|listed| listed.trim() == word) {
                return Ok(Err(BotNotChanged::missing(field)));
            }
        }
        FieldPresence::Required => return Ok(Err(BotNotChanged::missing(field))),
        FieldPresence::Generated if field.secret => {
            let made: Secret = vault::random_hex(32)?;
            bot.credentials.insert(field.name, made);
        }
        FieldPresence::Generated => {
            let made: Secret = vault::random_hex(16)?;
            bot.settings.insert(field.name.to_owned(), made.expose().into());
        }
    }
    Ok(Ok(()))
}

impl Edge {
    /// The refusal of a platform that this server does not have.
    pub fn unknown_platform(&self, name: &str) -> BotNotChanged {
        let mut known: Vec<_> = self.0.platforms.keys().copied().collect();
        known.sort_unstable();
        BotNotChanged::UnknownPlatform(name.to_owned(), known.join(", "))
    }

    /// Creates a bot: checks its credentials with the platform, seals them and starts to serve it.
    pub async fn keep_bot(&self, draft: BotDraft) -> Result<Result<OpenedBot, BotNotChanged>, Fault> {
        let Some(platform) = self.platform(&draft.platform).cloned() else {
            return Ok(Err(self.unknown_platform(&draft.platform)));
        };
        let mut bot = OpenedBot {
            platform: PlatformName::from(draft.platform.as_str()),
            id: BotId::from(draft.id.unwrap_or_default()),
            shared: draft.shared,
            settings: draft.settings,
            credentials: draft.credentials,
        };
        for field in platform.fields() {
            if let Err(refusal) = fill(&mut bot, field)? {
                return Ok(Err(refusal));
            }
        }
        let PlatformBot { id, settings } = match platform.check_credentials(&bot).await {
            Ok(met) => met,
            Err(trouble) => return Ok(Err(BotNotChanged::Refused(trouble.to_string()))),
        };
        if bot.id.is_empty() {
            bot.id = BotId::from(id);
        }
        if !is_bot_id(bot.id.as_str()) {
            return Ok(Err(BotNotChanged::BadId(bot.id.to_string())));
        }
        // The operator's settings take precedence over those that the platform reports.
        for (name, value) in settings {
            bot.settings.entry(name).or_insert(value);
        }
        let record = ledger::Bot {
            platform: bot.platform.clone(),
            id: bot.id.clone(),
            shared: bot.shared,
            principals: PrincipalPolicy::open(draft.open || platform.proves_senders()),
            settings: Value::Object(bot.settings.clone()).to_string(),
            created: self.0.timepiece.now(),
        };
        let secrets = self.0.vault.seal_credentials(&bot.platform, &bot.id, &bot.credentials)?;
        if self.0.identity.accounts.create_bot(record, secrets).await? != Created::Made {
            return Ok(Err(BotNotChanged::Taken(bot.platform.to_string(), bot.id.to_string())));
        }
        Ok(Ok(bot))
    }

    /// Replaces secrets of a bot: checks them with the platform together with those that stay, seals them, and starts
    /// the bot's event source anew. A dead bot works again.
    pub async fn replace_credentials(
        &self,
        bot_ref: &BotRef,
        secrets: Credentials,
    ) -> Result<Result<(), BotNotChanged>, Fault> {
        let absent = || Ok(Err(BotNotChanged::Absent(bot_ref.platform.to_string(), bot_ref.bot.to_string())));
        let Some(bot) = self.0.bots.find(bot_ref).await? else { return absent() };
        let Some(platform) = self.platform(bot_ref.platform.as_str()).cloned() else {
            return Ok(Err(self.unknown_platform(bot_ref.platform.as_str())));
        };
        let mut draft = OpenedBot::clone(&bot);
        for field in platform.fields().iter().filter(|field| field.secret) {
            match secrets.get(field.name) {
                Some(secret) if secret.is_empty() => return Ok(Err(BotNotChanged::missing(field))),
                Some(secret) if is_placeholder(secret.expose()) => {
                    return Ok(Err(BotNotChanged::Placeholder(field.name)));
                }
                Some(secret) => draft.credentials.insert(field.name, secret.clone()),
                None => {}
            }
        }
        if let Err(trouble) = platform.check_credentials(&draft).await {
            return Ok(Err(BotNotChanged::Refused(trouble.to_string())));
        }
        let sealed = self.0.vault.seal_credentials(&bot_ref.platform, &bot_ref.bot, &secrets)?;
        if !self.0.health.replace_credentials(bot_ref, sealed, || self.stop(bot_ref)).await? {
            return absent();
        }
        // Before the answer, so that the next action already uses the new credential.
        self.0.bots.open_again(bot_ref).await?;
        // This starts the event source.
        self.0.identity.roster.bot_changed(bot_ref);
        Ok(Ok(()))
    }

    /// Removes a bot with its secrets and routes, and its webhook at the platform.
    pub async fn release_bot(&self, bot_ref: &BotRef) -> Result<Removed, Fault> {
        // The platform would not accept the call of a dead bot.
        if !self.0.health.is_dead(bot_ref)
            && let (Some(bot), Some(platform)) =
                (self.0.bots.find(bot_ref).await?, self.platform(bot_ref.platform.as_str()))
            && let Err(trouble) = platform.register(&bot, None).await
        {
            tracing::warn!(bot.id = %bot.id, %trouble, "could not remove the webhook of a removed bot at its platform");
        }
        let removed = self.0.relay.route_removals().remove_bot(bot_ref).await?;
        // At once: a bot that is created under the same name next must not find this event source running.
        self.stop(bot_ref);
        self.0.health.forget(bot_ref);
        Ok(removed)
    }
}
