//! Bots whose token Telegram does not accept: they are marked, left alone, and come back.

use std::sync::Arc;
use std::time::Duration;

use edge::{BotNotChanged, Credentials, OpenedBot};
use ledger::BotRef;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::Secret;
use relay::Egress;
use serde_json::json;
use stand_ins::telegram::{Fault, FaultKind, Injection};

use super::actors::{Fixture, LONG, TOKEN, bot, error, open, send};
use super::test_server::TestServer;

/// Time between two checks of a dead bot.
const CHECK: Duration = Duration::from_secs(15 * 60);

fn on() -> BotRef {
    BotRef { platform: "telegram".into(), bot: "42".into() }
}

fn polling() -> OpenedBot {
    bot(json!({"username": "posty_bot", "bot_user_id": "42", "mode": "poll"}))
}

/// A running server whose bot polls the stand-in.
async fn running(fixture: &Fixture, bot: &OpenedBot) -> TestServer {
    let server = TestServer::with_platform(bot, &fixture.clock, Arc::new(fixture.telegram.clone())).await;
    server.start_edge();
    server
}

pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

fn token(text: &str) -> Credentials {
    let mut credentials = Credentials::default();
    credentials.insert("token", Secret::new(text));
    credentials
}

fn wound() -> Timepiece {
    Timepiece::wound(Moment::from_seconds(1_765_000_000))
}

