//! Looking into a room while it lives.

use std::time::Duration;

use serde_json::json;

use super::actors::{From, House, edit, send, typing};

#[tokio::test]
async fn a_page_sees_what_was_said_and_then_what_is_being_said() {
    let house = House::open().await;
    let heron = house.enrol("heron").await;
    let room = house.enters("ann", &heron.instance).await;
    house.says(&room, "hello", "nonce-0001").await;
    let mut page = house.watches(&From::home(), &room, "").await;
    let told = page.hears().await;
    assert_eq!(
        (told.name.as_str(), &told.data["author"], &told.data["text"]),
        ("line", &json!("person"), &json!("hello"))
    );
    heron.does(typing(&room, None)).await;
    assert_eq!(page.hears().await.data, json!({"on": true, "text": null}));
    let message = heron.does(send(&room, "Go")).await.message_id.unwrap();
    let told = page.hears().await;
    assert_eq!((told.name.as_str(), &told.data["message_id"]), ("line", &json!(message)));
    for text in ["Good", "Good morning"] {
        heron.does(edit(&room, message.as_str(), text)).await;
        let told = page.hears().await;
        assert_eq!((told.name.as_str(), &told.data["text"]), ("edit", &json!(text)));
    }
    heron.does(typing(&room, Some(""))).await;
    assert_eq!(page.hears().await.data["on"], json!(false));
}

#[tokio::test]
async fn a_page_that_comes_back_is_told_what_it_missed_edits_too() {
    let house = House::open().await;
    let heron = house.enrol("heron").await;
    let room = house.enters("ann", &heron.instance).await;
    let old = heron.does(send(&room, "old")).await.message_id.unwrap();
    house.clock.wind(Duration::from_secs(3600));
    heron.does(send(&room, "untouched")).await;
    house.clock.wind(Duration::from_secs(3600));
    heron.does(send(&room, "seen last")).await;
    let mut page = house.watches(&From::home(), &room, "").await;
    let mut last = None;
    for _ in 0..3 {
        last = page.hears().await.id;
    }
    drop(page);
    house.clock.wind(Duration::from_secs(3600));
    heron.does(edit(&room, old.as_str(), "old, mended")).await;
    heron.does(send(&room, "new")).await;
    let last = last.expect("lines carry an id");
    for (from, after) in
        [(From::home(), format!("?after={last}")), (From::home().with("last-event-id", &last), String::new())]
    {
        let mut page = house.watches(&from, &room, &after).await;
        let texts = [page.hears().await, page.hears().await, page.hears().await]
            .map(|told| told.data["text"].clone());
        assert_eq!(texts, [json!("old, mended"), json!("seen last"), json!("new")]);
    }
}

#[tokio::test]
async fn a_page_that_fell_far_behind_still_ends_with_the_whole_story() {
    let house = House::open().await;
    let heron = house.enrol("heron").await;
    let room = house.enters("ann", &heron.instance).await;
    let message = heron.does(send(&room, "0")).await.message_id.unwrap();
    let mut page = house.watches(&From::home(), &room, "").await;
    for number in 1..=400 {
        heron.does(edit(&room, message.as_str(), &number.to_string())).await;
    }
    loop {
        let told = page.hears().await;
        if told.data["text"] == json!("400") {
            break;
        }
    }
}

#[tokio::test]
async fn streams_end_when_the_house_closes() {
    let house = House::open().await;
    let heron = house.enrol("heron").await;
    let room = house.enters("ann", &heron.instance).await;
    let mut page = house.watches(&From::home(), &room, "").await;
    house.closing.cancel();
    assert_eq!(page.next().await, None);
}
