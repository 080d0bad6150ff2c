//! Questions, with failures before the answer arrives.

use posthouse_agent::post::{Answered, Ask, Client, Fault};
use posthouse_agent::wire::CorrelationId;
use posthouse_agent::wire::delivery::Cause;
use serde_json::json;
use tokio::task::JoinHandle;

use super::house::{FakeHouse, Question};
use crate::house::{seconds, soon};

/// A question with a very long timeout.
fn question() -> Ask {
    Ask { timeout: seconds(1 << 30), correlation_id: "q1".into(), ..Ask::new("heron", "how many?") }
}

fn ask(client: Client, wish: Ask) -> JoinHandle<Result<Answered, Fault>> {
    tokio::spawn(async move { client.exchange(&wish).await })
}

#[tokio::test]
async fn post_exchange_an_answer_comes_with_its_data() {
    let house = FakeHouse::open().await;
    let asking = ask(house.client(), Ask { timeout: seconds(45), ..question() });
    house.hears(|heard| heard.questions.contains_key("q1")).await;
    house.answers("q1", r#"{"open":3}"#);
    let answer = soon(asking).await.unwrap().unwrap();
    assert_eq!((answer.response.content.as_str(), answer.response.sent_at), (r#"{"open":3}"#, 9));
    assert_eq!((answer.response.agent_id.as_str(), answer.data), ("heron", Some(json!({ "open": 3 }))));
    let expected = json!({
        "agent": "heron", "message": "how many?", "correlation_id": "q1", "timeout": 45.0, "wait": 30.0,
    });
    assert_eq!(house.body("POST /v1/exchange"), expected);
}

#[tokio::test]
async fn post_exchange_an_answer_that_takes_long_is_waited_for_over_several_calls() {
    let house = FakeHouse::open().await;
    house.told(|heard| heard.impatient = true);
    let asking = ask(house.client(), question());
    let looks = |calls: usize| move |heard: &super::house::Heard| heard.calls.len() > calls;
    house.until(looks(3)).await;
    house.told(|heard| heard.impatient = false);
    house.answers("q1", "three");
    let answer = house.while_time_passes(asking).await.unwrap().unwrap();
    assert_eq!((answer.response.content.as_str(), answer.data), ("three", None));
    assert_eq!(house.count("POST /v1/exchange"), 1);
    assert!(house.count("GET /v1/exchanges/q1?wait=30") >= 3);
}

#[tokio::test]
async fn post_exchange_survives_a_house_that_dies_with_the_question_in_its_hands() {
    let house = FakeHouse::open().await;
    house.told(|heard| heard.dies_with_the_answer = true);
    let asking = ask(house.client(), question());
    house.until(|heard| heard.missed >= 2).await;
    house.answers("q1", "three");
    house.returns();
    let answer = house.while_time_passes(asking).await.unwrap().unwrap();
    assert_eq!(answer.response.content, "three");
    assert_eq!(house.count("POST /v1/exchange"), 2);
    assert_eq!(house.heard.borrow().questions.len(), 1);
}

#[tokio::test]
async fn post_exchange_survives_a_house_that_restarts_while_it_is_waited_for() {
    let house = FakeHouse::open().await;
    house.told(|heard| heard.impatient = true);
    let asking = ask(house.client(), question());
    house.until(|heard| heard.calls.len() > 1).await;
    house.told(|heard| heard.impatient = false);
    for _ in 0..2 {
        let missed = house.heard.borrow().missed;
        house.dies();
        house.until(|heard| heard.missed > missed + 1).await;
        house.returns();
        let calls = house.heard.borrow().calls.len();
        house.until(|heard| heard.calls.len() > calls).await;
    }
    house.answers("q1", "three");
    let answer = house.while_time_passes(asking).await.unwrap().unwrap();
    assert_eq!(answer.response.content, "three");
    assert_eq!(house.count("POST /v1/exchange"), 1);
}

#[tokio::test]
async fn post_exchange_a_question_put_late_has_only_the_time_that_is_left() {
    let house = FakeHouse::open().await;
    house.dies();
    let asking = ask(house.client(), Ask { timeout: seconds(1_000_000), ..question() });
    house.until(|heard| heard.missed > 1).await;
    house.clock.wind(seconds(1_000));
    house.returns();
    house.until(|heard| !heard.calls.is_empty()).await;
    assert!(house.body("POST /v1/exchange")["timeout"].as_f64().unwrap() <= 999_000.0);
    house.answers("q1", "in time");
    house.while_time_passes(asking).await.unwrap().unwrap();
}

#[tokio::test]
async fn post_exchange_nobody_answering_is_a_timeout() {
    let house = FakeHouse::open().await;
    let asking = ask(house.client(), question());
    house.hears(|heard| heard.questions.contains_key("q1")).await;
    house.told(|heard| drop(heard.questions.insert("q1".into(), Question::TimedOut)));
    assert_eq!(soon(asking).await.unwrap(), Err(Fault::Timeout));
    // A server that never reports the end does not block the client for ever.
    house.told(|heard| heard.impatient = true);
    let asking = ask(house.client(), Ask { correlation_id: "q2".into(), timeout: seconds(5), ..question() });
    assert_eq!(house.while_time_passes(asking).await.unwrap(), Err(Fault::Timeout));
}

#[tokio::test]
async fn post_exchange_a_house_away_at_the_deadline_is_unreachable_and_the_answer_found_later() {
    let house = FakeHouse::open().await;
    house.told(|heard| heard.dies_with_the_answer = true);
    let asking = ask(house.client(), Ask { timeout: seconds(60), ..question() });
    let fault = house.while_time_passes(asking).await.unwrap().unwrap_err();
    assert!(matches!(fault, Fault::Unreachable(_)), "{fault:?}");
    house.answers("q1", "three");
    house.returns();
    let answer = soon(house.client().attach(&CorrelationId::new("q1"))).await.unwrap();
    assert_eq!(answer.response.content, "three");
}

#[tokio::test]
async fn post_exchange_attaching_waits_until_the_question_ends_and_an_unknown_one_is_refused() {
    let house = FakeHouse::open().await;
    let fault = soon(house.client().attach(&CorrelationId::new("q1"))).await.unwrap_err();
    assert!(matches!(&fault, Fault::Refused { status: 404, code, .. } if code == "not_found"), "{fault:?}");
    house.told(|heard| {
        heard.questions.insert("q1".into(), Question::Open);
        heard.impatient = true;
    });
    let client = house.client();
    let attached = tokio::spawn(async move { client.attach(&CorrelationId::new("q1")).await });
    house.until(|heard| heard.calls.len() > 3).await;
    house.dies();
    let missed = house.heard.borrow().missed;
    house.until(|heard| heard.missed > missed).await;
    house.told(|heard| drop(heard.questions.insert("q1".into(), Question::TimedOut)));
    house.returns();
    assert_eq!(house.while_time_passes(attached).await.unwrap(), Err(Fault::Timeout));
}

#[tokio::test]
async fn post_exchange_a_failed_delivery_names_its_cause() {
    let house = FakeHouse::open().await;
    let fault = soon(house.client().exchange(&Ask::new("nobody", "there?"))).await.unwrap_err();
    let expected = Fault::Refused {
        status: 404,
        code: "delivery_failed".into(),
        detail: "nobody of that name".into(),
        cause_kind: Some(Cause::ClientValidation),
    };
    assert_eq!(fault, expected);
}
