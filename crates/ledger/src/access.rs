//! Access to bots: the operator's decisions about people and chats, and pending requests for access.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, UserId};

use crate::{BotRef, Fault};

/// Policy that decides which authors a bot listens to (relay contract section 18). Agents on shared bots have policies of
/// their own ([`AuthorPolicy`](crate::AuthorPolicy)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PrincipalPolicy {
    /// Only authors whom the operator allowed.
    #[default]
    AllowList,
    /// Every author whom the operator did not deny.
    Any,
}

impl PrincipalPolicy {
    pub fn as_str(self) -> &'static str {
        match self {
            PrincipalPolicy::AllowList => "allow-list",
            PrincipalPolicy::Any => "any",
        }
    }

    pub fn is_open(self) -> bool {
        self == PrincipalPolicy::Any
    }

    /// The policy for the `--open` flag of the command line.
    pub fn open(open: bool) -> Self {
        if open { PrincipalPolicy::Any } else { PrincipalPolicy::AllowList }
    }
}

impl FromStr for PrincipalPolicy {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "allow-list" => Ok(PrincipalPolicy::AllowList),
            "any" => Ok(PrincipalPolicy::Any),
            _ => Err(()),
        }
    }
}

/// The person or chat that a decision is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A person, in their direct conversation with the bot.
    User(UserId),
    /// Everybody in a chat: a group, a channel or one direct conversation.
    Chat(ChatId),
}

impl Subject {
    pub fn kind(&self) -> &'static str {
        match self {
            Subject::User(_) => "user",
            Subject::Chat(_) => "chat",
        }
    }

    pub fn value(&self) -> &str {
        match self {
            Subject::User(user) => user.as_str(),
            Subject::Chat(chat) => chat.as_str(),
        }
    }

    pub fn from_parts(kind: &str, value: &str) -> Option<Self> {
        match kind {
            _ if value.is_empty() => None,
            "user" => Some(Subject::User(value.into())),
            "chat" | "group" => Some(Subject::Chat(value.into())),
            _ => None,
        }
    }
}

/// `user:ID` or `chat:ID`.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind(), self.value())
    }
}

/// Reads `group:ID` as `chat:ID`.
impl FromStr for Subject {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (kind, value) = text.split_once(':').ok_or(())?;
        Subject::from_parts(kind, value).ok_or(())
    }
}

/// The operator's decision about a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Allowed,
    Denied,
}

impl Decision {
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Allowed => "allowed",
            Decision::Denied => "denied",
        }
    }
}

/// The stored policy and decisions that apply to a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderRecords {
    pub policy: PrincipalPolicy,
    pub decisions: Vec<Option<Decision>>,
}

/// A stored decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    pub on: BotRef,
    pub subject: Subject,
    pub decision: Decision,
    /// The name that they gave when they asked. It is not verified.
    pub name: Option<String>,
    pub decided: Moment,
}

/// A request for access to a bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairing {
    pub on: BotRef,
    pub subject: Subject,
    /// The code by which the operator allows them.
    pub code: String,
    /// The name that they gave. It is not verified.
    pub name: Option<String>,
    /// The author of the message, if known. One person may ask for several groups.
    pub asked_by: Option<UserId>,
    pub asked: Moment,
    pub expires: Moment,
}

/// Limits on pending requests.
#[derive(Clone, Copy, Debug)]
pub struct PairingLimits {
    pub per_bot: u32,
    pub per_person: u32,
    /// All requests together whose author is unknown.
    pub of_nobody: u32,
}

/// Outcome of a request for access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairingResult {
    /// The request is now pending under its code.
    New,
    /// The subject already has a pending request, under another code.
    Pending,
    /// This bot or this person has too many pending requests. Nothing was stored.
    Full,
}

/// Decisions and requests of each bot. A decision about one bot does not apply to another.
#[async_trait]
pub trait Access: Send + Sync {
    /// The policy of the bot and the decision about each of these subjects, in the same order. A bot that
    /// does not exist admits nobody.
    async fn sender_records(&self, on: &BotRef, about: &[Subject]) -> Result<SenderRecords, Fault>;
    /// False when there is no such bot.
    async fn set_policy(&self, on: &BotRef, policy: PrincipalPolicy) -> Result<bool, Fault>;
    /// Stores a decision. It replaces an earlier decision and a pending request. False when there is no such
    /// bot.
    async fn decide(&self, on: &BotRef, subject: &Subject, decision: Decision) -> Result<bool, Fault>;
    /// Decides about the subject that has this code. None when no request is pending under it.
    async fn decide_by_code(
        &self,
        on: &BotRef,
        code: &str,
        decision: Decision,
    ) -> Result<Option<AccessRule>, Fault>;
    /// Deletes the decision about a subject and its pending request. False when there was neither.
    async fn forget(&self, on: &BotRef, subject: &Subject) -> Result<bool, Fault>;
    /// Stores a request, unless this subject already has one or the limits are reached. It never displaces
    /// another request.
    async fn pair(&self, request: Pairing, limits: PairingLimits) -> Result<PairingResult, Fault>;
    /// Deletes the pending request with this code. A decision that was made meanwhile stays. A missing
    /// request is fine.
    async fn withdraw_pairing(&self, on: &BotRef, subject: &Subject, code: &str) -> Result<(), Fault>;
    /// Decisions about all bots, or about one.
    async fn rules(&self, on: Option<&BotRef>) -> Result<Vec<AccessRule>, Fault>;
    /// Requests that have not expired, oldest first.
    async fn pairings(&self, on: Option<&BotRef>) -> Result<Vec<Pairing>, Fault>;
}
