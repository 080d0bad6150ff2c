//! Attachments of messages: fetched before their message is handed over, with keys; and albums as one message.

use axum::body::Body;
use futures_util::FutureExt;
use http::{Request, StatusCode};
use ledger::Seq;
use posthouse_wire::event::Media;
use posthouse_wire::{EntryId, MessageType};
use relay::{AttachmentFile, AttachmentOwner, NamedAttachment, NewEntry, StopRule};
use serde_json::Value;
use tower::ServiceExt;

use crate::gateway::Gateway;
use crate::test_server::{Agent, TestServer, message, seconds};

/// A picture that somebody sends to the agent's bot.
struct Picture<'a> {
    chat: &'a str,
    caption: &'a str,
    references: &'a [&'a str],
    album: Option<&'a str>,
}

impl<'a> Picture<'a> {
    fn of(reference: &'a [&'a str]) -> Self {
        Self { chat: "c1", caption: "", references: reference, album: None }
    }
}

async fn brings(agent: &Agent, picture: Picture<'_>) -> EntryId {
    brings_with(agent, picture).await.0
}

async fn brings_with(agent: &Agent, picture: Picture<'_>) -> (EntryId, Vec<NamedAttachment>) {
    let (server, on) = (&agent.server, &agent.bots[0]);
    let dedup = format!("{}-{}", picture.references.join("-"), picture.caption);
    let mut event = message(on, picture.chat, picture.caption);
    event.message_id = Some(dedup.as_str().into());
    event.message_type = MessageType::Photo;
    event.bot_id = Some(on.bot.clone());
    let media = || Media { kind: "photo".to_owned(), mime: Some("image/png".to_owned()), ..Media::default() };
    event.media = picture.references.iter().map(|_| media()).collect();
    let origin = identity::EventOrigin { source: &event.source, path: None };
    let admitted = server.admitted(on, origin, true).await.unwrap();
    let new_entry = NewEntry {
        forward: None,
        stale: None,
        event: event.deliverable().unwrap(),
        id: None,
        dedup: dedup.into(),
        references: picture.references.iter().map(|reference| (*reference).to_owned()).collect(),
        album: picture.album.map(str::to_owned),
        accepted: server.clock.now(),
        receipt: None,
        stop: StopRule::Text,
    };
    let admitting = server.relay.inboxes().admit_with_attachments(&admitted, Box::new(new_entry));
    let (admission, attachments) = admitting.await.unwrap();
    (admission.entry().cloned().unwrap(), attachments)
}

/// The status and content of a URL, asked for by nobody in particular.
async fn opens(server: &TestServer, url: &str) -> (StatusCode, String) {
    let path = url.strip_prefix("https://house.example").expect("never another host");
    let door = relay::routes(&server.relay, server.egress.clone());
    let response = door.oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8_lossy(&body).into_owned())
}

fn urls(frame: &Value) -> Vec<String> {
    let urls = frame["event"]["media_urls"].as_array().unwrap();
    urls.iter().map(|url| url.as_str().unwrap().to_owned()).collect()
}

async fn hears_inbound(gateway: &mut Gateway) -> Value {
    let frame = gateway.hears().await;
    assert_eq!(frame["type"], "inbound", "{frame}");
    frame
}

#[tokio::test]
async fn a_picture_is_here_before_its_message_is_handed_over() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.egress.has_file("one", "the bytes");
    let mut gateway = heron.sits_settled().await;
    brings(&heron, Picture { caption: "look", ..Picture::of(&["one"]) }).await;
    let frame = hears_inbound(&mut gateway).await;
    let event = &frame["event"];
    assert_eq!((&event["text"], &event["message_type"]), (&"look".into(), &"photo".into()));
    let url = urls(&frame).remove(0);
    assert_eq!(event["media"][0]["url"], url);
    assert_eq!(event["media"][0]["size"], 9);
    assert_eq!(opens(&server, &url).await, (StatusCode::OK, "the bytes".to_owned()));
    // The key lives for an hour and is stored nowhere.
    let (plain, key) = url.split_once("?k=").unwrap();
    assert_eq!(key.len(), 32);
    let stored = server.ledger.inbox().unread(&heron.instance, Seq(0), 10).await.unwrap();
    let stored = String::from_utf8(stored[0].event.to_vec()).unwrap();
    assert!(stored.contains(plain) && !stored.contains(key) && !stored.contains("?k="));
    assert_eq!(opens(&server, plain).await.0, StatusCode::NOT_FOUND);
    server.winds(seconds(3601));
    assert_eq!(opens(&server, &url).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_page_that_was_announced_as_a_picture_is_a_document_for_the_agent() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.egress.has_file("lie", "<!DOCTYPE html><html><body>log in</body></html>");
    let mut gateway = heron.sits_settled().await;
    brings(&heron, Picture { caption: "look", ..Picture::of(&["lie"]) }).await;
    let frame = hears_inbound(&mut gateway).await;
    let event = &frame["event"];
    assert_eq!(event["message_type"], "document");
    let media = &event["media"][0];
    assert_eq!((&media["kind"], &media["mime"]), (&"document".into(), &"text/html".into()));
    assert_eq!(media["filename"], "file.html");
}

