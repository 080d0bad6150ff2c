//! Messages that expire: their senders are told.

use std::sync::Arc;
use std::time::Duration;

use ledger::{StaleAction, StalePolicy};
use posthouse_time::{Moment, Timepiece};
use serde_json::json;

use super::actors::{LONG, bot, open};
use super::health::eventually;
use super::test_server::TestServer;

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn the_sender_of_a_message_that_expired_is_told() {
    let fixture = open(Timepiece::wound(Moment::from_seconds(1_765_000_000))).await;
    let bot = bot(json!({"username": "posty_bot", "bot_user_id": "42", "mode": "poll"}));
    let server = TestServer::with_platform(&bot, &fixture.clock, Arc::new(fixture.telegram.clone())).await;
    let policy = StalePolicy { after: HOUR, action: StaleAction::Expire };
    server.identity.stale_policies.set_for_agent(&server.agent, Some(policy)).await.unwrap();
    server.start_edge();
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.deliveries(None).pending == 0).await);
    assert_eq!(server.texts().await.len(), 2);
    fixture.clock.wind(HOUR + Duration::from_secs(15));
    let told = |chat: i64| fixture.sent(chat).iter().any(|text| text.contains("waited too long"));
    assert!(fixture.stand_in.until(LONG, |_| told(5) || told(6)).await);
    // A bot sends one notice per second. The other sender is told after that.
    assert!(!(told(5) && told(6)));
    let both = eventually("the other sender is told", async || told(5) && told(6));
    fixture.clock.wind_until(Duration::from_secs(15), both).await;
    assert!(server.texts().await.is_empty());
    // Each notice is a recorded use of the bot for the agent and the message that it is about.
    let recorded = async || {
        let uses = server.ledger.capability_uses().credential_uses(&server.agent, None, 10).await.unwrap();
        uses.len() == 2
            && uses.iter().all(|one| {
                one.kind.as_str() == "telegram.bot"
                    && one.called.as_deref() == Some("sendMessage")
                    && one.outcome.as_deref() == Some("ok")
                    && one.entry.is_some()
            })
    };
    eventually("both uses are recorded", recorded).await;
}
