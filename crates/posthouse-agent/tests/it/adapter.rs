//! The API for authors: order, interrupts, stopping.

use std::sync::Arc;
use std::time::Duration;

use posthouse_agent::wire::action::Metadata;
use posthouse_agent::wire::session_key;
use posthouse_agent::wire::{
    Action, Descriptor, EntryId, Event, FromGateway, Outcome, SessionKey, ToGateway,
};
use posthouse_agent::{Agent, ConnectionState, DeliveryDeclined, Fault, MemoryConnector, Message, Tag};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::test_server::{TestServer, said, soon, source};

fn two_platforms() -> MemoryConnector {
    let mut beta = Descriptor::new("beta", "Beta");
    beta.max_message_length = 20;
    MemoryConnector::new([Descriptor::new("alpha", "Alpha"), beta])
}

fn in_chat(chat: &str, text: &str) -> Event {
    Event { text: text.to_owned(), source: source("alpha", chat), ..Event::default() }
}

/// Runs an agent until the returned handle is used or dropped.
fn start(agent: Agent) -> (oneshot::Sender<()>, tokio::task::JoinHandle<Result<(), Fault>>) {
    let (stop, stopped) = oneshot::channel();
    let running = tokio::spawn(agent.run(async { drop(stopped.await) }));
    (stop, running)
}

#[tokio::test]
async fn an_agent_answers_in_the_chat_it_was_asked_in() {
    let server = two_platforms();
    let agent = Agent::builder(server.clone()).on_message(|message: Message, conversation| async move {
        conversation.reply(&format!("you said {}", message.text())).await?;
        Ok(())
    });
    let _running = start(agent);
    let mut event = in_chat("c1", "hi");
    event.message_id = Some("q1".into());
    event.bot_id = Some("a1".into());
    event.source.thread_id = Some("t1".into());
    let entry = soon(server.deliver(event)).await.unwrap();
    assert_eq!(server.acknowledged(), [entry]);
    let carried = soon(server.next_action()).await;
    assert_eq!(carried.tag, Tag { platform: Some("alpha".into()), bot_id: Some("a1".into()) });
    let metadata =
        Metadata { user_id: Some("u1".into()), thread_id: Some("t1".into()), ..Metadata::default() };
    let expected = Action::Send {
        chat_id: "c1".into(),
        content: "you said hi".into(),
        reply_to: Some("q1".into()),
        metadata,
    };
    assert_eq!(carried.action, expected);
}

#[tokio::test]
async fn a_scope_is_named_instead_of_the_author_and_an_undescribed_platform_not_at_all() {
    let server = two_platforms();
    let agent = Agent::builder(server.clone()).on_message(|_, conversation| async move {
        conversation.say("x").await?;
        Ok(())
    });
    let _running = start(agent);
    let mut event = in_chat("c1", "hi");
    event.source.scope_id = Some("s1".into());
    soon(server.deliver(event)).await.unwrap();
    let carried = soon(server.next_action()).await;
    assert_eq!(
        carried.action.metadata(),
        Some(&Metadata { scope_id: Some("s1".into()), ..Metadata::default() })
    );
    let elsewhere = Event { text: "hi".to_owned(), source: source("gamma", "c1"), ..Event::default() };
    soon(server.deliver(elsewhere)).await.unwrap();
    assert_eq!(soon(server.next_action()).await.tag, Tag::default());
}

#[tokio::test]
async fn a_long_answer_is_cut_by_the_limit_of_its_own_platform_and_quotes_once() {
    let server = two_platforms();
    let agent = Agent::builder(server.clone()).on_message(|_, conversation| async move {
        let sent = conversation.reply("a first sentence, and a second one").await?;
        assert_eq!(sent.0.len(), 2);
        Ok(())
    });
    let _running = start(agent);
    let mut event = Event { text: "hi".to_owned(), source: source("beta", "c1"), ..Event::default() };
    event.message_id = Some("q1".into());
    soon(server.deliver(event)).await.unwrap();
    for (content, quoted) in [("a first sentence,", Some("q1")), ("and a second one", None)] {
        let Action::Send { content: sent, reply_to, .. } = soon(server.next_action()).await.action else {
            panic!("expected a send")
        };
        assert_eq!((sent.as_str(), reply_to.as_ref().map(|id| id.as_str())), (content, quoted));
    }
}

#[tokio::test]
async fn one_conversation_is_handled_in_order_while_others_go_on() {
    let server = two_platforms();
    let gate = Arc::new(Notify::new());
    let (begun, mut begins) = mpsc::unbounded_channel();
    let agent = Agent::builder(server.clone()).on_message({
        let gate = gate.clone();
        move |message: Message, _| {
            let (gate, begun) = (gate.clone(), begun.clone());
            async move {
                begun.send(message.text().to_owned())?;
                if message.text() == "slow" {
                    gate.notified().await;
                }
                Ok(())
            }
        }
    });
    let _running = start(agent);
    soon(server.deliver(in_chat("c1", "slow"))).await.unwrap();
    soon(server.deliver(in_chat("c1", "behind"))).await.unwrap();
    soon(server.deliver(in_chat("c2", "aside"))).await.unwrap();
    assert_eq!(soon(begins.recv()).await.unwrap(), "slow");
    assert_eq!(soon(begins.recv()).await.unwrap(), "aside");
    soon(server.deliver(in_chat("c2", "the marker"))).await.unwrap();
    assert_eq!(soon(begins.recv()).await.unwrap(), "the marker");
    gate.notify_one();
    assert_eq!(soon(begins.recv()).await.unwrap(), "behind");
}

