//! Files to and from Matrix.

use edge::platform::{Platform, StoredMedia};
use posthouse_wire::action::{MediaKind, Metadata};
use posthouse_wire::{Action, MediaId, MessageType, Outcome};
use relay::{MEDIA_LIFE, NewMedia, NotFetched};
use serde_json::json;
use stand_ins::harness::RowFilter;

use super::actors::{DIRECT, Fixture, open};

impl Fixture {
    async fn stores(&self, name: &str, content: &'static [u8]) -> StoredMedia {
        let store = self.server.relay.media().clone();
        let mut writer = store.begin(&"ten_1".into(), &self.server.agent, None).await.unwrap();
        writer.write(content.into()).await.unwrap();
        let new = NewMedia {
            id: MediaId::mint(),
            mime: Some("image/png".to_owned()),
            filename: Some(name.to_owned()),
            life: MEDIA_LIFE,
        };
        StoredMedia { record: writer.keep(new).await.unwrap(), store }
    }

    async fn sends_file(&self, caption: Option<&str>, kind: MediaKind, media: StoredMedia) -> Outcome {
        let action = Action::SendMedia {
            chat_id: DIRECT.into(),
            media_kind: kind,
            source_url: "https://anywhere.example/relay/media/x".to_owned(),
            content: caption.map(str::to_owned),
            filename: None,
            reply_to: None,
            metadata: Metadata::default(),
        };
        self.matrix.send_media(&self.bot, self.order(action), media).await.outcome
    }

    async fn fetches(&self, reference: &str) -> Result<(Option<String>, u64), NotFetched> {
        let store = self.server.relay.media().clone();
        let mut into = store.begin(&"ten_1".into(), &self.server.agent, None).await.unwrap();
        let fetched = self.matrix.fetch_media(&self.bot, reference, &mut into).await?;
        Ok((fetched.mime, into.size()))
    }
}

#[tokio::test]
async fn a_file_is_uploaded_and_sent_with_its_caption() {
    let fixture = open().await;
    let media = fixture.stores("cat_1.png", b"a picture").await;
    assert!(fixture.sends_file(Some("**see**"), MediaKind::Image, media).await.message_id.is_some());
    let media = fixture.stores("cat_1.png", b"a picture").await;
    assert!(fixture.sends_file(None, MediaKind::Document, media).await.success);
    let sent = fixture.stand_in.transcript(&RowFilter::sent(DIRECT));
    let (with, without) = (&sent[0].raw, &sent[1].raw);
    assert_eq!((&with["msgtype"], &with["body"]), (&json!("m.image"), &json!("**see**")));
    assert_eq!((&with["filename"], &with["info"]["size"]), (&json!("cat_1.png"), &json!(9)));
    assert_eq!((&without["msgtype"], &without["body"]), (&json!("m.file"), &json!("cat_1.png")));
    assert_eq!(without.get("formatted_body"), None);
    let (mime, size) = fixture.fetches(with["url"].as_str().unwrap()).await.unwrap();
    assert_eq!((mime.as_deref(), size), (Some("image/png"), 9));
}

#[tokio::test]
async fn a_file_of_a_person_is_fetched_with_the_token_of_the_bot_and_only_from_its_homeserver() {
    let fixture = open().await;
    fixture.inject(json!({"do": "media", "room": DIRECT, "msgtype": "m.image", "mime_type": "image/png",
        "base64": "aGk=", "filename": "cat.png", "caption": "look"}));
    fixture.hears(&["look"]).await;
    let unread =
        fixture.server.ledger.inbox().unread(&fixture.server.agent, ledger::Seq(0), 1).await.unwrap();
    let event = fixture.events().await.remove(0);
    assert_eq!(
        (event.message_type, event.media[0].filename.as_deref()),
        (MessageType::Photo, Some("cat.png"))
    );
    assert!(!serde_json::to_string(&event).unwrap().contains("mxc://"));
    assert_eq!(fixture.fetches(&unread[0].references[0]).await.unwrap().1, 2);
    for wrong in ["mxc://hs.test/unknown", "mxc://hs.test/..", "https://hs.test/media", "mxc://h/a/b"] {
        assert!(matches!(fixture.fetches(wrong).await, Err(NotFetched::Gone)), "{wrong}");
    }
}
