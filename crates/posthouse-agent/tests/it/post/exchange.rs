//! Questions, with failures before the answer arrives.

use posthouse_agent::post::{AgentAnswer, Ask, Client, Fault, QuestionProgress};
use posthouse_agent::wire::CorrelationId;
use posthouse_agent::wire::delivery::Cause;
use serde_json::json;
use tokio::task::JoinHandle;

use super::fake_server::{FakeServer, Question};
use crate::test_server::{seconds, soon};

/// A question with a very long timeout.
fn question() -> Ask {
    Ask { timeout: seconds(1 << 30), correlation_id: "q1".into(), ..Ask::new("heron", "how many?") }
}

fn timeout(detail: &str) -> Fault {
    Fault::Timeout(detail.to_owned())
}

fn ask(client: Client, wish: Ask) -> JoinHandle<Result<AgentAnswer, Fault>> {
    tokio::spawn(async move { client.exchange(&wish).await })
}

#[tokio::test]
async fn post_exchange_an_answer_comes_with_its_data() {
    let server = FakeServer::open().await;
    let asking = ask(server.client(), Ask { timeout: seconds(45), ..question() });
    server.hears(|recorded| recorded.questions.contains_key("q1")).await;
    server.answers("q1", r#"{"open":3}"#);
    let answer = soon(asking).await.unwrap().unwrap();
    assert_eq!((answer.response.content.as_str(), answer.response.sent_at), (r#"{"open":3}"#, 9));
    assert_eq!((answer.response.agent_id.as_str(), answer.data), ("heron", Some(json!({ "open": 3 }))));
    let expected = json!({
        "agent": "heron", "message": "how many?", "correlation_id": "q1", "timeout": 45.0, "wait": 30.0,
    });
    assert_eq!(server.body("POST /v1/exchange"), expected);
}

#[tokio::test]
async fn post_exchange_an_answer_that_takes_long_is_waited_for_over_several_calls() {
    let server = FakeServer::open().await;
    server.set(|recorded| recorded.impatient = true);
    let asking = ask(server.client(), question());
    let looks =
        |calls: usize| move |recorded: &super::fake_server::RecordedCalls| recorded.calls.len() > calls;
    server.until(looks(3)).await;
    server.set(|recorded| recorded.impatient = false);
    server.answers("q1", "three");
    let answer = server.while_time_passes(asking).await.unwrap().unwrap();
    assert_eq!((answer.response.content.as_str(), answer.data), ("three", None));
    assert_eq!(server.count("POST /v1/exchange"), 1);
    assert!(server.count("GET /v1/exchanges/q1?wait=30") >= 3);
}

#[tokio::test]
async fn post_exchange_survives_a_server_that_dies_with_the_question_in_its_hands() {
    let server = FakeServer::open().await;
    server.set(|recorded| recorded.dies_with_the_answer = true);
    let asking = ask(server.client(), question());
    server.until(|recorded| recorded.missed >= 2).await;
    server.answers("q1", "three");
    server.returns();
    let answer = server.while_time_passes(asking).await.unwrap().unwrap();
    assert_eq!(answer.response.content, "three");
    assert_eq!(server.count("POST /v1/exchange"), 2);
    assert_eq!(server.recorded.borrow().questions.len(), 1);
}

#[tokio::test]
async fn post_exchange_survives_a_server_that_restarts_while_it_is_waited_for() {
    let server = FakeServer::open().await;
    server.set(|recorded| recorded.impatient = true);
    let asking = ask(server.client(), question());
    server.until(|recorded| recorded.calls.len() > 1).await;
    server.set(|recorded| recorded.impatient = false);
    for _ in 0..2 {
        let missed = server.recorded.borrow().missed;
        server.dies();
        server.until(|recorded| recorded.missed > missed + 1).await;
        server.returns();
        let calls = server.recorded.borrow().calls.len();
        server.until(|recorded| recorded.calls.len() > calls).await;
    }
    server.answers("q1", "three");
    let answer = server.while_time_passes(asking).await.unwrap().unwrap();
    assert_eq!(answer.response.content, "three");
    assert_eq!(server.count("POST /v1/exchange"), 1);
}

#[tokio::test]
async fn post_exchange_a_question_put_late_has_only_the_time_that_is_left() {
    let server = FakeServer::open().await;
    server.dies();
    let asking = ask(server.client(), Ask { timeout: seconds(1_000_000), ..question() });
    server.until(|recorded| recorded.missed > 1).await;
    server.clock.wind(seconds(1_000));
    server.returns();
    server.until(|recorded| !recorded.calls.is_empty()).await;
    assert!(server.body("POST /v1/exchange")["timeout"].as_f64().unwrap() <= 999_000.0);
    server.answers("q1", "in time");
    server.while_time_passes(asking).await.unwrap().unwrap();
}

#[tokio::test]
async fn post_exchange_nobody_answering_is_a_timeout() {
    let server = FakeServer::open().await;
    let asking = ask(server.client(), question());
    server.hears(|recorded| recorded.questions.contains_key("q1")).await;
    server.set(|recorded| drop(recorded.questions.insert("q1".into(), Question::TimedOut)));
    assert_eq!(soon(asking).await.unwrap(), Err(timeout("this is timeout")));
    // A server that never reports the end does not block the client for ever.
    server.set(|recorded| recorded.impatient = true);
    let asking = ask(server.client(), Ask { correlation_id: "q2".into(), timeout: seconds(5), ..question() });
    assert_eq!(server.while_time_passes(asking).await.unwrap(), Err(timeout("no answer in time")));
}

#[tokio::test]
async fn post_exchange_a_server_away_at_the_deadline_is_unreachable_and_the_answer_found_later() {
    let server = FakeServer::open().await;
    server.set(|recorded| recorded.dies_with_the_answer = true);
    let asking = ask(server.client(), Ask { timeout: seconds(60), ..question() });
    let fault = server.while_time_passes(asking).await.unwrap().unwrap_err();
    assert!(matches!(fault, Fault::Unreachable { .. }), "{fault:?}");
    server.answers("q1", "three");
    server.returns();
    let answer = soon(server.client().attach(&CorrelationId::new("q1"))).await.unwrap();
    assert_eq!(answer.response.content, "three");
}

#[tokio::test]
async fn post_exchange_a_server_that_answered_once_and_went_away_may_have_the_question() {
    let server = FakeServer::open().await;
    server.set(|recorded| (recorded.impatient, recorded.hangs_up) = (true, true));
    let asking = ask(server.client(), Ask { timeout: seconds(60), ..question() });
    server.hears(|recorded| recorded.calls.len() == 1).await;
    server.closes();
    let fault = server.while_time_passes(asking).await.unwrap().unwrap_err();
    assert!(matches!(fault, Fault::Unreachable { sent: true, .. }), "{fault:?}");
    assert_eq!(server.count("POST /v1/exchange"), 1);
}

#[tokio::test]
async fn post_exchange_attaching_waits_until_the_question_ends_and_an_unknown_one_is_refused() {
    let server = FakeServer::open().await;
    let fault = soon(server.client().attach(&CorrelationId::new("q1"))).await.unwrap_err();
    assert!(matches!(&fault, Fault::Refused { status: 404, code, .. } if code == "not_found"), "{fault:?}");
    server.set(|recorded| {
        recorded.questions.insert("q1".into(), Question::Open);
        recorded.impatient = true;
    });
    let client = server.client();
    let attached = tokio::spawn(async move { client.attach(&CorrelationId::new("q1")).await });
    server.until(|recorded| recorded.calls.len() > 3).await;
    server.dies();
    let missed = server.recorded.borrow().missed;
    server.until(|recorded| recorded.missed > missed).await;
    server.set(|recorded| drop(recorded.questions.insert("q1".into(), Question::TimedOut)));
    server.returns();
    assert_eq!(server.while_time_passes(attached).await.unwrap(), Err(timeout("this is timeout")));
}

#[tokio::test]
async fn post_exchange_a_failed_delivery_names_its_cause() {
    let server = FakeServer::open().await;
    let fault = soon(server.client().exchange(&Ask::new("nobody", "there?"))).await.unwrap_err();
    let expected = Fault::Refused {
        status: 404,
        code: "delivery_failed".into(),
        detail: "nobody of that name".into(),
        cause_kind: Some(Cause::ClientValidation),
        dispatch_id: None,
    };
    assert_eq!(fault, expected);
}

#[tokio::test]
async fn post_exchange_the_state_of_a_question_is_told_without_waiting() {
    let server = FakeServer::open().await;
    let (client, id) = (server.client(), CorrelationId::new("q1"));
    let fault = soon(client.question(&id)).await.unwrap_err();
    assert!(matches!(fault, Fault::Refused { status: 404, .. }), "{fault:?}");
    server.set(|recorded| {
        recorded.questions.insert("q1".into(), Question::Open);
        recorded.impatient = true;
    });
    let open = QuestionProgress::Open { deadline: Some(1_765_000_300_000) };
    assert_eq!(soon(client.question(&id)).await.unwrap(), open);
    assert_eq!(server.count("GET /v1/exchanges/q1?"), 0);
    server.answers("q1", "three");
    let answered = soon(client.question(&id)).await.unwrap();
    assert!(matches!(answered, QuestionProgress::Answered(answer) if answer.response.content == "three"));
    server.set(|recorded| drop(recorded.questions.insert("q1".into(), Question::TimedOut)));
    assert_eq!(soon(client.question(&id)).await, Err(timeout("this is timeout")));
}
