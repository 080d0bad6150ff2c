//! Files in rooms: uploads from the page, files of agents, and downloads.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_kit::RequestControl;
use ledger::{MediaRecord, Room, RoomFile, RoomMessage};
use posthouse_wire::event::Media;
use posthouse_wire::{Action, MediaId, MessageId, MessageType, Outcome};
use relay::{
    EgressResult, FetchedMedia, MediaNotKept, MediaReader, MediaStore, MediaWriter, NewMedia, NotFetched,
    PermittedAction,
};
use serde_json::{Value, json};

use super::Web;
use super::auth::Visitor;
use super::perform::{message_of, not_written};
use super::problem::ChatProblem;
use super::routes::{ChatPage, open};
use crate::platform::StoredMedia;

/// Lifetime of files in rooms.
const ROOM_FILE_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Time limits for one whole transfer.
const UPLOADED_WITHIN: Duration = Duration::from_secs(120);
/// Number of files in one message.
pub(super) const FILES: usize = 10;
/// Beginning of a reference to a file in a room.
const REFERENCE: &str = "web:file:";

static FILENAME: HeaderName = HeaderName::from_static("x-media-filename");

/// Stores a file of a person. It belongs to the room, and waits for its message.
pub(super) async fn upload(
    State(chat): State<ChatPage>,
    Extension(visitor): Extension<Visitor>,
    Path(room): Path<String>,
    request: axum::extract::Request,
) -> Result<Json<Value>, ChatProblem> {
    let (head, body) = request.into_parts();
    let room = open(&chat, &visitor, &room.into()).await?;
    RequestControl::stream_body(&head.extensions);
    let store = chat.relay.media();
    let receiving = async {
        let mut writer = store.begin(&visitor.0.tenant, &room.instance, length(&head.headers)).await?;
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| ChatProblem::malformed("the file did not arrive completely"))?;
            writer.write(piece).await?;
        }
        let filename = head.headers.get(&FILENAME).and_then(|name| name.to_str().ok()).map(unescaped);
        let mime = head.headers.get(CONTENT_TYPE).and_then(|mime| mime.to_str().ok()).map(str::to_owned);
        let id = MediaId::mint();
        Ok::<_, ChatProblem>(writer.keep(NewMedia { id, mime, filename, life: ROOM_FILE_LIFE }).await?)
    };
    let record = match chat.web.timepiece.within(UPLOADED_WITHIN, receiving).await {
        Ok(received) => received?,
        Err(_) => return Err(ChatProblem::FILE_TOO_SLOW),
    };
    let file = room_file(&record);
    if !chat.web.rooms.add_file(&room.id, file.clone()).await? {
        store.remove(&record.instance, &record.id).await?;
        return Err(ChatProblem::TOO_MANY_FILES);
    }
    Ok(Json(shown(&file)))
}

/// A name as the page sends it: header values are ASCII, so other characters are escaped like in a URL.
fn unescaped(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = rest.get(1..3).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn room_file(record: &MediaRecord) -> RoomFile {
    RoomFile {
        media: record.id.clone(),
        mime: record.mime.clone(),
        filename: record.filename.clone(),
        size: record.size,
        expired: false,
    }
}

/// A file as the page gets it.
pub(super) fn shown(file: &RoomFile) -> Value {
    json!({
        "media_id": file.media, "filename": file.filename, "mime": file.mime, "size": file.size,
        "expired": file.expired,
    })
}

/// The attachments of a person's message: what the agent is told of each, and the references to fetch them by.
pub(super) fn attachments(files: &[RoomFile]) -> (Vec<Media>, Vec<String>) {
    let media = files.iter().map(|file| Media {
        kind: kind(&file.mime).to_owned(),
        mime: Some(file.mime.clone()),
        size: u64::try_from(file.size).ok(),
        filename: Some(file.filename.clone()),
        ..Media::default()
    });
    (media.collect(), files.iter().map(|file| format!("{REFERENCE}{}", file.media)).collect())
}

/// The type of a message with these files. A stock gateway judges all of them by it.
pub(super) fn message_type(files: &[RoomFile]) -> Option<MessageType> {
    let kinds: Vec<&str> = files.iter().map(|file| kind(&file.mime)).collect();
    let first = *kinds.first()?;
    Some(match first {
        _ if kinds.iter().any(|kind| *kind != first) => MessageType::Document,
        "photo" => MessageType::Photo,
        "video" => MessageType::Video,
        "audio" => MessageType::Audio,
        _ => MessageType::Document,
    })
}

fn kind(mime: &str) -> &'static str {
    match mime.split('/').next() {
        Some("image") => "photo",
        Some("video") => "video",
        Some("audio") => "audio",
        _ => "document",
    }
}

/// Copies a file of a room for the agent, whose copy ends earlier.
pub(super) async fn fetch(reference: &str, into: &mut MediaWriter) -> Result<FetchedMedia, NotFetched> {
    let id = reference.strip_prefix(REFERENCE).and_then(MediaId::read).ok_or(NotFetched::Gone)?;
    let record = into.copy_from(&id).await?.ok_or(NotFetched::Gone)?;
    Ok(FetchedMedia { mime: Some(record.mime), filename: Some(record.filename) })
}

