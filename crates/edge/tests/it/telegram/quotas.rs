//! Quotas of messages: a tenant that is flooded on a bot, and another tenant on the same bot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use edge::platform::Platform;
use edge::{DeliveryResult, Intake, OpenedBot};
use http::StatusCode;
use ledger::{Discriminator, Instance, LimitName, Route, Seq, Tenant};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{Event, InstanceId};

use super::actors;
use super::intake::delivered;
use super::test_server::TestServer;

/// A chat of the other tenant, and the chats of the first.
const THEIRS: i64 = 6;
const OURS: [i64; 6] = [5, 7, 8, 9, 10, 11];

/// Adds a second tenant to the shared bot of a server.
async fn with_neighbour(server: &TestServer, bot: &OpenedBot) -> InstanceId {
    let (roster, created) = (server.ledger.roster(), Moment::default());
    roster.create_tenant(Tenant { id: "ten_2".into(), name: "zen".into(), created }).await.unwrap();
    let ours = roster.instance(&server.agent).await.unwrap().unwrap();
    let theirs = Instance { id: "inst_2".into(), tenant: "ten_2".into(), name: "egret".into(), ..ours };
    roster.create_instance(theirs.clone()).await.unwrap();
    let chats = OURS.map(|chat| (chat, server.agent.clone()));
    for (chat, instance) in chats.into_iter().chain([(THEIRS, theirs.id.clone())]) {
        let route = Route {
            platform: bot.platform.clone(),
            bot: bot.id.clone(),
            discriminator: Discriminator::Chat(chat.to_string().into()),
            instance,
            created,
            profile: None,
        };
        roster.create_route(route).await.unwrap();
    }
    theirs.id
}

async fn limit(server: &TestServer, limit: LimitName, value: u32) {
    let changes = BTreeMap::from([(limit, Some(value))]);
    assert!(server.identity.quotas.set_limits(&"ten_1".into(), changes).await.unwrap());
}

async fn unread(server: &TestServer, of: &InstanceId) -> Vec<String> {
    let unread = server.ledger.inbox().unread(of, Seq(0), 1000).await.unwrap();
    unread.iter().map(|entry| serde_json::from_slice::<Event>(&entry.event).unwrap().text).collect()
}

/// One update is delivered. The platform always hears that it was taken.
async fn takes(
    intake: &Intake,
    platform: &Arc<dyn Platform>,
    bot: &Arc<OpenedBot>,
    update: i64,
    chat: i64,
) -> usize {
    match intake.receive(platform, bot, delivered(update, chat)).await.unwrap() {
        DeliveryResult::Taken { entries, reply } => {
            assert_eq!(reply.status, StatusCode::OK);
            entries.len()
        }
        DeliveryResult::Refused(refusal) => panic!("{refusal:?}"),
    }
}

#[tokio::test]
async fn a_tenant_over_its_quota_loses_messages_and_another_on_the_same_bot_loses_none() {
    let clock = Timepiece::wound(Timepiece::wall().now());
    let fixture = actors::open(clock.clone()).await;
    let platform: Arc<dyn Platform> = Arc::new(fixture.telegram.clone());
    let bot = Arc::new(OpenedBot { shared: true, ..fixture.bot.clone() });
    let server = TestServer::with_platform(&bot, &clock, Arc::clone(&platform)).await;
    let egret = with_neighbour(&server, &bot).await;
    let intake = server.intake();
    let takes = async |update, chat| takes(&intake, &platform, &bot, update, chat).await;
    limit(&server, LimitName::AgentMessages, 2).await;
    for update in 1..=10 {
        assert_eq!(takes(update, 5).await, usize::from(update <= 2));
        assert_eq!(takes(100 + update, THEIRS).await, 1, "the neighbour is not touched");
    }
    assert_eq!(server.texts().await, ["message 1", "message 2"]);
    assert_eq!(unread(&server, &egret).await.len(), 10);
    // Half a minute later there is room for one more.
    clock.wind(Duration::from_secs(30));
    assert_eq!(takes(11, 5).await, 1);
    assert_eq!(takes(12, 5).await, 0);
    // The limit of the tenant holds for all its chats and agents together.
    limit(&server, LimitName::AgentMessages, 100).await;
    limit(&server, LimitName::Messages, 3).await;
    clock.wind(Duration::from_secs(3600));
    for (update, chat) in (20..26).zip(OURS) {
        assert_eq!(takes(update, chat).await, usize::from(update < 23));
    }
    assert_eq!(takes(200, THEIRS).await, 1);
    assert_eq!(server.texts().await[3..], ["message 20", "message 21", "message 22"]);
}

#[tokio::test]
async fn the_sender_of_a_message_over_quota_is_told_once_an_hour() {
    let clock = Timepiece::wound(Timepiece::wall().now());
    let fixture = actors::open(clock.clone()).await;
    let platform: Arc<dyn Platform> = Arc::new(fixture.telegram.clone());
    let server = TestServer::with_platform(&fixture.bot, &clock, Arc::clone(&platform)).await;
    let (intake, bot) = (server.intake(), Arc::new(fixture.bot.clone()));
    limit(&server, LimitName::Messages, 0).await;
    let told = async |chat, times| {
        let waiting = async {
            while fixture.sent(chat).len() < times {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(actors::LONG, waiting).await.expect("nobody told them");
        assert!(fixture.sent(chat).iter().all(|text| text.starts_with("Too many messages")));
        fixture.sent(chat).len()
    };
    for update in 1..=50 {
        takes(&intake, &platform, &bot, update, 5).await;
        // The first notice is sent before the clock moves on, because its call has a deadline.
        told(5, 1).await;
        clock.wind(Duration::from_secs(2));
    }
    // Another chat hears of it too. Its notice comes after all that were sent to the first.
    takes(&intake, &platform, &bot, 51, 6).await;
    assert_eq!(told(6, 1).await, 1);
    assert_eq!(told(5, 1).await, 1);
    clock.wind(Duration::from_secs(3600));
    takes(&intake, &platform, &bot, 60, 5).await;
    assert_eq!(told(5, 2).await, 2);
    assert!(server.texts().await.is_empty());
}