#[tokio::test]
async fn a_bot_whose_token_dies_is_marked_and_left_alone_until_it_is_accepted_again() {
    let fixture = open(wound()).await;
    let server = running(&fixture, &polling()).await;
    eventually("two messages", async || server.texts().await.len() == 2).await;
    let edge = server.edge();
    assert!(edge.health().dead(&on()).is_none());

    let revoked = fixture.stand_in.fault(Fault::new(FaultKind::Unauthorized).until_cleared());
    fixture.stand_in.fault(Fault::new(FaultKind::Unauthorized).on("getUpdates").until_cleared());
    fixture.stand_in.inject(Injection::text(5, "to a dead bot")).unwrap();
    let sent = edge.perform(fixture.order(send("5", "refused"))).await.outcome;
    assert!(error(&sent).starts_with("unauthorized"));
    eventually("the mark", async || edge.health().is_dead(&on())).await;
    let dead = server.ledger.dead_bots().dead_bots().await.unwrap();
    assert_eq!((&dead[0].bot, dead[0].since), (&on(), fixture.clock.now()));

    // Actions are answered without a call.
    let calls = fixture.stand_in.struck(revoked);
    for _ in 0..3 {
        let sent = edge.perform(fixture.order(send("5", "refused"))).await.outcome;
        assert_eq!(error(&sent), "unauthorized: this bot's credential is not accepted");
    }
    assert_eq!(fixture.stand_in.struck(revoked), calls);

    // It is checked again, and stays dead.
    let checked = eventually("the first check", async || fixture.stand_in.struck(revoked) > calls);
    fixture.clock.wind_until(CHECK, checked).await;
    assert!(edge.health().is_dead(&on()));

    fixture.stand_in.clear_faults();
    let works = eventually("the bot works again", async || !edge.health().is_dead(&on()));
    fixture.clock.wind_until(CHECK, works).await;
    eventually("the kept message", async || server.texts().await.len() == 3).await;
    assert!(edge.perform(fixture.order(send("5", "back"))).await.outcome.success);
    assert_eq!(fixture.sent(5), ["back"]);
    assert!(server.ledger.dead_bots().dead_bots().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_single_refusal_of_a_token_that_works_does_not_mark_the_bot() {
    let fixture = open(wound()).await;
    let server = running(&fixture, &polling()).await;
    eventually("two messages", async || server.texts().await.len() == 2).await;
    let once = fixture.stand_in.fault(Fault::new(FaultKind::Unauthorized).on("sendMessage"));
    let sent = server.edge().perform(fixture.order(send("5", "refused"))).await.outcome;
    assert!(error(&sent).starts_with("unauthorized"));
    assert_eq!(fixture.stand_in.struck(once), 1);
    // The bot goes on; what is sent next arrives.
    fixture.stand_in.inject(Injection::text(5, "still here")).unwrap();
    eventually("the next message", async || server.texts().await.len() == 3).await;
    assert!(server.edge().perform(fixture.order(send("5", "sent"))).await.outcome.success);
    assert!(!server.edge().health().is_dead(&on()));
}

#[tokio::test]
async fn a_replaced_token_is_checked_and_serves_the_bot_at_once() {
    let fixture = open(wound()).await;
    let old = {
        let mut old = polling();
        old.credentials.insert("token", Secret::new("42:canary-old"));
        old
    };
    let server = running(&fixture, &old).await;
    let edge = server.edge();
    eventually("the mark", async || edge.health().is_dead(&on())).await;
    assert!(server.texts().await.is_empty());

    for (wrong, refusal) in [("42:canary-wrong", "does not know this token"), ("", "missing")] {
        let refused = edge.replace_credentials(&on(), token(wrong)).await.unwrap().unwrap_err().to_string();
        assert!(refused.contains(refusal) && !refused.contains("canary"), "{refused}");
    }
    assert!(edge.health().is_dead(&on()));
    let nobody = BotRef { platform: "telegram".into(), bot: "43".into() };
    assert_eq!(
        edge.replace_credentials(&nobody, token(TOKEN)).await.unwrap(),
        Err(BotNotChanged::Absent("telegram".to_owned(), "43".to_owned()))
    );

    edge.replace_credentials(&on(), token(TOKEN)).await.unwrap().unwrap();
    assert!(!edge.health().is_dead(&on()));
    assert!(edge.perform(fixture.order(send("5", "at once"))).await.outcome.success);
    // The clock stands still: nothing waits for the next check.
    eventually("the waiting messages", async || server.texts().await.len() == 2).await;
}

#[tokio::test]
async fn a_working_bot_gets_its_events_with_a_replaced_token_too() {
    let fixture = super::actors::open_with(wound(), stand_ins::telegram::Settings::default()).await;
    let server = running(&fixture, &polling()).await;
    eventually("two messages", async || server.texts().await.len() == 2).await;
    // The poller hangs with the old token; the replacement must not wait for it.
    let hang = fixture.stand_in.fault(Fault::new(FaultKind::Hang).on("getUpdates"));
    fixture.stand_in.inject(Injection::text(5, "wakes the poller")).unwrap();
    eventually("the hanging poll", async || fixture.stand_in.struck(hang) == 1).await;
    server.edge().replace_credentials(&on(), token(TOKEN)).await.unwrap().unwrap();
    eventually("a third message", async || server.texts().await.len() == 3).await;
}

#[tokio::test]
async fn a_token_of_another_bot_is_refused() {
    let fixture = open(wound()).await;
    let mut other = polling();
    other.settings.insert("bot_user_id".to_owned(), json!("43"));
    let server = running(&fixture, &other).await;
    let refused = server.edge().replace_credentials(&on(), token(TOKEN)).await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("another bot"), "{refused}");
}

#[tokio::test]
async fn a_dead_bot_is_still_dead_after_a_restart_and_checked_at_once() {
    let fixture = open(wound()).await;
    let server =
        TestServer::with_platform(&polling(), &fixture.clock, Arc::new(fixture.telegram.clone())).await;
    let dead = ledger::DeadBot { bot: on(), since: fixture.clock.now(), why: "revoked".to_owned() };
    assert!(server.ledger.dead_bots().mark_dead(dead).await.unwrap());
    fixture.stand_in.fault(Fault::new(FaultKind::Hang).on("getMe"));
    server.start_edge();
    eventually("the check", async || fixture.stand_in.hanging() == 1).await;
    assert_eq!(server.edge().health().dead(&on()).unwrap().why, "revoked");
    fixture.stand_in.release();
    let works = eventually("a second check", async || !server.edge().health().is_dead(&on()));
    fixture.clock.wind_until(CHECK, works).await;
    eventually("two messages", async || server.texts().await.len() == 2).await;
}
