//! Files in the web chat: from the page to the agent, and from the agent to the page.

use axum::body::Body;
use edge::platform::{Platform, StoredMedia};
use http::{Method, StatusCode};
use posthouse_wire::action::{MediaKind, Metadata};
use posthouse_wire::{Action, ActionId, MediaId, MessageType};
use relay::{MEDIA_LIFE, NewMedia, PermittedAction};
use serde_json::{Value, json};

use super::actors::{From, Heron, PageResponse, TestServer};

async fn uploads(server: &TestServer, page: &From, room: &str, content: &'static [u8]) -> PageResponse {
    let page = page.clone().with("content-type", "image/png").with("x-media-filename", "caf%C3%A9.png");
    let path = format!("/chat/api/rooms/{room}/files");
    let response = server.send(&page, Method::POST, &path, Body::from(content)).await;
    let (head, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    PageResponse {
        status: head.status,
        headers: head.headers,
        text: String::from_utf8_lossy(&body).into_owned(),
    }
}

async fn says(server: &TestServer, page: &From, room: &str, text: &str, files: &[&Value]) -> PageResponse {
    let nonce = format!("nonce-{}", MediaId::mint());
    let body = json!({ "text": text, "nonce": nonce, "files": files });
    server.post(page, &format!("/chat/api/rooms/{room}/messages"), body).await
}

#[tokio::test]
async fn a_file_of_a_person_goes_with_its_message() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let ann = server.page_of("ann").await;
    let stored = uploads(&server, &ann, &room, b"\x89PNG picture").await;
    assert_eq!(stored.status, StatusCode::OK, "{}", stored.text);
    let stored = stored.json();
    assert_eq!((&stored["filename"], &stored["size"]), (&json!("caf_.png"), &json!(12)));
    let id = &stored["media_id"];
    assert_eq!(says(&server, &ann, &room, "", &[id]).await.status, StatusCode::OK);
    let [(_, event)] = &heron.unread().await[..] else { panic!("one entry") };
    assert_eq!((event.message_type, event.text.as_str()), (MessageType::Photo, ""));
    assert_eq!(event.media[0].mime.as_deref(), Some("image/png"));
    // The agent gets a file of its own, under another id.
    assert!(!event.media_urls[0].contains(id.as_str().unwrap()));
    let mut writer =
        server.relay.media().begin(&server.tenant("acme").await, &heron.instance, None).await.unwrap();
    let bot = server.bot_of(&heron).await;
    let reference = format!("web:file:{}", id.as_str().unwrap());
    server.web.fetch_media(&bot, &reference, &mut writer).await.unwrap();
    assert_eq!(writer.size(), 12);

    let page = server.get(&ann, &format!("/chat/api/rooms/{room}/files/{}", id.as_str().unwrap())).await;
    assert_eq!((page.status, &page.headers["content-type"]), (StatusCode::OK, &"image/png".parse().unwrap()));
    assert_eq!(page.headers["content-disposition"], "inline; filename=\"caf_.png\"");
    let entered = server.post(&ann, "/chat/api/rooms", json!({ "agent": heron.instance })).await.json();
    assert_eq!(entered["history"][0]["files"][0]["media_id"], *id);
}

