//! Session keys as gateways compute them (relay contract section 10), so that follow-ups and interrupts
//! find the conversation they name. A key is a lookup handle inside one instance, never a proof.

use std::borrow::Cow;

use crate::event::Source;
use crate::id::{Platform, SessionKey, ThreadId};

/// The platform names that a stock gateway knows; any other becomes [`UNKNOWN_PLATFORM`] in its keys.
pub const KNOWN_PLATFORMS: [&str; 32] = [
    "api_server",
    "bluebubbles",
    "dingtalk",
    "discord",
    "email",
    "feishu",
    "google_chat",
    "homeassistant",
    "irc",
    "line",
    "local",
    "matrix",
    "mattermost",
    "msgraph_webhook",
    "ntfy",
    "photon",
    "qqbot",
    "raft",
    "relay",
    "signal",
    "simplex",
    "slack",
    "sms",
    "teams",
    "telegram",
    "webhook",
    "wecom",
    "wecom_callback",
    "weixin",
    "whatsapp",
    "whatsapp_cloud",
    "yuanbao",
];

/// What a platform that the gateway cannot name is called in its keys.
pub const UNKNOWN_PLATFORM: &str = "relay";

/// A gateway's session settings, as far as they enter its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Outside threads, everyone in a group has a session of their own.
    pub group_sessions_per_user: bool,
    /// Inside threads too; counts only together with the former.
    pub thread_sessions_per_user: bool,
    /// The profile of a gateway that hosts several. The key of a running turn never has one.
    pub profile: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { group_sessions_per_user: true, thread_sessions_per_user: false, profile: None }
    }
}

