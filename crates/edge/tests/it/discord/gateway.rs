//! Tests of Discord's gateway: messages over the socket, lost connections, and limits.

use std::sync::Arc;
use std::time::Duration;

use posthouse_time::{Moment, Timepiece};
use serde_json::{Value, json};
use stand_ins::discord::{Settings, SocketOrder};

use super::actors::{APPLICATION, CHANNEL, Feed, GUILD, LONG, open, open_on_wall_time};
use crate::telegram::health::eventually;

#[tokio::test]
async fn messages_of_a_server_arrive_with_their_server_and_are_stored_once() {
    let fixture = open_on_wall_time().await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    fixture.says("good morning");
    fixture.inject(
        json!({"do": "message", "text": "not for the bot", "in": {"guild_id": GUILD, "channel_id": CHANNEL}}),
    );
    fixture.inject(json!({"do": "message", "text": "directly"}));
    fixture.hears(&["good morning", "directly"]).await;
    let unread =
        fixture.server.ledger.inbox().unread(&fixture.server.agent, ledger::Seq(0), 10).await.unwrap();
    let event: posthouse_wire::Event = serde_json::from_slice(&unread[0].event).unwrap();
    assert_eq!(event.source.scope_id.as_ref().unwrap().as_str(), GUILD);
    assert_eq!(event.source.chat_name.as_deref(), Some("Acme / #general"));
    feed.stop().await;
}

#[tokio::test]
async fn a_lost_connection_is_resumed_and_nothing_is_missing_or_twice() {
    let fixture = open_on_wall_time().await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    let mut expected = Vec::new();
    for (number, order) in [
        SocketOrder::Cut,
        SocketOrder::Reconnect,
        SocketOrder::Close { code: 4000 },
        SocketOrder::InvalidSession { resumable: true },
        SocketOrder::RequestHeartbeat,
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(fixture.stand_in.order(APPLICATION, &order), 1, "{order:?}");
        // The message may be sent while no client is connected.
        expected.push(format!("message {number}"));
        fixture.says(expected.last().unwrap());
        fixture.hears(&expected.iter().map(String::as_str).collect::<Vec<_>>()).await;
        fixture.connected().await;
    }
    assert_eq!(fixture.stand_in.sessions().len(), 1, "all of it is one session");
    feed.stop().await;
}

#[tokio::test]
async fn a_restart_of_the_server_resumes_the_session() {
    let fixture = open_on_wall_time().await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    fixture.says("before");
    fixture.hears(&["before"]).await;
    feed.stop().await;
    assert!(fixture.stand_in.until(LONG, |stand_in| !stand_in.sessions()[0].connected).await);
    fixture.says("between");
    let feed = Feed::start(&fixture);
    fixture.hears(&["before", "between"]).await;
    assert_eq!(fixture.stand_in.sessions().len(), 1);
    feed.stop().await;
}

#[tokio::test]
async fn an_ended_session_is_replaced_by_a_new_one() {
    let fixture = open_on_wall_time().await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    fixture.stand_in.order(APPLICATION, &SocketOrder::InvalidSession { resumable: false });
    fixture.says_until_heard("after").await;
    feed.stop().await;
}

#[tokio::test]
async fn an_event_that_is_too_large_is_skipped_and_the_connection_goes_on() {
    let fixture = open_on_wall_time().await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    fixture.says("before");
    fixture.hears(&["before"]).await;
    // A server whose description is larger than the limit. It is part of the session, so that a resume would repeat it.
    let channels: Vec<_> =
        (0..9).map(|number| json!({"id": format!("95{number}"), "topic": "x".repeat(1 << 20)})).collect();
    let guild = json!({"id": "950", "name": "Huge", "channels": channels});
    fixture.stand_in.add_guild(serde_json::from_value(guild).unwrap());
    fixture.says("after");
    fixture.hears(&["before", "after"]).await;
    let filter = serde_json::from_value(json!({"kind": "resumed"})).unwrap();
    assert_eq!(fixture.stand_in.transcript(&filter).len(), 0, "it is the same connection");
    feed.stop().await;
}

