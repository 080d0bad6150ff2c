//! Tests of `notify` and `deliver`: addresses, order of connectors, repeats.

use posthouse_wire::delivery::{PayloadKind, TriggerKind};
use serde_json::json;

use crate::receiver::Receiver;
use crate::test_server::{TestServer, chat, eventually};

#[tokio::test]
async fn a_bare_address_delivers_into_the_inbox_with_a_complete_envelope() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let body = json!({
        "agent": "heron", "message": "the build is green", "kind": "template", "event_type": "ci",
        "correlation_id": "c-1", "from": "watcher", "trigger_kind": "cron",
    });
    let (status, response) = program.posts("/v1/notify", body).await;
    assert_eq!(status, 200, "{response}");
    assert_eq!(response["dispatched"][0]["connector"], "relay");
    assert_eq!(response["dispatched"][0]["route"], "deliver");
    assert_eq!(response["dispatched"][0]["ok"], true);

    let inbound = heron.hears().await;
    let posted = inbound.event.post.as_ref().unwrap();
    let meta = posted.meta.as_ref().unwrap();
    assert_eq!((posted.kind, posted.expects_reply), (PayloadKind::Template, false));
    assert_eq!(inbound.event.text, "[posthouse template from watcher]\n\nthe build is green");
    assert_eq!(posted.unwrap(&inbound.event.text), "the build is green");
    assert_eq!(meta.dispatch_id.as_str(), response["dispatch_id"]);
    assert_eq!((meta.origin.skill_name.as_str(), meta.origin.trigger_kind), ("watcher", TriggerKind::Cron));
    assert_eq!(meta.origin.caller_agent_id, None);
    assert_eq!(meta.event_type.as_deref(), Some("ci"));
    assert_eq!(meta.correlation_id.as_ref().unwrap(), "c-1");
    let source = &inbound.event.source;
    assert_eq!((source.platform.as_str(), source.chat_type.as_str()), ("post", "dm"));
    assert_eq!(source.chat_id.as_ref().unwrap(), "post-watcher");
    assert_eq!(source.user_id.as_ref().unwrap(), "post:watcher");
    // The message is the entry, and the receipt says so.
    let entry = response["dispatched"][0]["receipt"]["delivery_id"].as_str().unwrap();
    assert_eq!(inbound.event.message_id.as_ref().unwrap(), entry);

    let receipt =
        program.receipt_when(&response["dispatch_id"], |receipt| receipt["state"] == "acknowledged").await;
    let at = |name: &str| receipt[name].as_i64().unwrap_or_else(|| panic!("no {name} in {receipt}"));
    assert!(at("sent_at") <= at("accepted_at") && at("accepted_at") <= at("delivered_at"));
    assert!(at("delivered_at") <= at("acknowledged_at"));
    assert_eq!(at("queue_lag_ms"), at("delivered_at") - at("sent_at"));
}

#[tokio::test]
async fn nobody_claiming_the_agent_is_an_empty_list_and_no_error() {
    let server = TestServer::open().await;
    let other = server.enrol("other", "heron").await;
    let program = server.program("acme").await;
    for address in ["nobody", "heron", other.instance.as_str(), "heron@kitchen", "a/b/../c", "@"] {
        let response = program.notifies(address, "hello").await;
        assert_eq!(response["dispatched"], json!([]), "{address}");
    }
}

#[tokio::test]
async fn a_text_that_would_be_a_command_to_the_agent_never_begins_its_message() {
    let server = TestServer::open_with(post::Config { preamble: false, ..post::Config::default() }).await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    for (text, seen) in [("/status", true), ("  /stop now", true), ("plain words", false)] {
        program.notifies("heron", text).await;
        let event = heron.hears().await.event;
        assert_eq!(event.text.starts_with("[posthouse"), seen, "{text}");
        assert_eq!(event.post.as_ref().unwrap().unwrap(&event.text), text);
    }
}

