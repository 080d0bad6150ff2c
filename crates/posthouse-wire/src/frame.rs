//! Frames of the relay socket (contract sections 5 and 6): one JSON object per line.
//!
//! The contract calls the agent's side "gateway" and the server's side "connector".

mod lines;
mod manifest;
mod read;

pub use lines::{LineAssembler, LineTooLong, in_messages};
pub use manifest::{CommandEntry, CommandManifest};
pub use read::UnreadableFrame;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::action::{Action, Outcome};
use crate::cron::{FireBody, Fired};
use crate::descriptor::Descriptor;
use crate::event::Event;
use crate::id::{BotId, ChatId, EntryId, Platform, RequestId, SessionKey};
use crate::passthrough::Forward;

/// Frame from a gateway (agent) to its connector (server).
#[derive(Clone, Debug, PartialEq)]
pub enum FromGateway {
    Hello(Hello),
    /// The agent's handler has accepted the entry. The connector's responsibility ends here.
    InboundAck {
        entry: EntryId,
    },
    Outbound(Outbound),
    Interrupt {
        session_key: SessionKey,
        reason: Option<String>,
    },
    GoingIdle,
    /// Answer to a `cron_fire`, as a fire endpoint would give it. Extension of the contract.
    CronFired {
        request_id: RequestId,
        status: u16,
        fired: Fired,
    },
}

/// One bot identity of a gateway, sent once per identity and socket.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hello {
    pub platform: Platform,
    #[serde(rename = "botId")]
    pub bot_id: BotId,
    /// Name of the SDK; stock gateways send none. Extension of the contract.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Number of unacknowledged entries that this agent accepts at a time. Extension of the contract.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u16>,
    /// Whether this agent accepts cron fires over the socket. Extension of the contract.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fires: bool,
    /// The commands of the gateway. Only newer gateways send them, for one platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_manifest: Option<CommandManifest>,
}

/// A request for an action.
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

/// Frame from a connector (server) to a gateway (agent).
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
    /// A cron job is due. Only for an agent that accepts fires over the socket. Extension of the contract.
    CronFire {
        request_id: RequestId,
        fire: FireBody,
    },
}

impl FromGateway {
    /// Reads one line. Broken encodings are repaired where possible.
    pub fn read(line: &[u8]) -> Result<Self, UnreadableFrame> {
        read::from_gateway(line)
    }

    /// Writes the frame as one line with its line break.
    pub fn line(&self) -> String {
        match self {
            FromGateway::Hello(hello) => line("hello", hello),
            FromGateway::InboundAck { entry } => line("inbound_ack", &InboundAck { entry }),
            FromGateway::Outbound(outbound) => line("outbound", outbound),
            FromGateway::Interrupt { session_key, reason } => {
                line("interrupt", &Interrupt { session_key, reason: reason.as_deref() })
            }
            FromGateway::GoingIdle => line("going_idle", &EmptyFrame {}),
            FromGateway::CronFired { request_id, status, fired } => {
                line("cron_fire_result", &CronFired { request_id, status: *status, result: fired.word() })
            }
        }
    }
}

impl ToGateway {
    /// Reads one line. Broken encodings are repaired where possible.
    pub fn read(line: &[u8]) -> Result<Self, UnreadableFrame> {
        read::to_gateway(line)
    }

    /// Writes the frame as one line with its line break.
    pub fn line(&self) -> String {
        match self {
            ToGateway::Descriptor(descriptor) => line("descriptor", &DescriptorFrame { descriptor }),
            ToGateway::Inbound { event, entry } => {
                line("inbound", &InboundFrame { event, entry: entry.as_ref() })
            }
            ToGateway::OutboundResult { request_id, result } => {
                line("outbound_result", &OutboundResult { request_id, result })
            }
            ToGateway::InterruptInbound { session_key, chat_id } => {
                line("interrupt_inbound", &InterruptInbound { session_key, chat_id })
            }
            ToGateway::PassthroughForward { forward, entry } => {
                line("passthrough_forward", &ForwardFrame { forward, entry: entry.as_ref() })
            }
            ToGateway::GoingIdleAck => line("going_idle_ack", &EmptyFrame {}),
            ToGateway::CronFire { request_id, fire } => line("cron_fire", &CronFire { request_id, fire }),
        }
    }
}

/// Builds an `inbound` line around an event that is already JSON, as stored in the inbox.
pub fn inbound_line(event: &RawValue, entry: &EntryId) -> String {
    let mut line = line("inbound", &InboundFrame { event, entry: Some(entry) });
    // Raw JSON may span several lines. A line break in JSON is always white space.
    if line[..line.len() - 1].contains('\n') {
        line = line.replace('\n', " ");
        line.push('\n');
    }
    line
}

/// Like [`inbound_line`], for an event that this process has just serialized. The event must be one line of JSON; it is
/// not parsed again. `None` if it is not UTF-8.
pub fn inbound_line_around(event: &[u8], entry: &EntryId) -> Option<String> {
    // Ids of the server need no escape.
    let is_plain = entry.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let quoted = match is_plain {
        true => ["\"", entry.as_str(), "\""].concat(),
        false => serde_json::to_string(entry).expect("an id is a string"),
    };
    let parts: [&[u8]; 5] =
        [b"{\"type\":\"inbound\",\"event\":", event, b",\"bufferId\":", quoted.as_bytes(), b"}\n"];
    String::from_utf8(parts.concat()).ok()
}

/// Writes the type, followed by the fields of the body. Serde's `flatten` would buffer every field, which is too slow
/// for code that every message passes through.
fn line(kind: &'static str, body: &impl Serialize) -> String {
    let mut line = Vec::with_capacity(256);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.push(b'"');
    let opening = line.len();
    serde_json::to_writer(&mut line, body)
        .expect("frames contain only strings, flags, numbers and raw JSON, which always serialize");
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
struct EmptyFrame {}

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
struct DescriptorFrame<'a> {
    descriptor: &'a Descriptor,
}

#[derive(Serialize)]
struct InboundFrame<'a, E: Serialize + ?Sized> {
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
struct ForwardFrame<'a> {
    forward: &'a Forward,
    #[serde(rename = "bufferId", skip_serializing_if = "Option::is_none")]
    entry: Option<&'a EntryId>,
}
