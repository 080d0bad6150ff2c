//! Permission check of actions: target chat and identity (sections 11.1 and 11.3).

use identity::Enrolment;
use ledger::Discriminator;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::test_server::{TestServer, bot};

async fn send_as(
    gateway: &mut Gateway,
    request: &str,
    chat: &str,
    platform: Option<&str>,
    id: Option<&str>,
) -> Value {
    let mut frame = json!({"type": "outbound", "requestId": request,
        "action": {"op": "send", "chat_id": chat, "content": "hi"}});
    for (field, value) in [("platform", platform), ("botId", id)] {
        if let Some(value) = value {
            frame[field] = value.into();
        }
    }
    gateway.say(frame).await;
    gateway.hears_result(request).await
}

#[tokio::test]
async fn a_chat_that_was_never_delivered_and_another_tenants_chat_get_the_same_answer() {
    let server = TestServer::open().await;
    let shared = bot("telegram", "shared");
    server.has_bot(&shared, true).await;
    let mut heron = server.enrol("acme", "heron", &[]).await;
    let crow = server.enrol("rival", "crow", &[]).await;
    server.routes(&shared, Discriminator::Chat("mine".into()), &heron).await;
    server.routes(&shared, Discriminator::Chat("theirs".into()), &crow).await;
    server.says(&shared, "theirs", "secret plans").await;
    heron.bots = vec![shared.clone()];
    let mut gateway = heron.sits().await;
    let declined = json!({"success": false, "code": "egress_declined",
        "error": "telegram egress declined: destination not approved"});
    for (request, chat) in [("r1", "theirs"), ("r2", "nobodys"), ("r3", "theirs")] {
        assert_eq!(send_as(&mut gateway, request, chat, Some("telegram"), Some("shared")).await, declined);
        assert_eq!(send_as(&mut gateway, &format!("{request}-untagged"), chat, None, None).await, declined);
    }
    assert!(server.egress.orders().is_empty());
    assert_eq!(send_as(&mut gateway, "r4", "mine", None, None).await["success"], true);
}

#[tokio::test]
async fn metadata_opens_no_door() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let crow = server.enrol("rival", "crow", &[bot("telegram", "7002")]).await;
    server.says(&crow.bots[0], "theirs", "hi").await;
    let mut gateway = heron.sits().await;
    let action = json!({"op": "send", "chat_id": "theirs", "content": "x",
        "metadata": {"scope_id": "T1", "user_id": "u1", "guild_id": "T1"}});
    gateway.asks("r1", action).await;
    assert_eq!(gateway.hears_result("r1").await["code"], "egress_declined");
}

#[tokio::test]
async fn a_pair_that_was_not_advertised_is_refused_and_never_another_credential_used() {
    let server = TestServer::open().await;
    let (telegram, discord) = (bot("telegram", "7001"), bot("discord", "8002"));
    let heron = server.enrol("acme", "heron", &[telegram.clone(), discord.clone()]).await;
    for on in [&telegram, &discord] {
        server.says(on, "c1", "hi").await;
    }
    let mut gateway = heron.sits().await;
    for (request, platform, id) in [
        ("r1", "discord", Some("8002")),
        ("r2", "discord", None),
        ("r3", "telegram", Some("9999")),
        ("r4", "nowhere", None),
    ] {
        let refused = send_as(&mut gateway, request, "c1", Some(platform), id).await;
        assert_eq!(refused["success"], false, "{request}");
    }
    assert!(server.egress.orders().is_empty());
    gateway.says_hello(&discord).await;
    assert_eq!(send_as(&mut gateway, "r5", "c1", Some("discord"), None).await["success"], true);
    assert_eq!(server.egress.orders()[0].on, discord);
}

#[tokio::test]
async fn an_untagged_reply_goes_out_where_the_chat_last_came_in() {
    let server = TestServer::open().await;
    let telegram = bot("telegram", "7001");
    server.has_bot(&telegram, false).await;
    let heron = server
        .enrol_as(Enrolment {
            tenant: "acme".to_owned(),
            name: "heron".to_owned(),
            bots: vec![telegram.clone()],
            built_in: vec!["web".into()],
            ..Enrolment::default()
        })
        .await;
    let web = bot("web", heron.instance.as_str());
    server.says(&web, "web-1", "from the page").await;
    server.says(&telegram, "c1", "from telegram").await;
    // A stock agent does not know the platform `web`: it says hello for telegram only.
    let mut gateway = heron.sits().await;
    assert_eq!(send_as(&mut gateway, "r1", "web-1", None, None).await["success"], true);
    assert_eq!(send_as(&mut gateway, "r2", "c1", None, None).await["success"], true);
    let used: Vec<_> = server.egress.orders().into_iter().map(|order| order.on).collect();
    assert_eq!(used, [web, telegram]);
}

#[tokio::test]
async fn an_untagged_reply_to_an_unknown_chat_uses_the_default_identity_and_is_guarded() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits().await;
    assert_eq!(send_as(&mut gateway, "r1", "unknown", None, None).await["code"], "egress_declined");
    server.says(&heron.bots[0], "unknown", "now it is known").await;
    assert_eq!(send_as(&mut gateway, "r2", "unknown", None, None).await["success"], true);
}

#[tokio::test]
async fn a_chat_routed_away_since_is_no_longer_reached() {
    let server = TestServer::open().await;
    let shared = bot("telegram", "shared");
    server.has_bot(&shared, true).await;
    let mut heron = server.enrol("acme", "heron", &[]).await;
    let crow = server.enrol("rival", "crow", &[]).await;
    let (moved, kept) = (Discriminator::Chat("c1".into()), Discriminator::Chat("c2".into()));
    server.routes(&shared, moved.clone(), &heron).await;
    server.routes(&shared, kept, &heron).await;
    server.says(&shared, "c1", "hi").await;
    heron.bots = vec![shared.clone()];
    let mut gateway = heron.sits().await;
    assert_eq!(send_as(&mut gateway, "r1", "c1", None, None).await["success"], true);
    server.ledger.roster().remove_route(&shared.platform, &shared.bot, &moved).await.unwrap();
    server.routes(&shared, moved, &crow).await;
    assert_eq!(send_as(&mut gateway, "r2", "c1", None, None).await["code"], "egress_declined");
}

#[tokio::test]
async fn a_chat_id_longer_than_256_bytes_is_refused_in_words_and_not_remembered() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits_settled().await;
    let long = "c".repeat(257);
    server.says(&heron.bots[0], &long, "work").await;
    gateway.takes("work").await;
    heron.has_unread(0).await;
    for op in ["typing", "send", "edit", "get_chat_info"] {
        let action = json!({"op": op, "chat_id": long, "message_id": "m1", "content": "x"});
        gateway.asks(op, action).await;
        let error = format!("malformed {op}: chat_id is longer than 256 bytes");
        assert_eq!(gateway.hears_result(op).await["error"], error);
    }
    assert!(server.egress.orders().is_empty());
    // Nobody noted that it types there, or this were an interrupt.
    server.says(&heron.bots[0], &long, "/stop").await;
    gateway.takes("/stop").await;
    let fits = "c".repeat(256);
    server.says(&heron.bots[0], &fits, "hello").await;
    gateway.takes("hello").await;
    gateway.sends("r1", &fits, "good morning").await;
    assert_eq!(gateway.hears_result("r1").await["success"], true);
}
