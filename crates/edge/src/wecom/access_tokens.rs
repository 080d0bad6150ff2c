//! Access tokens of applications: one per secret, shared by all calls, and requested again before it ends.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use moka::sync::Cache;
use posthouse_time::Instant;
use posthouse_wire::Secret;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::api::{WeComCall, read};
use super::{CORP, SECRET, WeCom};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, RefusalKind};

const MOST: u64 = 10_000;
/// A token is replaced this long before its end.
const EARLY: Duration = Duration::from_secs(300);
/// The longest lifetime that is believed.
const LONGEST: u64 = 7200;

/// A token that WeCom accepts.
struct AccessToken {
    value: Secret,
    until: Instant,
}

type TokenCell = Arc<Mutex<Option<AccessToken>>>;

/// Tokens by a digest of company and secret. Clones share one state.
#[derive(Clone)]
pub(super) struct WeComTokens(Cache<[u8; 32], TokenCell>);

impl Default for WeComTokens {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(MOST).time_to_idle(Duration::from_secs(LONGEST)).build())
    }
}

#[derive(Deserialize)]
struct GrantedToken {
    access_token: String,
    expires_in: u64,
}

impl WeCom {
    /// The access token of a bot's application. `stale` is one that WeCom has just refused. Calls that wait for the
    /// same token wait for one request.
    pub(super) async fn access_token(
        &self,
        bot: &OpenedBot,
        stale: Option<&Secret>,
        limit: Duration,
    ) -> Result<Secret, CallFailure> {
        let missing = || CallFailure::Unreached("the bot has no company or no secret".to_owned());
        let secret = bot.credentials.get(SECRET).filter(|secret| !secret.is_empty());
        let (corp, secret) = bot.setting(CORP).zip(secret).ok_or_else(missing)?;
        let mut context = digest::Context::new(&digest::SHA256);
        for part in [self.base_of(bot), "\0", corp, "\0", secret.expose()] {
            context.update(part.as_bytes());
        }
        let mut key = [0; 32];
        key.copy_from_slice(context.finish().as_ref());
        let cell = self.access_tokens.0.get_with(key, TokenCell::default);
        let granting = async {
            let mut token = cell.lock().await;
            let now = self.timepiece.instant();
            if let Some(known) = &*token
                && known.until > now
                && stale.is_none_or(|stale| stale.expose() != known.value.expose())
            {
                return Ok(known.value.clone());
            }
            *token = None;
            let query = [("corpid", corp), ("corpsecret", secret.expose())];
            let address = format!("{}{}", self.base_of(bot), WeComCall::TOKEN_PATH);
            let request = self.client.http()?.get(address).query(&query);
            let granted = read::<GrantedToken>(&self.client.exchange(request, limit).await?, &[secret]);
            let granted = granted.inspect_err(|failure| {
                if failure.is_credential_dead() {
                    self.refused.report(&bot.id);
                }
            })?;
            let lifetime = Duration::from_secs(granted.expires_in.min(LONGEST)).saturating_sub(EARLY);
            let value = Secret::new(granted.access_token);
            *token = Some(AccessToken { value: value.clone(), until: now + lifetime });
            Ok(value)
        };
        self.timepiece.within(limit, granting).await.unwrap_or_else(|_| {
            Err(CallFailure::Unreached("the access token did not come in time".to_owned()))
        })
    }
}

/// Whether a refusal says that the access token has ended or was replaced.
pub(super) fn is_stale(failure: &CallFailure) -> bool {
    matches!(failure, CallFailure::Refused(refused)
        if refused.kind == RefusalKind::CredentialDead && matches!(refused.code, 40_001 | 40_014 | 42_001))
}
