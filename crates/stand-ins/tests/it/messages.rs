//! Messages: the platform's checks and formatting.

use serde_json::json;
use stand_ins::telegram::{Filter, Injection, RowKind, Settings, TelegramLimits, TelegramStandIn};

use crate::actors::{Caller, OTHER, POSTY, settings, telegram};

#[tokio::test]
async fn a_wrong_token_is_unauthorized_and_a_wrong_method_not_found() {
    let telegram = telegram().await;
    let stranger = Caller::new(&telegram, "44:unknown");
    assert_eq!(stranger.is_refused(401, "getMe", json!({})).await, "Unauthorized");
    let posty = Caller::new(&telegram, POSTY);
    assert_eq!(posty.is_refused(404, "getEverything", json!({})).await, "Not Found");
    assert_eq!(posty.gets("GETME", json!({})).await["username"], "posty_bot");
    telegram.stop().await;
}

#[tokio::test]
async fn a_message_comes_back_as_the_platform_writes_it() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    telegram.inject(Injection::text(5, "hello").by(5, "Ana")).unwrap();
    let message = posty.says(5, "good morning").await;
    assert_eq!(message["message_id"], 2, "a private chat counts with the account");
    assert_eq!(
        message["from"],
        json!({"id": 42, "is_bot": true, "first_name": "posty_bot", "username": "posty_bot"})
    );
    assert_eq!(message["chat"], json!({"id": 5, "type": "private", "first_name": "Ana"}));
    assert_eq!(message["text"], "good morning");
    assert!(message["date"].as_i64().unwrap() > 1_700_000_000);

    telegram.inject(Injection::text(-100, "in a group")).unwrap();
    assert_eq!(posty.says(-100, "hi").await["message_id"], 2, "a supergroup counts its own");

    let rows = telegram.transcript(&Filter::chat(5));
    let told: Vec<_> = rows.iter().map(|row| (row.kind, row.text.as_deref().unwrap())).collect();
    assert_eq!(told, [(RowKind::Received, "hello"), (RowKind::Sent, "good morning")]);
    assert_eq!(rows[1].method, "sendMessage");
    assert!(rows[1].raw.get().contains(r#""chat_id":5"#));
}

#[tokio::test]
async fn forms_and_queries_are_read_like_json() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    telegram.inject(Injection::text(5, "hello")).unwrap();
    let url = format!("{}/bot{POSTY}/sendMessage", telegram.base_url());
    let reply = r#"{"message_id":1}"#;
    let form = [("chat_id", "5"), ("text", "é & ü"), ("reply_parameters", reply)];
    posty.http.post(&url).form(&form).send().await.unwrap().error_for_status().unwrap();
    posty.http.get(format!("{url}?chat_id=5&text=a%20b+c")).send().await.unwrap().error_for_status().unwrap();
    let rows = telegram.transcript(&Filter::sent(5));
    assert_eq!(rows[0].text.as_deref(), Some("é & ü"));
    assert_eq!(rows[0].reply_to, Some(1));
    assert_eq!(rows[1].text.as_deref(), Some("a b c"));

    let garbage =
        posty.http.post(&url).header("content-type", "application/json").body("{").send().await.unwrap();
    assert_eq!(garbage.status(), 400);
    let huge = vec![b'x'; 5 << 20];
    let huge = posty.http.post(&url).header("content-type", "application/json").body(huge).send().await;
    assert!(huge.map_or(true, |answer| answer.status() == 413));
}

#[tokio::test]
async fn only_chats_that_spoke_are_known_and_each_bot_knows_its_own() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let params = json!({"chat_id": 5, "text": "hi"});
    assert_eq!(posty.is_refused(400, "sendMessage", params.clone()).await, "Bad Request: chat not found");
    telegram.inject(Injection::text(5, "hello")).unwrap();
    posty.gets("sendMessage", params.clone()).await;
    let other = Caller::new(&telegram, OTHER);
    assert_eq!(other.is_refused(400, "sendMessage", params.clone()).await, "Bad Request: chat not found");
    let missing = posty.is_refused(400, "sendMessage", json!({"text": "x"})).await;
    assert_eq!(missing, "Bad Request: chat_id is empty");
    assert_eq!(telegram.refusals(&Filter::default()).len(), 3);

    let open = TelegramStandIn::start(Settings { accept_unknown_chats: true, ..settings() }).await.unwrap();
    Caller::new(&open, POSTY).gets("sendMessage", params).await;
}

