//! One Telegram bot for two tenants, on the real binary: who gets which message, and who may write where.

use posthouse_wire::action::{Metadata, PromptKind, PromptOption};
use posthouse_wire::{Action, Outcome};
use serde_json::{Value, json};
use stand_ins::telegram::{Injection, TelegramStandIn};

use crate::matrix::gateway_token;
use crate::talk::{Rider, is_told, make_bot, says, telegram};
use crate::test_server::{TestServer, files};

const BOT: i64 = 7001;
const GROUP: i64 = -100_200;
const LINKED: &str = "You are linked now. Your messages to this bot go to your agent.";
const WRONG: &str = "This code is not valid. It may have expired: ask your agent for a new one and send it within ten minutes.";

/// An agent of one tenant on the shared bot.
struct Member {
    created: Value,
    rider: Rider,
}

impl Member {
    async fn join(server: &TestServer, tenant: &str, name: &str) -> Self {
        server.does(&["tenant", "create", tenant]);
        let created = server.does(&["agent", "create", name, "--tenant", tenant]);
        let change = ["agent", "change", name, "--tenant", tenant, "--use-bot", "telegram:shared"];
        let refused = server.tries(&change);
        assert!(!refused.status.success(), "the tenant is not admitted yet");
        server.does(&["bot", "change", "telegram:shared", "--tenant", tenant]);
        server.does(&change);
        let rider = Rider::dial(server, &created, &[("telegram", "shared")]).await;
        Self { created, rider }
    }

