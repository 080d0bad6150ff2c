//! Events that wait for an answer of Discord: other channels and the connection go on.

use ledger::{AdmittedTenant, AgentPrincipals, AuthorPolicy, UseBotResult};
use posthouse_time::{Moment, Timepiece};
use stand_ins::discord::{DiscordStandIn, Settings, SocketOrder};
use stand_ins::harness::{CallFault, CallFaultKind};

use super::actors::{APPLICATION, CHANNEL, Feed, Fixture, GUILD, LONG, open_shared_at};

/// The question whether a person is a member, by which the gate finds out what they see.
const QUESTION: &str = "GET /guilds/{guild}/members/{user}";

/// The agent has claimed the server, so that the gate asks Discord about each chat in which a guest writes. The clock
/// stands still, so that no question times out.
async fn claimed() -> (Fixture, Feed) {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let fixture = open_shared_at(clock, Settings::default()).await;
    let (gate, agent, on) = (&fixture.server.identity.gate, &fixture.server.agent, fixture.bot.bot_ref());
    assert!(gate.claims().admit_tenant(&on, &AdmittedTenant::Every).await.unwrap());
    assert_eq!(gate.claims().use_bot(agent, &on).await.unwrap(), UseBotResult::Uses);
    let code = gate.link_codes().mint(agent, None).await.unwrap().unwrap();
    gate.link_codes().redeem(&on, &"77".into(), &"70".into(), &code.code).await.unwrap();
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    fixture.is_told_by("77", CHANNEL, "proof");
    fixture.hears(&["proof"]).await;
    assert!(gate.claims().claim(agent, std::slice::from_ref(&on), GUILD, false).await.unwrap());
    let anybody = AgentPrincipals { platform: None, policy: AuthorPolicy::Any, allowed: Vec::new() };
    assert!(gate.policies().declare(agent, anybody).await.unwrap());
    (fixture, feed)
}

#[tokio::test]
async fn a_message_that_waits_for_discord_holds_up_its_own_channel_only() {
    let (fixture, feed) = claimed().await;
    fixture.stand_in.fault(CallFault::new(CallFaultKind::Hang).on(QUESTION));
    fixture.is_told_by("78", "911", "first in the thread");
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.hanging() == 1).await);
    fixture.is_told_by("77", "911", "second in the thread");
    fixture.is_told_by("77", CHANNEL, "in the channel");
    fixture.hears(&["proof", "in the channel"]).await;
    fixture.stand_in.release();
    fixture.hears(&["proof", "in the channel", "first in the thread", "second in the thread"]).await;
    feed.stop().await;
}

#[tokio::test]
async fn heartbeats_are_sent_while_a_message_waits_for_discord() {
    let (fixture, feed) = claimed().await;
    fixture.stand_in.fault(CallFault::new(CallFaultKind::Hang).on(QUESTION));
    fixture.is_told_by("78", "911", "in the thread");
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.hanging() == 1).await);
    let before = fixture.stand_in.sessions()[0].heartbeats;
    fixture.stand_in.order(APPLICATION, &SocketOrder::RequestHeartbeat);
    let beats = |stand_in: &DiscordStandIn| stand_in.sessions()[0].heartbeats > before;
    assert!(fixture.stand_in.until(LONG, beats).await);
    assert_eq!(fixture.stand_in.hanging(), 1, "it still waits");
    fixture.stand_in.release();
    fixture.hears(&["proof", "in the thread"]).await;
    feed.stop().await;
}

#[tokio::test]
async fn a_connection_lost_while_a_message_waits_misses_nothing_and_stores_nothing_twice() {
    let (fixture, feed) = claimed().await;
    fixture.stand_in.fault(CallFault::new(CallFaultKind::Hang).on(QUESTION));
    fixture.is_told_by("78", "911", "first in the thread");
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.hanging() == 1).await);
    fixture.is_told_by("77", "911", "second in the thread");
    fixture.is_told_by("77", CHANNEL, "in the channel");
    fixture.hears(&["proof", "in the channel"]).await;
    fixture.stand_in.order(APPLICATION, &SocketOrder::Cut);
    assert!(fixture.stand_in.until(LONG, |stand_in| !stand_in.sessions()[0].connected).await);
    fixture.stand_in.release();
    let heard = ["proof", "in the channel", "first in the thread", "second in the thread"];
    fixture.hears(&heard).await;
    fixture.is_told_by("77", CHANNEL, "after");
    fixture.hears(&[&heard[..], &["after"]].concat()).await;
    feed.stop().await;
}
