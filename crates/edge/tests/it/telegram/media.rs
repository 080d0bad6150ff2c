//! Files to and from Telegram.

use std::sync::Arc;

use bytes::Bytes;
use edge::platform::{Platform, StoredMedia};
use posthouse_time::Timepiece;
use posthouse_wire::action::{MediaKind, Metadata};
use posthouse_wire::{Action, EntryId, MediaId, Outcome};
use relay::{Egress, MEDIA_LIFE, MediaNotKept, MediaStore, NewMedia, NotFetched};
use serde_json::Value;
use stand_ins::telegram::{Filter, TranscriptRow};

use super::actors::{Fixture, error, open};
use super::test_server::TestServer;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nnot really a picture";

pub async fn stores(server: &TestServer, name: &str, mime: &str, content: impl Into<Bytes>) -> StoredMedia {
    let store: MediaStore = server.relay.media().clone();
    let mut writer = store.begin(&"ten_1".into(), &server.agent, None).await.unwrap();
    writer.write(content.into()).await.unwrap();
    let new = NewMedia {
        id: MediaId::mint(),
        mime: Some(mime.to_owned()),
        filename: Some(name.to_owned()),
        life: MEDIA_LIFE,
    };
    let record = writer.keep(new).await.unwrap();
    StoredMedia { store, record }
}

async fn sends(fixture: &Fixture, kind: MediaKind, caption: &str, media: StoredMedia) -> Outcome {
    let action = Action::SendMedia {
        chat_id: "5".into(),
        media_kind: kind,
        source_url: "https://anywhere.example/relay/media/x".to_owned(),
        content: Some(caption.to_owned()),
        filename: None,
        reply_to: Some("1".into()),
        metadata: Metadata::default(),
    };
    fixture.telegram.send_media(&fixture.bot, fixture.order(action), media).await.outcome
}

fn last_sent(fixture: &Fixture) -> TranscriptRow {
    fixture.stand_in.transcript(&Filter::sent(5)).pop().unwrap()
}

#[tokio::test]
async fn every_kind_of_file_goes_out_by_its_method() {
    let fixture = open(Timepiece::wall()).await;
    let server = TestServer::with(&fixture.bot, &fixture.clock).await;
    for (kind, name, mime, content, method) in [
        (MediaKind::Image, "cat.png", "image/png", PNG, "sendPhoto"),
        (MediaKind::Image, "cat.gif", "image/gif", b"GIF89a", "sendDocument"),
        (MediaKind::Voice, "a.ogg", "audio/ogg", b"OggS", "sendVoice"),
        (MediaKind::Voice, "a.mp3", "audio/mpeg", b"ID3", "sendAudio"),
        (MediaKind::Audio, "b.mp3", "audio/mpeg", b"ID3", "sendAudio"),
        (MediaKind::Video, "c.mp4", "video/mp4", b"ftyp", "sendVideo"),
        (MediaKind::Document, "d.pdf", "application/pdf", b"%PDF", "sendDocument"),
        // Telegram cannot show this as a picture, so it goes out as a document.
        (MediaKind::Image, "broken.png", "image/png", b"no picture", "sendDocument"),
    ] {
        let media = stores(&server, name, mime, content).await;
        let outcome = sends(&fixture, kind, "**see** 1.5", media).await;
        assert!(outcome.success, "{name}: {outcome:?}");
        let row = last_sent(&fixture);
        assert_eq!((&*row.method, row.text.as_deref()), (method, Some("see 1.5")), "{name}");
        assert_eq!(row.reply_to, Some(1));
        assert_eq!(outcome.message_id.unwrap(), row.message_id.unwrap().to_string().as_str());
    }
}

#[tokio::test]
async fn a_caption_that_is_too_long_follows_as_a_message() {
    let fixture = open(Timepiece::wall()).await;
    let server = TestServer::with(&fixture.bot, &fixture.clock).await;
    let caption = "word ".repeat(400);
    let media = stores(&server, "cat.png", "image/png", PNG).await;
    assert!(sends(&fixture, MediaKind::Image, &caption, media).await.success);
    let rows = fixture.stand_in.transcript(&Filter::sent(5));
    let sent: Vec<(&str, usize)> =
        rows.iter().map(|row| (&*row.method, row.text.as_ref().unwrap().len())).collect();
    assert_eq!(sent, [("sendPhoto", 0), ("sendMessage", caption.trim().len())]);
}