/// An id that has no folded form. A stock gateway dies of it, so it must never be sent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} cannot be folded into a session key")]
pub struct Unkeyable(pub &'static str);

/// The key of a stock gateway, version 0.19.0.
pub fn stock(source: &Source, options: &Options) -> Result<SessionKey, Unkeyable> {
    let parts = Parts::stock(source)?;
    Ok(parts.key(options.profile.as_deref(), parts.per_user(options)).into())
}

/// The key of later gateways, by the published algorithm.
pub fn newer(source: &Source, options: &Options) -> Result<SessionKey, Unkeyable> {
    let parts = Parts::newer(source)?;
    Ok(parts.key(options.profile.as_deref(), parts.per_user(options)).into())
}

/// Every key that the gateway may have computed for `source`, the stock default first: nothing on the
/// wire tells a gateway's generation or settings. Empty when the source has no key at all.
pub fn plausible(source: &Source) -> Vec<SessionKey> {
    let mut keys = Vec::new();
    gather(source, &mut keys);
    keys.into_iter().map(SessionKey::from).collect()
}

/// What [`plausible`] gives, and the keys under which a gateway files the same event when it reads it out
/// of a forwarded request (section 15): as a channel or direct message of a platform it has no name for.
pub fn plausible_of_interaction(source: &Source) -> Vec<SessionKey> {
    let direct = source.chat_type == "dm";
    let forwarded = Source {
        platform: Platform::new(UNKNOWN_PLATFORM),
        chat_type: if direct { "dm" } else { "channel" }.to_owned(),
        chat_id: source.chat_id.clone(),
        user_id: source.user_id.clone(),
        ..Source::default()
    };
    let ungrouped = Source {
        chat_type: if direct { "dm" } else { "group" }.to_owned(),
        thread_id: None,
        ..source.clone()
    };
    let mut keys = Vec::new();
    for source in [source, &forwarded, &ungrouped] {
        gather(source, &mut keys);
    }
    keys.into_iter().map(SessionKey::from).collect()
}

fn gather(source: &Source, keys: &mut Vec<String>) {
    let own_thread = own_thread(source);
    let generations = [Parts::stock(source), Parts::newer(source)];
    let mut add = |parts: &Parts<'_>| {
        let usual = parts.per_user(&Options::default());
        for profile in [None, source.profile.as_deref()] {
            for per_user in [usual, !usual] {
                let key = parts.key(profile, per_user);
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
    };
    for parts in generations.into_iter().flatten() {
        add(&parts);
    }
    if let (Some(thread), Ok(parts)) = (&own_thread, Parts::newer(source)) {
        add(&Parts { thread: Some(thread.as_str()), ..parts });
    }
}

/// Later gateways make every top-level direct message of this platform a thread of its own.
fn own_thread(source: &Source) -> Option<ThreadId> {
    let top_level = source.chat_type == "dm" && source.thread_id.as_ref().is_none_or(ThreadId::is_empty);
    let message = source.message_id.as_ref().filter(|message| !message.is_empty())?;
    (top_level && known(&source.platform) == SCOPED_PLATFORM).then(|| ThreadId::new(message))
}

/// The one platform whose workspaces later gateways tell apart in the key.
const SCOPED_PLATFORM: &str = "slack";
/// The one platform whose ids gateways fold.
const FOLDED_PLATFORM: &str = "whatsapp";

/// What enters a key, each part empty or present.
struct Parts<'a> {
    platform: &'static str,
    chat_type: &'a str,
    scope: Option<&'a str>,
    chat: Option<Cow<'a, str>>,
    thread: Option<&'a str>,
    who: Option<Cow<'a, str>>,
    /// How a profile that is itself named `main` is told from having none.
    main_profile: &'static str,
}

impl<'a> Parts<'a> {
    fn stock(source: &'a Source) -> Result<Self, Unkeyable> {
        let platform = known(&source.platform);
        let direct = source.chat_type == "dm";
        let mut chat = present(&source.chat_id).map(Cow::Borrowed);
        let mut who = present(&source.user_id_alt).or(present(&source.user_id)).map(Cow::Borrowed);
        if platform == FOLDED_PLATFORM {
            if direct && let Some(id) = &chat {
                chat =
                    Some(folded(id).ok_or(Unkeyable("chat_id"))?).filter(|id| !id.is_empty()).map(Cow::Owned);
            }
            // In a direct message the person matters only where the chat has no name.
            if !(direct && chat.is_some())
                && let Some(id) = &who
            {
                let folded = folded(id).ok_or(Unkeyable("user_id"))?;
                who = if folded.is_empty() { who } else { Some(Cow::Owned(folded)) };
            }
        }
        Ok(Self {
            platform,
            chat_type: &source.chat_type,
            scope: None,
            chat,
            thread: present(&source.thread_id),
            who,
            main_profile: "main",
        })
    }

    fn newer(source: &'a Source) -> Result<Self, Unkeyable> {
        let mut parts = Self::stock(source)?;
        parts.main_profile = "main~";
        if parts.platform == SCOPED_PLATFORM {
            parts.scope = present(&source.scope_id);
        }
        if parts.chat_type != "dm"
            && parts.thread.is_none()
            && let Some(thread) = present(&source.prospective_thread_id)
        {
            parts.thread = Some(thread);
            parts.chat_type = "thread";
        }
        Ok(parts)
    }

    fn per_user(&self, options: &Options) -> bool {
        options.group_sessions_per_user && (self.thread.is_none() || options.thread_sessions_per_user)
    }

    /// Parts are joined unescaped; an absent one is left out with its colon.
    fn key(&self, profile: Option<&str>, per_user: bool) -> String {
        let direct = self.chat_type == "dm";
        let (chat, who) = (self.chat.as_deref(), self.who.as_deref());
        let namespace = match profile {
            None | Some("" | "default") => "main",
            Some("main") => self.main_profile,
            Some(profile) => profile,
        };
        let tail = if direct {
            [self.scope, chat.or(who), self.thread, None]
        } else {
            [self.scope, chat, self.thread, who.filter(|_| per_user)]
        };
        let mut key = format!("agent:{namespace}:{}:{}", self.platform, self.chat_type);
        for part in tail.into_iter().flatten() {
            key.push(':');
            key.push_str(part);
        }
        key
    }
}

fn present<T: AsRef<str>>(id: &Option<T>) -> Option<&str> {
    id.as_ref().map(AsRef::as_ref).filter(|text| !text.is_empty())
}

/// The platform under the name that the gateway has for it.
fn known(platform: &Platform) -> &'static str {
    let name = platform.as_str().trim().to_lowercase();
    KNOWN_PLATFORMS.iter().find(|known| **known == name).copied().unwrap_or(UNKNOWN_PLATFORM)
}

/// The bare number or name in a messenger id, twice over as gateways do it. Empty when nothing is left
/// after the first step; nothing when what is left holds a character that the gateway refuses.
fn folded(id: &str) -> Option<String> {
    let once = fold_step(id);
    if once.is_empty() {
        return Some(once);
    }
    let twice = fold_step(&once);
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '@' | '.' | '+' | '-');
    (!twice.is_empty() && twice.chars().all(safe)).then_some(twice)
}

fn fold_step(id: &str) -> String {
    let bare = id.trim().replacen('+', "", 1);
    let bare = bare.split(':').next().unwrap_or_default();
    bare.split('@').next().unwrap_or_default().to_owned()
}
