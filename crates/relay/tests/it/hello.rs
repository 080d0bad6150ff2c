//! The handshake (section 7).

use identity::{Enrolment, GatewayChange, GatewayChanged};
use ledger::{BotRef, Discriminator, Generation};
use relay::Proof;
use serde_json::json;

use crate::gateway::Gateway;
use crate::test_server::{Agent, TestServer, bot, eventually, seconds};

#[tokio::test]
async fn several_hellos_are_answered_in_order_and_the_first_is_the_default() {
    let server = TestServer::open().await;
    let (telegram, discord) = (bot("telegram", "7001"), bot("discord", "8002"));
    let heron = server.enrol("acme", "heron", &[telegram.clone(), discord.clone()]).await;
    let mut gateway = heron.dials().await;
    for on in [&discord, &telegram] {
        gateway
            .say(json!({"type": "hello", "platform": on.platform.as_str(), "botId": on.bot.as_str()}))
            .await;
    }
    assert_eq!(gateway.hears().await["descriptor"]["platform"], "discord");
    assert_eq!(gateway.hears().await["descriptor"]["platform"], "telegram");
    // A chat that nobody has seen goes out, or rather does not, under the default identity.
    gateway.sends("r1", "never-seen", "hi").await;
    let declined = gateway.hears_result("r1").await;
    assert_eq!(declined["error"], "discord egress declined: destination not approved");
}

#[tokio::test]
async fn a_descriptor_has_all_nine_required_fields() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.dials().await;
    gateway.say(json!({"type": "hello", "platform": "telegram", "botId": "7001"})).await;
    let descriptor = gateway.hears().await["descriptor"].clone();
    for field in [
        "contract_version",
        "platform",
        "label",
        "max_message_length",
        "supports_draft_streaming",
        "supports_edit",
        "supports_threads",
        "markdown_dialect",
        "len_unit",
    ] {
        assert!(!descriptor[field].is_null(), "{field}");
    }
}

#[tokio::test]
async fn an_unprovisioned_pair_gets_silence_and_the_socket_stays() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.enrol("rival", "crow", &[bot("discord", "9")]).await;
    let mut gateway = heron.dials().await;
    for (platform, id) in [("discord", "9"), ("telegram", "7002"), ("nowhere", "1"), ("discord", "")] {
        gateway.say(json!({"type": "hello", "platform": platform, "botId": id})).await;
    }
    gateway.hears_nothing().await;
    gateway.says_hello(&heron.bots[0]).await;
}

#[tokio::test]
async fn a_repeated_hello_gets_its_descriptor_again_and_nothing_else_changes() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits_settled().await;
    heron.hears_from("one").await;
    let (_, entry) = gateway.hears_inbound().await;
    gateway.says_hello(&heron.bots[0]).await;
    gateway.hears_nothing().await;
    assert_eq!(server.relay.connections().presence(&heron.instance).sockets, 1);
    gateway.acknowledges(&entry).await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn an_empty_bot_id_means_the_only_bot_of_that_platform() {
    let server = TestServer::open().await;
    let (one, two, discord) = (bot("telegram", "1"), bot("telegram", "2"), bot("discord", "3"));
    let heron = server.enrol("acme", "heron", &[one, two, discord]).await;
    let mut gateway = heron.dials().await;
    gateway.say(json!({"type": "hello", "platform": "telegram", "botId": ""})).await;
    gateway.say(json!({"type": "hello", "platform": "relay", "botId": ""})).await;
    gateway.hears_nothing().await;
    gateway.say(json!({"type": "hello", "platform": "discord", "botId": ""})).await;
    assert_eq!(gateway.hears().await["descriptor"]["label"], "3");
    gateway.say(json!({"type": "hello", "platform": "discord"})).await;
    assert_eq!(gateway.hears().await["descriptor"]["label"], "3");
}

