//! Intake of Telegram updates: routing, gating and storing.

use std::sync::Arc;
use std::time::Duration;

use edge::platform::{Arrival, Platform, Reading, UnverifiedRequest, VerifiedRequest, once};
use edge::{DeliveryResult, OpenedBot};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use ledger::{Discriminator, Seq};
use posthouse_time::Timepiece;
use posthouse_wire::{Event, session_key};
use serde_json::{Value, json};
use vault::Redemption;

use super::actors::{self, bot, telegram};
use super::test_server::TestServer;

const KIND: &str = "telegram.canary";

struct Intake {
    server: TestServer,
    platform: Arc<dyn Platform>,
    bot: Arc<OpenedBot>,
}

impl Intake {
    async fn of(shared: bool, what: Discriminator) -> Self {
        let clock = Timepiece::wall();
        let bot = OpenedBot { shared, ..bot(json!({"username": "posty_bot", "bot_user_id": "42"})) };
        let server = TestServer::routed(&bot, what, &clock).await;
        Self { server, platform: Arc::new(telegram("http://127.0.0.1:1", clock)), bot: Arc::new(bot) }
    }

    fn reads(&self, update: &Value) -> Reading {
        let body = update.to_string();
        let verified = VerifiedRequest::fetched(body, Timepiece::wall().now());
        self.platform.normalize(&self.bot, verified).unwrap()
    }

    /// Number of entries that the update became.
    async fn takes(&self, update: Value) -> usize {
        let reading = self.reads(&update);
        self.server.intake().take(&self.platform, &self.bot, reading, None).await.unwrap().entries.len()
    }
}

/// Somebody speaks to the bot in a group.
fn said(update: i64, chat: i64) -> Value {
    json!({"update_id": update, "message": {"message_id": update, "text": "@posty_bot hi",
        "entities": [{"type": "mention", "offset": 0, "length": 10}],
        "chat": {"id": chat, "type": "supergroup", "title": "Inn"}, "from": {"id": 5, "first_name": "Ana"}}})
}

#[tokio::test]
async fn a_shared_bots_group_that_became_a_supergroup_still_reaches_its_agent() {
    for (told_in, field, other) in [(-7, "migrate_to_chat_id", -1007), (-1007, "migrate_from_chat_id", -7)] {
        let intake = Intake::of(true, Discriminator::Chat("-7".into())).await;
        assert_eq!(intake.takes(said(1, -7)).await, 1);
        assert_eq!(intake.takes(said(2, -1007)).await, 0, "nobody's so far");
        let mut moved = json!({"update_id": 3, "message": {"message_id": 3,
            "chat": {"id": told_in, "type": "group", "title": "Inn"},
            "from": {"id": 1_087_968_824, "is_bot": true, "first_name": "Group"}}});
        moved["message"][field] = json!(other);
        for _ in 0..2 {
            assert_eq!(intake.takes(moved.clone()).await, 0, "no turn");
            assert_eq!(intake.takes(said(4, -1007)).await, 1, "{field}");
        }
        assert_eq!(intake.takes(said(5, -7)).await, 0, "the old id leads nowhere");
        assert_eq!(intake.server.texts().await.len(), 2);
    }
}

#[tokio::test]
async fn a_bare_command_in_a_group_is_for_the_bot_and_one_for_another_bot_is_not() {
    let intake = Intake::of(false, Discriminator::Any).await;
    let command = |update: i64, text: &str| {
        let length = text.split(' ').next().unwrap().len();
        json!({"update_id": update, "message": {"message_id": update, "text": text,
            "entities": [{"type": "bot_command", "offset": 0, "length": length}],
            "chat": {"id": -7, "type": "group", "title": "Inn"}, "from": {"id": 5, "first_name": "Ana"}}})
    };
    assert_eq!(intake.takes(command(1, "/status")).await, 1);
    assert_eq!(intake.takes(command(2, "/ask why")).await, 1);
    assert_eq!(intake.takes(command(3, "/status@other_bot")).await, 0);
    assert_eq!(intake.server.texts().await, ["/status", "/ask why"]);
}

