//! Id types. A plain `String` is never used as an id.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

macro_rules! ids {
    ($($(#[$about:meta])* $name:ident;)*) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: impl AsRef<str>) -> Self {
                Self(Arc::from(text.as_ref()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }

            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(crate::lenient::IdText).map(Self::from)
            }
        }
    )*};
}

ids! {
    /// Tenant: the owner of agents.
    TenantId;
    /// One agent of a tenant, the unit of delivery: `inst_…`.
    InstanceId;
    /// One credential of an instance: the name that the agent presents when it connects.
    GatewayId;
    /// A chat platform by its wire name, such as `telegram`.
    Platform;
    /// A bot: an account on a platform whose secrets the server holds (`botId` on the wire).
    BotId;
    /// A conversation on a platform.
    ChatId;
    /// A person on a platform, as verified by the platform.
    UserId;
    /// Server, guild or workspace that contains chats.
    ScopeId;
    /// A thread or topic inside a chat.
    ThreadId;
    /// One message on a platform.
    MessageId;
    /// One question with buttons, named by the agent that asks it.
    PromptId;
    /// One button of a prompt.
    PromptOptionId;
    /// The agent's own key of one conversation. It proves nothing and is not unique across tenants.
    SessionKey;
    /// The agent's id of one outbound request.
    RequestId;
    /// Kind of a capability, such as `discord.interaction_token`.
    CapabilityKind;
    /// The platform's key by which a repeated event is recognised.
    DedupKey;
    /// One inbox entry: `ent_…`, `bufferId` on the wire. Opaque to the agent.
    EntryId;
    /// One outbound action: `act_…`.
    ActionId;
    /// The agent's id of a cron job. Unique only within one instance.
    JobId;
    /// One arm of a job: `sch_…`. Opaque to the agent.
    ScheduleId;
    /// Client of a bearer token: `agent:{instance}`, `tenant:{tenant}`, or the common name of bootstrap logins.
    ClientId;
    /// One login with its refresh tokens (`sid`): `log_…`.
    LoginId;
    /// One dispatch of a program, the same for all its recipients.
    DispatchId;
    /// Links an answer to its question.
    CorrelationId;
    /// One configured connector to agents that do not connect by themselves: `con_…`.
    ConnectorId;
    /// A single-use enrolment token, by the id under which it is listed: `enr_…`.
    EnrollTokenId;
    /// One person's invitation to the web chat page: `inv_…`.
    InvitationId;
    /// One file that travels between an agent and a chat: 32 hexadecimal digits.
    MediaId;
    /// Name of a file on the disk that holds the bytes of a medium: 32 hexadecimal digits.
    MediaFile;
    /// One entry of the data that a tenant keeps: `dat_…`.
    DataId;
    /// One run of a skill: `run_…`.
    RunId;
}

/// Platform of an event that names none. Such an event is not deliverable.
impl Default for Platform {
    fn default() -> Self {
        Platform::new("")
    }
}

impl TenantId {
    pub fn mint(now_ms: i64) -> Self {
        minted("ten", now_ms).into()
    }
}

impl InstanceId {
    pub fn mint(now_ms: i64) -> Self {
        minted("inst", now_ms).into()
    }
}

impl GatewayId {
    pub fn mint(now_ms: i64) -> Self {
        minted("gw", now_ms).into()
    }
}

impl EnrollTokenId {
    pub fn mint(now_ms: i64) -> Self {
        minted("enr", now_ms).into()
    }
}

impl RequestId {
    pub fn mint(now_ms: i64) -> Self {
        minted("req", now_ms).into()
    }
}

impl MediaId {
    /// 128 random bits: whoever guesses an id could ask for its file.
    pub fn mint() -> Self {
        random_hex().into()
    }

    /// Reads an id as it stands in a URL. `None` for any other spelling than the one that `mint` writes.
    pub fn read(text: &str) -> Option<Self> {
        let is_id =
            text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        is_id.then(|| text.into())
    }
}

impl MediaFile {
    pub fn mint() -> Self {
        random_hex().into()
    }

    /// Reads the name of a file. `None` for a file that `mint` did not name.
    pub fn read(text: &str) -> Option<Self> {
        MediaId::read(text).map(|id| id.as_str().into())
    }
}

impl ScheduleId {
    pub fn mint(now_ms: i64) -> Self {
        minted("sch", now_ms).into()
    }
}

impl RunId {
    pub fn mint(now_ms: i64) -> Self {
        minted("run", now_ms).into()
    }
}

impl ConnectorId {
    pub fn mint(now_ms: i64) -> Self {
        minted("con", now_ms).into()
    }
}

impl LoginId {
    pub fn mint(now_ms: i64) -> Self {
        minted("log", now_ms).into()
    }
}

