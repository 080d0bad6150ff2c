//! API calls of one action on Discord, with its deadline and the nonces of its messages.

use aws_lc_rs::digest;
use posthouse_wire::{ActionId, TenantId};
use relay::PermittedAction;
use serde::de::DeserializeOwned;

use crate::bots::OpenedBot;
use crate::discord::Discord;
use crate::discord::api::DiscordCall;
use crate::platform_calls::{CallFailure, CallsWithDeadline, RepeatRule};

/// Characters of a nonce. Discord allows 25.
const NONCE_LENGTH: usize = 20;

pub(in crate::discord) struct DiscordCalls<'a> {
    pub discord: &'a Discord,
    pub bot: &'a OpenedBot,
    pub calls: CallsWithDeadline<'a>,
    action: ActionId,
    tenant: TenantId,
    /// Messages that this action has posted.
    posts: u32,
}

impl<'a> DiscordCalls<'a> {
    pub fn new(discord: &'a Discord, bot: &'a OpenedBot, permitted: &PermittedAction) -> Self {
        let calls = CallsWithDeadline::new(&discord.timepiece, permitted.deadline);
        Self { discord, bot, calls, action: permitted.id.clone(), tenant: permitted.tenant.clone(), posts: 0 }
    }

    /// Makes a call, with retries.
    pub async fn ask<R: DeserializeOwned>(
        &mut self,
        call: DiscordCall<'_>,
        repeat: RepeatRule,
    ) -> Result<R, CallFailure> {
        let (discord, bot) = (self.discord, self.bot);
        let call = call.for_tenant(&self.tenant);
        self.calls.call(call.name, repeat, |left| discord.call(bot, call.clone(), left)).await
    }

    /// The nonce of the next message: the same for every attempt, and different for every message of the action.
    pub fn next_nonce(&mut self) -> String {
        self.posts += 1;
        let text = format!("{}:{}", self.action, self.posts);
        let mut nonce = hex::encode(digest::digest(&digest::SHA256, text.as_bytes()));
        nonce.truncate(NONCE_LENGTH);
        nonce
    }
}