#[tokio::test]
async fn events_that_share_a_key_are_one_entry() {
    let intake = Intake::of(false, Discriminator::Any).await;
    let mut taken = Vec::new();
    for update in [1, 2] {
        let mut reading = intake.reads(&said(update, -7));
        reading.arrivals[0].other_dedups = vec!["-7:message".into()];
        taken.push(intake.server.intake().take(&intake.platform, &intake.bot, reading, None).await.unwrap());
    }
    assert_eq!(taken[0], taken[1], "the second report is the first entry");
    assert_eq!(intake.takes(said(3, -7)).await, 1, "without the key it is another");
    assert_eq!(intake.server.texts().await.len(), 2);
}

#[tokio::test]
async fn a_repeat_fills_up_no_capability_that_was_used() {
    let intake = Intake::of(false, Discriminator::Any).await;
    let told = || -> Arrival {
        let mut arrival = intake.reads(&said(1, -7)).arrivals.pop().unwrap();
        arrival.capabilities.push(once(KIND, "canary"));
        arrival
    };
    let key = session_key::plausible_of_interaction(&told().event.source).remove(0);
    let mut taken = Vec::new();
    for granted in [true, false] {
        let reading = Reading { arrivals: vec![told()], ..Reading::default() };
        taken.push(intake.server.intake().take(&intake.platform, &intake.bot, reading, None).await.unwrap());
        let (tenant, kind) = ("ten_1".into(), KIND.into());
        let redeemed =
            intake.server.vault.redeem(&tenant, &intake.server.agent, &key, &kind, None).await.unwrap();
        assert_eq!(matches!(redeemed, Redemption::Granted(_)), granted);
    }
    assert_eq!(taken[0], taken[1], "the platform hears of the first entry");
    assert_eq!(intake.server.texts().await.len(), 1);
}

#[tokio::test]
async fn the_names_of_files_at_telegram_are_kept_beside_the_event() {
    let intake = Intake::of(false, Discriminator::Any).await;
    let update = json!({"update_id": 1, "message": {"message_id": 1, "photo": [{"file_id": "canary"}],
        "chat": {"id": 5, "type": "private", "first_name": "Ana"}, "from": {"id": 5, "first_name": "Ana"}}});
    assert_eq!(intake.takes(update).await, 1);
    let unread = intake.server.ledger.inbox().unread(&intake.server.agent, Seq(0), 10).await.unwrap();
    assert_eq!(unread[0].references, ["telegram:file:canary"]);
    let event: Event = serde_json::from_slice(&unread[0].event).unwrap();
    assert_eq!(event.media.len(), 1);
    assert!(!String::from_utf8_lossy(&unread[0].event).contains("canary"));
}

/// A private message as Telegram's webhook brings it.
pub(super) fn delivered(update: i64, chat: i64) -> UnverifiedRequest {
    let body = json!({"update_id": update, "message": {"message_id": update, "text": format!("message {update}"),
        "chat": {"id": chat, "type": "private", "first_name": "Ana"}, "from": {"id": chat, "first_name": "Ana"}}});
    let mut headers = HeaderMap::new();
    headers.insert("x-telegram-bot-api-secret-token", HeaderValue::from_static(actors::WEBHOOK_SECRET));
    UnverifiedRequest {
        method: Method::POST,
        door: String::new(),
        query: String::new(),
        headers,
        body: body.to_string().into(),
        received: Timepiece::wall().now(),
        server_url: "http://127.0.0.1:7678".into(),
    }
}

