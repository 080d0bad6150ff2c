//! Message traces by any id, and one bot shared by two tenants.

use posthouse_wire::{Action, MessageId};
use stand_ins::telegram::{Injection, TelegramStandIn};

use crate::talk::{Rider, is_told, make_bot, says, telegram};
use crate::test_server::TestServer;

/// A server with one bot of the stand-in's, shared or owned by whoever is made with it.
async fn with_bot(shared: bool) -> (TestServer, TelegramStandIn) {
    let telegram = telegram(&["7001:token@posty_bot"]).await;
    let server = TestServer::open(&[("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", &telegram.base_url())]);
    let words: &[&str] = if shared { &["--mode", "webhook", "--shared"] } else { &["--mode", "webhook"] };
    make_bot(&server, "7001", "7001:token", words);
    (server, telegram)
}

fn steps(story: &serde_json::Value) -> Vec<String> {
    let steps = story["steps"].as_array().unwrap();
    steps.iter().map(|step| step["what"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_and_its_answer_are_told_step_by_step_without_a_word_of_theirs() {
    let (server, telegram) = with_bot(false).await;
    server.does(&["tenant", "create", "acme"]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "telegram:7001"]);
    let mut rider = Rider::dial(&server, &heron, &[("telegram", "7001")]).await;
    says(&telegram, 7001, 5, "where is my parcel");
    let heard = rider.hears().await;
    let message = heard.event.message_id.clone().unwrap();
    let entry = heard.entry.unwrap().to_string();
    // Acknowledged before it is answered: both at once may be told in either order.
    while !steps(&server.does(&["message", "trace", &entry])["items"][0]).contains(&"acknowledged".to_owned())
    {
    }
    let outcome = rider.replies("telegram", "7001", "5", "in the barn", message.clone()).await;
    let answer: MessageId = outcome.message_id.unwrap();
    assert!(is_told(&telegram, 5, "in the barn").await);

    let told = server.does(&["message", "trace", &entry]);
    assert_eq!(told["items"][0]["id"], entry);
    assert_eq!(
        steps(&told["items"][0]),
        ["accepted", "durable", "sent to agent", "acknowledged", "answered"]
    );
    let action = told["items"][0]["linked"][0].as_str().unwrap().to_owned();
    let acted = server.does(&["message", "trace", &action]);
    assert_eq!(steps(&acted["items"][0]), ["accepted", "posted", "done"]);
    assert_eq!(acted["items"][0]["linked"][0], entry);
    for (chat, message, expected) in [("5", &message, &entry), ("5", &answer, &action)] {
        let found = server.does(&["message", "trace", &format!("telegram:{chat}:{message}")]);
        assert_eq!(found["items"][0]["id"], *expected);
    }
    let all = format!("{told}{acted}");
    assert!(!all.contains("parcel") && !all.contains("barn"), "{all}");
    assert!(!server.tries(&["message", "trace", "ent_00000000000000000000000000000000"]).status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tenants_on_one_bot_are_told_apart_by_the_events_own_chat() {
    let (server, telegram) = with_bot(true).await;
    let mut riders = Vec::new();
    for (tenant, name, chat) in [("acme", "heron", "5"), ("globex", "otter", "6")] {
        server.does(&["tenant", "create", tenant]);
        let agent = server.does(&["agent", "create", name, "--tenant", tenant]);
        let instance = agent["instance_id"].as_str().unwrap();
        server.does(&["route", "create", "telegram:7001", &format!("chat:{chat}"), instance]);
        riders.push(Rider::dial(&server, &agent, &[("telegram", "7001")]).await);
    }
    // The same bot, token, door and connection bring all three; the last has no route at all.
    says(&telegram, 7001, 6, "for otter");
    says(&telegram, 7001, 5, "for heron");
    telegram.inject(Injection::text(7, "for nobody").to_bot(7001)).unwrap();
    says(&telegram, 7001, 5, "for heron again");
    let (mut heron, mut otter) = (riders.remove(0), riders.remove(0));
    assert_eq!(heron.hears().await.event.text, "for heron");
    assert_eq!(heron.hears().await.event.text, "for heron again");
    assert_eq!(otter.hears().await.event.text, "for otter");
    // Nothing else is on its way: what is said now is next.
    for (agent, chat, marker) in [(&mut heron, 5, "heron's marker"), (&mut otter, 6, "otter's marker")] {
        says(&telegram, 7001, chat, marker);
        assert_eq!(agent.hears().await.event.text, marker);
    }

    // Nor can either reach the other's chat, or one that nobody has; all refusals are alike.
    let foreign = heron.sends("telegram", "7001", "6", "psst").await;
    let nobodys = heron.sends("telegram", "7001", "7", "psst").await;
    assert_eq!(foreign.code.as_deref(), Some("egress_declined"));
    assert_eq!(foreign, nobodys);
    assert!(heron.sends("telegram", "7001", "5", "hello").await.success);
    assert!(otter.sends("telegram", "7001", "6", "hello").await.success);
    let info = Action::GetChatInfo { chat_id: "6".into() };
    assert_eq!(heron.asks("telegram", "7001", info).await, foreign);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bot_made_anew_under_its_old_id_hears_with_its_new_token() {
    let telegram = telegram(&["7001:old@posty_bot", "7002:new@other_bot"]).await;
    let server = TestServer::open(&[("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", &telegram.base_url())]);
    server.does(&["tenant", "create", "acme"]);
    for (name, token) in [("old", "7001:old"), ("new", "7002:new")] {
        make_bot(&server, "desk", token, &["--mode", "poll"]);
        if name == "old" {
            server.does(&["bot", "remove", "telegram:desk"]);
        }
    }
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "telegram:desk"]);
    let mut rider = Rider::dial(&server, &heron, &[("telegram", "desk")]).await;
    says(&telegram, 7002, 5, "good morning");
    assert_eq!(rider.hears().await.event.text, "good morning");
    assert!(rider.sends("telegram", "desk", "5", "and to you").await.success);
    assert!(is_told(&telegram, 5, "and to you").await);
}
