//! Messages and questions of programs, and the agent's answers.

use posthouse_agent::wire::action::Metadata;
use posthouse_agent::wire::delivery::{PayloadKind, Posted};
use posthouse_agent::wire::{Action, Descriptor, Event, Outcome};
use posthouse_agent::{Agent, Conversation, MemoryConnector, Message, TurnResult, sample};
use tokio::sync::{mpsc, oneshot};

use crate::test_server::{soon, source};

/// A server with short messages.
fn terse() -> MemoryConnector {
    let mut post = Descriptor::new("post", "Programs");
    post.max_message_length = 20;
    MemoryConnector::new([post])
}

/// Runs an agent until the returned handle is dropped.
fn start<T>(
    server: &MemoryConnector,
    on_message: impl Fn(Message, Conversation) -> T + Send + Sync + 'static,
) -> oneshot::Sender<()>
where
    T: Future<Output = TurnResult> + Send + 'static,
{
    let agent = Agent::builder(server.clone()).on_message(on_message);
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(agent.run(async { drop(stopped.await) }));
    stop
}

#[tokio::test]
async fn posted_a_text_is_read_as_the_program_wrote_it_with_its_envelope_beside() {
    let server = terse();
    let (told, mut tells) = mpsc::unbounded_channel();
    let _running = start(&server, move |message, _| {
        let told = told.clone();
        async move { Ok(told.send(message)?) }
    });
    let entry = soon(server.notify("nightly build", PayloadKind::Template, "/status\nof all")).await.unwrap();
    let message = soon(tells.recv()).await.unwrap();
    assert_eq!((message.text(), message.author()), ("/status\nof all", Some("nightly build")));
    assert!(message.event.text.starts_with("[posthouse template from nightly build]\n\n"));
    let posted = message.posted().unwrap();
    assert_eq!((posted.kind, posted.expects_reply), (PayloadKind::Template, false));
    assert_eq!(posted.meta.as_ref().unwrap().origin.skill_name, "nightly build");
    assert_eq!(message.event.source.chat_id.as_ref().unwrap(), "post-nightly-build");
    assert_eq!(
        (message.event.message_id.unwrap().as_str(), message.entry),
        (entry.as_str(), Some(entry.clone()))
    );
}

#[tokio::test]
async fn posted_a_persons_message_has_no_envelope_and_keeps_its_text() {
    let server = terse();
    let (told, mut tells) = mpsc::unbounded_channel();
    let _running = start(&server, move |message, _| {
        let told = told.clone();
        async move { Ok(told.send(message)?) }
    });
    let text = "[posthouse augment from x]\n\nhi";
    let said = Event { text: text.to_owned(), source: source("post", "c1"), ..Event::default() };
    soon(server.deliver(said.clone())).await.unwrap();
    let message = soon(tells.recv()).await.unwrap();
    assert_eq!((message.text(), message.posted()), (text, None));
    // A preamble that the text does not begin with removes nothing.
    let posted = Posted {
        kind: PayloadKind::Augment,
        meta: None,
        expects_reply: false,
        preamble: Some("[other]".into()),
    };
    soon(server.deliver(Event { post: Some(Box::new(posted)), ..said })).await.unwrap();
    assert_eq!(soon(tells.recv()).await.unwrap().text(), text);
}

#[tokio::test]
async fn posted_a_question_is_answered_with_one_send_in_one_piece_and_talk_beside_it_is_no_answer() {
    let server = terse();
    let long = "a long answer, ".repeat(1000);
    let _running = start(&server, {
        let long = long.clone();
        move |message, conversation| {
            let long = long.clone();
            async move {
                assert!(message.posted().unwrap().expects_reply);
                conversation.reply("let me look first, it may take me a while").await?;
                let mut stream = conversation.stream();
                stream.push("thinking").await?;
                stream.finish().await?;
                let sent = conversation.answer(&long).await?;
                assert_eq!(sent.0.len(), 1);
                conversation.say("done").await?;
                Ok(())
            }
        }
    });
    let question = soon(server.ask("ci", "how many?")).await.unwrap();
    assert_eq!(soon(server.answer(&question)).await, long);
    while server.actions().last().unwrap().content() != Some("done") {
        soon(server.next_action()).await;
    }
    let actions = server.actions();
    assert!(actions.len() >= 6, "talk is cut by the platform's limit");
    let answers: Vec<_> = actions.iter().filter(|carried| carried.answers().is_some()).collect();
    let [answer] = &answers[..] else { panic!("one answer, not {}", answers.len()) };
    let expected = Action::Send {
        chat_id: format!("post-x-{question}").into(),
        content: long,
        reply_to: Some("ent_1".into()),
        metadata: Metadata {
            user_id: Some("post:ci".into()),
            correlation_id: Some(question),
            ..Metadata::default()
        },
    };
    assert_eq!(answer.action, expected);
    assert!(actions.iter().all(|carried| carried.action.metadata().unwrap().notify.is_none()));
}