/// Sends a file to the page.
pub(super) async fn download(
    State(chat): State<ChatPage>,
    Extension(visitor): Extension<Visitor>,
    Path((room, id)): Path<(String, String)>,
) -> Result<Response, ChatProblem> {
    let room = open(&chat, &visitor, &room.into()).await?;
    let id = MediaId::read(&id).ok_or(ChatProblem::NOT_FOUND)?;
    if !chat.web.rooms.has_file(&room.id, &id).await? {
        return Err(ChatProblem::NOT_FOUND);
    }
    let store = chat.relay.media();
    let record = store.find(&id).await?.ok_or(ChatProblem::NOT_FOUND)?;
    let mut reader = store.open(&record).await?.ok_or(ChatProblem::NOT_FOUND)?;
    let first = reader.next().await.transpose().map_err(|_| ChatProblem::NOT_FOUND)?.unwrap_or_default();
    Ok(served(&record, first, reader))
}

/// The response with a file. Only pictures whose bytes show their type are displayed; everything else is saved, so that
/// no file can run as a page of this server.
fn served(record: &MediaRecord, first: Bytes, reader: MediaReader) -> Response {
    let picture = picture_type(&first);
    let shown = if picture.is_some() { "inline" } else { "attachment" };
    let disposition = format!("{shown}; filename=\"{}\"", record.filename);
    let length = reader.size();
    let pieces = futures_util::stream::once(async { Ok(first) }).chain(reader.into_stream());
    let mut response = Body::from_stream(pieces).into_response();
    let headers = response.headers_mut();
    let kind = picture.unwrap_or("application/octet-stream");
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    // The name is made of printable ASCII when it is stored.
    let disposition = HeaderValue::from_str(&disposition);
    headers.insert(CONTENT_DISPOSITION, disposition.unwrap_or(HeaderValue::from_static("attachment")));
    response
}

/// The type of a picture by its first bytes.
fn picture_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

impl Web {
    /// Puts a file of an agent into its room. The room gets a copy, because the agent's own ends after an hour.
    pub(super) async fn send_file(&self, permitted: PermittedAction, media: StoredMedia) -> EgressResult {
        let (room, thread) = match self.place_of(&permitted).await {
            Ok(place) => place,
            Err(refused) => return *refused,
        };
        let Action::SendMedia { content, reply_to, .. } = permitted.action else {
            return Outcome::unsupported(permitted.action.op()).into();
        };
        let copy = match copied(&media.store, &media.record).await {
            Ok(Some(copy)) => copy,
            Ok(None) => return Outcome::failed("media not found").into(),
            Err(reason) => return Outcome::failed(format!("the file was not stored: {reason}")).into(),
        };
        let posted = self.timepiece.now();
        let room_message = RoomMessage {
            reply_to,
            files: vec![room_file(&copy)],
            ..RoomMessage::by_agent(message_of(&permitted.id), content.unwrap_or_default(), thread, posted)
        };
        match self.write_file(&room, room_message, permitted.ends_turn).await {
            Ok(message) => {
                EgressResult { outcome: Outcome::sent(message), posted: Some(posted), called: None }
            }
            Err(fault) => not_written(&fault),
        }
    }

    async fn write_file(
        &self,
        room: &Room,
        room_message: RoomMessage,
        is_answer: bool,
    ) -> Result<MessageId, ledger::Fault> {
        let message = room_message.message.clone();
        let _lock = self.locks.lock(&room.id).await;
        self.turns.agent_wrote(&room.id, is_answer, self.timepiece.instant());
        self.write(room, room_message).await?;
        Ok(message)
    }
}

async fn copied(store: &MediaStore, record: &MediaRecord) -> Result<Option<MediaRecord>, MediaNotKept> {
    let mut writer = store.begin(&record.tenant, &record.instance, u64::try_from(record.size).ok()).await?;
    if writer.copy_from(&record.id).await?.is_none() {
        return Ok(None);
    }
    let new = NewMedia {
        id: MediaId::mint(),
        mime: Some(record.mime.clone()),
        filename: Some(record.filename.clone()),
        life: ROOM_FILE_LIFE,
    };
    writer.keep(new).await.map(Some)
}

impl From<MediaNotKept> for ChatProblem {
    fn from(reason: MediaNotKept) -> Self {
        match reason {
            MediaNotKept::Empty => ChatProblem::unfit("the file is empty"),
            MediaNotKept::TooLarge => ChatProblem::FILE_TOO_LARGE,
            MediaNotKept::NoRoom | MediaNotKept::NoRoomForAgent => ChatProblem::STORAGE_FULL,
            MediaNotKept::Busy => ChatProblem::TOO_MANY_FILES,
            MediaNotKept::AgentRemoved => ChatProblem::NOT_FOUND,
            MediaNotKept::Fault(fault) => ChatProblem::from(crate::Fault::from(fault)),
        }
    }
}

impl From<relay::Fault> for ChatProblem {
    fn from(fault: relay::Fault) -> Self {
        ChatProblem::from(crate::Fault::from(fault))
    }
}