#[tokio::test]
async fn a_file_that_is_larger_than_it_was_announced_to_be_is_not_stored_beyond_the_limit() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (entry, mut attachments) = brings_with(&heron, Picture::of(&["large"])).await;
    let attachment = attachments.remove(0);
    let media = Media { size: Some(5), ..attachment.media };
    let store = server.relay.media().clone();
    let tenant = server.ledger.roster().instance(&heron.instance).await.unwrap().unwrap().tenant;
    let owner = AttachmentOwner { tenant, instance: heron.instance.clone(), entry };
    let begun = store.begin_attachment(&owner, &attachment.id, &media).await.unwrap();
    let AttachmentFile::Missing(mut unfetched) = begun else { panic!("it was not fetched yet") };
    let megabyte = axum::body::Bytes::from(vec![b'x'; 1 << 20]);
    for _ in 0..25 {
        unfetched.writer.write(megabyte.clone()).await.unwrap();
    }
    let beyond = unfetched.writer.write(megabyte).await;
    assert!(matches!(beyond, Err(relay::MediaNotKept::TooLarge)));
    drop(unfetched);
    assert!(store.find(&attachment.id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_sleeper_finds_its_pictures_and_a_second_delivery_has_keys_of_its_own() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.egress.has_file("one", "the bytes");
    brings(&heron, Picture::of(&["one"])).await;
    server.winds(seconds(24 * 3600));
    let mut gateway = heron.sits_settled().await;
    let first = urls(&hears_inbound(&mut gateway).await).remove(0);
    gateway.dies();
    let mut gateway = heron.sits_settled().await;
    let second = urls(&hears_inbound(&mut gateway).await).remove(0);
    assert_ne!(first, second);
    for url in [first, second] {
        assert_eq!(opens(&server, &url).await, (StatusCode::OK, "the bytes".to_owned()));
    }
}

#[tokio::test]
async fn a_sleeper_finds_a_picture_that_was_fetched_early_although_its_reference_has_ended() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (entry, attachments) = brings_with(&heron, Picture::of(&["ends soon"])).await;
    let attachment = &attachments[0];
    assert_eq!(attachment.reference, "ends soon");
    let tenant = server.ledger.roster().instance(&heron.instance).await.unwrap().unwrap().tenant;
    let owner = AttachmentOwner { tenant: tenant.clone(), instance: heron.instance.clone(), entry };
    let store = server.relay.media();
    let begin = || store.begin_attachment(&owner, &attachment.id, &attachment.media);
    let AttachmentFile::Missing(mut unfetched) = begin().await.unwrap() else { panic!("nobody fetched it") };
    let mut second = Box::pin(begin());
    assert!(second.as_mut().now_or_never().is_none(), "whoever else wants it waits");
    unfetched.writer.write("the bytes".into()).await.unwrap();
    unfetched.keep_early(Default::default()).await.unwrap();
    assert!(matches!(second.await.unwrap(), AttachmentFile::Stored(_)));
    assert_eq!(server.ledger.usage().media_of_tenant(&tenant).used, 9, "it counts like every file");
    // The platform does not know the reference any more.
    server.winds(seconds(24 * 3600));
    let mut gateway = heron.sits_settled().await;
    let url = urls(&hears_inbound(&mut gateway).await).remove(0);
    assert_eq!(opens(&server, &url).await, (StatusCode::OK, "the bytes".to_owned()));
}