#[tokio::test]
async fn posted_an_answer_to_what_is_no_question_is_a_reply() {
    let server = terse();
    let _running = start(&server, |_, conversation| async move {
        conversation.answer("noted, and more than twenty letters of it").await?;
        Ok(())
    });
    soon(server.notify("ci", PayloadKind::Augment, "it is through")).await.unwrap();
    for first in [true, false] {
        let carried = soon(server.next_action()).await;
        assert_eq!(carried.answers(), None);
        let Action::Send { reply_to, .. } = carried.action else { panic!("expected a send") };
        assert_eq!(reply_to.is_some(), first);
    }
}

#[tokio::test]
async fn posted_a_question_without_an_id_cannot_be_answered_and_is_replied_to() {
    let server = terse();
    let _running = start(&server, |_, conversation| async move {
        conversation.answer("yes").await?;
        Ok(())
    });
    let posted = Posted { kind: PayloadKind::Augment, meta: None, expects_reply: true, preamble: None };
    let event = Event {
        text: "well?".to_owned(),
        source: source("post", "post-x-1"),
        post: Some(Box::new(posted)),
        ..Event::default()
    };
    soon(server.deliver(event)).await.unwrap();
    let carried = soon(server.next_action()).await;
    assert_eq!((carried.content(), carried.answers()), (Some("yes"), None));
}

#[tokio::test]
async fn posted_an_answer_that_the_server_does_not_take_is_an_error_to_the_author() {
    let server = terse();
    server.answers(Outcome::failed("the answer is longer than 262144 bytes"));
    let (told, mut tells) = mpsc::unbounded_channel();
    let _running = start(&server, move |_, conversation| {
        let told = told.clone();
        async move { Ok(told.send(conversation.answer("x").await.unwrap_err())?) }
    });
    soon(server.ask("ci", "how many?")).await.unwrap();
    let failed = soon(tells.recv()).await.unwrap();
    assert_eq!(failed.to_string(), "send failed: the answer is longer than 262144 bytes");
}

/// A server that described a platform with editing, but not the one of programs.
fn of_people() -> MemoryConnector {
    let mut web = Descriptor::new("web", "Web");
    (web.supports_edit, web.max_message_length) = (true, 20);
    MemoryConnector::new([web])
}

#[tokio::test]
async fn posted_in_a_place_that_nobody_described_nothing_is_edited_and_another_platforms_limit_does_not_cut()
{
    let server = of_people();
    let _running = start(&server, |_, conversation| async move {
        let mut stream = conversation.stream().every(std::time::Duration::ZERO);
        for word in ["one ", "two ", "three, which is long"] {
            stream.push(word).await?;
        }
        stream.finish().await?;
        conversation.say("done").await?;
        Ok(())
    });
    soon(server.notify("ci", PayloadKind::Augment, "it is through")).await.unwrap();
    let said = [soon(server.next_action()).await, soon(server.next_action()).await];
    assert!(said.iter().all(|carried| carried.action.op() == "send"), "{said:?}");
    assert_eq!(
        said.each_ref().map(|carried| carried.content().unwrap()),
        ["one two three, which is long", "done"]
    );
}

#[tokio::test]
async fn posted_the_sample_agent_answers_a_program_in_one_piece_whether_it_asks_or_tells() {
    let server = of_people();
    let _running = start(&server, sample::answer);
    let question = soon(server.ask("ci", "are you there?")).await.unwrap();
    let answer = soon(server.answer(&question)).await;
    assert!(answer.starts_with("Hello ci! You said: “are you there?”."), "{answer}");
    soon(server.notify("nightly", PayloadKind::Augment, "it is through")).await.unwrap();
    let said = [soon(server.next_action()).await, soon(server.next_action()).await];
    assert!(said.iter().all(|carried| carried.action.op() == "send"), "{said:?}");
    assert!(said[1].content().unwrap().starts_with("Hello nightly! You said: “it is through”."), "{said:?}");
    assert_eq!(said[1].answers(), None);
}