#[tokio::test]
async fn a_text_is_neither_empty_nor_longer_than_4096_utf16_units_after_parsing() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    telegram.inject(Injection::text(5, "hello")).unwrap();
    for empty in [json!({"chat_id": 5}), json!({"chat_id": 5, "text": " \n "})] {
        assert_eq!(posty.is_refused(400, "sendMessage", empty).await, "Bad Request: message text is empty");
    }
    posty.says(5, &"🦉".repeat(2048)).await;
    let long = json!({"chat_id": 5, "text": "🦉".repeat(2048) + "x"});
    assert_eq!(posty.is_refused(400, "sendMessage", long).await, "Bad Request: message is too long");
    let escaped = json!({"chat_id": 5, "text": "\\.".repeat(4096), "parse_mode": "MarkdownV2"});
    assert_eq!(posty.gets("sendMessage", escaped).await["text"], ".".repeat(4096));
}

#[tokio::test]
async fn markdown_is_parsed_strictly_and_the_plain_text_is_kept() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    telegram.inject(Injection::text(5, "hello")).unwrap();
    let marked = |text: &str| json!({"chat_id": 5, "text": text, "parse_mode": "MarkdownV2"});
    let message = posty.gets("sendMessage", marked("🦉 *bold* `a.b`\\.")).await;
    assert_eq!(message["text"], "🦉 bold a.b.");
    assert_eq!(
        message["entities"],
        json!([{"type": "bold", "offset": 3, "length": 4}, {"type": "code", "offset": 8, "length": 3}])
    );
    assert_eq!(
        posty.is_refused(400, "sendMessage", marked("a.b")).await,
        "Bad Request: can't parse entities: Character '.' is reserved and must be escaped with the preceding '\\'"
    );
    assert_eq!(
        posty.is_refused(400, "sendMessage", marked("a *b")).await,
        "Bad Request: can't parse entities: Can't find end of Bold entity at byte offset 2"
    );
    let odd = json!({"chat_id": 5, "text": "x", "parse_mode": "Wiki"});
    assert_eq!(posty.is_refused(400, "sendMessage", odd).await, "Bad Request: unsupported parse_mode");
}

#[tokio::test]
async fn a_reply_needs_its_message_unless_it_may_go_without() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let hello = telegram.inject(Injection::text(5, "hello")).unwrap().message_id.unwrap();
    let reply = |id: i64, lenient: bool| {
        let reply = json!({"message_id": id, "allow_sending_without_reply": lenient});
        json!({"chat_id": 5, "text": "re", "reply_parameters": reply})
    };
    let sent = posty.gets("sendMessage", reply(hello, false)).await;
    assert_eq!(sent["reply_to_message"]["text"], "hello");
    let refused = posty.is_refused(400, "sendMessage", reply(99, false)).await;
    assert_eq!(refused, "Bad Request: message to be replied not found");
    let sent = posty.gets("sendMessage", reply(99, true)).await;
    assert!(sent.get("reply_to_message").is_none());
}