#[tokio::test]
async fn an_unnamed_hello_means_the_only_identity_and_what_is_built_in_does_not_count() {
    let server = TestServer::open().await;
    let telegram = bot("telegram", "7001");
    server.has_bot(&telegram, false).await;
    let wanted = |name: &str, bots| Enrolment {
        tenant: "acme".to_owned(),
        name: name.to_owned(),
        bots,
        built_in: vec!["web".into()],
        ..Enrolment::default()
    };
    let heron = server.enrol_as(wanted("heron", vec![telegram])).await;
    let mut gateway = heron.dials().await;
    gateway.say(json!({"type": "hello", "platform": "relay", "botId": ""})).await;
    assert_eq!(gateway.hears().await["descriptor"]["platform"], "telegram");
    let wren = server.enrol_as(wanted("wren", vec![])).await;
    let mut gateway = wren.dials().await;
    gateway.say(json!({"type": "hello", "platform": "relay", "botId": ""})).await;
    assert_eq!(gateway.hears().await["descriptor"]["platform"], "web");
}

#[tokio::test]
async fn the_descriptor_comes_before_any_inbound() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("one").await;
    let mut gateway = heron.sits_with_window(8).await;
    gateway.takes("one").await;
}

#[tokio::test]
async fn a_stock_gateway_is_left_alone_for_four_seconds() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("one").await;
    let mut gateway = heron.sits().await;
    heron.hears_from("two").await;
    gateway.hears_nothing().await;
    server.winds(std::time::Duration::from_millis(3_999));
    gateway.hears_nothing().await;
    server.winds(std::time::Duration::from_millis(1));
    gateway.takes("one").await;
    gateway.takes("two").await;
}

/// Says hello with its commands, as only a newer stock gateway does, and only for one of its platforms.
async fn tells_commands(gateway: &mut Gateway, on: &BotRef) {
    let (platform, bot) = (on.platform.as_str(), on.bot.as_str());
    gateway.say(json!({"type": "hello", "platform": platform, "botId": bot, "command_manifest": []})).await;
    assert_eq!(gateway.hears().await["type"], "descriptor");
}

/// What the only socket of an agent proved.
fn proof(agent: &Agent) -> Proof {
    agent.server.relay.connections().presence(&agent.instance).connections[0].proof
}

#[tokio::test]
async fn a_gateway_that_tells_its_commands_need_not_settle() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("one").await;
    let mut gateway = heron.dials().await;
    tells_commands(&mut gateway, &heron.bots[0]).await;
    gateway.takes("one").await;
    assert_eq!(proof(&heron), Proof::CommandManifest);
    heron.hears_from("two").await;
    gateway.takes("two").await;
}

#[tokio::test]
async fn a_later_hello_of_the_same_socket_may_prove_its_generation() {
    let server = TestServer::open().await;
    let (telegram, discord) = (bot("telegram", "7001"), bot("discord", "8002"));
    let heron = server.enrol("acme", "heron", &[telegram.clone(), discord.clone()]).await;
    server.says(&telegram, "c1", "one").await;
    let mut gateway = heron.dials().await;
    gateway.says_hello(&telegram).await;
    gateway.hears_nothing().await;
    assert_eq!(proof(&heron), Proof::Unproven);
    tells_commands(&mut gateway, &discord).await;
    gateway.takes("one").await;
    assert_eq!(proof(&heron), Proof::CommandManifest);
}

#[tokio::test]
async fn a_generation_belongs_to_a_socket_and_is_never_latched() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut newer = heron.dials().await;
    tells_commands(&mut newer, &heron.bots[0]).await;
    newer.says_goodbye().await;
    eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    heron.hears_from("one").await;
    // The same credential, restarted as an older version.
    let mut older = heron.sits().await;
    older.hears_nothing().await;
    assert_eq!(proof(&heron), Proof::Unproven);
    server.winds(seconds(4));
    older.takes("one").await;
}

