//! HTTP control API, and limits of memory.

use serde_json::{Value, json};
use stand_ins::telegram::{Filter, Injection, Settings, TelegramStandIn};

use crate::actors::{Caller, POSTY, settings, telegram};

struct Desk(Caller);

impl Desk {
    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let url = format!("{}/_stand-in/{path}", self.0.base);
        let answer = self.0.http.post(url).body(body.to_string()).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let answer = self.0.http.get(format!("{}/_stand-in/{path}", self.0.base)).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }
}

#[tokio::test]
async fn everything_can_be_steered_over_http() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let desk = Desk(posty.clone());
    let said = json!({
        "token": POSTY, "text": "/start@posty_bot hi", "chat_id": -100, "title": "Team",
        "from": {"id": 7, "first_name": "Bo", "username": "bo"},
    });
    let (status, injected) = desk.post("inject", said).await;
    assert_eq!((status, &injected["update_id"], &injected["queued"]), (200, &json!(1), &json!(true)));
    let message = &injected["update"]["message"];
    assert_eq!(message["entities"], json!([{"type": "bot_command", "offset": 0, "length": 16}]));
    assert_eq!(message["chat"], json!({"id": -100, "type": "supergroup", "title": "Team"}));
    assert_eq!(message["from"]["username"], "bo");

    let update = json!({"message": {"chat": {"id": 5, "type": "private"}, "from": {"id": 5}, "text": "raw"}});
    let (_, raw) = desk.post("inject", json!({"bot": "posty_bot", "update": update})).await;
    assert_eq!((&raw["update_id"], &raw["message_id"]), (&json!(2), &json!(1)));

    let (_, fault) = desk.post("faults", json!({"fault": "blocked", "method": "sendMessage"})).await;
    posty.is_refused(403, "sendMessage", json!({"chat_id": 5, "text": "x"})).await;
    let (_, listed) = desk.get("faults").await;
    assert_eq!((&listed["faults"][0]["id"], &listed["faults"][0]["struck"]), (&fault["id"], &json!(1)));
    assert_eq!(desk.get("refusals?chat=5").await.1["rows"][0]["kind"], "refused");

    posty.says(5, "answer").await;
    let (_, rows) = desk.get("transcript?bot=42&chat=5").await;
    let told: Vec<_> = rows["rows"].as_array().unwrap().iter().map(|row| row["kind"].clone()).collect();
    assert_eq!(told, ["received", "sent"]);
    assert_eq!(desk.get("deliveries").await.1["pending"], 2);

    assert_eq!(desk.post("reset", json!({})).await.0, 200);
    assert_eq!(desk.get("transcript").await.1["rows"], json!([]));
    assert_eq!(desk.get("deliveries").await.1["pending"], 0);
    let next = telegram.inject(Injection::text(5, "after")).unwrap();
    assert_eq!(next.update_id, 3, "ids go on, since the house remembers them");
}

#[tokio::test]
async fn one_can_wait_for_a_count_or_a_text() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let desk = Desk(posty.clone());
    telegram.inject(Injection::text(5, "hello")).unwrap();
    let waiting = tokio::spawn(async move { desk.get("wait?chat=5&text=two&timeout=20").await });
    let sent = posty.says(5, "one").await["message_id"].clone();
    posty.gets("editMessageText", json!({"chat_id": 5, "message_id": sent, "text": "one two"})).await;
    let (status, found) = waiting.await.unwrap();
    assert_eq!((status, &found["rows"][0]["kind"]), (200, &json!("edited")));

    let desk = Desk(posty);
    assert_eq!(desk.get("wait?chat=5&count=1").await.0, 200);
    let (status, short) = desk.get("wait?chat=5&count=2&timeout=0").await;
    assert_eq!((status, short["rows"].as_array().unwrap().len()), (408, 1));
    let after = short["rows"][0]["seq"].as_u64().unwrap();
    assert_eq!(desk.get(&format!("wait?chat=5&after={after}&timeout=0")).await.0, 408);
}

