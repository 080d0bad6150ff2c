//! May this agent send there, and as whom (sections 11.1 and 11.3).

use ledger::Discriminator;
use relay::Enrolment;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::house::{House, bot};

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
    let house = House::open().await;
    let shared = bot("telegram", "shared");
    house.has_bot(&shared, true).await;
    let mut heron = house.enrol("acme", "heron", &[]).await;
    let crow = house.enrol("rival", "crow", &[]).await;
    house.routes(&shared, Discriminator::Chat("mine".into()), &heron).await;
    house.routes(&shared, Discriminator::Chat("theirs".into()), &crow).await;
    house.says(&shared, "theirs", "secret plans").await;
    heron.bots = vec![shared.clone()];
    let mut gateway = heron.sits().await;
    let declined = json!({"success": false, "code": "egress_declined",
        "error": "telegram egress declined: destination not approved"});
    for (request, chat) in [("r1", "theirs"), ("r2", "nobodys"), ("r3", "theirs")] {
        assert_eq!(send_as(&mut gateway, request, chat, Some("telegram"), Some("shared")).await, declined);
        assert_eq!(send_as(&mut gateway, &format!("{request}-untagged"), chat, None, None).await, declined);
    }
    assert!(house.egress.orders().is_empty());
    assert_eq!(send_as(&mut gateway, "r4", "mine", None, None).await["success"], true);
}

#[tokio::test]
async fn metadata_opens_no_door() {
    let house = House::open().await;
    let heron = house.heron().await;
    let crow = house.enrol("rival", "crow", &[bot("telegram", "7002")]).await;
    house.says(&crow.bots[0], "theirs", "hi").await;
    let mut gateway = heron.sits().await;
    let action = json!({"op": "send", "chat_id": "theirs", "content": "x",
        "metadata": {"scope_id": "T1", "user_id": "u1", "guild_id": "T1"}});
    gateway.asks("r1", action).await;
    assert_eq!(gateway.hears_result("r1").await["code"], "egress_declined");
}

#[tokio::test]
async fn a_pair_that_was_not_advertised_is_refused_and_never_another_credential_used() {
    let house = House::open().await;
    let (telegram, discord) = (bot("telegram", "7001"), bot("discord", "8002"));
    let heron = house.enrol("acme", "heron", &[telegram.clone(), discord.clone()]).await;
    for on in [&telegram, &discord] {
        house.says(on, "c1", "hi").await;
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
    assert!(house.egress.orders().is_empty());
    gateway.says_hello(&discord).await;
    assert_eq!(send_as(&mut gateway, "r5", "c1", Some("discord"), None).await["success"], true);
    assert_eq!(house.egress.orders()[0].on, discord);
}

#[tokio::test]
async fn an_untagged_reply_goes_out_where_the_chat_last_came_in() {
    let house = House::open().await;
    let telegram = bot("telegram", "7001");
    house.has_bot(&telegram, false).await;
    let heron = house
        .enrol_as(Enrolment {
            tenant: "acme".to_owned(),
            name: "heron".to_owned(),
            bots: vec![telegram.clone()],
            built_in: vec!["web".into()],
            ..Enrolment::default()
        })
        .await;
    let web = bot("web", heron.instance.as_str());
    house.says(&web, "web-1", "from the page").await;
    house.says(&telegram, "c1", "from telegram").await;
    // A stock agent does not know the platform `web`: it says hello for telegram only.
    let mut gateway = heron.sits().await;
    assert_eq!(send_as(&mut gateway, "r1", "web-1", None, None).await["success"], true);
    assert_eq!(send_as(&mut gateway, "r2", "c1", None, None).await["success"], true);
    let used: Vec<_> = house.egress.orders().into_iter().map(|order| order.on).collect();
    assert_eq!(used, [web, telegram]);
}

#[tokio::test]
async fn an_untagged_reply_to_an_unknown_chat_uses_the_default_identity_and_is_guarded() {
    let house = House::open().await;
    let heron = house.heron().await;
    let mut gateway = heron.sits().await;
    assert_eq!(send_as(&mut gateway, "r1", "unknown", None, None).await["code"], "egress_declined");
    house.says(&heron.bots[0], "unknown", "now it is known").await;
    assert_eq!(send_as(&mut gateway, "r2", "unknown", None, None).await["success"], true);
}

#[tokio::test]
async fn a_chat_routed_away_since_is_no_longer_reached() {
    let house = House::open().await;
    let shared = bot("telegram", "shared");
    house.has_bot(&shared, true).await;
    let mut heron = house.enrol("acme", "heron", &[]).await;
    let crow = house.enrol("rival", "crow", &[]).await;
    let (moved, kept) = (Discriminator::Chat("c1".into()), Discriminator::Chat("c2".into()));
    house.routes(&shared, moved.clone(), &heron).await;
    house.routes(&shared, kept, &heron).await;
    house.says(&shared, "c1", "hi").await;
    heron.bots = vec![shared.clone()];
    let mut gateway = heron.sits().await;
    assert_eq!(send_as(&mut gateway, "r1", "c1", None, None).await["success"], true);
    house.ledger.roster().remove_route(&shared.platform, &shared.bot, &moved).await.unwrap();
    house.routes(&shared, moved, &crow).await;
    assert_eq!(send_as(&mut gateway, "r2", "c1", None, None).await["code"], "egress_declined");
}
