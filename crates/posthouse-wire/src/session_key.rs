//! Session keys, computed as gateways do (relay contract section 10).
//!
//! Follow-ups and interrupts name their conversation by such a key. A key is only for lookups within one instance;
//! it proves nothing.

use std::borrow::Cow;

use crate::event::Source;
use crate::id::{Platform, SessionKey, ThreadId};

/// Platform names that every stock gateway knows. Any other becomes [`UNKNOWN_PLATFORM`] in its keys.
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

/// Platform names that gateways since 0.20 know in addition to [`KNOWN_PLATFORMS`].
pub const KNOWN_SINCE_0_20: [&str; 2] = ["a2a", "buzz"];

/// Name in the keys for a platform that the gateway does not know.
pub const UNKNOWN_PLATFORM: &str = "relay";

/// Session settings of a gateway that affect its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Outside threads, each person in a group has a separate session.
    pub group_sessions_per_user: bool,
    /// The same inside threads. Has an effect only together with `group_sessions_per_user`.
    pub thread_sessions_per_user: bool,
    /// The profile, for a gateway that hosts several. The key of a running turn never contains one.
    pub profile: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { group_sessions_per_user: true, thread_sessions_per_user: false, profile: None }
    }
}

/// An id that cannot be normalized for a session key. It crashes a stock gateway, so it must never be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} cannot be normalized for a session key")]
pub struct Unkeyable(pub &'static str);

/// Whether gateways can compute a key for `source`.
pub(crate) fn check(source: &Source) -> Result<(), Unkeyable> {
    Parts::stock(source).map(drop)
}

/// Key of a stock gateway, version 0.19.0.
pub fn stock(source: &Source, options: &Options) -> Result<SessionKey, Unkeyable> {
    let parts = Parts::stock(source)?;
    Ok(parts.key(options.profile.as_deref(), parts.per_user(options)).into())
}

/// Key of a stock gateway, version 0.20.5.
pub fn stock_0_20(source: &Source, options: &Options) -> Result<SessionKey, Unkeyable> {
    let parts = Parts { main_profile: "main", ..Parts::newer(source)? };
    Ok(parts.key(options.profile.as_deref(), parts.per_user(options)).into())
}

/// Key of gateways later than 0.20.5, by the published algorithm.
pub fn newer(source: &Source, options: &Options) -> Result<SessionKey, Unkeyable> {
    let parts = Parts::newer(source)?;
    Ok(parts.key(options.profile.as_deref(), parts.per_user(options)).into())
}

/// Every key that the gateway may have computed for `source`, the stock default first. There are several, because
/// nothing on the wire tells the gateway's version or settings. Empty if the source has no key at all.
pub fn plausible(source: &Source) -> Vec<SessionKey> {
    let mut keys = Vec::new();
    gather(source, &mut keys);
    keys.into_iter().map(SessionKey::from).collect()
}

/// The keys of [`plausible`], and the keys that a gateway uses if it reads the same event from a forwarded request
/// (section 15): there it is a channel or direct message of an unknown platform.
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
    // Gateways of 0.20 differ from later ones only for a profile named `main`: they use the key without a profile.
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

/// Later gateways treat every top-level message of this platform as a separate thread, in direct conversations and in
/// groups. Their operator can turn that off, so it is only one of the possible keys.
fn own_thread(source: &Source) -> Option<ThreadId> {
    let top_level = source.thread_id.as_ref().is_none_or(ThreadId::is_empty);
    let message = source.message_id.as_ref().filter(|message| !message.is_empty())?;
    (top_level && known(&source.platform, &[]) == SCOPED_PLATFORM).then(|| ThreadId::new(message))
}

/// The only platform for which later gateways include the workspace in the key.
const SCOPED_PLATFORM: &str = "slack";
/// The only platform whose ids gateways normalize.
const FOLDED_PLATFORM: &str = "whatsapp";

/// Parts of a key.
struct Parts<'a> {
    platform: &'static str,
    chat_type: &'a str,
    scope: Option<&'a str>,
    chat: Option<Cow<'a, str>>,
    thread: Option<&'a str>,
    who: Option<Cow<'a, str>>,
    /// Text for a profile named `main`, which may have to differ from having no profile.
    main_profile: &'static str,
}

impl<'a> Parts<'a> {
    fn stock(source: &'a Source) -> Result<Self, Unkeyable> {
        let platform = known(&source.platform, &[]);
        let direct = source.chat_type == "dm";
        let mut chat = present(&source.chat_id).map(Cow::Borrowed);
        let mut who = present(&source.user_id_alt).or(present(&source.user_id)).map(Cow::Borrowed);
        if platform == FOLDED_PLATFORM {
            if direct && let Some(id) = &chat {
                chat =
                    Some(folded(id).ok_or(Unkeyable("chat_id"))?).filter(|id| !id.is_empty()).map(Cow::Owned);
            }
            // In a direct message the person is used only if there is no chat id.
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
        parts.platform = known(&source.platform, &KNOWN_SINCE_0_20);
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

    /// Joins the parts without escaping. An absent part is left out with its colon.
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

/// The gateway's name for a platform. `added` contains names that its version knows in addition to the common ones.
fn known(platform: &Platform, added: &[&'static str]) -> &'static str {
    let name = platform.as_str().trim();
    let is_lower_case = name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    let name = if is_lower_case { Cow::Borrowed(name) } else { Cow::Owned(name.to_lowercase()) };
    // The list is sorted.
    let common = KNOWN_PLATFORMS.binary_search(&&*name).ok().map(|at| KNOWN_PLATFORMS[at]);
    common.or_else(|| added.iter().find(|known| **known == name).copied()).unwrap_or(UNKNOWN_PLATFORM)
}

/// Normalizes a messenger id to its bare number or name. Gateways apply the step twice, and so does this. Empty if
/// nothing is left after the first step. `None` if the result is empty or has a character that the gateway refuses.
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
