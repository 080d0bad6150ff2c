//! Tolerant parser of frames. A line that is not an object with a known `type` is ignored.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{CommandManifest, FromGateway, Hello, Outbound, ToGateway};
use crate::action::{Action, Outcome};
use crate::cron::Fired;
use crate::descriptor::Descriptor;
use crate::id::{BotId, EntryId, Platform, RequestId, SessionKey};
use crate::lenient::{field, object, repaired};

/// A line that could not be read as a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnreadableFrame {
    /// Not JSON, not an object, or an unknown type. It is ignored, and the socket stays open.
    Ignored,
    /// A request that cannot be read but has a request id. It is answered, because an agent without an answer waits
    /// 30 s.
    Answerable { request_id: RequestId },
}

/// The fields of all frames. Each frame reads only its own.
#[derive(Deserialize, Default)]
#[serde(default)]
struct FrameFields<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    platform: Option<&'a RawValue>,
    #[serde(borrow, rename = "botId")]
    bot_id: Option<&'a RawValue>,
    #[serde(borrow)]
    client: Option<&'a RawValue>,
    #[serde(borrow)]
    window: Option<&'a RawValue>,
    #[serde(borrow)]
    command_manifest: Option<&'a RawValue>,
    #[serde(borrow, rename = "bufferId")]
    buffer_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "requestId")]
    request_id: Option<&'a RawValue>,
    #[serde(borrow)]
    action: Option<&'a RawValue>,
    #[serde(borrow)]
    session_key: Option<&'a RawValue>,
    #[serde(borrow)]
    reason: Option<&'a RawValue>,
    #[serde(borrow)]
    chat_id: Option<&'a RawValue>,
    #[serde(borrow)]
    descriptor: Option<&'a RawValue>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    forward: Option<&'a RawValue>,
    #[serde(borrow)]
    fires: Option<&'a RawValue>,
    #[serde(borrow)]
    fire: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

/// An acknowledgement as nearly every agent writes it. Agents send one for every message, so it is read without looking
/// for the fields of other frames. Anything unusual in it is left to the tolerant parser.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainAck<'a> {
    r#type: &'a str,
    #[serde(rename = "bufferId")]
    buffer_id: &'a str,
}

impl PlainAck<'_> {
    /// The longest line that is tried.
    const LONGEST: usize = 128;

    fn read(line: &[u8]) -> Option<EntryId> {
        // Serde would also read an array into a struct.
        if line.len() > Self::LONGEST || !line.starts_with(b"{") {
            return None;
        }
        let ack: PlainAck<'_> = serde_json::from_slice(line).ok()?;
        (ack.r#type == "inbound_ack" && !ack.buffer_id.is_empty()).then(|| EntryId::new(ack.buffer_id))
    }
}

pub(super) fn from_gateway(line: &[u8]) -> Result<FromGateway, UnreadableFrame> {
    if let Some(entry) = PlainAck::read(line) {
        return Ok(FromGateway::InboundAck { entry });
    }
    enveloped(line, |kind, frame| match kind {
        "hello" => Ok(FromGateway::Hello(Hello {
            platform: field::<Platform>(frame.platform).ok_or(UnreadableFrame::Ignored)?,
            bot_id: field(frame.bot_id).unwrap_or_else(|| BotId::new("")),
            client: field(frame.client),
            window: field(frame.window),
            fires: field(frame.fires).unwrap_or_default(),
            command_manifest: CommandManifest::read(frame.command_manifest),
        })),
        "inbound_ack" => Ok(FromGateway::InboundAck { entry: entry(frame)? }),
        "outbound" => {
            let request_id = request(frame)?;
            let Some(action) = frame.action.filter(|raw| raw.get().starts_with('{')) else {
                return Err(UnreadableFrame::Answerable { request_id });
            };
            Ok(FromGateway::Outbound(Outbound {
                request_id,
                action: Action::read(action),
                platform: field::<Platform>(frame.platform).filter(|platform| !platform.is_empty()),
                bot_id: field::<BotId>(frame.bot_id).filter(|bot| !bot.is_empty()),
            }))
        }
        "interrupt" => Ok(FromGateway::Interrupt {
            session_key: field::<SessionKey>(frame.session_key).ok_or(UnreadableFrame::Ignored)?,
            reason: field(frame.reason),
        }),
        "going_idle" => Ok(FromGateway::GoingIdle),
        "cron_fire_result" => Ok(FromGateway::CronFired {
            request_id: request(frame)?,
            status: field(frame.status).ok_or(UnreadableFrame::Ignored)?,
            fired: Fired::of(&field::<String>(frame.result).unwrap_or_default()),
        }),
        _ => Err(UnreadableFrame::Ignored),
    })
}