#[tokio::test]
async fn a_session_that_repeats_an_event_that_cannot_be_read_is_given_up() {
    let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
    let fixture = open(clock.clone(), Settings::default()).await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    fixture.says("before");
    fixture.hears(&["before"]).await;
    let seq = fixture.stand_in.sessions()[0].seq;
    fixture.stand_in.order(APPLICATION, &SocketOrder::Garble);
    eventually("the event is part of the session", async || fixture.stand_in.sessions()[0].seq > seq).await;
    clock.wind_until(Duration::from_secs(16), fixture.says_until_heard("after")).await;
    assert!(fixture.stand_in.sessions().len() > 1, "another session");
    feed.stop().await;
}

#[tokio::test]
async fn a_connection_without_heartbeats_is_given_up_and_resumed() {
    let settings = Settings { heartbeat_interval: Duration::from_secs(1), ..Settings::default() };
    let fixture = open(Timepiece::wall(), settings).await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    fixture.stand_in.order(APPLICATION, &SocketOrder::Mute);
    // Another connection answers heartbeats again. The session stays the same.
    assert!(
        fixture.stand_in.until(LONG, |stand_in| stand_in.sessions().iter().any(|one| !one.connected)).await
    );
    fixture.connected().await;
    fixture.says("still here");
    fixture.hears(&["still here"]).await;
    assert_eq!(fixture.stand_in.sessions().len(), 1);
    feed.stop().await;
}

#[tokio::test]
async fn every_shard_has_a_session_of_its_own() {
    let limits = stand_ins::discord::DiscordLimits { identifies_per_5_seconds: 4, ..Default::default() };
    let settings = Settings { shards: 2, limits: Some(limits), ..Settings::default() };
    let fixture = open(Timepiece::wall(), settings).await;
    let feed = Feed::start(&fixture);
    let both = |stand_in: &stand_ins::discord::DiscordStandIn| {
        let mut shards: Vec<_> =
            stand_in.sessions().iter().filter(|one| one.connected).map(|one| one.shard).collect();
        shards.sort();
        shards == [(0, 2), (1, 2)]
    };
    assert!(fixture.stand_in.until(LONG, both).await, "{:?}", fixture.stand_in.sessions());
    fixture.says("to whichever shard has this server");
    fixture.hears(&["to whichever shard has this server"]).await;
    feed.stop().await;
}

#[tokio::test]
async fn a_shard_opens_its_socket_when_it_may_identify_and_not_before() {
    let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
    let fixture = open(clock.clone(), Settings { shards: 3, ..Settings::default() }).await;
    let feed = Feed::start(&fixture);
    for ready in 1..=3 {
        let identified = |stand_in: &stand_ins::discord::DiscordStandIn| stand_in.sessions().len() == ready;
        assert!(fixture.stand_in.until(LONG, identified).await, "{:?}", fixture.stand_in.sessions());
        assert_eq!(
            fixture.stand_in.open_sockets(),
            ready,
            "the others would send no heartbeat while they wait"
        );
        clock.wind(Duration::from_secs(5));
    }
    feed.stop().await;
}

#[tokio::test]
async fn the_intents_are_those_that_messages_and_reactions_need() {
    let fixture = open_on_wall_time().await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    assert_eq!(fixture.stand_in.sessions()[0].intents, 38401 | 1 << 13);
    feed.stop().await;
}

#[tokio::test]
async fn commands_that_an_agent_announces_are_offered_to_people() {
    let fixture = open_on_wall_time().await;
    fixture.server.start_edge();
    fixture.connected().await;
    let ask = || serde_json::from_value(json!({"do": "command", "name": "ask"})).unwrap();
    assert!(fixture.stand_in.inject(ask()).is_err(), "nobody has announced it");
    let (agent, on) = (&fixture.server.agent, fixture.bot.bot_ref());
    let announced = r#"[{"name":"ask","description":"Ask me"}]"#;
    fixture.server.identity.accounts.keep_commands(agent, &on, announced).await.unwrap();
    let offered = async {
        while fixture.stand_in.inject(ask()).is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, offered).await.expect("the command is never offered");
    fixture.hears(&["/ask"]).await;
}

