//! Files to and from Slack.

use edge::platform::{Platform, StoredMedia};
use posthouse_wire::action::{MediaKind, Metadata};
use posthouse_wire::{Action, MediaId, Outcome};
use relay::{MEDIA_LIFE, NewMedia, NotFetched};
use serde_json::{Value, json};
use stand_ins::harness::{CallFault, CallFaultKind, RowFilter};

use super::actors::{DIRECT, Fixture, OTHER_TOKEN, error, open};

impl Fixture {
    async fn stores(&self, name: &str, content: &'static [u8]) -> StoredMedia {
        let store = self.server.relay.media().clone();
        let mut writer = store.begin(&"ten_1".into(), &self.server.agent, None).await.unwrap();
        writer.write(content.into()).await.unwrap();
        let new = NewMedia {
            id: MediaId::mint(),
            mime: Some("text/plain".to_owned()),
            filename: Some(name.to_owned()),
            life: MEDIA_LIFE,
        };
        StoredMedia { record: writer.keep(new).await.unwrap(), store }
    }

    async fn sends_file(&self, caption: &str, thread: &str, media: StoredMedia) -> Outcome {
        let action = Action::SendMedia {
            chat_id: DIRECT.into(),
            media_kind: MediaKind::Document,
            source_url: "https://anywhere.example/relay/media/x".to_owned(),
            content: Some(caption.to_owned()),
            filename: None,
            reply_to: None,
            metadata: Metadata { thread_id: Some(thread.into()), ..Metadata::default() },
        };
        self.slack.send_media(&self.bot, self.order(action), media).await.outcome
    }

    /// A person shares a file. Returns its reference.
    async fn shares(&self, file: Value) -> String {
        self.inject(json!({"do": "message", "text": "see", "files": [file]}));
        self.hears(&["see"]).await;
        let unread = self.server.ledger.inbox().unread(&self.server.agent, ledger::Seq(0), 1).await.unwrap();
        let event: Value = serde_json::from_slice(&unread[0].event).unwrap();
        assert!(
            !event.to_string().contains("pub_secret") && !event.to_string().contains("files-pri"),
            "{event}"
        );
        let names = self.stand_in.transcript(&RowFilter::kind("received"));
        assert_eq!(names.len(), 1);
        unread[0].references[0].clone()
    }

    async fn fetches(&self, reference: &str) -> Result<(Option<String>, u64), NotFetched> {
        let store = self.server.relay.media().clone();
        let mut into = store.begin(&"ten_1".into(), &self.server.agent, None).await.unwrap();
        let fetched = self.slack.fetch_media(&self.bot, reference, &mut into).await?;
        Ok((fetched.mime, into.size()))
    }
}

#[tokio::test]
async fn a_file_is_uploaded_and_posted_with_its_caption() {
    let fixture = open().await;
    let ts = fixture.says("hello")["ts"].as_str().unwrap().to_owned();
    fixture.hears(&["hello"]).await;
    let media = fixture.stores("notes.txt", b"some notes").await;
    let sent = fixture.sends_file("**see**", &ts, media).await;
    assert!(sent.success, "{sent:?}");
    let row = fixture.stand_in.transcript(&RowFilter::sent(DIRECT)).pop().unwrap();
    assert_eq!((row.text.as_deref(), row.thread_id.as_deref()), (Some("*see*[notes.txt]"), Some(&*ts)));
    for call in ["files.getUploadURLExternal", "upload", "files.completeUploadExternal"] {
        fixture
            .stand_in
            .fault(CallFault::new(CallFaultKind::Answer { status: 400, body: json!({}) }).on(call));
        let media = fixture.stores("again.txt", b"x").await;
        error(&fixture.sends_file("", &ts, media).await);
    }
}

#[tokio::test]
async fn a_shared_file_is_fetched_with_the_token_of_the_bot() {
    let fixture = open().await;
    let reference =
        fixture.shares(json!({"name": "a.txt", "mimetype": "text/plain", "base64": "aGVsbG8="})).await;
    assert!(reference.starts_with("slack:file:T1/F"), "{reference}");
    assert_eq!(fixture.fetches(&reference).await.unwrap(), (Some("text/plain".to_owned()), 5));
    for unknown in ["slack:file:T1/F404", "slack:file:T1/", "slack:file:", "telegram:x", ""] {
        assert!(matches!(fixture.fetches(unknown).await, Err(NotFetched::Gone)), "{unknown}");
    }
}

#[tokio::test]
async fn the_login_page_is_not_taken_for_a_file() {
    let fixture = open().await;
    let reference =
        fixture.shares(json!({"name": "a.txt", "mimetype": "text/plain", "base64": "aGVsbG8="})).await;
    // The app of another workspace is told about the file, but does not get it.
    let mut foreign = fixture.bot.clone();
    foreign.credentials.insert("token", posthouse_wire::Secret::new(OTHER_TOKEN));
    let store = fixture.server.relay.media().clone();
    let mut into = store.begin(&"ten_1".into(), &fixture.server.agent, None).await.unwrap();
    let fetched = fixture.slack.fetch_media(&foreign, &reference, &mut into).await;
    assert!(matches!(fetched, Err(NotFetched::Gone)));
    assert_eq!(into.size(), 0);
}
