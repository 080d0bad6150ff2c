//! Slack bots whose token is revoked, and the check of tokens.

use std::sync::Arc;
use std::time::Duration;

use edge::OpenedBot;
use edge::platform::{EventDelivery, Platform};
use ledger::BotRef;
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use relay::Egress;
use serde_json::json;
use stand_ins::harness::{CallFault, CallFaultKind};
use stand_ins::slack::Settings;

use super::actors::{APP_TOKEN, BOT_USER, DIRECT, SIGNING_SECRET, TOKEN, bot, error, open, open_with, send};
use crate::telegram::test_server::TestServer;

fn with(secrets: &[(&str, &str)]) -> OpenedBot {
    let mut bot = OpenedBot { credentials: Default::default(), ..bot(json!({})) };
    for (name, secret) in secrets {
        bot.credentials.insert(name, Secret::new(*secret));
    }
    bot
}

fn revoked() -> CallFault {
    let body = json!({"ok": false, "error": "token_revoked"});
    CallFault::new(CallFaultKind::Answer { status: 200, body }).until_cleared()
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(super::actors::LONG, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test]
async fn the_tokens_are_checked_and_the_ids_are_read_from_slack() {
    let fixture = open().await;
    let good = with(&[("token", TOKEN), ("signing_secret", SIGNING_SECRET), ("app_token", APP_TOKEN)]);
    let met = fixture.slack.check_credentials(&good).await.unwrap();
    assert_eq!(met.id, BOT_USER);
    for (name, value) in [("team_id", "T1"), ("bot_id", "B1"), ("app_id", "A1"), ("username", "posty")] {
        assert_eq!(met.settings[name], json!(value), "{name}");
    }
    let secret = ("signing_secret", SIGNING_SECRET);
    for (secrets, expected) in [
        (vec![("token", TOKEN)], "needs its signing secret"),
        (vec![secret], "needs its bot token"),
        (vec![("token", "xoxb-canary-wrong"), secret], "Slack does not accept this bot token"),
        (vec![("token", APP_TOKEN), secret], "not a bot token"),
        (vec![("token", TOKEN), ("app_token", TOKEN)], "not an app-level token"),
        (vec![("token", TOKEN), ("app_token", "xapp-canary-wrong")], "does not accept this app-level token"),
    ] {
        let refused = fixture.slack.check_credentials(&with(&secrets)).await.unwrap_err().to_string();
        assert!(refused.contains(expected) && !refused.contains("canary"), "{refused}");
    }
    let elsewhere = OpenedBot { settings: json!({"team_id": "T2"}).as_object().unwrap().clone(), ..good };
    let refused = fixture.slack.check_credentials(&elsewhere).await.unwrap_err().to_string();
    assert!(refused.contains("another workspace, whose id is T1"), "{refused}");
}

#[tokio::test]
async fn events_come_over_a_socket_if_there_is_a_token_for_it_and_the_manifest_says_where_else() {
    let fixture = open().await;
    let door = "https://house.example/door/slack/UBOT1";
    let webhook = with(&[("token", TOKEN), ("signing_secret", SIGNING_SECRET)]);
    let socket = with(&[("token", TOKEN), ("app_token", APP_TOKEN)]);
    let forced =
        OpenedBot { settings: json!({"mode": "webhook"}).as_object().unwrap().clone(), ..socket.clone() };
    assert_eq!(fixture.slack.delivery(&webhook, Some(door)), EventDelivery::Webhook);
    assert_eq!(fixture.slack.delivery(&socket, Some(door)), EventDelivery::Socket);
    assert_eq!(fixture.slack.delivery(&forced, Some(door)), EventDelivery::Webhook);
    let steps = fixture.slack.setup_steps(&webhook, Some(door)).join("\n");
    for part in ["/events\"", "/interactions\"", "/commands\"", "\"socket_mode_enabled\":false", "/invite"] {
        assert!(steps.contains(part), "{part}: {steps}");
    }
    let steps = fixture.slack.setup_steps(&socket, None).join("\n");
    assert!(steps.contains("\"socket_mode_enabled\":true") && !steps.contains("request_url"), "{steps}");
    let steps = fixture.slack.setup_steps(&webhook, None).join("\n");
    assert!(steps.contains("Slack cannot call this server"), "{steps}");
}

#[tokio::test]
async fn a_bot_whose_token_is_revoked_is_marked_dead_and_makes_no_more_calls() {
    let fixture = open_with(Timepiece::wall(), Settings::default()).await;
    let on = BotRef { platform: "slack".into(), bot: BOT_USER.into() };
    let server =
        TestServer::with_platform(&fixture.bot, &fixture.clock, Arc::new(fixture.slack.clone())).await;
    server.start_edge();
    eventually("the socket", async || fixture.stand_in.sockets("A1") == 1).await;
    fixture.says("hello");
    eventually("the message", async || server.texts().await == ["hello"]).await;
    let dead = fixture.stand_in.fault(revoked());
    // Slack reports it over the socket too.
    fixture
        .inject(json!({"do": "event", "event": {"type": "tokens_revoked", "tokens": {"bot": [BOT_USER]}}}));
    eventually("the mark", async || server.edge().health().is_dead(&on)).await;
    eventually("the end of the socket", async || fixture.stand_in.sockets("A1") == 0).await;
    let calls = fixture.stand_in.struck(dead);
    let refused = server.edge().perform(fixture.order(send(DIRECT, "refused"))).await.outcome;
    assert_eq!(error(&refused), "unauthorized: this bot's credential is not accepted");
    assert_eq!(fixture.stand_in.struck(dead), calls);
}
