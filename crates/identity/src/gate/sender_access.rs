//! Access control of bots: which senders may write to a bot, for all platforms.
//!
//! A bot is closed unless it is declared open. A person is admitted for their direct conversation, a group or
//! channel by its chat, and a chat that a route names by that route. An unknown sender gets a pairing code, which
//! the operator can use to admit them, and reaches no agent until then. A decision applies to one bot only.
//! Principal policies of agents (relay contract section 18) are beside it: they concern places that agents claimed.

use std::sync::Arc;
use std::time::Duration;

use ledger::{AccessRule, BotRef, Decision, Pairing, PrincipalPolicy, SenderRecords, Subject};
use posthouse_time::Timepiece;
use posthouse_wire::{ChatId, Source, UserId};

use super::IncomingMessage;
use super::pairing::{PairingCode, PairingRequests, Stranger};
use crate::record_cache::RecordCache;
use crate::roster_versions::RosterChange;
use crate::{Fault, RosterView};

/// How long a result from the ledger is cached. A change made on this node takes effect at once.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Decides which senders a bot knows. Clones share their caches.
#[derive(Clone)]
pub struct SenderAccess {
    records: Arc<dyn ledger::Access>,
    roster: RosterView,
    pairing: PairingRequests,
    /// Senders with a stored decision. They have a cache of their own, so that many strangers cannot evict them.
    known: Arc<SenderCache>,
    unknown: Arc<SenderCache>,
}

/// Decisions by bot, person, chat and the chat above it.
type SenderCache = RecordCache<(BotRef, Option<UserId>, Option<ChatId>, Option<ChatId>), SenderDecisions>;

/// The stored decisions about a sender.
#[derive(Clone, Copy)]
struct SenderDecisions {
    policy: PrincipalPolicy,
    denied: bool,
    user_allowed: bool,
    chat_allowed: bool,
}

/// The decision about a sender.
pub(super) enum SenderVerdict {
    Admitted,
    Stranger(Stranger),
    /// Denied by the operator, or nobody who could be admitted. They get no answer.
    Denied,
}

impl SenderAccess {
    pub(super) fn new(records: Arc<dyn ledger::Access>, roster: RosterView, timepiece: Timepiece) -> Self {
        let cache = || Arc::new(RecordCache::new(100_000, REMEMBERED));
        Self {
            pairing: PairingRequests::new(Arc::clone(&records), timepiece),
            records,
            roster,
            known: cache(),
            unknown: cache(),
        }
    }

    /// Decides whether a message is admitted. `is_routed`: a route names its chat or scope.
    pub(super) async fn verdict(
        &self,
        incoming: IncomingMessage<'_>,
        is_routed: bool,
    ) -> Result<SenderVerdict, Fault> {
        let (on, source) = (incoming.on, incoming.origin.source);
        let before = self.roster.read_mark();
        let decided = self.decisions(on, source).await?;
        if decided.denied {
            return Ok(SenderVerdict::Denied);
        }
        // A group is admitted only as a whole, because everybody in it reads the answers to one member.
        let admitted = decided.chat_allowed || (incoming.is_direct() && decided.user_allowed);
        if admitted || is_routed || decided.policy.is_open() {
            return Ok(SenderVerdict::Admitted);
        }
        // The version from before the decisions, so that a change in between is seen when a code is made.
        let version = self.roster.bot_version(on).min(before.version);
        Ok(Stranger::new(version, incoming).map_or(SenderVerdict::Denied, SenderVerdict::Stranger))
    }

    /// Whether the operator denied this sender or chat.
    pub async fn denies(&self, on: &BotRef, source: &Source) -> Result<bool, Fault> {
        Ok(self.decisions(on, source).await?.denied)
    }

    async fn decisions(&self, on: &BotRef, source: &Source) -> Result<SenderDecisions, Fault> {
        let Source { user_id, chat_id, parent_chat_id, .. } = source;
        let key = (on.clone(), user_id.clone(), chat_id.clone(), parent_chat_id.clone());
        let cached =
            self.roster.cached(&self.known, &key).or_else(|| self.roster.cached(&self.unknown, &key));
        if let Some(known) = cached {
            return Ok(known);
        }
        let read = self.roster.read_mark();
        let user = user_id.clone().map(Subject::User);
        let chats = [chat_id, parent_chat_id].into_iter().flatten().cloned().map(Subject::Chat);
        let subjects: Vec<Subject> = user.into_iter().chain(chats).collect();
        let SenderRecords { policy, decisions } = self.records.sender_records(on, &subjects).await?;
        let decided = |wanted: Decision, kind: &str| {
            let mut about = subjects.iter().zip(&decisions);
            about.any(|(subject, decision)| subject.kind() == kind && *decision == Some(wanted))
        };
        let found = SenderDecisions {
            policy,
            denied: decisions.contains(&Some(Decision::Denied)),
            user_allowed: decided(Decision::Allowed, "user"),
            chat_allowed: decided(Decision::Allowed, "chat"),
        };
        let is_known = decisions.iter().any(Option::is_some);
        let cache = if is_known { &self.known } else { &self.unknown };
        cache.insert(key, found, vec![RosterChange::Bot(on.clone())], read);
        Ok(found)
    }

    /// Stores the pairing request of a stranger and returns the code for them. `None` if they have one already, or if
    /// too many wait.
    pub async fn pair(&self, stranger: Stranger) -> Result<Option<PairingCode>, Fault> {
        self.pairing.pair(stranger).await
    }

    /// Deletes a code that could not be sent to the stranger, so that a later message of theirs gets a new one.
    pub async fn withdraw_code(&self, code: PairingCode) {
        self.pairing.withdraw(code).await;
    }

    /// Stores a decision; it applies from the sender's next message on. False if there is no such bot.
    pub async fn decide(&self, on: &BotRef, about: &Subject, decision: Decision) -> Result<bool, Fault> {
        let decided = self.records.decide(on, about, decision).await?;
        self.roster.bot_changed(on);
        Ok(decided)
    }

    /// Stores a decision about the sender who got this code. Case and separators of the code do not matter. `None`
    /// if the code is not pending.
    pub async fn decide_by_code(
        &self,
        on: &BotRef,
        code: &str,
        decision: Decision,
    ) -> Result<Option<AccessRule>, Fault> {
        let code: String = code.chars().filter(char::is_ascii_alphanumeric).collect();
        let decided = self.records.decide_by_code(on, &code.to_ascii_uppercase(), decision).await?;
        self.roster.bot_changed(on);
        Ok(decided)
    }

    /// Deletes the decision about a sender. From their next message on they are unknown again.
    pub async fn forget(&self, on: &BotRef, about: &Subject) -> Result<bool, Fault> {
        let known = self.records.forget(on, about).await?;
        self.roster.bot_changed(on);
        Ok(known)
    }

    /// Opens a bot to everybody, or closes it again. False if there is no such bot.
    pub async fn set_policy(&self, on: &BotRef, policy: PrincipalPolicy) -> Result<bool, Fault> {
        let known = self.records.set_policy(on, policy).await?;
        self.roster.bot_changed(on);
        Ok(known)
    }

    pub async fn rules(&self, on: Option<&BotRef>) -> Result<Vec<AccessRule>, Fault> {
        Ok(self.records.rules(on).await?)
    }

    /// Requests whose code is still valid.
    pub async fn pairings(&self, on: Option<&BotRef>) -> Result<Vec<Pairing>, Fault> {
        Ok(self.records.pairings(on).await?)
    }
}
