//! Updates by webhook.

use serde_json::json;
use stand_ins::telegram::{Fault, FaultKind, Injection};

use crate::actors::{Caller, House, LONG, POSTY, telegram};

#[tokio::test]
async fn a_webhook_hears_updates_with_its_secret_and_a_2xx_confirms() {
    let (telegram, house) = (telegram().await, House::open().await);
    let posty = Caller::new(&telegram, POSTY);
    telegram.inject(Injection::text(5, "before")).unwrap();
    posty.gets("setWebhook", json!({"url": house.url, "secret_token": "s3cret_-"})).await;
    telegram.inject(Injection::text(5, "after")).unwrap();
    assert!(telegram.until(LONG, |telegram| telegram.deliveries(None).confirmed.len() == 2).await);
    assert_eq!(house.heard_ids(), [1, 2]);
    let heard = house.heard.lock();
    assert_eq!(heard[0].0["x-telegram-bot-api-secret-token"], "s3cret_-");
    assert_eq!(heard[0].0["content-type"], "application/json");
    assert_eq!(heard[1].1["message"]["text"], "after");
}

#[tokio::test]
async fn a_failed_delivery_is_repeated_before_later_ones_of_its_chat() {
    let (telegram, house) = (telegram().await, House::open().await);
    let posty = Caller::new(&telegram, POSTY);
    house.answers(1, &[500, 401, 302]);
    posty.gets("setWebhook", json!({"url": house.url})).await;
    for chat in [5, 5, 6] {
        telegram.inject(Injection::text(chat, "hi")).unwrap();
    }
    assert!(telegram.until(LONG, |telegram| telegram.deliveries(None).confirmed.len() == 3).await);
    let of_five: Vec<_> = house.heard_ids().into_iter().filter(|id| *id != 3).collect();
    assert_eq!(of_five, [1, 1, 1, 1, 2]);
    let attempts = telegram.deliveries(Some(42)).attempts;
    let of_first: Vec<_> =
        attempts.iter().filter(|one| one.update_id == 1).map(|one| one.status.unwrap()).collect();
    assert_eq!(of_first, [500, 401, 302, 200]);
    let info = posty.gets("getWebhookInfo", json!({})).await;
    assert_eq!(info["last_error_message"], "Wrong response from the webhook: 302 Found");
    assert_eq!(info["pending_update_count"], 0);
}

#[tokio::test]
async fn one_connection_means_strict_order_over_all_chats() {
    let (telegram, house) = (telegram().await, House::open().await);
    let posty = Caller::new(&telegram, POSTY);
    for number in 0..30 {
        telegram.inject(Injection::text(1 + number % 3, "hi")).unwrap();
    }
    posty.gets("setWebhook", json!({"url": house.url, "max_connections": 1})).await;
    assert!(telegram.until(LONG, |telegram| telegram.deliveries(None).pending == 0).await);
    assert_eq!(house.heard_ids(), (1..=30).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_house_that_is_away_gets_everything_when_it_is_back() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let away = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    posty.gets("setWebhook", json!({"url": format!("http://{away}/door")})).await;
    telegram.inject(Injection::text(5, "anybody?")).unwrap();
    assert!(telegram.until(LONG, |telegram| telegram.deliveries(None).attempts.len() >= 2).await);
    assert_eq!(telegram.deliveries(None).attempts[0].error.as_deref(), Some("Connection refused"));
    let house = House::open().await;
    posty.gets("setWebhook", json!({"url": house.url})).await;
    assert!(telegram.until(LONG, |telegram| telegram.deliveries(None).confirmed.len() == 1).await);
}

#[tokio::test]
async fn a_webhook_address_and_its_secret_are_checked() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    for url in
        ["http://house.example/door", "ftp://127.0.0.1/", "not an address", "https://house.example:444/"]
    {
        let refused = posty.is_refused(400, "setWebhook", json!({"url": url})).await;
        assert!(refused.starts_with("Bad Request: bad webhook"), "{url}: {refused}");
    }
    for secret in ["with space", "ünicode", &"x".repeat(257)] {
        let params = json!({"url": "https://house.example/", "secret_token": secret});
        let refused = posty.is_refused(400, "setWebhook", params).await;
        assert_eq!(refused, "Bad Request: secret token contains unallowed characters");
    }
    let set = json!({"url": "https://house.example:8443/door", "max_connections": 7, "allowed_updates": ["message"]});
    assert_eq!(posty.call("setWebhook", set.clone()).await.1["description"], "Webhook was set");
    assert_eq!(posty.call("setWebhook", set).await.1["description"], "Webhook is already set");
    let info = posty.gets("getWebhookInfo", json!({})).await;
    assert_eq!(info["url"], "https://house.example:8443/door");
    assert_eq!((&info["max_connections"], &info["allowed_updates"]), (&json!(7), &json!(["message"])));
    telegram.inject(Injection::text(5, "hi")).unwrap();
    assert!(telegram.until(LONG, |telegram| !telegram.deliveries(None).attempts.is_empty()).await);
    let error = telegram.deliveries(None).attempts[0].error.clone();
    assert_eq!(error.as_deref(), Some("the stand-in delivers to loopback only"));
    let gone = posty.call("deleteWebhook", json!({"drop_pending_updates": true})).await.1;
    assert_eq!(gone["description"], "Webhook was deleted");
    assert_eq!(posty.gets("getWebhookInfo", json!({})).await["pending_update_count"], 0);
}

#[tokio::test]
async fn deliveries_are_repeated_and_reordered_on_demand() {
    let (telegram, house) = (telegram().await, House::open().await);
    let posty = Caller::new(&telegram, POSTY);
    posty.gets("setWebhook", json!({"url": house.url, "max_connections": 1})).await;
    telegram.fault(Fault::new(FaultKind::DuplicateDelivery));
    telegram.fault(Fault::new(FaultKind::ReorderDeliveries { of: 3 }));
    for text in ["twice", "a", "b", "c", "last"] {
        telegram.inject(Injection::text(5, text)).unwrap();
    }
    assert!(telegram.until(LONG, |telegram| telegram.deliveries(None).attempts.len() == 6).await);
    assert_eq!(house.heard_ids(), [1, 1, 4, 3, 2, 5]);
    let deliveries = telegram.deliveries(None);
    assert!(deliveries.attempts[1].duplicate);
    assert_eq!(deliveries.confirmed.len(), 5, "each once");

    telegram.fault(Fault::new(FaultKind::ReorderDeliveries { of: 3 }));
    telegram.inject(Injection::text(5, "held")).unwrap();
    telegram.clear_faults();
    assert!(telegram.until(LONG, |telegram| telegram.deliveries(None).confirmed.len() == 6).await);
}
