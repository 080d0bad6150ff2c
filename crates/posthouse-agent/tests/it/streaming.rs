//! Streaming answers.

use std::time::Duration;

use posthouse_agent::wire::{Action, Descriptor, Event, MessageId, Outcome};
use posthouse_agent::{Agent, Conversation, MemoryConnector, SentMessages, sample};
use posthouse_time::{Moment, Timepiece};
use tokio::sync::oneshot;

use crate::test_server::{soon, source};

struct Fixture {
    server: MemoryConnector,
    clock: Timepiece,
    conversation: Conversation,
}

/// A conversation on a platform of this kind.
async fn stage(edits: bool, limit: u32) -> Fixture {
    let mut descriptor = Descriptor::new("alpha", "Alpha");
    (descriptor.supports_edit, descriptor.max_message_length) = (edits, limit);
    let server = MemoryConnector::new([descriptor]);
    let clock = Timepiece::wound(Moment::default());
    let (give, given) = oneshot::channel();
    let give = std::sync::Mutex::new(Some(give));
    let agent = Agent::builder(server.clone()).timepiece(clock.clone()).on_message(move |_, conversation| {
        let give = give.lock().unwrap().take();
        async move {
            drop(give.map(|give| give.send(conversation)));
            Ok(())
        }
    });
    tokio::spawn(agent.run(std::future::pending()));
    let event = Event { text: "go".to_owned(), source: source("alpha", "c1"), ..Event::default() };
    soon(server.deliver(event)).await.unwrap();
    Fixture { server, clock, conversation: soon(given).await.unwrap() }
}

impl Fixture {
    fn shown(&self) -> Vec<String> {
        let shown = |action: &Action| match action {
            Action::Send { content, .. } => format!("send {content}"),
            Action::Edit { message_id, content, .. } => format!("{message_id} {content}"),
            other => other.op().to_owned(),
        };
        self.server.actions().iter().map(|carried| shown(&carried.action)).collect()
    }
}

#[tokio::test]
async fn where_the_platform_can_edit_one_message_grows_no_faster_than_it_should() {
    let stage = stage(true, 4096).await;
    let mut stream = stage.conversation.stream().every(Duration::from_secs(1));
    for (word, pause) in [("one ", 0), ("two ", 500), ("three ", 500), ("four", 100)] {
        stage.clock.wind(Duration::from_millis(pause));
        stream.push(word).await.unwrap();
    }
    let sent = stream.finish().await.unwrap();
    assert_eq!(sent, SentMessages(vec![MessageId::new("m1")]));
    assert_eq!(stage.shown(), ["send one ", "m1 one two three ", "m1 one two three four"]);
}

#[tokio::test]
async fn where_it_cannot_each_segment_is_a_message() {
    let stage = stage(false, 4096).await;
    let mut stream = stage.conversation.stream();
    stream.push("one ").await.unwrap();
    stream.push("two").await.unwrap();
    assert_eq!(stage.shown(), Vec::<String>::new());
    stream.segment().await.unwrap();
    stream.segment().await.unwrap();
    stream.push("three").await.unwrap();
    stream.finish().await.unwrap();
    assert_eq!(stage.shown(), ["send one two", "send three"]);
}

#[tokio::test]
async fn an_answer_longer_than_a_message_goes_on_in_the_next_one() {
    let stage = stage(true, 10).await;
    let mut stream = stage.conversation.stream().every(Duration::ZERO);
    for word in ["aaaa ", "bbbb ", "cccc ", "dddd"] {
        stream.push(word).await.unwrap();
    }
    let sent = stream.finish().await.unwrap();
    assert_eq!(sent.0.len(), 2);
    assert_eq!(stage.shown(), ["send aaaa ", "m1 aaaa bbbb ", "m1 aaaa bbbb", "send cccc ", "m2 cccc dddd"]);
}

#[tokio::test]
async fn a_lost_step_does_not_matter_and_the_last_one_does() {
    let stage = stage(true, 4096).await;
    stage.server.answers(Outcome::sent("m1".into()));
    stage.server.answers(Outcome::failed("flood"));
    stage.server.answers(Outcome::failed("message to edit not found"));
    let mut stream = stage.conversation.stream().every(Duration::ZERO);
    stream.push("a").await.unwrap();
    stream.push("b").await.unwrap();
    assert_eq!(stream.finish().await.unwrap_err().error, "message to edit not found");
}

#[tokio::test]
async fn a_platform_that_tells_no_message_id_is_not_told_the_same_twice() {
    let stage = stage(true, 4096).await;
    stage.server.answers(Outcome::done());
    let mut stream = stage.conversation.stream().every(Duration::ZERO);
    for word in ["a", "b", "c"] {
        stream.push(word).await.unwrap();
    }
    stream.finish().await.unwrap();
    assert_eq!(stage.shown(), ["send a", "send bc"]);
}

#[tokio::test]
async fn the_sample_agent_answers_word_by_word_in_one_message() {
    let server = {
        let mut descriptor = Descriptor::new("alpha", "Alpha");
        descriptor.supports_edit = true;
        MemoryConnector::new([descriptor])
    };
    let clock = Timepiece::wound(Moment::default());
    let agent = Agent::builder(server.clone()).timepiece(clock.clone()).on_message(sample::answer);
    tokio::spawn(agent.run(std::future::pending()));
    let event = Event { text: "hello there".to_owned(), source: source("alpha", "c1"), ..Event::default() };
    soon(server.deliver(event)).await.unwrap();
    let whole = "whenever you like.";
    while !server.actions().iter().any(|carried| carried.content().is_some_and(|text| text.ends_with(whole)))
    {
        clock.wind(Duration::from_millis(60));
        tokio::task::yield_now().await;
    }
    let actions = server.actions();
    assert_eq!(actions[0].action.op(), "typing");
    assert_eq!(actions.iter().filter(|carried| carried.action.op() == "send").count(), 1);
    assert!(actions.len() > 10);
    assert!(actions.last().unwrap().content().unwrap().contains("You said: “hello there”."));
}