#[tokio::test]
async fn wrong_control_requests_are_told_what_is_wrong() {
    let telegram = telegram().await;
    let desk = Desk(Caller::new(&telegram, POSTY));
    for (path, body) in [
        ("inject", json!({"text": "hi", "bot": 99})),
        ("inject", json!({"text": "hi", "chatid": 5})),
        ("inject", json!({})),
        ("inject", json!({"update": []})),
        ("inject", json!({"update": {}})),
        ("inject", json!({"text": "x", "reply_to": 9})),
        ("inject", json!([])),
        ("faults", json!({"fault": "earthquake"})),
    ] {
        let (status, answer) = desk.post(path, body.clone()).await;
        assert_eq!((status, answer["description"].is_string()), (400, true), "{body}: {answer}");
    }
    assert_eq!(desk.get("transcript?kind=nonsense").await.0, 400);
    assert_eq!(desk.get("transcript?bot=nobody").await.0, 400);
    assert_eq!(desk.get("nothing").await.0, 404);
    let page = desk.0.http.get(telegram.base_url()).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("Telegram stand-in"));
}

#[tokio::test]
async fn any_shape_of_update_is_taken_without_harm() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    for update in [
        json!({"message": 3}),
        json!({"message": []}),
        json!({"message": {"chat": "x"}}),
        json!({"callback_query": "x"}),
        json!({"callback_query": {"message": {"chat": {"id": 5}}}}),
        json!({"update_id": i64::MAX, "poll": null}),
        json!({"message": {"chat": {"id": 5}, "message_id": i64::MAX, "text": 4}}),
    ] {
        telegram.inject(Injection::update(update)).unwrap();
    }
    assert_eq!(posty.gets("getUpdates", json!({})).await.as_array().unwrap().len(), 7);
    posty.says(5, "still here").await;
}

#[tokio::test]
async fn the_oldest_rows_and_their_messages_make_room() {
    let telegram = TelegramStandIn::start(Settings { transcript_rows: 10, ..settings() }).await.unwrap();
    let posty = Caller::new(&telegram, POSTY);
    telegram.inject(Injection::text(5, "hello")).unwrap();
    for number in 0..20 {
        posty.says(5, &number.to_string()).await;
    }
    let rows = telegram.transcript(&Filter::default());
    assert_eq!((rows.len(), rows[0].text.as_deref()), (10, Some("10")));
    let edit = |id: i64| json!({"chat_id": 5, "message_id": id, "text": "x"});
    posty.is_refused(400, "editMessageText", edit(2)).await;
    posty.gets("editMessageText", edit(21)).await;
    for _ in 0..9 {
        telegram.inject(Injection::text(5, "more")).unwrap();
    }
    telegram.inject(Injection::text(5, "too much")).unwrap_err();
}

#[tokio::test]
async fn no_token_is_ever_reported() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let desk = Desk(posty.clone());
    desk.post("inject", json!({"token": POSTY, "text": "hi", "chat_id": 5})).await;
    posty.says(5, "hi").await;
    posty.is_refused(400, "sendMessage", json!({"chat_id": 5})).await;
    posty.call("getMe", json!({})).await;
    for path in ["transcript", "refusals", "deliveries", "faults"] {
        assert!(!desk.get(path).await.1.to_string().contains("canary"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_messages_from_many_callers_all_stand_in_the_transcript() {
    let telegram = telegram().await;
    telegram.inject(Injection::text(5, "hello")).unwrap();
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..20 {
        let posty = Caller::new(&telegram, POSTY);
        callers.spawn(async move {
            for number in 0..50 {
                posty.says(5, &format!("{caller}/{number}")).await;
            }
        });
    }
    callers.join_all().await;
    let rows = telegram.transcript(&Filter::sent(5));
    assert_eq!(rows.len(), 1000);
    assert!(rows.windows(2).all(|pair| pair[0].message_id < pair[1].message_id));
}
