//! Normalized events of platforms: arrivals, and the readings that hold them.

use ledger::PersonIds;
use posthouse_time::Moment;
use posthouse_wire::passthrough::Forward;
use posthouse_wire::{ChatId, DedupKey, Event, PromptToken, ThreadId};
use vault::CapturedCapability;

use super::requests::PlatformResponse;

/// One incoming event, split so that the agent's half cannot carry a secret: the event for the agent, and the
/// capabilities that must never reach it.
pub struct Arrival {
    pub event: Event,
    pub capabilities: Vec<CapturedCapability>,
    /// Equal for repeated deliveries of the same event; made from the platform's own id.
    pub dedup: DedupKey,
    /// Further keys of the same event, for platforms that report one message in several events. An arrival that shares
    /// one of them with a stored entry is a repeat.
    pub other_dedups: Vec<DedupKey>,
    /// Addressed to the bot: a direct conversation, a mention, a reply, a command or a press of its button.
    pub addressed: bool,
    /// Set if a chat of type `dm` has several people. It is then treated as a group in all but its session.
    pub several_people: bool,
    /// The webhook path as a routing discriminator, for platforms that use paths.
    pub path: Option<String>,
    /// The platform's id of each of the event's `media`, in the same order, with which its code can fetch them later.
    /// They stay inside the server; agents get handles.
    pub references: Vec<String>,
    /// The payload of the button, if the event is the press of one that may belong to a prompt.
    pub press: Option<PromptToken>,
    /// The interaction itself, for agents that want it whole. It is made by [`crate::forwarding`], which copies only fields
    /// known to be safe.
    pub forward: Option<Box<Forward>>,
    /// All ids of the sender, if the platform names people by two ids and this is a direct chat. The edge then replaces
    /// chat and sender of the event by those of the chat in which the person wrote first.
    pub person: Option<PersonIds>,
    /// The album that it is a part of.
    pub album: Option<String>,
    pub received: Moment,
}

impl Arrival {
    /// An arrival with an event and its key, and nothing else.
    pub fn new(event: Event, dedup: impl Into<DedupKey>, received: Moment) -> Self {
        Self {
            event,
            capabilities: Vec::new(),
            dedup: dedup.into(),
            other_dedups: Vec::new(),
            addressed: false,
            several_people: false,
            path: None,
            references: Vec::new(),
            press: None,
            forward: None,
            person: None,
            album: None,
            received,
        }
    }

    /// Whether this is a conversation of one person with the bot alone.
    pub fn is_direct(&self) -> bool {
        self.event.source.chat_type == "dm" && !self.several_people
    }
}

/// A normalized delivery. It may hold several events, or none (a handshake).
#[derive(Default)]
pub struct Reading {
    pub arrivals: Vec<Arrival>,
    /// Events that other bots wrote. Most agents do not want them.
    pub from_bots: Vec<Arrival>,
    /// Chats that have got a new id.
    pub moved: Vec<Moved>,
    pub reply: PlatformResponse,
    /// The response if none of the senders may write to an agent. `None`: they get `reply` too.
    pub reply_to_strangers: Option<PlatformResponse>,
    /// Calls that the edge must make to the platform at once, whatever the agent does.
    pub interaction_acks: Vec<InteractionAck>,
    /// Calls that the edge must make even for strangers, such as the answer to an invitation.
    pub service_calls: Vec<InteractionAck>,
    /// Threads that somebody has named.
    pub renamed: Vec<RenamedThread>,
    /// For each event that is not for an agent, the reason.
    pub ignored: Vec<&'static str>,
    /// Set if the platform must be asked for something first, such as a person's name. The edge then calls
    /// [`super::Platform::complete`].
    pub incomplete: bool,
}

impl Reading {
    /// A reading of one event that is not for an agent.
    pub fn ignored(reason: &'static str) -> Self {
        Self { ignored: vec![reason], ..Self::default() }
    }
}

/// A thread that got a name from somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenamedThread {
    pub chat: ChatId,
    pub thread: ThreadId,
    pub name: String,
}

/// A chat to which the platform gave a new id. The old id no longer works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub from: ChatId,
    pub to: ChatId,
}

/// A call that the edge must make to the platform, such as the acknowledgement of a button press.
pub struct InteractionAck(pub CapturedCapability);

/// The text of a shared location, the same on all platforms.
pub fn location_text(name: Option<&str>, latitude: f64, longitude: f64) -> String {
    match name.map(str::trim).filter(|name| !name.is_empty()) {
        Some(name) => format!("[location: {name} {latitude},{longitude}]"),
        None => format!("[location: {latitude},{longitude}]"),
    }
}