#[tokio::test]
async fn what_cannot_be_fetched_is_described_in_words() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.egress.has_file("one", "the bytes");
    let mut gateway = heron.sits_settled().await;
    brings(&heron, Picture::of(&["gone"])).await;
    let frame = hears_inbound(&mut gateway).await;
    assert_eq!((&frame["event"]["text"], urls(&frame).len()), (&"[photo]".into(), 0));
    assert_eq!(frame["event"]["message_type"], "text");
    gateway.acknowledges(frame["bufferId"].as_str().unwrap()).await;
    brings(&heron, Picture { caption: "two", ..Picture::of(&["gone", "one"]) }).await;
    let frame = hears_inbound(&mut gateway).await;
    assert_eq!((&frame["event"]["text"], urls(&frame).len()), (&"two".into(), 1));
    gateway.acknowledges(frame["bufferId"].as_str().unwrap()).await;
    // The tenant has no room for files.
    let tenant = server.ledger.roster().instance(&heron.instance).await.unwrap().unwrap().tenant;
    server.ledger.usage().set_media_limit(&tenant, Some(0)).await.unwrap();
    server.egress.has_file("two", "more bytes");
    brings(&heron, Picture::of(&["two"])).await;
    assert_eq!(hears_inbound(&mut gateway).await["event"]["text"], "[photo]");
}

#[tokio::test]
async fn a_slow_platform_holds_up_only_its_chat_and_not_for_long() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits_settled().await;
    brings(&heron, Picture::of(&["slow"])).await;
    server.says(&heron.bots[0], "c1", "behind it").await;
    server.says(&heron.bots[0], "c2", "elsewhere").await;
    gateway.takes("elsewhere").await;
    gateway.hears_nothing().await;
    server.winds(seconds(20));
    gateway.takes("[photo]").await;
    gateway.takes("behind it").await;
}

#[tokio::test]
async fn an_album_is_handed_over_as_one_message_and_acknowledged_as_one() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    for name in ["one", "two", "three"] {
        server.egress.has_file(name, name);
    }
    let mut gateway = heron.sits_settled().await;
    let first = brings(&heron, Picture { album: Some("a"), ..Picture::of(&["one"]) }).await;
    brings(&heron, Picture { album: Some("a"), caption: "all of them", ..Picture::of(&["two"]) }).await;
    gateway.hears_nothing().await;
    brings(&heron, Picture { album: Some("a"), ..Picture::of(&["three"]) }).await;
    server.says(&heron.bots[0], "c1", "afterwards").await;
    gateway.hears_nothing().await;
    server.winds(seconds(1));
    let frame = hears_inbound(&mut gateway).await;
    assert_eq!(frame["event"]["text"], "all of them");
    assert_eq!(frame["event"]["message_type"], "photo");
    assert_eq!(frame["bufferId"], first.as_str());
    let mut contents = Vec::new();
    for url in urls(&frame) {
        contents.push(opens(&server, &url).await.1);
    }
    assert_eq!(contents, ["one", "two", "three"]);
    gateway.acknowledges(first.as_str()).await;
    gateway.takes("afterwards").await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn an_album_that_a_superseded_socket_acknowledges_does_not_come_again_in_parts() {
    for acknowledged_while_held in [false, true] {
        let server = TestServer::open().await;
        let heron = server.heron().await;
        server.egress.has_file("one", "one");
        server.egress.has_file("two", "two");
        let mut old = heron.sits_settled().await;
        let first = brings(&heron, Picture { album: Some("a"), ..Picture::of(&["one"]) }).await;
        brings(&heron, Picture { album: Some("a"), caption: "all of them", ..Picture::of(&["two"]) }).await;
        old.hears_nothing().await;
        server.winds(seconds(1));
        let frame = hears_inbound(&mut old).await;
        assert_eq!(
            (&frame["event"]["text"], &frame["bufferId"]),
            (&"all of them".into(), &first.as_str().into())
        );
        let mut new = match acknowledged_while_held {
            // The new socket has read both parts, and waits for further ones.
            true => heron.sits_settled().await,
            false => heron.sits().await,
        };
        new.hears_nothing().await;
        old.acknowledges(first.as_str()).await;
        heron.has_unread(0).await;
        server.winds(seconds(30));
        server.says(&heron.bots[0], "c1", "afterwards").await;
        new.takes("afterwards").await;
    }
}

#[tokio::test]
async fn the_caption_of_an_album_is_kept_when_a_file_cannot_be_fetched() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.egress.has_file("two", "two");
    let mut gateway = heron.sits_settled().await;
    brings(&heron, Picture { album: Some("a"), ..Picture::of(&["gone"]) }).await;
    brings(&heron, Picture { album: Some("a"), caption: "both of them", ..Picture::of(&["two"]) }).await;
    gateway.hears_nothing().await;
    server.winds(seconds(1));
    let frame = hears_inbound(&mut gateway).await;
    assert_eq!(frame["event"]["text"], "both of them");
    assert_eq!(urls(&frame).len(), 1);
}