#[tokio::test]
async fn what_a_socket_asks_for_proves_nothing_about_its_generation() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("one").await;
    let mut first = heron.sits_settled().await;
    first.takes("one").await;
    first.asks("r1", json!({"op": "typing", "chat_id": "c1"})).await;
    first.hears_result("r1").await;
    let both = json!({"scope_id": "s", "user_id": "u1"});
    first.asks("r2", json!({"op": "send", "chat_id": "c1", "content": "hi", "metadata": both})).await;
    first.hears_result("r2").await;
    assert_eq!(proof(&heron), Proof::Unproven);
    first.says_goodbye().await;
    eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    for text in ["two", "three"] {
        heron.hears_from(text).await;
    }
    let mut second = heron.sits().await;
    second.hears_nothing().await;
    server.winds(seconds(4));
    second.takes("two").await;
    second.takes("three").await;
}

#[tokio::test]
async fn a_pinned_generation_overrules_the_hello_until_it_is_reset() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let roster = server.ledger.roster();
    roster.pin_generation(&heron.instance, None, Generation::Newer).await.unwrap();
    heron.hears_from("one").await;
    let mut plain = heron.dials().await;
    plain.says_hello(&heron.bots[0]).await;
    plain.takes("one").await;
    plain.says_goodbye().await;
    roster.pin_generation(&heron.instance, Some(&heron.gateway), Generation::Stock019).await.unwrap();
    heron.hears_from("two").await;
    let mut telling = heron.dials().await;
    tells_commands(&mut telling, &heron.bots[0]).await;
    telling.hears_nothing().await;
    server.winds(seconds(4));
    telling.takes("two").await;
    telling.says_goodbye().await;
    roster.pin_generation(&heron.instance, None, Generation::Auto).await.unwrap();
    heron.hears_from("three").await;
    let mut telling = heron.dials().await;
    tells_commands(&mut telling, &heron.bots[0]).await;
    telling.takes("three").await;
}

#[tokio::test]
async fn what_an_sdk_agent_asks_for_does_not_make_a_stock_one_newer() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("one").await;
    let mut ours = heron.sits_with_window(1).await;
    ours.takes("one").await;
    ours.asks("r1", json!({"op": "typing", "chat_id": "c1"})).await;
    ours.hears_result("r1").await;
    assert_eq!(proof(&heron), Proof::Client);
    ours.says_goodbye().await;
    heron.hears_from("two").await;
    let mut stock = heron.sits().await;
    stock.hears_nothing().await;
    server.winds(seconds(4));
    stock.takes("two").await;
}

#[tokio::test]
async fn a_peer_of_another_contract_version_is_served_by_ours() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.dials().await;
    gateway
        .say(json!({"type": "hello", "platform": "telegram", "botId": "7001", "contract_version": 2,
            "capabilities": {"of": ["the", "future"]}}))
        .await;
    let descriptor = gateway.hears().await["descriptor"].clone();
    assert_eq!(descriptor["contract_version"], 1);
    // Frames of its time are ignored, its ops answered with failure, and what both know works.
    gateway.say(json!({"type": "presence", "contract_version": 2, "state": "away"})).await;
    gateway.asks("r1", json!({"op": "teleport", "chat_id": "c1"})).await;
    assert_eq!(gateway.hears_result("r1").await["error"], "unsupported op: teleport");
    server.winds(seconds(4));
    heron.hears_from("one").await;
    let (text, entry) = gateway.hears_inbound().await;
    assert_eq!(text, "one");
    gateway.say(json!({"type": "inbound_ack", "bufferId": entry, "contract_version": 2, "took_ms": 4})).await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn who_said_hello_is_present() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    assert!(!server.relay.connections().presence(&heron.instance).connected);
    let gateway = heron.sits().await;
    assert_eq!(server.relay.connections().presence(&heron.instance).since, Some(server.clock.now()));
    gateway.says_goodbye().await;
    eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
}