#[tokio::test]
async fn an_edit_changes_an_own_message_and_says_when_it_changes_nothing() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let hello = telegram.inject(Injection::text(5, "hello")).unwrap().message_id.unwrap();
    let sent = posty.says(5, "one").await["message_id"].as_i64().unwrap();
    let edit = |id: i64, text: &str| json!({"chat_id": 5, "message_id": id, "text": text});
    let edited = posty.gets("editMessageText", edit(sent, "two")).await;
    assert_eq!((&edited["text"], &edited["message_id"]), (&json!("two"), &json!(sent)));
    assert!(edited["edit_date"].is_i64());
    let same = posty.is_refused(400, "editMessageText", edit(sent, "two")).await;
    assert!(same.starts_with("Bad Request: message is not modified"), "{same}");
    let gone = posty.is_refused(400, "editMessageText", edit(99, "x")).await;
    assert_eq!(gone, "Bad Request: message to edit not found");
    let foreign = posty.is_refused(400, "editMessageText", edit(hello, "x")).await;
    assert_eq!(foreign, "Bad Request: message can't be edited");

    posty.gets("deleteMessage", json!({"chat_id": 5, "message_id": sent})).await;
    let gone = posty.is_refused(400, "deleteMessage", json!({"chat_id": 5, "message_id": sent})).await;
    assert_eq!(gone, "Bad Request: message to delete not found");
    let kinds: Vec<_> = telegram.transcript(&Filter::chat(5)).iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [RowKind::Received, RowKind::Sent, RowKind::Edited, RowKind::Deleted]);
}

#[tokio::test]
async fn topics_exist_before_they_are_written_in() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let spoken = Injection { thread_id: Some(77), ..Injection::text(-100, "in a topic") };
    let update = telegram.inject(spoken).unwrap().update;
    assert_eq!(update["message"]["is_topic_message"], true);
    assert_eq!(update["message"]["chat"]["is_forum"], true);
    let write = |thread: i64| json!({"chat_id": -100, "text": "x", "message_thread_id": thread});
    assert_eq!(posty.gets("sendMessage", write(77)).await["is_topic_message"], true);
    let unknown = posty.is_refused(400, "sendMessage", write(1)).await;
    assert_eq!(unknown, "Bad Request: message thread not found");
    let topic = posty.gets("createForumTopic", json!({"chat_id": -100, "name": "news"})).await;
    posty.gets("sendMessage", write(topic["message_thread_id"].as_i64().unwrap())).await;
    telegram.inject(Injection::text(5, "no forum")).unwrap();
    let refused = posty.is_refused(400, "createForumTopic", json!({"chat_id": 5, "name": "x"})).await;
    assert_eq!(refused, "Bad Request: the chat is not a forum");
}

#[tokio::test]
async fn signs_of_life_are_checked_and_recorded() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let hello = telegram.inject(Injection::text(5, "hello")).unwrap().message_id.unwrap();
    posty.gets("sendChatAction", json!({"chat_id": 5, "action": "typing"})).await;
    let odd = posty.is_refused(400, "sendChatAction", json!({"chat_id": 5, "action": "dancing"})).await;
    assert_eq!(odd, "Bad Request: wrong parameter action in request");
    let react = |emoji: &str| json!({"chat_id": 5, "message_id": hello, "reaction": [{"type": "emoji", "emoji": emoji}]});
    posty.gets("setMessageReaction", react("👍")).await;
    assert_eq!(
        posty.is_refused(400, "setMessageReaction", react("🦉")).await,
        "Bad Request: REACTION_INVALID"
    );
    let chat = posty.gets("getChat", json!({"chat_id": 5})).await;
    assert_eq!((&chat["type"], &chat["first_name"]), (&json!("private"), &json!("Ana")));

    let press =
        Injection { callback_data: Some("yes".into()), message_id: Some(hello), ..Injection::text(5, "") };
    let pressed = telegram.inject(press).unwrap().update;
    let answer = json!({"callback_query_id": pressed["callback_query"]["id"], "text": "ok"});
    posty.gets("answerCallbackQuery", answer.clone()).await;
    let again = posty.is_refused(400, "answerCallbackQuery", answer).await;
    assert!(again.starts_with("Bad Request: query is too old"), "{again}");
    let kinds: Vec<_> = telegram.transcript(&Filter::default()).iter().map(|row| row.kind).collect();
    assert_eq!(
        kinds,
        [RowKind::Received, RowKind::Action, RowKind::Reaction, RowKind::Received, RowKind::CallbackAnswered]
    );
}

