//! Permission matrix of the webhooks of platforms: a delivery for one bot with the proof of another.

use serde_json::json;
use stand_ins::telegram::Injection;

use super::actors::Actors;
use super::doors::{self, DoorRequest, DoorRow, Probe, WrongCaller, asks, callers};
use super::{Cells, Name};

const SECRET: &str = "x-telegram-bot-api-secret-token";

fn row(actors: &Actors, method: &str, at: &str) -> Option<DoorRow> {
    match (method, at) {
        ("POST", "/door/{platform}/{bot}") => {
            let umbrellas = actors.telegram.webhook_secret(8001).unwrap();
            let mut all = vec![
                WrongCaller::new("umbrella's bot", &[(SECRET, &umbrellas)]),
                WrongCaller::new("a removed bot", &[(SECRET, &actors.removed_bot_secret)]),
                WrongCaller::new("a guess", &[(SECRET, "guess")]),
                WrongCaller::new("the bot's token", &[(SECRET, "7001:token")]),
                WrongCaller::new("two secrets", &[(SECRET, "guess"), (SECRET, &umbrellas)]),
            ];
            all.extend(callers(actors.other_tenants.iter().chain(&actors.unknown).chain(&actors.ours)));
            let delivers = |bot: &str| {
                let person = json!({ "id": 66, "is_bot": false, "first_name": "Eve" });
                let chat = json!({ "id": 66, "type": "private", "first_name": "Eve" });
                let message =
                    json!({ "message_id": 1, "date": 1, "from": person, "chat": chat, "text": "psst" });
                DoorRequest::to(&format!("/door/telegram/{bot}"))
                    .json(&json!({ "update_id": 1, "message": message }))
            };
            let bots = [("7001", "7009"), ("9001", "9009")];
            let probe = |(there, absent): (&str, &str)| {
                Probe::new(&Name::new(there, absent), delivers).refused_to(&all, |heard| heard.status == 401)
            };
            asks(bots.map(probe))
        }
        _ => None,
    }
}

pub async fn fill(actors: &mut Actors, cells: &mut Cells) {
    doors::fill(actors, cells, "edge", edge::OPERATIONS, |method, at| row(actors, method, at)).await;
    // Whatever somebody delivered would have arrived before this.
    actors.telegram.inject(Injection::text(77, "sent by Telegram itself").to_bot(7001)).unwrap();
    assert_eq!(actors.heron_rides.hears().await.event.text, "sent by Telegram itself");
}