#[tokio::test]
async fn a_route_made_while_connected_opens_its_pair_to_a_later_hello() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let shared = bot("slack", "s1");
    server.has_bot(&shared, true).await;
    let mut gateway = heron.sits().await;
    gateway.say(json!({"type": "hello", "platform": "slack", "botId": "s1"})).await;
    gateway.hears_nothing().await;
    server.routes(&shared, Discriminator::Scope("T1".into()), &heron).await;
    gateway.says_hello(&shared).await;
}

#[tokio::test]
async fn a_peer_of_another_contract_version_is_served_by_the_rules_of_version_1() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.dials().await;
    // What it adds to the frames is ignored, and what it is told names the version that we speak.
    gateway
        .say(json!({"type": "hello", "platform": "telegram", "botId": "7001", "contract_version": 2,
            "capabilities": {"teleport": true}}))
        .await;
    let descriptor = gateway.hears().await["descriptor"].clone();
    assert_eq!((&descriptor["contract_version"], &descriptor["platform"]), (&json!(1), &json!("telegram")));
    // A frame of that version is passed over, an op of it is refused by name, and the socket stays.
    gateway.say(json!({"type": "teleport", "requestId": "t1", "contract_version": 2})).await;
    gateway.asks("r1", json!({"op": "teleport", "chat_id": "c1", "contract_version": 2})).await;
    assert_eq!(gateway.hears_result("r1").await["error"], "unsupported op: teleport");
    server.winds(seconds(4));
    server.says(&heron.bots[0], "c1", "hello").await;
    gateway.takes("hello").await;
    gateway
        .asks("r2", json!({"op": "send", "chat_id": "c1", "content": "pong", "teleport": {"to": "c2"}}))
        .await;
    assert_eq!(gateway.hears_result("r2").await["success"], true);
}

#[tokio::test]
async fn a_gateway_that_is_limited_to_a_bot_speaks_for_no_other() {
    let server = TestServer::open().await;
    let (telegram, discord) = (bot("telegram", "7001"), bot("discord", "8002"));
    let heron = server.enrol("acme", "heron", &[telegram.clone(), discord.clone()]).await;
    let laptop = heron.with_another_gateway("gw_laptop").await;
    let gateways = &server.identity.gateways;
    let limit = |bots: &[BotRef]| GatewayChange { bots: Some(bots.to_vec()), ..GatewayChange::default() };
    assert_eq!(
        gateways
            .change(&heron.instance, &laptop.gateway, limit(std::slice::from_ref(&discord)))
            .await
            .unwrap(),
        GatewayChanged::Done
    );
    let hello =
        |on: &BotRef| json!({"type": "hello", "platform": on.platform.as_str(), "botId": on.bot.as_str()});
    let mut gateway = laptop.dials().await;
    gateway.say(hello(&telegram)).await;
    // Without a bot it means its only one, and the limit leaves one.
    gateway.say(json!({"type": "hello", "platform": "relay", "botId": ""})).await;
    assert_eq!(gateway.hears().await["descriptor"]["platform"], "discord");
    // A removed bot does not give it the others.
    server.identity.accounts.remove_bot(&discord).await.unwrap();
    let mut gateway = laptop.dials().await;
    gateway.say(hello(&telegram)).await;
    gateway.sends("r1", "5", "hi").await;
    assert_eq!(gateway.hears().await["requestId"], "r1", "no descriptor came before the result");
    // The other gateway of the agent is not limited, and neither is this one any more.
    assert_eq!(
        gateways.change(&heron.instance, &laptop.gateway, limit(&[])).await.unwrap(),
        GatewayChanged::Done
    );
    for agent in [&heron, &laptop] {
        let mut gateway = agent.dials().await;
        gateway.say(hello(&telegram)).await;
        assert_eq!(gateway.hears().await["descriptor"]["platform"], "telegram");
    }
    let crow = server.enrol("rival", "crow", &[]).await;
    assert_eq!(
        gateways.change(&crow.instance, &laptop.gateway, limit(&[])).await.unwrap(),
        GatewayChanged::NoGateway,
        "not its own"
    );
}
