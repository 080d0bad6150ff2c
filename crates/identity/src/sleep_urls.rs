//! Sleep URLs: with its own, a gateway asks to be stopped. The URL carries a token.

use std::net::IpAddr;
use std::sync::Arc;

use ledger::{SleepAsker, SleepRecords};
use posthouse_wire::{InstanceId, Secret};
use vault::Keyring;

use crate::{Fault, Throttle};

/// The longest token that is looked up, in bytes.
const LONGEST: usize = 128;

/// Result of checking a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SleepCaller {
    Known(SleepAsker),
    /// Unknown, ended or malformed, or the agent cannot be stopped. One variant on purpose.
    Unknown,
    /// Too many wrong credentials came from this address.
    Barred,
}

/// Stop URLs of agents, and tokens for asking to be stopped.
#[derive(Clone)]
pub struct SleepUrls {
    pub(crate) keyring: Keyring,
    pub(crate) records: Arc<dyn SleepRecords>,
    pub(crate) throttle: Throttle,
}

impl SleepUrls {
    /// Sets the stop URL of an agent, which must have been checked. `None` removes it and ends the tokens.
    pub async fn set_stop_url(&self, of: &InstanceId, url: Option<&str>) -> Result<(), Fault> {
        Ok(self.records.set_stop_url(of, url).await?)
    }

    pub async fn stop_url(&self, of: &InstanceId) -> Result<Option<String>, Fault> {
        Ok(self.records.stop_url(of).await?)
    }

    /// Makes a token for an agent that has a stop URL. It is returned only here. Earlier tokens stay valid for a day.
    pub async fn make_token(&self, of: &InstanceId) -> Result<Option<Secret>, Fault> {
        let (token, hash) = self.keyring.draft_sleep_token()?;
        let added = self.records.add_sleep_token(of, hash, self.keyring.overlap_until()).await?;
        Ok(added.then_some(token))
    }

    /// The agent of a token. Wrong tokens get slower answers and then none.
    pub async fn caller(&self, token: &str, address: Option<IpAddr>) -> Result<SleepCaller, Fault> {
        let is_plausible = token.starts_with("phz_") && token.len() <= LONGEST;
        let found = match is_plausible {
            true => self.records.sleep_asker(Keyring::token_hash(token)).await?,
            false => None,
        };
        Ok(match found {
            Some(asker) => SleepCaller::Known(asker),
            None if self.throttle.slow_down(address, "sleep_refused").await => SleepCaller::Unknown,
            None => SleepCaller::Barred,
        })
    }
}
