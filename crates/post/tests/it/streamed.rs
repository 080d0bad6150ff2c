//! Tests of streamed answers of stock agents.

use std::time::Duration;

use posthouse_wire::action::Metadata;
use serde_json::{Value, json};

use crate::test_server::{Program, Seated, TestServer, chat, eventually};

/// The first message of an answer that is being written.
fn beginning() -> Metadata {
    Metadata { expect_edits: Some(true), ..Metadata::default() }
}

/// The last of what a stock agent says in a turn.
fn last() -> Metadata {
    Metadata { notify: Some(true), ..Metadata::default() }
}

async fn asked(server: &TestServer) -> (Seated, Program) {
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let body = json!({ "agent": "heron", "message": "?", "correlation_id": "q-1", "timeout": 20, "wait": 0 });
    assert_eq!(program.posts("/v1/exchange", body).await.0, 202);
    (heron, program)
}

async fn replies(program: &Program) -> Vec<(Value, Value)> {
    let (_, response) = program.gets("/v1/receipts").await;
    let replies = response["items"][0]["replies"].as_array().unwrap();
    replies.iter().map(|reply| (reply["kind"].clone(), reply["text"].clone())).collect()
}

#[tokio::test]
async fn a_streamed_answer_is_whole_and_has_no_cursor() {
    let server = TestServer::open().await;
    let (heron, program) = asked(&server).await;
    let chat = chat(&heron.hears().await);
    heron.says(&chat, "word0 word1 word2 word3 ▉", beginning()).await;
    assert_eq!(program.gets("/v1/exchanges/q-1").await.0, 202, "its beginning is not the answer");
    assert_eq!(replies(&program).await, [(json!("said"), json!("word0 word1 word2 word3"))]);
    heron.says(&chat, "word4 word5", last()).await;
    let whole = "word0 word1 word2 word3 word4 word5";
    let (status, answer) = program.gets("/v1/exchanges/q-1").await;
    assert_eq!((status.as_u16(), &answer["content"]), (200, &json!(whole)));
    assert_eq!(replies(&program).await, [(json!("answer"), json!(whole))]);
}

#[tokio::test]
async fn talk_before_a_tool_call_is_not_taken_into_the_answer() {
    let server = TestServer::open().await;
    let (heron, program) = asked(&server).await;
    let chat = chat(&heron.hears().await);
    heron.says(&chat, "let me look first ▉", beginning()).await;
    heron.says(&chat, "still working", Metadata::default()).await;
    heron.says(&chat, "42, all told", Metadata { notify: Some(true), ..beginning() }).await;
    assert_eq!(program.gets("/v1/exchanges/q-1").await.1["content"], "42, all told");
    let said = ["let me look first", "still working"].map(|text| (json!("said"), json!(text)));
    let answer = (json!("answer"), json!("42, all told"));
    assert_eq!(replies(&program).await, [said.to_vec(), vec![answer]].concat());
}

#[tokio::test]
async fn an_edit_of_a_begun_answer_is_refused_so_that_the_rest_comes_marked_as_the_answer() {
    let server = TestServer::open().await;
    let (heron, program) = asked(&server).await;
    let chat = chat(&heron.hears().await);
    let first = heron.says(&chat, "word0 ▉", beginning()).await.message_id.unwrap();
    for text in ["word0 word1 ▉", "word0"] {
        let refused = heron.edits(&chat, &first, text).await;
        assert!(!refused.success, "{refused:?}");
    }
    heron.says(&chat, "word1 word2", last()).await;
    assert_eq!(program.gets("/v1/exchanges/q-1").await.1["content"], "word0 word1 word2");
}

#[tokio::test]
async fn an_answer_that_was_whole_when_it_was_shown_is_the_answer_once_the_time_is_up() {
    let server = TestServer::wound().await;
    let (heron, program) = asked(&server).await;
    let chat = chat(&heron.hears().await);
    heron.says(&chat, "all of it ▉", beginning()).await;
    server.time.wind(Duration::from_secs(21));
    eventually("the question has ended", async || program.gets("/v1/exchanges/q-1").await.0 != 202).await;
    let (status, answer) = program.gets("/v1/exchanges/q-1").await;
    assert_eq!((status.as_u16(), &answer["content"]), (200, &json!("all of it")), "{answer}");
    assert_eq!(replies(&program).await, [(json!("answer"), json!("all of it"))]);
}