#[tokio::test]
async fn commands_that_were_withdrawn_while_the_server_was_down_are_withdrawn_when_it_starts() {
    let fixture = open_on_wall_time().await;
    let (accounts, agent, on) =
        (&fixture.server.identity.accounts, &fixture.server.agent, fixture.bot.bot_ref());
    let offered = || -> Vec<String> {
        let filter = serde_json::from_value(json!({"kind": "commands_changed"})).unwrap();
        fixture.stand_in.transcript(&filter).into_iter().filter_map(|row| row.text).collect()
    };
    accounts.keep_commands(agent, &on, r#"[{"name":"ask","description":"Ask me"}]"#).await.unwrap();
    let edge = fixture.server.edge().clone();
    let running = tokio::spawn(async move { edge.run().await });
    eventually("the command is offered", async || offered() == ["ask"]).await;
    fixture.server.edge().close();
    running.await.unwrap().unwrap();
    accounts.keep_commands(agent, &on, "[]").await.unwrap();
    let restarted = fixture.server.new_edge(&fixture.clock, vec![Arc::new(fixture.discord.clone())]);
    tokio::spawn(async move { restarted.run().await });
    eventually("nothing is offered", async || offered() == ["ask", ""]).await;
}

#[tokio::test]
async fn commands_that_change_all_the_time_are_registered_once_a_minute() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let fixture = open(clock.clone(), Settings::default()).await;
    fixture.server.start_edge();
    fixture.connected().await;
    let (accounts, agent) = (&fixture.server.identity.accounts, &fixture.server.agent);
    let on = fixture.bot.bot_ref();
    let announces = async |name: &str| {
        let announced = format!(r#"[{{"name":"{name}","description":"Ask me"}}]"#);
        accounts.keep_commands(agent, &on, &announced).await.unwrap();
    };
    let registered = || -> Vec<String> {
        let filter = serde_json::from_value(json!({"kind": "commands_changed"})).unwrap();
        fixture.stand_in.transcript(&filter).into_iter().filter_map(|row| row.text).collect()
    };
    let until = async |names: &[&str]| {
        let reached = async {
            while registered() != names {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let reached = tokio::time::timeout(LONG, reached).await;
        assert!(reached.is_ok(), "{:?}, not {names:?}", registered());
    };
    announces("first").await;
    until(&["first"]).await;
    for round in 0..20 {
        announces(if round % 2 == 0 { "even" } else { "odd" }).await;
    }
    clock.wind(Duration::from_secs(59));
    announces("last").await;
    clock.wind(Duration::from_secs(1));
    until(&["first", "last"]).await;
}

#[tokio::test]
async fn commands_end_with_the_route_of_their_agent_and_unfit_options_keep_nobody_elses_out() {
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let fixture = open(clock.clone(), Settings::default()).await;
    let accounts = &fixture.server.identity.accounts;
    let (on, agent) = (fixture.bot.bot_ref(), &fixture.server.agent);
    let unfit: Vec<Value> = (0..26).map(|n| json!({"type": 3, "name": format!("o{n}")})).collect();
    let announced = json!([{"name": "ask", "options": unfit}, {"name": "help"}]).to_string();
    accounts.keep_commands(agent, &on, &announced).await.unwrap();
    fixture.server.start_edge();
    fixture.connected().await;
    let offered = async |names: &str| {
        let filter = || serde_json::from_value(json!({"kind": "commands_changed"})).unwrap();
        let offered = async {
            while fixture.stand_in.transcript(&filter()).pop().and_then(|row| row.text).as_deref()
                != Some(names)
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, offered).await.unwrap_or_else(|_| panic!("never offered: {names:?}"));
    };
    offered("ask help").await;
    clock.wind(Duration::from_secs(60));
    accounts.remove_route(&on, &ledger::Discriminator::Any).await.unwrap();
    offered("").await;
}
