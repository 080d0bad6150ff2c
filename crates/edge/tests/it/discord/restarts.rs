//! Restarts: a resumed session does not describe its servers again, so that Discord is asked about their channels.

use std::time::Duration;

use ledger::Discriminator;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::InstanceId;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use stand_ins::discord::Settings;
use stand_ins::harness::{CallFault, CallFaultKind};

use super::actors::{CHANNEL, Feed, Fixture, GUILD, LONG, open_shared_at};

/// The question by which the server learns of a channel.
const QUESTION: &str = "GET /channels/{channel}";
const THREAD: &str = "911";
/// Another channel of the same server.
const FORUM: &str = "912";

fn standing_clock() -> Timepiece {
    Timepiece::wound(Moment::from_seconds(1_765_000_000))
}

/// The server belongs to the agent, and its channel #general to an agent of another tenant, which has heard from the
/// thread in #general.
async fn shared_by_two(clock: Timepiece) -> (Fixture, InstanceId, Feed) {
    let fixture = open_shared_at(clock, Settings::default()).await;
    let server = &fixture.server;
    server.add_route(&fixture.bot, Discriminator::Scope(GUILD.into()), &server.agent).await;
    let otter = server.add_agent("otter").await;
    server.add_route(&fixture.bot, Discriminator::Chat(CHANNEL.into()), &otter).await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    fixture.is_told_by("77", THREAD, "before");
    fixture.is_heard_by(&otter, &["before"]).await;
    (fixture, otter, feed)
}

/// The same after the server was stopped. What it learned over the gateway is forgotten.
async fn restarted(clock: Timepiece) -> (Fixture, InstanceId) {
    let (mut fixture, otter, feed) = shared_by_two(clock).await;
    feed.stop().await;
    assert!(fixture.stand_in.until(LONG, |stand_in| !stand_in.sessions()[0].connected).await);
    fixture.forget_servers();
    (fixture, otter)
}

#[tokio::test]
async fn a_thread_belongs_to_the_tenant_of_its_channel_after_a_restart_too() {
    let (fixture, otter) = restarted(Timepiece::wall()).await;
    let feed = Feed::start(&fixture);
    fixture.is_told_by("77", THREAD, "after");
    fixture.is_told_by("77", FORUM, "for the owner of the server");
    fixture.hears(&["for the owner of the server"]).await;
    fixture.is_heard_by(&otter, &["before", "after"]).await;
    assert_eq!(fixture.stand_in.sessions().len(), 1, "the session was resumed");
    let sources = fixture.server.events_of(&otter).await.into_iter().map(|event| {
        let mut source = serde_json::to_value(event.source).unwrap();
        source.as_object_mut().unwrap().remove("message_id");
        source
    });
    let sources: Vec<Value> = sources.collect();
    assert_eq!(sources[0], sources[1]);
    assert_eq!(sources[1]["chat_name"], "Acme / #general / bug 42");
    feed.stop().await;
}

#[tokio::test]
async fn a_message_waits_until_discord_describes_its_channel_and_holds_up_no_other_channel() {
    let (fixture, otter) = restarted(standing_clock()).await;
    let failing = CallFault::new(CallFaultKind::ServerError { status: 503 }).on(QUESTION).in_chat(THREAD);
    let failing = fixture.stand_in.fault(failing.until_cleared());
    let feed = Feed::start(&fixture);
    fixture.is_told_by("77", THREAD, "after");
    fixture.is_told_by("77", FORUM, "elsewhere");
    let clock = &fixture.clock;
    clock.wind_until(Duration::from_secs(1), fixture.hears(&["elsewhere"])).await;
    // Long enough for several connections, each of which gets the message again.
    let asked_often = fixture.stand_in.until(LONG, |stand_in| stand_in.struck(failing) > 15);
    assert!(clock.wind_until(Duration::from_secs(5), asked_often).await);
    fixture.stand_in.clear_faults();
    let heard = fixture.is_heard_by(&otter, &["before", "after"]);
    clock.wind_until(Duration::from_secs(5), heard).await;
    fixture.hears(&["elsewhere"]).await;
    feed.stop().await;
}

#[tokio::test]
async fn a_message_of_a_channel_that_is_gone_reaches_nobody_and_holds_up_nothing() {
    let (fixture, otter) = restarted(standing_clock()).await;
    let gone =
        CallFaultKind::Answer { status: 404, body: json!({"message": "Unknown Channel", "code": 10003}) };
    let gone = fixture.stand_in.fault(CallFault::new(gone).on(QUESTION).in_chat(THREAD));
    let feed = Feed::start(&fixture);
    fixture.is_told_by("77", THREAD, "lost");
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.struck(gone) == 1).await);
    fixture.is_told_by("77", THREAD, "after");
    fixture.is_heard_by(&otter, &["before", "after"]).await;
    fixture.is_told_by("77", FORUM, "for the owner of the server");
    fixture.hears(&["for the owner of the server"]).await;
    feed.stop().await;
}

#[tokio::test]
async fn a_thread_that_made_room_for_newer_ones_still_belongs_to_the_tenant_of_its_channel() {
    let (fixture, otter, feed) = shared_by_two(Timepiece::wall()).await;
    for id in 10_000..12_000 {
        let thread =
            json!({"id": id.to_string(), "type": 11, "guild_id": GUILD, "parent_id": CHANNEL}).to_string();
        let thread = RawValue::from_string(thread).unwrap();
        fixture.discord.note_directory(&fixture.bot.id, "THREAD_CREATE", &thread);
    }
    fixture.is_told_by("77", THREAD, "after");
    fixture.is_told_by("77", FORUM, "for the owner of the server");
    fixture.hears(&["for the owner of the server"]).await;
    fixture.is_heard_by(&otter, &["before", "after"]).await;
    feed.stop().await;
}
