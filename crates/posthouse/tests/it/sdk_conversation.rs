//! An agent of the SDK on the real binary: files both ways, prompts, reactions, drafts and the typing sign.

use posthouse_agent::media::{MediaClient, MediaError};
use posthouse_agent::{
    Agent, BotIdentity, Conversation, Message, OutgoingMedia, Settings, TurnResult, WebSocketTransport,
};
use posthouse_wire::Secret;
use posthouse_wire::action::{MediaKind, PromptKind, PromptOption};
use serde_json::{Value, json};
use stand_ins::telegram::{Filter, Injection, RowKind, TelegramStandIn};

use crate::talk::{PATIENCE, make_bot, says, telegram};
use crate::test_server::TestServer;

const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n a small picture";

fn settings(server: &TestServer, agent: &Value) -> Settings {
    let secret = Secret::new(agent["secret"].as_str().unwrap());
    Settings::new(server.url.clone(), agent["gateway_id"].as_str().unwrap(), secret)
        .with_bots([BotIdentity::new("telegram", "7001")])
}

/// Sends every picture back as a document, and uses everything else for any other message.
async fn answer(message: Message, conversation: Conversation, files: MediaClient) -> TurnResult {
    for url in &message.event.media_urls {
        let picture = files.download(url).await?;
        let copy = files.upload(picture.content, picture.mime.as_deref(), Some("copy.png")).await?;
        let document =
            OutgoingMedia::new(MediaKind::Document, copy.url).caption("your picture").filename("copy.png");
        conversation.send_media(document).await?;
    }
    if !message.event.media_urls.is_empty() {
        return Ok(());
    }
    if let Some(pressed) = &message.event.prompt_response {
        conversation.say(&format!("pressed {}", pressed.option_id)).await?;
        return Ok(());
    }
    conversation.typing_with("thinking").await?;
    conversation.clear_typing().await?;
    conversation.react(message.event.message_id.as_ref().ok_or("no message id")?, "👀").await?;
    conversation.draft(7, "half of", false).await?;
    let button = |id: &str| PromptOption { id: id.into(), label: id.to_owned(), style: None };
    conversation.prompt(PromptKind::Choice, "p-1", "Tea?", vec![button("yes"), button("no")]).await?;
    // A press counts once the server has recorded the prompt.
    conversation.say("I have asked").await?;
    Ok(())
}

/// The row that the bot's next call of this kind in the chat leaves.
async fn row(telegram: &TelegramStandIn, kind: RowKind, text: &str) -> Value {
    let filter = || Filter { kinds: vec![kind], ..Filter::chat(5) };
    let is_it = |row: &stand_ins::telegram::TranscriptRow| row.text.as_deref() == Some(text);
    let came = telegram.until(PATIENCE, |telegram| telegram.transcript(&filter()).iter().any(is_it)).await;
    assert!(came, "no {kind:?} with {text:?}: {:?}", telegram.transcript(&Filter::chat(5)));
    let found = telegram.transcript(&filter()).into_iter().find(is_it).unwrap();
    json!({ "method": found.method, "message": found.message_id, "raw": found.raw })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_the_sdk_uses_files_prompts_reactions_and_drafts() {
    let telegram = telegram(&["7001:canary@posty_bot"]).await;
    let server = TestServer::open(&[("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", &telegram.base_url())]);
    server.does(&["tenant", "create", "acme"]);
    make_bot(&server, "7001", "7001:canary", &["--mode", "poll"]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "telegram:7001"]);
    let files = MediaClient::new(&settings(&server, &heron));
    let agent = Agent::builder(WebSocketTransport::new(settings(&server, &heron)).unwrap()).on_message({
        let files = files.clone();
        move |message, conversation| answer(message, conversation, files.clone())
    });
    let running = tokio::spawn(agent.run(std::future::pending()));

    says(&telegram, 7001, 5, "good morning");
    row(&telegram, RowKind::Reaction, "👀").await;
    row(&telegram, RowKind::Draft, "half of").await;
    let asked = row(&telegram, RowKind::Sent, "Tea?").await;
    row(&telegram, RowKind::Sent, "I have asked").await;
    let press = json!({"callback_query": {"id": "q1", "from": {"id": 5, "first_name": "Ann"}, "data": "hp1:p-1:yes",
        "message": {"message_id": asked["message"], "chat": {"id": 5, "type": "private", "first_name": "Ann"}}}});
    telegram.inject(Injection::update(press)).unwrap();
    row(&telegram, RowKind::Sent, "pressed yes").await;

    let file = telegram.add_file("cat.png", PICTURE);
    let photo = json!({"message": {"chat": {"id": 5, "type": "private", "first_name": "Ann"},
        "from": {"id": 5, "is_bot": false, "first_name": "Ann"}, "caption": "look",
        "photo": [{"file_id": file, "width": 1, "height": 1}]}});
    telegram.inject(Injection::update(photo)).unwrap();
    assert_eq!(row(&telegram, RowKind::Sent, "your picture").await["method"], "sendDocument");

    // What is not there, and what is another agent's, is not found.
    let otter = server.does(&["agent", "create", "otter", "--tenant", "acme"]);
    let others = MediaClient::new(&settings(&server, &otter));
    let mine = files.upload(PICTURE, Some("image/png"), None).await.unwrap();
    assert_eq!(files.download(&mine.url).await.unwrap().content, PICTURE);
    assert_eq!(mine.size, PICTURE.len() as u64);
    assert_eq!(others.download(&mine.url).await, Err(MediaError::NotFound));
    assert!(matches!(
        files.upload(Vec::new(), None, None).await,
        Err(MediaError::Refused { status: 400, .. })
    ));
    let oversized = vec![0; posthouse_agent::media::LARGEST + 1];
    assert_eq!(files.upload(oversized, None, None).await, Err(MediaError::TooLarge));
    running.abort();
}