    /// Calls `/manage/…` and returns the status and the answer.
    async fn manages(&self, server: &TestServer, path: &str, body: Value) -> (u16, Value) {
        let request = reqwest::Client::new().post(format!("{}/manage/{path}", server.url));
        let token = gateway_token(&self.created);
        let answer = request.bearer_auth(token).body(body.to_string()).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn code(&self, server: &TestServer) -> String {
        let (status, answer) = self.manages(server, "link", json!({})).await;
        assert_eq!(status, 200, "{answer}");
        answer["code"].as_str().unwrap().to_owned()
    }

    async fn hears(&mut self) -> String {
        self.rider.hears().await.event.text
    }

    async fn sends(&self, chat: i64, text: &str) -> Outcome {
        self.rider.sends("telegram", "shared", &chat.to_string(), text).await
    }
}

/// Somebody writes in the group.
fn writes(telegram: &TelegramStandIn, person: i64, text: &str) {
    let message = Injection { chat_type: Some("supergroup".to_owned()), ..Injection::text(GROUP, text) };
    telegram.inject(message.by(person, "Somebody").to_bot(BOT)).unwrap();
}

/// Waits until the server has accepted all messages that were written.
async fn all_are_delivered(telegram: &TelegramStandIn) {
    let none_waits = |telegram: &TelegramStandIn| telegram.deliveries(None).pending == 0;
    assert!(telegram.until(crate::talk::PATIENCE, none_waits).await);
}

async fn open() -> (TelegramStandIn, TestServer, Member, Member) {
    let telegram = telegram(&["7001:token@posty_bot"]).await;
    let server = TestServer::open(&[("POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL", &telegram.base_url())]);
    make_bot(&server, "shared", "7001:token", &["--shared"]);
    let heron = Member::join(&server, "acme", "heron").await;
    let otter = Member::join(&server, "globex", "otter").await;
    (telegram, server, heron, otter)
}

/// Links person 5 to the first agent and person 6 to the second.
async fn link(telegram: &TelegramStandIn, server: &TestServer, members: [&Member; 2]) -> Vec<String> {
    let mut codes = Vec::new();
    for (person, member) in [5, 6].into_iter().zip(members) {
        let code = member.code(server).await;
        says(telegram, BOT, person, &format!("/link {code}"));
        assert!(is_told(telegram, person, LINKED).await);
        codes.push(code);
    }
    codes
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tenants_people_reach_their_own_agent_and_strangers_reach_nobody() {
    let (telegram, server, mut heron, mut otter) = open().await;
    says(&telegram, BOT, 5, "before the link");
    let codes = link(&telegram, &server, [&heron, &otter]).await;
    says(&telegram, BOT, 7, &format!("/link {}", codes[0]));
    assert!(is_told(&telegram, 7, WRONG).await, "a code works once");
    for (person, text) in [(7, "from a stranger"), (5, "five"), (6, "six")] {
        says(&telegram, BOT, person, text);
        writes(&telegram, person, &format!("{text} in the group"));
    }
    for (member, person, own) in [(&mut heron, 5, "five"), (&mut otter, 6, "six")] {
        // Telegram delivers the messages of one chat in order, and different chats at the same time.
        let mut heard = [member.hears().await, member.hears().await];
        heard.sort();
        assert_eq!(heard, [own.to_owned(), format!("{own} in the group")]);
        all_are_delivered(&telegram).await;
        says(&telegram, BOT, person, "marker");
        assert_eq!(member.hears().await, "marker", "what is not for an agent would come before it");
    }
    assert!(heron.sends(5, "to my own").await.success);
    assert!(heron.sends(GROUP, "where my own is").await.success);
    for chat in [6, 7, -999] {
        let declined = heron.sends(chat, "to others").await;
        assert!(!declined.success && declined.error.unwrap().contains("egress declined"), "{chat}");
    }

    let published = heron.code(&server).await;
    writes(&telegram, 5, &format!("/link {published}"));
    assert_eq!(heron.hears().await, format!("/link {published}"), "in a group it is a message like others");
    says(&telegram, BOT, 7, &format!("/link {published}"));
    let twice = |telegram: &TelegramStandIn| crate::talk::count(telegram, 7, WRONG) == 2;
    assert!(telegram.until(crate::talk::PATIENCE, twice).await, "it ended because others could read it");
    for (path, contents) in files(&server.folder()) {
        for code in &codes {
            let holds = contents.windows(code.len()).any(|part| part == code.as_bytes());
            assert!(!holds, "{} holds a link code", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_needs_proof_and_gives_only_what_its_agent_may_have() {
    let (telegram, server, mut heron, mut otter) = open().await;
    let scope = json!({ "platform": "telegram", "scopeId": GROUP.to_string() });
    let absent = otter.manages(&server, "scope", json!({ "platform": "telegram", "scopeId": "-999" })).await;
    assert_eq!(absent, (409, json!({ "error": "not_claimable" })));
    assert_eq!(otter.manages(&server, "scope", scope.clone()).await, absent, "nobody proved it");
    link(&telegram, &server, [&heron, &otter]).await;
    writes(&telegram, 6, "proof");
    assert_eq!(otter.hears().await, "proof");
    assert_eq!(otter.manages(&server, "scope", scope.clone()).await, (200, json!({ "ok": true })));
    writes(&telegram, 5, "also here");
    assert_eq!(heron.hears().await, "also here");
    assert_eq!(heron.manages(&server, "scope", scope.clone()).await, absent, "it is taken");

    let any = json!({ "policy": "any", "instanceId": heron.created["instance_id"] });
    assert_eq!(otter.manages(&server, "principal", any).await.0, 200);
    declares(&server, &otter, false).await;
    for (person, text) in [(7, "a stranger"), (5, "five"), (6, "six")] {
        writes(&telegram, person, text);
    }
    assert_eq!((otter.hears().await.as_str(), otter.hears().await.as_str()), ("a stranger", "six"));
    assert_eq!(heron.hears().await, "five", "a linked author's message is never another agent's");
    says(&telegram, BOT, 7, "alone with the bot");
    all_are_delivered(&telegram).await;
    says(&telegram, BOT, 6, "marker");
    assert_eq!(otter.hears().await, "marker", "a claim concerns the group only");

    let listed = server.does(&["claim", "list", "--bot", "telegram:shared"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let (agent, place) = (otter.created["instance_id"].as_str().unwrap(), format!("chat:{GROUP}"));
    server.does(&["claim", "remove", "telegram:shared", &place, "--agent", agent]);
    writes(&telegram, 7, "too late");
    writes(&telegram, 6, "second marker");
    assert_eq!(otter.hears().await, "second marker");
}

/// The agent declares whether it gets only messages that are addressed to the bot.
async fn declares(server: &TestServer, member: &Member, require_address: bool) {
    let policy = json!({ "platform": "telegram", "requireAddress": require_address, "freeResponseScopes": [],
        "allowOtherBots": false });
    let request = reqwest::Client::new().post(format!("{}/relay/policy", server.url));
    let declared = request.bearer_auth(gateway_token(&member.created)).body(policy.to_string());
    assert_eq!(declared.send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_guests_write_in_a_claimed_group_is_context_for_its_agent_and_for_nobody_elses() {
    let (telegram, server, mut heron, mut otter) = open().await;
    link(&telegram, &server, [&heron, &otter]).await;
    // Both agents are spoken to in the group, so that its messages are kept for them from now on.
    for (person, member) in [(5, &mut heron), (6, &mut otter)] {
        writes(&telegram, person, "@posty_bot hello");
        assert_eq!(member.hears().await, "hello");
    }
    let scope = json!({ "platform": "telegram", "scopeId": GROUP.to_string() });
    assert_eq!(otter.manages(&server, "scope", scope).await.0, 200);
    assert_eq!(otter.manages(&server, "principal", json!({ "policy": "any" })).await.0, 200);
    declares(&server, &otter, true).await;
    for (guest, text) in [(7, "the guests' first words"), (8, "the guests' second words")] {
        writes(&telegram, guest, text);
    }
    // Person 5 is linked to heron of another tenant, in whose eyes the guests are strangers.
    writes(&telegram, 5, "@posty_bot what did I miss?");
    let event = heron.rider.hears().await.event;
    assert_eq!(event.text, "what did I miss?");
    assert_eq!(event.context, [], "messages of the other tenant's guests");
    // The guests' words were kept: they come with the next message for the agent of the group.
    writes(&telegram, 7, "@posty_bot and now?");
    let event = otter.rider.hears().await.event;
    assert_eq!(event.text, "and now?");
    let context: Vec<&str> = event.context.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(context, ["the guests' first words", "the guests' second words"]);
    // The platform was asked whether otter's person sees the group. That is a use of the bot for otter, and for no other.
    let questions = |agent: &str, tenant: &str| {
        let uses = server.does(&["capability", "list", "--agent", agent, "--tenant", tenant]);
        let uses = uses["items"].as_array().unwrap().clone();
        uses.into_iter().filter(|one| one["called"] == "getChatMember").collect::<Vec<_>>()
    };
    let asked = questions("otter", "globex");
    assert!(
        !asked.is_empty() && asked.iter().all(|one| one["outcome"] == "ok" && one["kind"] == "telegram.bot")
    );
    assert_eq!(questions("heron", "acme"), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_can_end_only_what_is_its_own() {
    let (telegram, server, mut heron, mut otter) = open().await;
    link(&telegram, &server, [&heron, &otter]).await;
    let six = json!({ "platform": "telegram", "userId": "6", "instanceId": otter.created["instance_id"] });
    assert_eq!(heron.manages(&server, "unlink", six.clone()).await, (200, json!({ "ok": true })));
    assert_eq!(heron.manages(&server, "dm-default", six.clone()).await.0, 404);
    assert_eq!(otter.manages(&server, "dm-default", six).await.0, 200);
    says(&telegram, BOT, 6, "still linked");
    assert_eq!(otter.hears().await, "still linked");
    for (path, body) in [
        ("unlink", json!({ "platform": "telegram" })),
        ("scope", json!({ "platform": "telegram", "scopeId": "" })),
        ("principal", json!({ "policy": "everybody" })),
        ("dm-default", json!([])),
        ("link", json!({ "platform": "" })),
    ] {
        let (status, answer) = heron.manages(&server, path, body).await;
        assert!(status == 400 && answer["error"].is_string(), "{path}: {status} {answer}");
    }
    let status = reqwest::Client::new().get(format!("{}/manage/status", server.url));
    let status = status.bearer_auth(gateway_token(&otter.created)).send().await.unwrap();
    let status: Value = status.json().await.unwrap();
    assert_eq!(status["instanceId"], otter.created["instance_id"]);
    assert_eq!((&status["connected"], &status["buffered"]), (&json!(true), &json!(0)));
    assert_eq!(status["bindings"][0]["userId"], "6");
    assert_eq!(status["bindings"].as_array().unwrap().len(), 1);

    let ended = otter.manages(&server, "deprovision", json!({})).await;
    assert_eq!(ended, (200, json!({ "ok": true, "bindingsRemoved": 1 })));
    assert_eq!(otter.manages(&server, "deprovision", json!({})).await.0, 401, "its credential ended with it");
    says(&telegram, BOT, 6, "to nobody");
    all_are_delivered(&telegram).await;
    says(&telegram, BOT, 5, "marker");
    assert_eq!(heron.hears().await, "marker");
    let listed = server.does(&["binding", "list"]);
    let people: Vec<_> = listed["items"].as_array().unwrap().iter().map(|link| &link["user"]).collect();
    assert_eq!(people, [&json!("5")]);
    server.does(&["binding", "remove", "telegram:5", "--agent", "heron", "--tenant", "acme"]);
    assert!(!heron.sends(5, "after the link").await.success);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_on_every_event_of_its_route_and_comes_back_with_the_answer() {
    let (telegram, server, mut heron, otter) = open().await;
    link(&telegram, &server, [&heron, &otter]).await;
    server.does(&["agent", "change", "heron", "--tenant", "acme", "--profile", "day"]);
    says(&telegram, BOT, 5, "good morning");
    let heard = heron.rider.hears().await;
    assert_eq!(heard.event.source.profile.as_deref(), Some("day"));
    let group = format!("chat:{GROUP}");
    let route =
        ["route", "create", "telegram:shared", &group, "heron", "--tenant", "acme", "--profile", "night"];
    server.does(&route);
    writes(&telegram, 5, "good night");
    assert_eq!(heron.rider.hears().await.event.source.profile.as_deref(), Some("night"));
    let metadata = Metadata { profile: Some("night".to_owned()), notify: Some(true), ..Metadata::default() };
    let answer = Action::Send {
        chat_id: GROUP.to_string().as_str().into(),
        content: "sleep well".to_owned(),
        reply_to: None,
        metadata,
    };
    assert!(heron.rider.asks("telegram", "shared", answer).await.success);
    assert!(is_told(&telegram, GROUP, "sleep well").await);
    server.does(&["agent", "change", "heron", "--tenant", "acme", "--no-profile"]);
    says(&telegram, BOT, 5, "no profile");
    assert_eq!(heron.rider.hears().await.event.source.profile, None);
}

/// Asks with buttons, and returns the message that shows them.
async fn asks(member: &Member, chat: i64, prompt: &str) -> i64 {
    let action = Action::Prompt {
        chat_id: chat.to_string().as_str().into(),
        prompt_kind: PromptKind::Approval,
        prompt_id: prompt.into(),
        content: format!("{prompt}?"),
        options: vec![PromptOption { id: "once".into(), label: "Once".to_owned(), style: None }],
        reply_to: None,
        metadata: Metadata::default(),
    };
    let outcome = member.rider.asks("telegram", "shared", action).await;
    assert!(outcome.success, "{outcome:?}");
    outcome.message_id.unwrap().as_str().parse().unwrap()
}

/// Somebody presses the only button of a prompt.
fn presses(telegram: &TelegramStandIn, chat: i64, person: i64, (prompt, message): (&str, i64)) {
    let press = Injection {
        callback_data: Some(format!("hp1:{prompt}:once")),
        message_id: Some(message),
        ..Injection::text(chat, "")
    };
    telegram.inject(press.by(person, "Somebody").to_bot(BOT)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_press_reaches_the_agent_that_asked_if_its_presser_is_admitted_to_that_agent() {
    let (telegram, server, mut heron, mut otter) = open().await;
    link(&telegram, &server, [&heron, &otter]).await;
    // An agent may only ask in a chat from which it got a message.
    writes(&telegram, 5, "good morning");
    assert_eq!(heron.hears().await, "good morning");
    // Person 5 has both agents; the newer link is their default.
    says(&telegram, BOT, 5, &format!("/link {}", otter.code(&server).await));
    let linked_twice = |telegram: &TelegramStandIn| crate::talk::count(telegram, 5, LINKED) == 2;
    assert!(telegram.until(crate::talk::PATIENCE, linked_twice).await);
    writes(&telegram, 5, "hello");
    assert_eq!(otter.hears().await, "hello", "the default");
    let chats = [(5, "direct"), (GROUP, "group")];
    for (chat, place) in chats {
        let (first, second) = (format!("heron.{place}"), format!("otter.{place}"));
        let prompts = [asks(&heron, chat, &first).await, asks(&otter, chat, &second).await];
        if chat == GROUP {
            // Person 6 has only the second agent. Its press of the first agent's button is nobody's.
            presses(&telegram, chat, 6, (&first, prompts[0]));
            presses(&telegram, chat, 7, (&first, prompts[0]));
            presses(&telegram, chat, 7, (&second, prompts[1]));
        }
        presses(&telegram, chat, 5, (&first, prompts[0]));
        presses(&telegram, chat, 5, (&second, prompts[1]));
        for (member, prompt) in [(&mut heron, &first), (&mut otter, &second)] {
            let answer = member.rider.hears().await.event;
            assert_eq!(answer.source.user_id.as_ref().unwrap().as_str(), "5");
            assert_eq!(answer.prompt_response.unwrap().prompt_id, *prompt);
        }
    }
    // What reached the wrong agent would have come before these.
    says(&telegram, BOT, 6, "marker for the second");
    assert_eq!(otter.hears().await, "marker for the second");
    let platform = json!({ "platform": "telegram", "userId": "5" });
    assert_eq!(heron.manages(&server, "dm-default", platform).await.0, 200);
    says(&telegram, BOT, 5, "marker for the first");
    assert_eq!(heron.hears().await, "marker for the first");
}
