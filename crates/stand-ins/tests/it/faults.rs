//! Faults: misbehaviour on demand.

use serde_json::json;
use stand_ins::telegram::{Fault, FaultKind, Filter, Injection, TelegramStandIn};

use crate::actors::{Caller, LONG, POSTY, telegram};

async fn open() -> (TelegramStandIn, Caller) {
    let telegram = telegram().await;
    for chat in [5, 6] {
        telegram.inject(Injection::text(chat, "hello")).unwrap();
    }
    let posty = Caller::new(&telegram, POSTY);
    (telegram, posty)
}

fn sends(telegram: &TelegramStandIn) -> usize {
    telegram.transcript(&Filter::sent(5)).len()
}

#[tokio::test]
async fn refusals_strike_so_many_calls_of_a_method_in_a_chat() {
    let (telegram, posty) = open().await;
    for (trouble, code, description) in [
        (FaultKind::TooManyRequests { retry_after: 3 }, 429, "Too Many Requests: retry after 3"),
        (FaultKind::ServerError { status: 502 }, 502, "Bad Gateway"),
        (FaultKind::ServerError { status: 200 }, 500, "Internal Server Error"),
        (FaultKind::Unauthorized, 401, "Unauthorized"),
        (FaultKind::Blocked, 403, "Forbidden: bot was blocked by the user"),
        (FaultKind::ChatNotFound, 400, "Bad Request: chat not found"),
        (FaultKind::Migrated { to: -1009 }, 400, "Bad Request: group chat was upgraded to a supergroup chat"),
    ] {
        let before = sends(&telegram);
        let fault = telegram.fault(Fault::new(trouble).on("sendMessage").in_chat(5).times(2));
        posty.gets("getMe", json!({})).await;
        posty.says(6, "another chat").await;
        for _ in 0..2 {
            let said = posty.is_refused(code, "sendMessage", json!({"chat_id": 5, "text": "x"})).await;
            assert_eq!(said, description);
        }
        assert_eq!((telegram.struck(fault), sends(&telegram)), (2, before));
        posty.says(5, "again").await;
        telegram.clear_faults();
    }
    assert_eq!(telegram.refusals(&Filter::chat(5)).len(), 14);
}

#[tokio::test]
async fn the_seconds_to_wait_are_in_the_header_and_a_new_home_in_the_parameters() {
    let (telegram, posty) = open().await;
    telegram.fault(Fault::new(FaultKind::TooManyRequests { retry_after: 3 }));
    telegram.fault(Fault::new(FaultKind::Migrated { to: -1009 }));
    let url = format!("{}/bot{POSTY}/sendMessage", telegram.base_url());
    let params = json!({"chat_id": 5, "text": "x"});
    let answer = posty.http.post(url).json(&params).send().await.unwrap();
    assert_eq!(answer.headers()["retry-after"], "3");
    let body: serde_json::Value = answer.json().await.unwrap();
    assert_eq!(body["parameters"], json!({"retry_after": 3}));
    assert_eq!(posty.call("sendMessage", params).await.1["parameters"], json!({"migrate_to_chat_id": -1009}));
}

#[tokio::test]
async fn a_dropped_answer_leaves_the_message_standing() {
    let (telegram, posty) = open().await;
    telegram.fault(Fault::new(FaultKind::DropAfterWrite).on("sendMessage"));
    let lost = posty.try_call("sendMessage", json!({"chat_id": 5, "text": "x"})).await;
    assert!(lost.is_err(), "{lost:?}");
    assert_eq!(sends(&telegram), 1);
    posty.says(5, "the next connection works").await;
}

#[tokio::test]
async fn a_refused_connection_leaves_nothing() {
    let (telegram, posty) = open().await;
    for fault in [Fault::new(FaultKind::Refuse), Fault::new(FaultKind::Refuse).in_chat(5)] {
        let fault = telegram.fault(fault.on("sendMessage"));
        let refused = posty.try_call("sendMessage", json!({"chat_id": 5, "text": "x"})).await;
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!((telegram.struck(fault), sends(&telegram)), (1, 0));
    }
}

#[tokio::test]
async fn a_hanging_call_holds_up_no_other_and_goes_on_when_released() {
    let (telegram, posty) = open().await;
    telegram.fault(Fault::new(FaultKind::Hang).on("sendMessage").in_chat(5));
    let hanging = tokio::spawn({
        let posty = posty.clone();
        async move { posty.says(5, "late").await }
    });
    assert!(telegram.until(LONG, |telegram| telegram.hanging() == 1).await);
    posty.says(6, "meanwhile").await;
    assert_eq!(sends(&telegram), 0);
    telegram.release();
    tokio::time::timeout(LONG, hanging).await.unwrap().unwrap();
    assert_eq!((sends(&telegram), telegram.hanging()), (1, 0));
}

#[tokio::test]
async fn a_call_may_hang_after_its_work_is_done() {
    let (telegram, posty) = open().await;
    telegram.fault(Fault::new(FaultKind::HangAfterWrite).on("sendMessage"));
    let hanging = tokio::spawn(async move { posty.says(5, "done").await });
    assert!(telegram.until(LONG, |telegram| sends(telegram) == 1).await);
    assert!(!hanging.is_finished());
    telegram.clear_faults();
    tokio::time::timeout(LONG, hanging).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_slow_call_is_done_even_if_its_caller_has_left() {
    let (telegram, posty) = open().await;
    let fault = telegram.fault(Fault::new(FaultKind::Slow { delay_ms: 300 }).on("sendMessage"));
    let calling = tokio::spawn(async move { posty.says(5, "slowly").await });
    assert!(telegram.until(LONG, |telegram| telegram.struck(fault) == 1).await);
    calling.abort();
    assert!(telegram.until(LONG, |telegram| sends(telegram) == 1).await);
}

#[tokio::test]
async fn stopping_ends_hanging_calls_and_frees_the_address() {
    let (telegram, posty) = open().await;
    let address = telegram.address();
    telegram.fault(Fault::new(FaultKind::Hang).until_cleared());
    let hanging = tokio::spawn(async move { posty.try_call("getMe", json!({})).await });
    assert!(telegram.until(LONG, |telegram| telegram.hanging() == 1).await);
    tokio::time::timeout(LONG, telegram.stop()).await.unwrap();
    assert!(tokio::time::timeout(LONG, hanging).await.unwrap().unwrap().is_err());
    let again = stand_ins::telegram::serve(address, crate::actors::settings()).await.unwrap();
    assert_eq!(again.address(), address);
}