#[tokio::test]
async fn nobody_else_can_send_or_get_a_file_of_a_room() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let (ann, ben) = (server.page_of("ann").await, server.page_of("ben").await);
    let other = server.enters("ben", &heron.instance).await;
    let id = uploads(&server, &ann, &room, b"<script>").await.json()["media_id"].clone();
    let get = async |page: &From, room: &str, id: &str| {
        server.get(page, &format!("/chat/api/rooms/{room}/files/{id}")).await
    };
    let text = id.as_str().unwrap();
    for (page, room) in [(&ben, &room), (&ben, &other)] {
        assert!(get(page, room, text).await.is_absence());
    }
    assert!(uploads(&server, &ben, &room, b"x").await.is_absence());
    assert!(get(&ann, &room, MediaId::mint().as_str()).await.is_absence());
    let stolen = says(&server, &ben, &other, "mine now", &[&id]).await;
    assert_eq!(stolen.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", stolen.text);
    // A file whose bytes are no picture is never displayed.
    let saved = get(&ann, &room, text).await;
    assert_eq!(saved.headers["content-type"], "application/octet-stream");
    assert!(saved.headers["content-disposition"].to_str().unwrap().starts_with("attachment"));
    assert_eq!(uploads(&server, &ann, &room, b"").await.status, StatusCode::UNPROCESSABLE_ENTITY);
    for _ in 0..ledger::UNSENT_FILES - 1 {
        assert_eq!(uploads(&server, &ann, &room, b"x").await.status, StatusCode::OK);
    }
    assert_eq!(uploads(&server, &ann, &room, b"x").await.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn a_file_of_an_agent_appears_in_its_room_and_expires_after_a_week() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let ann = server.page_of("ann").await;
    let mut watcher = server.watches(&ann, &room, "").await;
    let store = server.relay.media().clone();
    let mut writer = store.begin(&server.tenant("acme").await, &heron.instance, None).await.unwrap();
    writer.write("report".into()).await.unwrap();
    let new = NewMedia {
        id: MediaId::mint(),
        mime: Some("application/pdf".to_owned()),
        filename: Some("report.pdf".to_owned()),
        life: MEDIA_LIFE,
    };
    let record = writer.keep(new).await.unwrap();
    let outcome = server.sends_file(&heron, &room, "here you are", StoredMedia { store, record }).await;
    assert!(outcome.success, "{outcome:?}");
    let shown = loop {
        let event = watcher.next().await.unwrap();
        if event.name == "line" {
            break event.data;
        }
    };
    assert_eq!(shown["text"], "here you are");
    let file = &shown["files"][0];
    assert_eq!((&file["filename"], &file["expired"]), (&json!("report.pdf"), &json!(false)));
    let path = format!("/chat/api/rooms/{room}/files/{}", file["media_id"].as_str().unwrap());
    server.clock.wind(std::time::Duration::from_secs(6 * 24 * 3600));
    assert_eq!(server.get(&ann, &path).await.text, "report");
    server.clock.wind(std::time::Duration::from_secs(24 * 3600 + 1));
    assert!(server.get(&ann, &path).await.is_absence());
    while server.ledger.facts().prune().await.unwrap() {}
    let entered = server.post(&ann, "/chat/api/rooms", json!({ "agent": heron.instance })).await.json();
    assert_eq!(entered["history"][0]["files"][0]["expired"], true);
    assert_eq!(server.ledger.usage().media_of_tenant(&server.tenant("acme").await).used, 0);
}

impl TestServer {
    async fn bot_of(&self, agent: &Heron<'_>) -> edge::OpenedBot {
        edge::OpenedBot {
            platform: edge::web::NAME.into(),
            id: agent.instance.as_str().into(),
            shared: false,
            settings: serde_json::Map::new(),
            credentials: vault::Credentials::default(),
        }
    }

    async fn sends_file(
        &self,
        agent: &Heron<'_>,
        room: &str,
        caption: &str,
        media: StoredMedia,
    ) -> posthouse_wire::Outcome {
        let bot = self.bot_of(agent).await;
        let order = PermittedAction {
            may_redeem: false,
            ends_turn: false,
            id: ActionId::mint(self.clock.now().millis()),
            tenant: self.tenant("acme").await,
            instance: agent.instance.clone(),
            on: bot.bot_ref(),
            action: Action::SendMedia {
                chat_id: room.into(),
                media_kind: MediaKind::Document,
                source_url: String::new(),
                content: Some(caption.to_owned()),
                filename: None,
                reply_to: None,
                metadata: Metadata::default(),
            },
            stream_cursor: String::new(),
            deadline: self.clock.instant() + std::time::Duration::from_secs(25),
        };
        self.web.send_media(&bot, order, media).await.outcome
    }
}
