//! Registration of bots with Telegram.

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use edge::platform::{EventDelivery, Platform, VerifiedRequest};
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::json;
use stand_ins::telegram::{Fault, FaultKind, Filter, Injection, RowKind};
use tokio::sync::mpsc;

use super::actors::{Fixture, LONG, WEBHOOK_SECRET, open};

#[tokio::test]
async fn a_bot_is_met_under_the_name_and_id_that_telegram_gave_it() {
    let fixture = open(Timepiece::wall()).await;
    let met = fixture.telegram.check_credentials(&fixture.bot).await.unwrap();
    assert_eq!(met.id, "42");
    assert_eq!(json!(met.settings), json!({"username": "posty_bot", "bot_user_id": "42"}));
}

#[tokio::test]
async fn a_token_that_telegram_does_not_know_is_told_in_words_without_it() {
    let Fixture { stand_in: _running, telegram, mut bot, .. } = open(Timepiece::wall()).await;
    for token in ["43:canary-wrong", "canary", ""] {
        bot.credentials.insert("token", Secret::new(token));
        let trouble = telegram.check_credentials(&bot).await.unwrap_err().to_string();
        assert!(!trouble.contains("canary"), "{trouble}");
        let expected = if token.is_empty() { "needs its token" } else { "does not know this token" };
        assert!(trouble.contains(expected), "{trouble}");
    }
    bot.settings.insert("api_base_url".to_owned(), json!("http://127.0.0.1:1"));
    bot.credentials.insert("token", Secret::new("43:canary-wrong"));
    let trouble = telegram.check_credentials(&bot).await.unwrap_err().to_string();
    assert!(trouble.contains("cannot be reached") && !trouble.contains("canary"), "{trouble}");
}

async fn door() -> (String, mpsc::UnboundedReceiver<HeaderMap>) {
    let (heard, calls) = mpsc::unbounded_channel();
    let take = |State(heard): State<mpsc::UnboundedSender<HeaderMap>>, headers: HeaderMap| async move {
        let _ = heard.send(headers);
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/door/telegram/42", listener.local_addr().unwrap());
    let routes = Router::new().route("/door/telegram/42", post(take)).with_state(heard);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (url, calls)
}

#[tokio::test]
async fn the_webhook_is_set_with_its_secret_and_removed_for_pollers() {
    let Fixture { stand_in, telegram, mut bot, .. } = open(Timepiece::wall()).await;
    let (url, mut calls) = door().await;
    assert_eq!(telegram.register(&bot, Some(&url)).await, Ok(()));
    assert_eq!(telegram.register(&bot, Some(&url)).await, Ok(()));
    let headers = tokio::time::timeout(LONG, calls.recv()).await.unwrap().unwrap();
    assert_eq!(headers["x-telegram-bot-api-secret-token"], WEBHOOK_SECRET);
    assert!(stand_in.until(LONG, |stand_in| stand_in.deliveries(None).pending == 0).await);

    bot.settings.insert("mode".to_owned(), json!("poll"));
    assert_eq!(telegram.register(&bot, Some(&url)).await, Ok(()));
    assert_eq!(telegram.delivery(&bot, Some(&url)), EventDelivery::Polling);
    // A server that cannot be called polls, whatever the bot's mode is.
    bot.settings.insert("mode".to_owned(), json!("webhook"));
    assert_eq!(telegram.register(&bot, None).await, Ok(()));
    assert_eq!(telegram.delivery(&bot, None), EventDelivery::Polling);
    assert_eq!(telegram.delivery(&bot, Some(&url)), EventDelivery::Webhook);
    stand_in.inject(Injection::text(5, "kept until asked for")).unwrap();
    assert_eq!(stand_in.deliveries(None).pending, 1);
}

#[tokio::test]
async fn a_refused_webhook_is_told_in_telegrams_words() {
    let fixture = open(Timepiece::wall()).await;
    let trouble = fixture.telegram.register(&fixture.bot, Some("ftp://example.test")).await.unwrap_err();
    assert!(trouble.to_string().contains("bad webhook"), "{trouble}");
    let mut bot = fixture.bot;
    bot.credentials.insert("webhook_secret", Secret::new(""));
    let trouble = fixture.telegram.register(&bot, Some("https://example.test/x")).await.unwrap_err();
    assert!(trouble.to_string().contains("webhook secret"), "{trouble}");
}

#[tokio::test]
async fn a_press_is_answered_at_the_edge_and_its_failure_is_nobodys() {
    let Fixture { stand_in, telegram, bot, .. } = open(Timepiece::wall()).await;
    stand_in.fault(Fault::new(FaultKind::ServerError { status: 500 }).on("answerCallbackQuery"));
    for (id, answered) in [("canary-1", 0), ("canary-2", 1)] {
        let pressed = stand_in
            .inject(Injection::update(json!({"callback_query": {"id": id, "from": {"id": 5}, "data": "yes",
                "message": {"message_id": 1, "chat": {"id": 5, "type": "private"}}}})))
            .unwrap();
        let verified =
            VerifiedRequest::fetched(pressed.update.to_string(), posthouse_time::Moment::default());
        let mut reading = telegram.normalize(&bot, verified).unwrap();
        telegram.acknowledge_interaction(&bot, reading.interaction_acks.pop().unwrap()).await;
        let answers = Filter { kinds: vec![RowKind::CallbackAnswered], ..Filter::default() };
        assert_eq!(stand_in.transcript(&answers).len(), answered);
    }
}
