//! Secrets of bots: tokens and signing secrets.

use std::collections::BTreeMap;

use ledger::Sealed;
use posthouse_wire::{BotId, Platform, Secret};

use crate::{Fault, Vault};

/// One bot's secrets by name. The type has no `Debug` output.
#[derive(Clone, Default)]
pub struct Credentials(BTreeMap<String, Secret>);

impl Credentials {
    pub fn get(&self, name: &str) -> Option<&Secret> {
        self.0.get(name)
    }

    pub fn insert(&mut self, name: &str, secret: Secret) {
        self.0.insert(name.to_owned(), secret);
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether both have the same secrets.
    pub fn same_as(&self, other: &Credentials) -> bool {
        let equal = |(name, secret): (&str, &Secret)| {
            other.get(name).is_some_and(|other| other.matches(secret.expose()))
        };
        self.0.len() == other.0.len() && self.iter().all(equal)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.0.iter().map(|(name, secret)| (name.as_str(), secret))
    }
}

impl Vault {
    /// Seals every secret of `credentials` for this bot. Stores nothing.
    pub fn seal_credentials(
        &self,
        platform: &Platform,
        bot: &BotId,
        credentials: &Credentials,
    ) -> Result<Vec<(String, Sealed)>, Fault> {
        let seal = |(name, secret): (&str, &Secret)| {
            let sealed = self.keys.seal(&context(platform, bot, name), secret.expose().as_bytes())?;
            Ok((name.to_owned(), sealed))
        };
        credentials.iter().map(seal).collect()
    }

    /// Stores every secret of `credentials` for this bot and replaces those of the same name.
    pub async fn keep(
        &self,
        platform: &Platform,
        bot: &BotId,
        credentials: &Credentials,
    ) -> Result<(), Fault> {
        for (name, sealed) in self.seal_credentials(platform, bot, credentials)? {
            self.records.put_credential(platform, bot, &name, sealed).await?;
        }
        Ok(())
    }

    pub async fn credentials(&self, platform: &Platform, bot: &BotId) -> Result<Credentials, Fault> {
        let mut credentials = Credentials::default();
        for (name, sealed) in self.records.credentials(platform, bot).await? {
            let secret = self.keys.open_text(&context(platform, bot, &name), &sealed)?;
            credentials.insert(&name, secret);
        }
        Ok(credentials)
    }
}

fn context(platform: &Platform, bot: &BotId, name: &str) -> String {
    format!("bot/{platform}/{bot}/{name}")
}