#[tokio::test]
async fn an_interrupt_cancels_exactly_the_turn_it_names() {
    let server = two_platforms();
    let go_on = Arc::new(Notify::new());
    let (told, mut tells) = mpsc::unbounded_channel::<String>();
    let agent = Agent::builder(server.clone()).on_message({
        let go_on = go_on.clone();
        move |message: Message, conversation| {
            let (go_on, told) = (go_on.clone(), told.clone());
            async move {
                told.send(format!("{} begins", conversation.chat_id()))?;
                if message.text() == "wait" {
                    go_on.notified().await;
                }
                told.send(format!("{} ends", conversation.chat_id()))?;
                Ok(())
            }
        }
    });
    let _running = start(agent);
    for chat in ["c1", "c2"] {
        soon(server.deliver(in_chat(chat, "wait"))).await.unwrap();
        assert_eq!(soon(tells.recv()).await.unwrap(), format!("{chat} begins"));
    }
    soon(server.deliver(in_chat("c1", "next"))).await.unwrap();
    server.interrupt(&SessionKey::new("agent:main:alpha:dm:unheard-of"), &"c1".into()).await;
    let key = SessionKey::new("agent:main:relay:dm:c1");
    server.interrupt(&key, &"c1".into()).await;
    // The next message of the same session runs; the sibling is untouched and still waits.
    assert_eq!(soon(tells.recv()).await.unwrap(), "c1 begins");
    assert_eq!(soon(tells.recv()).await.unwrap(), "c1 ends");
    go_on.notify_waiters();
    assert_eq!(soon(tells.recv()).await.unwrap(), "c2 ends");
}

#[tokio::test]
async fn an_interrupt_finds_its_turn_by_the_later_kind_of_key_as_well() {
    let server = two_platforms();
    let (begun, mut begins) = mpsc::unbounded_channel();
    let agent = Agent::builder(server.clone()).on_message(move |message: Message, _| {
        let begun = begun.clone();
        async move {
            begun.send(message.text().to_owned())?;
            std::future::pending().await
        }
    });
    let _running = start(agent);
    let mut event = in_chat("c1", "first");
    event.source.chat_type = "group".to_owned();
    event.source.prospective_thread_id = Some("t9".into());
    let later = session_key::newer(&event.source, &session_key::Options::default()).unwrap();
    assert_ne!(later, session_key::stock(&event.source, &session_key::Options::default()).unwrap());
    soon(server.deliver(event.clone())).await.unwrap();
    assert_eq!(soon(begins.recv()).await.unwrap(), "first");
    event.text = "second".to_owned();
    soon(server.deliver(event)).await.unwrap();
    server.interrupt(&later, &"c1".into()).await;
    assert_eq!(soon(begins.recv()).await.unwrap(), "second");
}

#[tokio::test]
async fn a_repeat_is_dropped_by_its_entry_id() {
    let server = two_platforms();
    let agent = Agent::builder(server.clone()).on_message(|message: Message, conversation| async move {
        conversation.reply(message.text()).await?;
        Ok(())
    });
    let _running = start(agent);
    for text in ["once", "once", "twice"] {
        soon(server.deliver_as(in_chat("c1", text), EntryId::new(text))).await.unwrap();
    }
    assert_eq!(soon(server.next_action()).await.content(), Some("once"));
    assert_eq!(soon(server.next_action()).await.content(), Some("twice"));
    assert_eq!(server.acknowledged().len(), 3);
}

#[tokio::test]
async fn a_turn_that_fails_or_panics_costs_the_session_nothing_else() {
    let server = two_platforms();
    let agent = Agent::builder(server.clone()).on_message(|message: Message, conversation| async move {
        match message.text() {
            "panic" => panic!("as asked"),
            "fail" => return Err("as asked".into()),
            text => conversation.reply(text).await?,
        };
        Ok(())
    });
    let _running = start(agent);
    for text in ["panic", "fail", "answer"] {
        soon(server.deliver(in_chat("c1", text))).await.unwrap();
    }
    assert_eq!(soon(server.next_action()).await.content(), Some("answer"));
}

#[tokio::test]
async fn a_refusal_is_an_error_to_the_author_and_says_why() {
    let server = two_platforms();
    let (told, mut tells) = mpsc::unbounded_channel();
    server.answers(Outcome::egress_declined("alpha"));
    let agent = Agent::builder(server.clone()).on_message(move |_, conversation| {
        let told = told.clone();
        async move {
            told.send(conversation.reply("x").await.unwrap_err())?;
            Ok(())
        }
    });
    let _running = start(agent);
    soon(server.deliver(in_chat("c1", "hi"))).await.unwrap();
    let failed = soon(tells.recv()).await.unwrap();
    assert_eq!(failed.code.as_deref(), Some("egress_declined"));
    assert_eq!(failed.to_string(), "send failed: alpha egress declined: destination not approved");
}