#[tokio::test]
async fn a_large_file_arrives_whole_and_a_missing_one_is_a_failure() {
    let fixture = open(Timepiece::wall()).await;
    let server = TestServer::with(&fixture.bot, &fixture.clock).await;
    let content: Vec<u8> = (0..20 * 1024 * 1024_u32).map(|number| (number >> 3) as u8).collect();
    let media = stores(&server, "big.bin", "application/octet-stream", content.clone()).await;
    assert!(sends(&fixture, MediaKind::Document, "", media).await.success);
    let mut writer = server.relay.media().begin(&"ten_1".into(), &server.agent, None).await.unwrap();
    let fetched = fixture.telegram.fetch_media(&fixture.bot, "telegram:file:stand-in-file-1", &mut writer);
    assert_eq!(fetched.await.unwrap().filename.as_deref(), Some("1-big.bin"));
    assert_eq!(writer.size(), content.len() as u64);

    let gone = stores(&server, "gone.png", "image/png", PNG).await;
    for folder in std::fs::read_dir(server.media_folder.path()).unwrap().flatten() {
        std::fs::remove_dir_all(folder.path()).unwrap();
    }
    let outcome = sends(&fixture, MediaKind::Image, "", gone).await;
    assert!(error(&outcome).contains("cannot be read"), "{outcome:?}");
}

#[tokio::test]
async fn an_attachment_is_downloaded_by_its_id() {
    let fixture = open(Timepiece::wall()).await;
    let server = TestServer::with(&fixture.bot, &fixture.clock).await;
    let file = fixture.stand_in.add_file("cat.jpg", &b"\xff\xd8\xff picture"[..]);
    let fetches = async |reference: String| {
        let mut writer = server.relay.media().begin(&"ten_1".into(), &server.agent, None).await.unwrap();
        fixture.telegram.fetch_media(&fixture.bot, &reference, &mut writer).await.map(|_| writer.size())
    };
    assert_eq!(fetches(format!("telegram:file:{file}")).await.unwrap(), 11);
    for unknown in ["telegram:file:unknown", "web:file:1", ""] {
        assert!(matches!(fetches(unknown.to_owned()).await, Err(NotFetched::Gone)), "{unknown}");
    }
    server.ledger.usage().set_media_limit(&"ten_1".into(), Some(4)).await.unwrap();
    let full = fetches(format!("telegram:file:{file}")).await;
    assert!(matches!(full, Err(NotFetched::NotKept(MediaNotKept::NoRoom))));
}

#[tokio::test]
async fn a_fetched_attachment_is_a_recorded_use_of_the_bot_for_its_agent_and_message() {
    let fixture = open(Timepiece::wall()).await;
    let platform = Arc::new(fixture.telegram.clone());
    let server = TestServer::with_platform(&fixture.bot, &fixture.clock, platform).await;
    let file = fixture.stand_in.add_file("cat.jpg", &b"\xff\xd8\xff picture"[..]);
    let (on, entry) = (fixture.bot.bot_ref(), EntryId::from_bytes([7; 16]));
    for reference in [format!("telegram:file:{file}"), "telegram:file:unknown".to_owned()] {
        let writer = server.relay.media().begin(&"ten_1".into(), &server.agent, None).await.unwrap();
        let _ = server.edge().fetch_media(&on, &reference, &mut writer.of_entry(&entry)).await;
    }
    let uses = server.ledger.capability_uses().credential_uses(&server.agent, None, 10).await.unwrap();
    let mut outcomes = Vec::new();
    for one in uses {
        assert_eq!((one.kind.as_str(), one.called.as_deref()), ("telegram.bot", Some("getFile")));
        assert_eq!((one.entry.as_ref(), one.action), (Some(&entry), None));
        outcomes.push(one.outcome.unwrap());
    }
    outcomes.sort();
    assert_eq!(outcomes, ["ok", "the file is not there"]);
}

#[tokio::test]
async fn parts_of_an_album_carry_its_id() {
    let fixture = open(Timepiece::wall()).await;
    let update: Value = serde_json::json!({"update_id": 9, "message": {
        "message_id": 3, "date": 1, "chat": {"id": 5, "type": "private"}, "from": {"id": 5, "first_name": "A", "is_bot": false},
        "media_group_id": "1234", "photo": [{"file_id": "f", "width": 1, "height": 1}]
    }});
    let body = edge::platform::VerifiedRequest::fetched(update.to_string(), fixture.clock.now());
    let reading = fixture.telegram.normalize(&fixture.bot, body).unwrap();
    assert_eq!(reading.arrivals[0].album.as_deref(), Some("1234"));
    assert_eq!(reading.arrivals[0].references, ["telegram:file:f"]);
}