#[tokio::test]
async fn the_same_dispatch_id_over_the_same_text_is_done_once_and_answered_the_same() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let notify = async |text: &str| {
        let body = json!({ "agent": "heron", "message": text });
        let (status, response) = program.posts_with("/v1/notify", &[("idempotency-key", "k-1")], body).await;
        assert_eq!(status, 200, "{response}");
        response
    };
    let first = notify("once").await;
    assert_eq!(first["dispatch_id"], "k-1");
    heron.hears().await;
    let again = notify("once").await;
    assert_eq!(again["dispatched"], first["dispatched"]);
    // Another text with the same id is another delivery: a duplicate is better than a loss.
    let other = notify("twice").await;
    assert_ne!(
        other["dispatched"][0]["receipt"]["delivery_id"],
        first["dispatched"][0]["receipt"]["delivery_id"]
    );
    assert!(heron.hears().await.event.text.ends_with("twice"));
    heron.hears_nothing_more().await;
}

#[tokio::test]
async fn two_agents_that_hit_upon_the_same_id_are_two_senders() {
    let server = TestServer::open().await;
    let crane = server.enrol("acme", "crane").await.sits().await;
    let key = [("idempotency-key", "release-7")];
    for name in ["heron", "wren"] {
        let program = server.enrol("acme", name).await.program().await;
        let body = json!({ "agent": "crane", "message": "out" });
        let (status, response) = program.posts_with("/v1/notify", &key, body).await;
        assert_eq!(status, 200, "{response}");
        assert_eq!(response["dispatched"][0]["receipt"]["session_id"], name);
        assert_eq!(crane.hears().await.event.source.user_name.as_deref(), Some(name));
        let (_, response) = program.gets("/v1/receipts/release-7").await;
        assert_eq!(response["items"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_dispatch_id_is_remembered_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let body = json!({ "agent": "heron", "message": "once" });
    let key = [("idempotency-key", "conformance-test")];
    let first = {
        let server = TestServer::open_in(folder.path()).await;
        server.enrol("acme", "heron").await;
        let program = server.program("acme").await;
        let (_, response) = program.posts_with("/v1/notify", &key, body.clone()).await;
        drop(program);
        server.closes().await;
        response
    };
    // The ledger's folder is free after the last handle of the first server was dropped.
    eventually("the folder is free", async || {
        let place = ledger::Location::Folder(folder.path().to_owned());
        ledger::Ledger::open(place, posthouse_time::Timepiece::wall()).await.is_ok()
    })
    .await;
    let server = TestServer::open_in(folder.path()).await;
    let program = server.program("acme").await;
    let (_, again) = program.posts_with("/v1/notify", &key, body).await;
    assert_eq!(again["dispatched"], first["dispatched"]);
    let (_, response) = program.gets("/v1/receipts/conformance-test").await;
    assert_eq!(response["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_broadcast_shares_one_id_in_order_and_a_failure_does_not_stop_the_rest() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let receiver = Receiver::open().await;
    let dead = json!({ "agents": { "heron": { "url": "http://127.0.0.1:9/gone" } }, "timeout_ms": 500 });
    let drawer = json!({ "agents": { "heron": { "url": format!("{}/in/heron", receiver.base) } } });
    server.wires("acme", "gone", "webhook", dead).await;
    server.wires("acme", "drawer", "webhook", drawer).await;
    let program = server.program("acme").await;
    let response = program.notifies("heron", "hello").await;
    let names: Vec<_> =
        response["dispatched"].as_array().unwrap().iter().map(|one| &one["connector"]).collect();
    assert_eq!(names, ["relay", "gone", "drawer"]);
    // The delivery to the unreachable receiver is queued for a retry, and its receipt says so.
    assert_eq!(response["dispatched"][1]["receipt"]["warnings"], json!(["queued for retry"]));
    let meta = heron.hears().await.event.post.unwrap().meta.unwrap();
    let sent = receiver.seen();
    let body: serde_json::Value = serde_json::from_slice(&sent[0].body).unwrap();
    assert_eq!(body["meta"]["dispatch_id"], meta.dispatch_id.as_str());
    assert_eq!(body["agent_id"], "heron");

    let (_, one) = program
        .posts("/v1/notify", json!({ "agent": "heron", "message": "x", "connectors": ["drawer", "nope"] }))
        .await;
    let names: Vec<_> = one["dispatched"].as_array().unwrap().iter().map(|one| &one["connector"]).collect();
    assert_eq!(names, ["drawer"]);
    assert_ne!(one["dispatch_id"], response["dispatch_id"]);
}

#[tokio::test]
async fn what_an_agent_says_back_is_kept_with_the_receipt() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let response = program.notifies("heron", "good morning").await;
    let inbound = heron.hears().await;
    let said = heron.says(&chat(&inbound), "and to you", Default::default()).await;
    assert!(said.success, "{said:?}");
    let receipt = program
        .receipt_when(&response["dispatch_id"], |receipt| receipt["replies"][0]["text"] == "and to you")
        .await;
    assert_eq!(receipt["replies"][0]["kind"], "said");
    // An agent cannot write in a chat from which it never got a message.
    let declined = heron.says(&"post-somebody-else".into(), "psst", Default::default()).await;
    assert_eq!(declined.code.as_deref(), Some("egress_declined"));
}

#[tokio::test]
async fn an_agents_own_credential_says_who_it_is_and_cannot_say_otherwise() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let wren = server.enrol("acme", "wren").await.program().await;
    let body = json!({ "agent": "heron", "message": "x", "trigger_kind": "cron" });
    let (status, response) = wren.posts("/v1/notify", body).await;
    assert_eq!(status, 200, "{response}");
    let origin = heron.hears().await.event.post.unwrap().meta.unwrap().origin;
    assert_eq!((origin.skill_name.as_str(), origin.trigger_kind), ("wren", TriggerKind::Agent));
    assert_eq!(origin.caller_agent_id.as_deref(), Some("wren"));

    let meta = json!({
        "dispatch_id": "d-1", "sent_at": 5,
        "origin": { "skill_name": "boss", "trigger_kind": "dashboard", "caller_agent_id": "boss" },
    });
    let body = json!({ "agent_id": "heron", "kind": "augment", "content": "y", "meta": meta });
    let (status, response) = wren.posts("/v1/deliver", body).await;
    assert_eq!(status, 200, "{response}");
    let origin = heron.hears().await.event.post.unwrap().meta.unwrap().origin;
    assert_eq!((origin.skill_name.as_str(), origin.trigger_kind), ("wren", TriggerKind::Agent));
}

#[tokio::test]
async fn a_tenant_may_keep_its_agents_from_writing_to_one_another() {
    let server = TestServer::open().await;
    server.enrol("acme", "heron").await;
    let wren = server.enrol("acme", "wren").await;
    server.post.connectors().records().set_peers_may_write(&wren.tenant, false).await.unwrap();
    server.post.connectors().changed(&server.tenant("acme").await);
    let wren = wren.program().await;
    assert_eq!(wren.notifies("heron", "x").await["dispatched"], json!([]));
    assert_eq!(wren.notifies("wren", "x").await["dispatched"].as_array().unwrap().len(), 1);
    let tenant = server.program("acme").await;
    assert_eq!(tenant.notifies("heron", "x").await["dispatched"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn peer_post_none_hides_neighbours_in_the_list_of_agents_too() {
    let server = TestServer::open().await;
    server.enrol("acme", "heron").await;
    let wren = server.enrol("acme", "wren").await;
    let receiver = Receiver::open().await;
    let settings = json!({ "agents": { "desk": { "url": format!("{}/in/desk", receiver.base) } } });
    server.wires("acme", "hooks", "webhook", settings).await;
    let (tenant, own) = (server.program("acme").await, wren.program().await);
    let names = |listed: serde_json::Value| {
        let items = listed["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["agent_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(own.gets("/v1/agents").await.1), ["desk", "heron", "wren"]);
    server.post.connectors().records().set_peers_may_write(&wren.tenant, false).await.unwrap();
    server.post.connectors().changed(&wren.tenant);
    assert_eq!(names(own.gets("/v1/agents").await.1), ["wren"]);
    assert_eq!(own.gets("/v1/agents/wren").await.0, 200);
    let nobody = own.gets("/v1/agents/nobody").await;
    for hidden in ["heron", "desk"] {
        assert_eq!(own.gets(&format!("/v1/agents/{hidden}")).await, nobody, "{hidden}");
    }
    assert_eq!(names(tenant.gets("/v1/agents").await.1), ["desk", "heron", "wren"]);
}

#[tokio::test]
async fn a_delivery_to_a_session_goes_to_the_mailbox_with_a_warning() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let meta = json!({
        "dispatch_id": "d-1", "sent_at": 5, "origin": { "skill_name": "deploys", "trigger_kind": "cron" },
    });
    let body =
        |agent: &str| json!({ "agent_id": agent, "kind": "augment", "content": "green", "meta": meta });
    for _ in 0..2 {
        let (status, response) = program.posts("/v1/deliver", body("heron@kitchen")).await;
        assert_eq!(status, 200, "{response}");
        let warnings =
            response["warnings"].as_array().or(response["receipt"]["warnings"].as_array()).unwrap();
        assert_eq!(warnings, &[json!("stripped @session suffix \u{2014} deliver is mailbox-class")]);
    }
    assert!(heron.hears().await.event.text.ends_with("green"));
    heron.hears_nothing_more().await;
    for unknown in ["nobody@kitchen", "@kitchen"] {
        assert_eq!(program.posts("/v1/deliver", body(unknown)).await.0, 404, "{unknown}");
    }
}

#[tokio::test]
async fn an_agents_own_name_comes_before_an_alias() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let wren = server.enrol("acme", "wren").await;
    let alias = ledger::Alias { tenant: wren.tenant, name: "heron".to_owned(), agent: "wren".to_owned() };
    server.post.connectors().records().create_alias(alias).await.unwrap();
    server.post.connectors().changed(&server.tenant("acme").await);
    server.program("acme").await.notifies("heron", "you").await;
    assert!(heron.hears().await.event.text.ends_with("you"));
}

#[tokio::test]
async fn an_alias_stands_for_an_address_and_may_hold_an_at_sign() {
    let server = TestServer::open().await;
    let receiver = Receiver::open().await;
    let settings = json!({ "agents": { "bob@example.com": { "url": format!("{}/in/bob", receiver.base) } } });
    server.wires("acme", "mail", "webhook", settings).await;
    let tenant = server.tenant("acme").await;
    let alias = ledger::Alias { tenant, name: "bob".to_owned(), agent: "bob@example.com".to_owned() };
    server.post.connectors().records().create_alias(alias).await.unwrap();
    server.post.connectors().changed(&server.tenant("acme").await);
    let program = server.program("acme").await;
    let body_of = |seen: crate::receiver::Seen| {
        (seen.json()["agent_id"].clone(), seen.json()["meta"]["session_id"].clone())
    };
    // The whole address is a name, so it wakes without a session. The alias with a session names one.
    for (address, session) in [("bob@example.com", serde_json::Value::Null), ("bob@desk", json!("desk"))] {
        let response = program.notifies(address, "up").await;
        assert_eq!(response["dispatched"][0]["route"], "wake", "{address}");
        assert_eq!(body_of(receiver.one()), (json!("bob@example.com"), session), "{address}");
    }
    // The bare alias delivers and does not wake.
    let response = program.notifies("bob", "hello").await;
    assert_eq!(response["dispatched"][0]["route"], "deliver");
    let body: serde_json::Value = serde_json::from_slice(&receiver.one().body).unwrap();
    assert_eq!(body["agent_id"], "bob@example.com");
}
