//! What becomes of an update once it is read.

use std::sync::Arc;

use edge::Bot;
use edge::platform::{Arrival, Platform, Reading, Verified, once};
use ledger::{Discriminator, Seq};
use posthouse_time::Timepiece;
use posthouse_wire::{Event, session_key};
use serde_json::{Value, json};
use vault::Redemption;

use super::actors::{bot, telegram};
use super::house::House;

const KIND: &str = "telegram.canary";

struct Intake {
    house: House,
    platform: Arc<dyn Platform>,
    bot: Arc<Bot>,
}

impl Intake {
    async fn of(shared: bool, what: Discriminator) -> Self {
        let clock = Timepiece::wall();
        let bot = Bot { shared, ..bot(json!({"username": "posty_bot", "bot_user_id": "42"})) };
        let house = House::routed(&bot, what, &clock).await;
        Self { house, platform: Arc::new(telegram("http://127.0.0.1:1", clock)), bot: Arc::new(bot) }
    }

    fn reads(&self, update: &Value) -> Reading {
        let body = update.to_string().into();
        let verified = Verified { body, rest: String::new(), received: Timepiece::wall().now() };
        self.platform.normalize(&self.bot, verified).unwrap()
    }

    /// How many entries the update is.
    async fn takes(&self, update: Value) -> usize {
        let reading = self.reads(&update);
        self.house.intake().take(&self.platform, &self.bot, reading).await.unwrap().len()
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
        assert_eq!(intake.house.texts().await.len(), 2);
    }
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
        taken.push(intake.house.intake().take(&intake.platform, &intake.bot, reading).await.unwrap());
        let (tenant, kind) = ("ten_1".into(), KIND.into());
        let redeemed = intake.house.vault.redeem(&tenant, &intake.house.agent, &key, &kind).await.unwrap();
        assert_eq!(matches!(redeemed, Redemption::Granted(_)), granted);
    }
    assert_eq!(taken[0], taken[1], "the platform hears of the first entry");
    assert_eq!(intake.house.texts().await.len(), 1);
}

#[tokio::test]
async fn the_names_of_files_at_telegram_are_kept_beside_the_event() {
    let intake = Intake::of(false, Discriminator::Any).await;
    let update = json!({"update_id": 1, "message": {"message_id": 1, "photo": [{"file_id": "canary"}],
        "chat": {"id": 5, "type": "private", "first_name": "Ana"}, "from": {"id": 5, "first_name": "Ana"}}});
    assert_eq!(intake.takes(update).await, 1);
    let unread = intake.house.ledger.inbox().unread(&intake.house.agent, Seq(0), 10).await.unwrap();
    assert_eq!(unread[0].references, ["telegram:file:canary"]);
    let event: Event = serde_json::from_slice(&unread[0].event).unwrap();
    assert_eq!(event.media.len(), 1);
    assert!(!String::from_utf8_lossy(&unread[0].event).contains("canary"));
}
