//! The frames of the relay socket (contract sections 5 and 6): one JSON object a line.

mod lines;
mod read;

pub use lines::{Lines, Overlong, in_messages};
pub use read::Unread;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::action::{Action, Outcome};
use crate::cron::{FireBody, Fired};
use crate::descriptor::Descriptor;
use crate::event::Event;
use crate::id::{BotId, ChatId, EntryId, Platform, RequestId, SessionKey};
use crate::passthrough::Forward;

/// What a gateway says to its connector.
#[derive(Clone, Debug, PartialEq)]
pub enum FromGateway {
    Hello(Hello),
    /// "The handler took it": the end of the connector's responsibility.
    InboundAck {
        entry: EntryId,
    },
    Outbound(Outbound),
    Interrupt {
        session_key: SessionKey,
        reason: Option<String>,
    },
    GoingIdle,
    /// What became of a `cron_fire`, as a fire endpoint would answer it. Additive.
    CronFired {
        request_id: RequestId,
        status: u16,
        fired: Fired,
    },
}

/// One identity that a gateway fronts, told once per identity and socket.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hello {
    pub platform: Platform,
    #[serde(rename = "botId")]
    pub bot_id: BotId,
    /// Names the SDK; stock gateways send none. Additive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// How many unacknowledged entries this agent takes at a time. Additive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u16>,
    /// Whether this agent takes fires down the socket. Additive.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fires: bool,
    /// Set when the gateway told its commands, which only newer ones do.
    #[serde(skip)]
    pub has_command_manifest: bool,
}

/// A request to act.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outbound {
    #[serde(rename = "requestId")]
    pub request_id: RequestId,
    pub action: Action,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(rename = "botId", skip_serializing_if = "Option::is_none")]
    pub bot_id: Option<BotId>,
}

/// What a connector says to a gateway.
#[derive(Clone, Debug, PartialEq)]
pub enum ToGateway {
    Descriptor(Box<Descriptor>),
    Inbound {
        event: Box<Event>,
        entry: Option<EntryId>,
    },
    OutboundResult {
        request_id: RequestId,
        result: Outcome,
    },
    InterruptInbound {
        session_key: SessionKey,
        chat_id: ChatId,
    },
    PassthroughForward {
        forward: Box<Forward>,
        entry: Option<EntryId>,
    },
    GoingIdleAck,
    /// A job is due, for an agent that takes fires down its socket. Additive.
    CronFire {
        request_id: RequestId,
        fire: FireBody,
    },
}

impl FromGateway {
    /// Reads one line, mending what can be mended.
    pub fn read(line: &[u8]) -> Result<Self, Unread> {
        read::from_gateway(line)
    }

    /// The frame as one line with its terminator.
    pub fn line(&self) -> String {
        match self {
            FromGateway::Hello(hello) => line("hello", hello),
            FromGateway::InboundAck { entry } => line("inbound_ack", &InboundAck { entry }),
            FromGateway::Outbound(outbound) => line("outbound", outbound),
            FromGateway::Interrupt { session_key, reason } => {
                line("interrupt", &Interrupt { session_key, reason: reason.as_deref() })
            }
            FromGateway::GoingIdle => line("going_idle", &Bare {}),
            FromGateway::CronFired { request_id, status, fired } => {
                line("cron_fire_result", &CronFired { request_id, status: *status, result: fired.word() })
            }
        }
    }
}

impl ToGateway {
    /// Reads one line, mending what can be mended.
    pub fn read(line: &[u8]) -> Result<Self, Unread> {
        read::to_gateway(line)
    }

    /// The frame as one line with its terminator.
    pub fn line(&self) -> String {
        match self {
            ToGateway::Descriptor(descriptor) => line("descriptor", &Described { descriptor }),
            ToGateway::Inbound { event, entry } => line("inbound", &Inbound { event, entry: entry.as_ref() }),
            ToGateway::OutboundResult { request_id, result } => {
                line("outbound_result", &OutboundResult { request_id, result })
            }
            ToGateway::InterruptInbound { session_key, chat_id } => {
                line("interrupt_inbound", &InterruptInbound { session_key, chat_id })
            }
            ToGateway::PassthroughForward { forward, entry } => {
                line("passthrough_forward", &Passed { forward, entry: entry.as_ref() })
            }
            ToGateway::GoingIdleAck => line("going_idle_ack", &Bare {}),
            ToGateway::CronFire { request_id, fire } => line("cron_fire", &CronFire { request_id, fire }),
        }
    }
}

/// An `inbound` line around an event that is already JSON, as the inbox keeps it.
pub fn inbound_line(event: &RawValue, entry: &EntryId) -> String {
    let mut line = line("inbound", &Inbound { event, entry: Some(entry) });
    // Raw JSON may be spread over lines; inside it a line break can only be white space.
    if line[..line.len() - 1].contains('\n') {
        line = line.replace('\n', " ");
        line.push('\n');
    }
    line
}

/// As [`inbound_line`], around an event that was written a moment ago by this very process: one line of
/// JSON for certain, and not read again to see whether it is. Nothing when it is not even text.
pub fn inbound_line_around(event: &[u8], entry: &EntryId) -> Option<String> {
    let entry = serde_json::to_string(entry).expect("an id is a text");
    let parts: [&[u8]; 5] =
        [b"{\"type\":\"inbound\",\"event\":", event, b",\"bufferId\":", entry.as_bytes(), b"}\n"];
    String::from_utf8(parts.concat()).ok()
}

/// Writes the body's own object after the type. Flattening would do the same through a buffer per field,
/// and every message of every agent passes here.
fn line(kind: &'static str, body: &impl Serialize) -> String {
    let mut line = Vec::with_capacity(256);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.push(b'"');
    let opening = line.len();
    serde_json::to_writer(&mut line, body)
        .expect("frames hold only texts, flags, numbers and raw JSON, which always serialize");
    if line.len() == opening + 2 {
        line.truncate(opening);
        line.push(b'}');
    } else {
        line[opening] = b',';
    }
    line.push(b'\n');
    String::from_utf8(line).expect("JSON is written as UTF-8")
}

#[derive(Serialize)]
struct Bare {}

#[derive(Serialize)]
struct InboundAck<'a> {
    #[serde(rename = "bufferId")]
    entry: &'a EntryId,
}

#[derive(Serialize)]
struct Interrupt<'a> {
    session_key: &'a SessionKey,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct Described<'a> {
    descriptor: &'a Descriptor,
}

#[derive(Serialize)]
struct Inbound<'a, E: Serialize + ?Sized> {
    event: &'a E,
    #[serde(rename = "bufferId", skip_serializing_if = "Option::is_none")]
    entry: Option<&'a EntryId>,
}

#[derive(Serialize)]
struct OutboundResult<'a> {
    #[serde(rename = "requestId")]
    request_id: &'a RequestId,
    result: &'a Outcome,
}

#[derive(Serialize)]
struct InterruptInbound<'a> {
    session_key: &'a SessionKey,
    chat_id: &'a ChatId,
}

#[derive(Serialize)]
struct CronFire<'a> {
    #[serde(rename = "requestId")]
    request_id: &'a RequestId,
    fire: &'a FireBody,
}

#[derive(Serialize)]
struct CronFired<'a> {
    #[serde(rename = "requestId")]
    request_id: &'a RequestId,
    status: u16,
    result: &'static str,
}

#[derive(Serialize)]
struct Passed<'a> {
    forward: &'a Forward,
    #[serde(rename = "bufferId", skip_serializing_if = "Option::is_none")]
    entry: Option<&'a EntryId>,
}
