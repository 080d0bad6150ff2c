//! Updates by polling (getUpdates).

use serde_json::{Value, json};
use stand_ins::telegram::Injection;

use crate::actors::{Caller, LONG, OTHER, POSTY, telegram};

fn ids(updates: &Value) -> Vec<i64> {
    updates.as_array().unwrap().iter().map(|update| update["update_id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn updates_stay_until_a_later_offset_confirms_them() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    for text in ["one", "two", "three"] {
        telegram.inject(Injection::text(5, text)).unwrap();
    }
    assert_eq!(ids(&posty.gets("getUpdates", json!({})).await), [1, 2, 3]);
    assert_eq!(ids(&posty.gets("getUpdates", json!({"limit": 2})).await), [1, 2]);
    assert_eq!(ids(&posty.gets("getUpdates", json!({"offset": 3})).await), [3]);
    assert_eq!(ids(&posty.gets("getUpdates", json!({"offset": 4})).await), [] as [i64; 0]);
    let confirmed: Vec<_> =
        telegram.deliveries(None).confirmed.iter().map(|one| (one.update_id, one.by)).collect();
    assert_eq!(confirmed, [(1, "offset"), (2, "offset"), (3, "offset")]);
    telegram.inject(Injection::text(5, "four").to_bot(43)).unwrap();
    assert_eq!(ids(&posty.gets("getUpdates", json!({})).await), [] as [i64; 0], "another bot's");
    assert_eq!(ids(&Caller::new(&telegram, OTHER).gets("getUpdates", json!({})).await), [1]);
}

#[tokio::test]
async fn a_negative_offset_forgets_all_but_the_last() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    for text in ["one", "two", "three"] {
        telegram.inject(Injection::text(5, text)).unwrap();
    }
    assert_eq!(ids(&posty.gets("getUpdates", json!({"offset": -1})).await), [3]);
    assert_eq!(ids(&posty.gets("getUpdates", json!({})).await), [3]);
}

#[tokio::test]
async fn a_long_poll_answers_as_soon_as_something_comes() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let asking = posty.clone();
    let poll = tokio::spawn(async move { asking.gets("getUpdates", json!({"timeout": 50})).await });
    // The second bot's empty poll returns while the first one waits.
    Caller::new(&telegram, OTHER).gets("getUpdates", json!({})).await;
    telegram.inject(Injection::text(5, "at last")).unwrap();
    let updates = tokio::time::timeout(LONG, poll).await.unwrap().unwrap();
    assert_eq!(updates[0]["message"]["text"], "at last");
}

#[tokio::test]
async fn a_second_poller_ends_the_first_with_a_conflict() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let mut polls = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let posty = posty.clone();
        polls.spawn(async move { posty.call("getUpdates", json!({"timeout": 50})).await });
    }
    let (status, body) = tokio::time::timeout(LONG, polls.join_next()).await.unwrap().unwrap().unwrap();
    assert_eq!(status, 409);
    assert!(body["description"].as_str().unwrap().starts_with("Conflict: terminated by other getUpdates"));
    telegram.inject(Injection::text(5, "for the second")).unwrap();
    let (status, _) = tokio::time::timeout(LONG, polls.join_next()).await.unwrap().unwrap().unwrap();
    assert_eq!(status, 200);
}

#[tokio::test]
async fn polling_conflicts_with_a_webhook() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    posty.gets("setWebhook", json!({"url": "https://house.example/door"})).await;
    let refused = posty.is_refused(409, "getUpdates", json!({})).await;
    assert!(
        refused.starts_with("Conflict: can't use getUpdates method while webhook is active"),
        "{refused}"
    );
    posty.gets("deleteWebhook", json!({})).await;
    posty.gets("getUpdates", json!({})).await;
}

#[tokio::test]
async fn kinds_not_allowed_are_not_delivered() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let reaction =
        json!({"message_reaction": {"chat": {"id": 5, "type": "private"}, "message_id": 1, "date": 1}});
    assert!(!telegram.inject(Injection::update(reaction.clone())).unwrap().queued, "off unless asked for");
    posty.gets("getUpdates", json!({"allowed_updates": ["message_reaction"]})).await;
    assert!(telegram.inject(Injection::update(reaction)).unwrap().queued);
    assert!(!telegram.inject(Injection::text(5, "hi")).unwrap().queued);
    assert_eq!(posty.gets("getUpdates", json!({})).await.as_array().unwrap().len(), 1);
}