#[tokio::test]
async fn a_file_is_found_by_its_id_and_downloaded_by_its_path() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    let id = telegram.add_file("notes.txt", "words");
    let file = posty.gets("getFile", json!({"file_id": id})).await;
    let path = file["file_path"].as_str().unwrap();
    let url = format!("{}/file/bot{POSTY}/{path}", telegram.base_url());
    assert_eq!(posty.http.get(url).send().await.unwrap().text().await.unwrap(), "words");
    let escaped = format!("{}/file/bot{}/{path}", telegram.base_url(), POSTY.replace(':', "%3a"));
    assert_eq!(posty.http.get(escaped).send().await.unwrap().status(), 200, "as some clients write it");
    let foreign = format!("{}/file/bot44:no/{path}", telegram.base_url());
    assert_eq!(posty.http.get(foreign).send().await.unwrap().status(), 401);
    posty.is_refused(400, "getFile", json!({"file_id": "nothing"})).await;
}

#[tokio::test]
async fn writing_too_fast_is_answered_with_the_seconds_to_wait() {
    let limits = Some(TelegramLimits { per_chat_per_second: 2, ..TelegramLimits::default() });
    let telegram = TelegramStandIn::start(Settings { limits, ..settings() }).await.unwrap();
    let posty = Caller::new(&telegram, POSTY);
    telegram.inject(Injection::text(5, "hello")).unwrap();
    let mut refused = None;
    // A slow machine may spread the calls, but this many cannot all fit at two per second.
    for _ in 0..200 {
        let url = format!("{}/bot{POSTY}/sendMessage", telegram.base_url());
        let answer = posty.http.post(url).json(&json!({"chat_id": 5, "text": "x"})).send().await.unwrap();
        if answer.status() == 429 {
            refused = Some((answer.headers()["retry-after"].clone(), answer.json().await.unwrap()));
            break;
        }
    }
    let (header, body): (_, serde_json::Value) = refused.expect("two a second is the limit");
    assert_eq!((header.to_str().unwrap(), &body["parameters"]["retry_after"]), ("1", &json!(1)));
    assert_eq!(body["description"], "Too Many Requests: retry after 1");
}

#[tokio::test]
async fn buttons_are_removed_drafts_are_no_messages_and_topics_are_renamed() {
    let telegram = telegram().await;
    let posty = Caller::new(&telegram, POSTY);
    telegram.inject(Injection::text(5, "hello")).unwrap();
    let keyboard = json!({"inline_keyboard": [[{"text": "Yes", "callback_data": "hp1:a:yes"}]]});
    let asked =
        posty.gets("sendMessage", json!({"chat_id": 5, "text": "sure?", "reply_markup": keyboard})).await;
    assert_eq!(asked["reply_markup"], keyboard);
    let closing = json!({"chat_id": 5, "message_id": asked["message_id"]});
    let closed = posty.gets("editMessageReplyMarkup", closing.clone()).await;
    assert!(closed.get("reply_markup").is_none() && closed["text"] == "sure?");
    let again = posty.is_refused(400, "editMessageReplyMarkup", closing).await;
    assert_eq!(again, "Bad Request: message is not modified");

    posty.gets("sendMessageDraft", json!({"chat_id": 5, "draft_id": 7, "text": "so far"})).await;
    posty.is_refused(400, "sendMessageDraft", json!({"chat_id": 5, "draft_id": 0, "text": "x"})).await;
    telegram.inject(Injection { is_forum: true, ..Injection::text(-100, "in a group") }).unwrap();
    posty.is_refused(400, "sendMessageDraft", json!({"chat_id": -100, "draft_id": 7, "text": "x"})).await;
    assert_eq!(telegram.transcript(&Filter::sent(5)).len(), 1, "a draft is no message");

    let topic = posty.gets("createForumTopic", json!({"chat_id": -100, "name": "plans"})).await;
    let thread = topic["message_thread_id"].clone();
    let rename = json!({"chat_id": -100, "message_thread_id": thread, "name": "done"});
    posty.gets("editForumTopic", rename.clone()).await;
    let same = posty.is_refused(400, "editForumTopic", rename).await;
    assert_eq!(same, "Bad Request: TOPIC_NOT_MODIFIED");
    let kinds: Vec<RowKind> = telegram.transcript(&Filter::chat(-100)).iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [RowKind::Received, RowKind::TopicCreated, RowKind::TopicRenamed]);
}