#[tokio::test]
async fn asked_to_stop_it_pauses_the_server_finishes_its_turns_and_takes_nothing_more() {
    let server = two_platforms();
    let gate = Arc::new(Notify::new());
    let agent = Agent::builder(server.clone()).on_message({
        let gate = gate.clone();
        move |_, conversation| {
            let gate = gate.clone();
            async move {
                conversation.typing().await?;
                gate.notified().await;
                conversation.reply("finished").await?;
                Ok(())
            }
        }
    });
    let (stop, running) = start(agent);
    soon(server.deliver(in_chat("c1", "hi"))).await.unwrap();
    soon(server.next_action()).await;
    stop.send(()).unwrap();
    while !server.paused() {
        tokio::task::yield_now().await;
    }
    tokio::task::yield_now().await;
    assert!(!running.is_finished());
    assert_eq!(soon(server.deliver(in_chat("c2", "too late"))).await, Err(DeliveryDeclined));
    gate.notify_one();
    assert_eq!(soon(running).await.unwrap(), Ok(()));
    assert_eq!(server.actions().last().unwrap().content(), Some("finished"));
}

#[tokio::test]
async fn turns_that_outlast_the_grace_do_not_keep_it_from_stopping() {
    let server = two_platforms();
    let clock = posthouse_time::Timepiece::wound(posthouse_time::Moment::default());
    let agent = Agent::builder(server.clone())
        .timepiece(clock.clone())
        .grace(Duration::from_secs(5))
        .on_message(|_, conversation| async move {
            conversation.typing().await?;
            std::future::pending().await
        });
    let (stop, running) = start(agent);
    soon(server.deliver(in_chat("c1", "hi"))).await.unwrap();
    soon(server.next_action()).await;
    stop.send(()).unwrap();
    assert_eq!(clock.wind_until(Duration::from_secs(5), running).await.unwrap(), Ok(()));
}

#[tokio::test]
async fn more_messages_than_there_is_room_for_wait_with_the_server() {
    let server = two_platforms();
    let gate = Arc::new(Notify::new());
    let agent = Agent::builder(server.clone()).room(2).on_message({
        let gate = gate.clone();
        move |_, conversation| {
            let gate = gate.clone();
            async move {
                gate.notified().await;
                conversation.typing().await?;
                Ok(())
            }
        }
    });
    let _running = start(agent);
    for chat in ["c1", "c2"] {
        soon(server.deliver(in_chat(chat, "hi"))).await.unwrap();
    }
    let (knocks, knocked) = tokio::sync::oneshot::channel();
    let third = tokio::spawn({
        let server = server.clone();
        async move {
            knocks.send(()).unwrap();
            server.deliver(in_chat("c3", "hi")).await.unwrap();
            server.actions().len()
        }
    });
    soon(knocked).await.unwrap();
    gate.notify_one();
    assert_eq!(soon(third).await.unwrap(), 1, "it came in before another had been handled");
}

#[tokio::test]
async fn the_same_agent_lives_on_a_real_connection() {
    let server = TestServer::open().await;
    let agent = Agent::builder(server.transport()).timepiece(server.clock.clone()).on_message(
        |message: Message, conversation| async move {
            conversation.reply(message.text()).await?;
            Ok(())
        },
    );
    let (stop, running) = start(agent);
    let mut seat = server.seats().await;
    let event = Box::new(said("good morning"));
    seat.says(ToGateway::Inbound { event, entry: Some(EntryId::new("ent_1")) }).await;
    let mut acknowledged = false;
    let request = loop {
        match seat.hears().await {
            FromGateway::InboundAck { .. } => acknowledged = true,
            FromGateway::Outbound(request) => break request,
            other => panic!("received {other:?}"),
        }
    };
    let result = Outcome::sent("m1".into());
    seat.says(ToGateway::OutboundResult { request_id: request.request_id, result }).await;
    if !acknowledged {
        seat.hears_ack("ent_1").await;
    }
    stop.send(()).unwrap();
    assert_eq!(seat.hears().await, FromGateway::GoingIdle);
    seat.says(ToGateway::GoingIdleAck).await;
    assert_eq!(seat.next().await, None);
    assert_eq!(soon(running).await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_revoked_agent_ends_with_the_reason() {
    let server = TestServer::open().await;
    let transport = server.transport();
    let agent = Agent::builder(transport.clone()).on_message(|_, _| async { Ok(()) });
    let (_stop, running) = start(agent);
    server.seats().await.closes(4401, "unauthorized").await;
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    server.clock.wind(Duration::from_secs(1));
    server.answers().await.closes(4401, "unauthorized").await;
    assert_eq!(soon(running).await.unwrap(), Err(Fault::Revoked));
}