#[tokio::test]
async fn an_answer_that_was_whole_when_it_was_shown_is_the_answer_once_the_turn_is_over() {
    let server = TestServer::wound().await;
    let (heron, program) = asked(&server).await;
    let chat = chat(&heron.hears().await);
    heron.types(&chat).await;
    heron.says(&chat, "all of it ▉", beginning()).await;
    for _ in 0..3 {
        server.time.wind(Duration::from_secs(2));
        heron.types(&chat).await;
        assert_eq!(program.gets("/v1/exchanges/q-1").await.0, 202, "it types, so it may say more");
    }
    server.time.wind(Duration::from_secs(5));
    eventually("the question has ended", async || program.gets("/v1/exchanges/q-1").await.0 != 202).await;
    let (status, answer) = program.gets("/v1/exchanges/q-1").await;
    assert_eq!((status.as_u16(), &answer["content"]), (200, &json!("all of it")), "{answer}");
    assert_eq!(replies(&program).await, [(json!("answer"), json!("all of it"))]);
}

#[tokio::test]
async fn a_question_whose_time_is_up_while_its_answer_is_being_written_times_out() {
    let server = TestServer::wound().await;
    let (heron, program) = asked(&server).await;
    let chat = chat(&heron.hears().await);
    heron.says(&chat, "word0 ▉", beginning()).await;
    server.time.wind(Duration::from_secs(18));
    heron.types(&chat).await;
    server.time.wind(Duration::from_secs(3));
    eventually("the question has ended", async || program.gets("/v1/exchanges/q-1").await.0 != 202).await;
    assert_eq!(program.gets("/v1/exchanges/q-1").await.0, 504);
    let said = (json!("said"), json!("word0"));
    assert_eq!(replies(&program).await, std::slice::from_ref(&said));
    heron.says(&chat, "word1", last()).await;
    assert_eq!(replies(&program).await, [said, (json!("late_reply"), json!("word0 word1"))]);
}

#[tokio::test]
async fn what_was_left_unfinished_takes_nothing_from_a_later_message() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    program.notifies("heron", "a").await;
    let first = heron.hears().await;
    heron.says(&chat(&first), "all of it ▉", beginning()).await;
    program.notifies("heron", "b").await;
    let second = heron.hears().await;
    heron.says(&chat(&second), "ok", last()).await;
    let said = |texts: &[&str]| texts.iter().map(|text| json!(text)).collect::<Vec<_>>();
    assert_eq!(replies_to(&program, 1).await, said(&["all of it"]));
    assert_eq!(replies_to(&program, 0).await, said(&["ok"]));
    // Who names the message goes on where it was.
    heron.replies(&first, "and more", last()).await;
    assert_eq!(replies_to(&program, 1).await, said(&["all of it and more"]));
    assert_eq!(replies_to(&program, 0).await, said(&["ok"]));
}

/// The replies to one of the program's messages, the newest being the first.
async fn replies_to(program: &Program, message: usize) -> Vec<Value> {
    let (_, receipts) = program.gets("/v1/receipts").await;
    let replies = receipts["items"][message]["replies"].as_array().unwrap();
    replies.iter().map(|reply| reply["text"].clone()).collect()
}

#[tokio::test]
async fn what_is_said_to_a_message_is_joined_too_and_may_be_edited_while_it_is_written() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    program.notifies("heron", "hello").await;
    let chat = chat(&heron.hears().await);
    heron.says(&chat, "good mor ▉", beginning()).await;
    heron.says(&chat, ", then", last()).await;
    let second = heron.says(&chat, "it is ▉", beginning()).await.message_id.unwrap();
    assert!(heron.edits(&chat, &second, "it is late ▉").await.success);
    assert!(heron.edits(&chat, &second, "it is late, is it not").await.success);
    let said = ["good mor, then", "it is late, is it not"].map(|text| (json!("said"), json!(text)));
    assert_eq!(replies(&program).await, said);
}

#[tokio::test]
async fn the_cursor_is_a_setting_of_the_agent() {
    let server = TestServer::open().await;
    let (heron, program) = asked(&server).await;
    let instance = server.identity.roster.records().instances(None).await.unwrap().remove(0).id;
    server.identity.roster.records().set_stream_cursor(&instance, Some("...")).await.unwrap();
    let chat = chat(&heron.hears().await);
    heron.says(&chat, "word0...", beginning()).await;
    heron.says(&chat, "word1 ▉", last()).await;
    assert_eq!(program.gets("/v1/exchanges/q-1").await.1["content"], "word0 word1 ▉");
}
