//! Files, prompts, reactions, threads and drafts of a conversation, as actions.

use posthouse_agent::wire::action::{MediaKind, PromptKind, PromptOption, RenameGuard};
use posthouse_agent::wire::{Action, Descriptor, Event, Outcome};
use posthouse_agent::{Agent, Conversation, MemoryConnector, OutgoingMedia};
use tokio::sync::oneshot;

use crate::test_server::{soon, source};

/// A conversation about the message `m1` in the chat `c1`, on a platform with these ops.
async fn stage(ops: &[&str]) -> (MemoryConnector, Conversation) {
    let mut descriptor = Descriptor::new("alpha", "Alpha");
    descriptor.supported_ops = ops.iter().map(|op| (*op).to_owned()).collect();
    let server = MemoryConnector::new([descriptor]);
    let (give, given) = oneshot::channel();
    let give = std::sync::Mutex::new(Some(give));
    let agent = Agent::builder(server.clone()).on_message(move |_, conversation| {
        let give = give.lock().unwrap().take();
        async move {
            drop(give.map(|give| give.send(conversation)));
            Ok(())
        }
    });
    tokio::spawn(agent.run(std::future::pending()));
    let event = Event {
        text: "go".to_owned(),
        source: source("alpha", "c1"),
        message_id: Some("m1".into()),
        ..Event::default()
    };
    soon(server.deliver(event)).await.unwrap();
    (server, soon(given).await.unwrap())
}

fn last(server: &MemoryConnector) -> Action {
    server.actions().last().unwrap().action.clone()
}

#[tokio::test]
async fn a_conversation_knows_which_ops_its_platform_has() {
    let (_server, conversation) = stage(&["send", "react"]).await;
    assert!(conversation.supports("react") && !conversation.supports("prompt"));
}

#[tokio::test]
async fn files_and_questions_answer_the_message_and_name_the_new_one() {
    let (server, conversation) = stage(&["send_media", "prompt"]).await;
    server.answers(Outcome::sent("m2".into()));
    let media =
        OutgoingMedia::new(MediaKind::Image, "https://pics.example/a.png").caption("look").filename("a.png");
    assert_eq!(conversation.send_media(media).await.unwrap().0, ["m2"]);
    let Action::SendMedia { chat_id, media_kind, source_url, content, filename, reply_to, .. } =
        last(&server)
    else {
        panic!("a file")
    };
    assert_eq!(
        (chat_id.as_str(), media_kind, source_url.as_str()),
        ("c1", MediaKind::Image, "https://pics.example/a.png")
    );
    assert_eq!((content.as_deref(), filename.as_deref()), (Some("look"), Some("a.png")));
    assert_eq!(reply_to, Some("m1".into()));

    let button = |id: &str| PromptOption { id: id.into(), label: id.to_uppercase(), style: None };
    server.answers(Outcome::sent("m3".into()));
    let asked =
        conversation.prompt(PromptKind::Choice, "p-1", "Which?", vec![button("a"), button("b")]).await;
    assert_eq!(asked.unwrap().0, ["m3"]);
    let Action::Prompt { prompt_kind, prompt_id, content, options, reply_to, .. } = last(&server) else {
        panic!("a prompt")
    };
    assert_eq!((prompt_kind, prompt_id.as_str(), content.as_str()), (PromptKind::Choice, "p-1", "Which?"));
    assert_eq!((options.len(), reply_to), (2, Some("m1".into())));
}

#[tokio::test]
async fn reactions_threads_drafts_and_the_typing_sign_are_actions_of_their_chat() {
    let (server, conversation) = stage(&["react", "thread_create", "thread_rename", "draft", "typing"]).await;
    conversation.react(&"m1".into(), "👀").await.unwrap();
    assert!(matches!(last(&server), Action::React { remove: false, emoji, .. } if emoji == "👀"));
    conversation.remove_reaction(&"m1".into(), "👀").await.unwrap();
    assert!(matches!(last(&server), Action::React { remove: true, .. }));

    server.answers(Outcome { thread_id: Some("t1".into()), ..Outcome::done() });
    let thread = conversation.create_thread("plans", Some(&"m1".into())).await.unwrap();
    assert_eq!(thread.as_str(), "t1");
    let guard = RenameGuard { only_if_connector_created: true, ..RenameGuard::default() };
    conversation.rename_thread(&thread, "better plans", guard.clone()).await.unwrap();
    let Action::ThreadRename { thread_id, thread_name, guard: asked, .. } = last(&server) else {
        panic!("a new name")
    };
    assert_eq!((thread_id, thread_name.as_str(), asked), (thread, "better plans", guard));

    conversation.draft(7, "half of", false).await.unwrap();
    assert!(matches!(last(&server), Action::Draft { draft_id: 7, is_final: false, .. }));
    conversation.draft(7, "half of it", true).await.unwrap();
    assert!(matches!(last(&server), Action::Draft { is_final: true, .. }));

    let shown = |server: &MemoryConnector| match last(server) {
        Action::Typing { content, .. } => content,
        other => panic!("{other:?}"),
    };
    conversation.typing().await.unwrap();
    assert_eq!(shown(&server), None);
    conversation.typing_with("reading").await.unwrap();
    assert_eq!(shown(&server).as_deref(), Some("reading"));
    conversation.clear_typing().await.unwrap();
    assert_eq!(shown(&server).as_deref(), Some(""));
    assert!(server.actions().iter().all(|carried| carried.action.chat_id().unwrap().as_str() == "c1"));
}

#[tokio::test]
async fn what_the_platform_refuses_is_an_error_and_a_thread_without_an_id_too() {
    let (server, conversation) = stage(&[]).await;
    server.answers(Outcome::unsupported("react"));
    let refused = conversation.react(&"m1".into(), "👀").await.unwrap_err();
    assert_eq!(refused.op, "react");
    server.answers(Outcome::done());
    let incomplete = conversation.create_thread("plans", None).await.unwrap_err();
    assert_eq!(incomplete.to_string(), "thread_create failed: the server's answer is incomplete");
}