impl EntryId {
    pub fn mint(now_ms: i64) -> Self {
        minted("ent", now_ms).into()
    }

    /// The bytes under the prefix; nothing for an id that we did not mint.
    pub fn bytes(&self) -> Option<[u8; 16]> {
        unprefixed("ent_", self.as_str())
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        prefixed("ent", Uuid::from_bytes(bytes)).into()
    }
}

impl DataId {
    pub fn mint(now_ms: i64) -> Self {
        minted("dat", now_ms).into()
    }

    /// The bytes under the prefix; nothing for an id that we did not mint.
    pub fn bytes(&self) -> Option<[u8; 16]> {
        unprefixed("dat_", self.as_str())
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        prefixed("dat", Uuid::from_bytes(bytes)).into()
    }
}

impl ActionId {
    pub fn mint(now_ms: i64) -> Self {
        minted("act", now_ms).into()
    }

    /// The bytes under the prefix; nothing for an id that we did not mint.
    pub fn bytes(&self) -> Option<[u8; 16]> {
        unprefixed("act_", self.as_str())
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        prefixed("act", Uuid::from_bytes(bytes)).into()
    }
}

/// Rule for names that people choose: agents (which also must not look like an instance id), tenants and bots. No
/// valid name needs quoting in a path, a shell or a session key.
pub fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.len() <= 64
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Rule for bot ids. Platforms choose them, so they may begin with any of the allowed characters.
pub fn is_bot_id(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && !text.bytes().all(|b| b == b'.')
}

fn minted(prefix: &str, now_ms: i64) -> String {
    let random = RANDOM.with_borrow_mut(RandomBytes::take);
    let millis = u64::try_from(now_ms).unwrap_or(0);
    prefixed(prefix, uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
}

/// Random bytes for ids, generated in advance: a call of the generator costs nearly as much for ten bytes as for many.
struct RandomBytes {
    bytes: [u8; 640],
    used: usize,
}

thread_local! {
    static RANDOM: RefCell<RandomBytes> = const { RefCell::new(RandomBytes { bytes: [0; 640], used: 640 }) };
}

impl RandomBytes {
    fn take(&mut self) -> [u8; 10] {
        if self.used == self.bytes.len() {
            // A generator inside the process: a system call would be too slow on the hot path.
            aws_lc_rs::rand::fill(&mut self.bytes)
                .expect("the generator fails only when the system has no entropy at all");
            self.used = 0;
        }
        let mut taken = [0; 10];
        taken.copy_from_slice(&self.bytes[self.used..self.used + 10]);
        self.used += 10;
        taken
    }
}

/// 128 random bits in hexadecimal. They are generated when they are needed, because they are secret.
fn random_hex() -> String {
    let mut random = [0; 16];
    aws_lc_rs::rand::fill(&mut random)
        .expect("the generator fails only when the system has no entropy at all");
    Uuid::from_bytes(random).simple().to_string()
}

fn prefixed(prefix: &str, uuid: Uuid) -> String {
    [prefix, "_", uuid.simple().encode_lower(&mut Uuid::encode_buffer())].concat()
}

fn unprefixed(prefix: &str, text: &str) -> Option<[u8; 16]> {
    let hex = text.strip_prefix(prefix)?;
    // Accepts only the spelling that `prefixed` writes, so that two texts never name the same entry.
    if hex.len() != 32 || hex.bytes().any(|b| b.is_ascii_uppercase()) {
        return None;
    }
    Uuid::try_parse(hex).ok().map(Uuid::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minted_ids_sort_by_time_and_survive_the_round_trip_through_bytes() {
        let (early, late) = (EntryId::mint(1_765_000_000_000), EntryId::mint(1_765_000_000_001));
        assert!(early < late);
        assert_eq!(EntryId::from_bytes(early.bytes().unwrap()), early);
        assert_eq!(EntryId::new("ent_nonsense").bytes(), None);
        assert_eq!(EntryId::new(early.as_str().to_uppercase()).bytes(), None);
    }

    #[test]
    fn ids_of_one_instant_differ() {
        let minted: std::collections::BTreeSet<_> = (0..1000).map(|_| EntryId::mint(1)).collect();
        assert_eq!(minted.len(), 1000);
    }

    #[test]
    fn ids_read_from_numbers_become_their_text() {
        let chat: ChatId = serde_json::from_str("-1001234567890123").unwrap();
        assert_eq!(chat, "-1001234567890123");
        assert!(serde_json::from_str::<ChatId>("[]").is_err());
    }

    #[test]
    fn names_need_no_quoting_anywhere() {
        for good in ["a", "heron-1", "A.b_c", "9lives"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "-x", "_x", "a b", "a/b", "é", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(is_bot_id("_bot") && is_bot_id("7001") && !is_bot_id("..") && !is_bot_id("a:b"));
    }
}