pub(super) fn to_gateway(line: &[u8]) -> Result<ToGateway, UnreadableFrame> {
    enveloped(line, |kind, frame| match kind {
        "descriptor" => {
            let value: serde_json::Value = object(frame.descriptor).ok_or(UnreadableFrame::Ignored)?;
            let descriptor = Descriptor::read(&value).map_err(|_| UnreadableFrame::Ignored)?;
            Ok(ToGateway::Descriptor(Box::new(descriptor)))
        }
        "inbound" => Ok(ToGateway::Inbound {
            event: object(frame.event).ok_or(UnreadableFrame::Ignored)?,
            entry: entry(frame).ok(),
        }),
        "outbound_result" => Ok(ToGateway::OutboundResult {
            request_id: request(frame)?,
            result: object::<Outcome>(frame.result).unwrap_or_else(|| Outcome::failed("unreadable result")),
        }),
        "interrupt_inbound" => Ok(ToGateway::InterruptInbound {
            session_key: field(frame.session_key).ok_or(UnreadableFrame::Ignored)?,
            chat_id: field(frame.chat_id).ok_or(UnreadableFrame::Ignored)?,
        }),
        "passthrough_forward" => Ok(ToGateway::PassthroughForward {
            forward: object(frame.forward).ok_or(UnreadableFrame::Ignored)?,
            entry: entry(frame).ok(),
        }),
        "going_idle_ack" => Ok(ToGateway::GoingIdleAck),
        "cron_fire" => Ok(ToGateway::CronFire {
            request_id: request(frame)?,
            fire: object(frame.fire).ok_or(UnreadableFrame::Ignored)?,
        }),
        _ => Err(UnreadableFrame::Ignored),
    })
}

/// Most lines are clean and are parsed without a copy. Repairing needs a copy, so only a line that contains a surrogate
/// escape or fails to parse is repaired.
fn enveloped<F>(
    line: &[u8],
    read: impl Fn(&str, &FrameFields<'_>) -> Result<F, UnreadableFrame>,
) -> Result<F, UnreadableFrame> {
    if let Ok(text) = std::str::from_utf8(line)
        && !may_hold_surrogates(text)
        && let Some(frame) = envelope(text)
    {
        return read(&kind(&frame), &frame);
    }
    let mended = match repaired(line) {
        Some(mended) => Cow::Owned(mended),
        None => Cow::Borrowed(std::str::from_utf8(line).map_err(|_| UnreadableFrame::Ignored)?),
    };
    let frame = envelope(&mended).ok_or(UnreadableFrame::Ignored)?;
    read(&kind(&frame), &frame)
}

/// Raw values are not decoded while the envelope is parsed, so a lone surrogate escape does not fail there: the field
/// would later read as absent. Therefore such lines are repaired first. Well-formed pairs, which peers write for every
/// emoji, stay as they are.
fn may_hold_surrogates(text: &str) -> bool {
    text.contains("\\ud") || text.contains("\\uD")
}

/// Accepts only an object. Serde would also read an array into a struct, field by field.
fn envelope(text: &str) -> Option<FrameFields<'_>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// The type of the frame, borrowed if it contains no escape.
fn kind<'a>(frame: &FrameFields<'a>) -> Cow<'a, str> {
    let plain = frame.r#type.and_then(|raw| raw.get().strip_prefix('"')?.strip_suffix('"'));
    match plain {
        Some(text) if !text.contains('\\') => Cow::Borrowed(text),
        _ => Cow::Owned(field(frame.r#type).unwrap_or_default()),
    }
}

fn entry(frame: &FrameFields<'_>) -> Result<EntryId, UnreadableFrame> {
    field::<EntryId>(frame.buffer_id).filter(|entry| !entry.is_empty()).ok_or(UnreadableFrame::Ignored)
}

fn request(frame: &FrameFields<'_>) -> Result<RequestId, UnreadableFrame> {
    field::<RequestId>(frame.request_id).filter(|request| !request.is_empty()).ok_or(UnreadableFrame::Ignored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_is_read_in_every_form_that_json_allows() {
        for line in [
            r#"{"type":"inbound_ack","bufferId":"ent_1"}"#,
            r#"{"bufferId":"ent_1","type":"inbound_ack"}"#,
            r#" { "type" : "inbound_ack" , "bufferId" : "ent_1" } "#,
            r#"{"type":"inbound_ack","bufferId":"ent_1","further":[1]}"#,
            r#"{"type":"inbound\u005fack","bufferId":"ent\u005f1"}"#,
        ] {
            assert_eq!(from_gateway(line.as_bytes()), Ok(FromGateway::InboundAck { entry: "ent_1".into() }));
        }
        let by_number = br#"{"type":"inbound_ack","bufferId":7}"#;
        assert_eq!(from_gateway(by_number), Ok(FromGateway::InboundAck { entry: "7".into() }));
        assert_eq!(from_gateway(br#"["inbound_ack","ent_1"]"#), Err(UnreadableFrame::Ignored));
    }
}
