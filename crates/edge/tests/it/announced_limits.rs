//! Rate limits that a platform announced: they count for all calls of the bot, as long as announced, and for no other bot.

use std::sync::Arc;
use std::time::Duration;

use edge::OpenedBot;
use edge::platform::Platform;
use edge::twilio::{Twilio, TwilioChannel};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{Outcome, Secret};
use serde_json::json;
use stand_ins::harness::{CallFault, CallFaultKind};

use crate::telegram::test_server::TestServer;
use crate::{feishu, twilio};

const ANNOUNCED: Duration = Duration::from_secs(60);

fn wound() -> Timepiece {
    Timepiece::wound(Moment::from_seconds(1_765_000_000))
}

fn too_many() -> CallFault {
    CallFault::new(CallFaultKind::TooManyRequests { retry_after: ANNOUNCED.as_secs_f64(), global: true })
}

fn is_limited(outcome: &Outcome) -> bool {
    outcome.error.as_deref().is_some_and(|error| error.starts_with("rate limit"))
}

#[tokio::test]
async fn a_limit_of_twilio_counts_for_the_whole_number_and_for_no_other() {
    use stand_ins::twilio::{Settings, TwilioStandIn};
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let accounts = ["AC1:canary-auth-token:+15550100", "AC2:canary-other:+15550101"];
    let accounts = accounts.map(|account| account.parse().unwrap()).to_vec();
    let stand_in = TwilioStandIn::start(Settings { accounts, ..Settings::default() }).await.unwrap();
    let (channel, clock) = (TwilioChannel::Sms, wound());
    let limited = twilio::actors::bot(channel, json!({}));
    let mut other = twilio::actors::bot(channel, json!({"account_sid": "AC2", "number": "+15550101"}));
    other.id = "15550101".into();
    other.credentials.insert("auth_token", Secret::new("canary-other"));
    let platform = Twilio::new(channel, &stand_in.base_url(), clock.clone());
    let server = TestServer::with_platform(&limited, &clock, Arc::new(platform.clone())).await;
    let fixture = twilio::actors::Fixture { stand_in, twilio: platform, bot: limited, clock, server };
    let sends = async |bot: &OpenedBot, to: &str| {
        fixture.twilio.perform(bot, fixture.order(twilio::actors::send(to, "hello"))).await.outcome
    };
    let struck = fixture.stand_in.fault(too_many().on("POST Messages").until_cleared());
    assert!(is_limited(&sends(&fixture.bot, "+15550177").await));
    assert!(is_limited(&sends(&fixture.bot, "+15550178").await), "another person, the same number");
    assert_eq!(fixture.stand_in.struck(struck), 1, "Twilio is not asked again");
    fixture.stand_in.clear_faults();
    assert!(sends(&other, "+15550177").await.success);
    fixture.clock.wind(ANNOUNCED);
    assert!(sends(&fixture.bot, "+15550178").await.success);
}

#[tokio::test]
async fn a_limit_of_feishu_for_a_call_counts_in_every_chat() {
    use feishu::actors::{DIRECT, GROUP, open_with, send};
    let fixture = open_with(wound(), stand_ins::feishu::Settings::default()).await;
    fixture.serve_door().await;
    fixture.says("hello");
    fixture.inject(json!({"do": "message", "text": "hello", "chat": GROUP, "mention": true}));
    let struck = fixture.stand_in.fault(too_many().on("POST /im/v1/messages").until_cleared());
    assert!(is_limited(&fixture.outcome(send(DIRECT, "one")).await));
    assert!(is_limited(&fixture.outcome(send(GROUP, "two")).await), "another chat, the same call");
    assert_eq!(fixture.stand_in.struck(struck), 1, "Feishu is not asked again");
    fixture.stand_in.clear_faults();
    fixture.clock.wind(ANNOUNCED);
    assert!(fixture.outcome(send(GROUP, "two")).await.success);
}