#[tokio::test]
async fn an_event_for_a_full_mailbox_is_answered_200_and_its_sender_told_once() {
    let clock = Timepiece::wound(Timepiece::wall().now());
    let fixture = actors::open(clock.clone()).await;
    let platform: Arc<dyn Platform> = Arc::new(fixture.telegram.clone());
    let server = TestServer::with_small_inbox(&fixture.bot, 1, &clock, Arc::clone(&platform)).await;
    let (intake, bot) = (server.intake(), Arc::new(fixture.bot.clone()));
    let takes =
        async |update, chat| match intake.receive(&platform, &bot, delivered(update, chat)).await.unwrap() {
            DeliveryResult::Taken { entries, reply } => {
                assert_eq!(reply.status, StatusCode::OK, "the bot goes on");
                entries.len()
            }
            DeliveryResult::Refused(refusal) => panic!("{refusal:?}"),
        };
    let told = async |chat, times| {
        let waiting = async {
            while fixture.sent(chat).len() < times {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(actors::LONG, waiting).await.expect("nobody told them");
        assert!(
            fixture.sent(chat).iter().all(|text| text.contains("mailbox is full")),
            "{:?}",
            fixture.sent(chat)
        );
        fixture.sent(chat).len()
    };
    assert_eq!(takes(1, 5).await, 1);
    // The sender of the first message that does not fit gets a notice. The second one in the same chat does not, and
    // another chat of the same bot gets one only a second later.
    assert_eq!(takes(2, 5).await, 0);
    assert_eq!(takes(3, 5).await, 0);
    assert_eq!(takes(4, 6).await, 0);
    clock.wind(Duration::from_secs(1));
    assert_eq!(takes(5, 6).await, 0);
    assert_eq!(told(6, 1).await, 1);
    assert_eq!(told(5, 1).await, 1);
    clock.wind(Duration::from_secs(3600));
    assert_eq!(takes(6, 5).await, 0);
    assert_eq!(told(5, 2).await, 2);
    assert_eq!(told(6, 1).await, 1);
    assert_eq!(server.texts().await, ["message 1"], "what was accepted is kept, and nothing else");
}

/// A part of an album in a group.
fn pictured(update: i64, album: &str, caption: &str) -> Value {
    let mention = json!([{"type": "mention", "offset": 0, "length": 10}]);
    let entities = if caption.contains("@posty_bot") { mention } else { json!([]) };
    json!({"update_id": update, "message": {"message_id": update, "media_group_id": album, "caption": caption,
        "caption_entities": entities, "photo": [{"file_id": format!("f{update}"), "width": 1, "height": 1}],
        "chat": {"id": -7, "type": "supergroup", "title": "Inn"}, "from": {"id": 5, "first_name": "Ana"}}})
}

#[tokio::test]
async fn an_album_in_a_group_is_for_the_agent_with_all_its_parts_if_one_mentions_the_bot() {
    let intake = Intake::of(false, Discriminator::Any).await;
    assert_eq!(intake.takes(pictured(1, "a", "@posty_bot look")).await, 1);
    assert_eq!(intake.takes(pictured(2, "a", "")).await, 1);
    for update in [3, 4, 4] {
        assert_eq!(intake.takes(pictured(update, "b", "")).await, 0, "nobody spoke to the bot yet");
    }
    assert_eq!(intake.takes(pictured(5, "b", "@posty_bot these too")).await, 3);
    assert_eq!(intake.takes(pictured(4, "b", "")).await, 1, "a repeat is the same entry");
    for update in [6, 7] {
        assert_eq!(intake.takes(pictured(update, "c", "not for the bot")).await, 0);
    }
    let unread = intake.server.ledger.inbox().unread(&intake.server.agent, Seq(0), 100).await.unwrap();
    let parts: Vec<_> =
        unread.iter().map(|entry| (entry.album.as_deref().unwrap(), entry.references[0].as_str())).collect();
    let file = |number: u8| format!("telegram:file:f{number}");
    let files: Vec<String> = (1..=5).map(file).collect();
    let albums = ["a", "a", "b", "b", "b"];
    assert_eq!(parts, albums.into_iter().zip(files.iter().map(String::as_str)).collect::<Vec<_>>());
    assert_eq!(intake.server.texts().await, ["look", "", "", "", "these too"]);
}

#[tokio::test]
async fn an_album_of_somebody_who_is_denied_reaches_nobody() {
    let intake = Intake::of(false, Discriminator::Any).await;
    let subject = ledger::Subject::User("5".into());
    let on = intake.bot.bot_ref();
    assert_eq!(intake.takes(pictured(1, "a", "")).await, 0);
    intake.server.access().decide(&on, &subject, ledger::Decision::Denied).await.unwrap();
    assert_eq!(intake.takes(pictured(2, "a", "@posty_bot look")).await, 0);
    assert_eq!(intake.takes(pictured(3, "a", "")).await, 0);
    assert!(intake.server.texts().await.is_empty());
}
