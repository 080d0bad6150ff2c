//! Messages of guests in a claimed server, notices to senders, and the record of both.

use std::time::Duration;

use ledger::{
    AdmittedTenant, AgentPrincipals, AuthorPolicy, CredentialUse, StaleAction, StalePolicy, UseBotResult,
};
use posthouse_time::{Moment, Timepiece};
use stand_ins::discord::Settings;

use super::actors::{CHANNEL, Feed, Fixture, GUILD, LONG, open, open_shared};
use crate::telegram::health::eventually;

const HOUR: Duration = Duration::from_secs(3600);

impl Fixture {
    /// The recorded uses of the bot by this call.
    async fn uses(&self, called: &str) -> Vec<CredentialUse> {
        let uses = self.server.ledger.capability_uses();
        let uses = uses.credential_uses(&self.server.agent, None, 10).await.unwrap();
        uses.into_iter().filter(|one| one.called.as_deref() == Some(called)).collect()
    }
}

#[tokio::test]
async fn an_agent_that_claims_a_server_gets_no_message_of_a_private_thread_that_its_people_do_not_see() {
    let fixture = open_shared().await;
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
    fixture.is_told_by("78", CHANNEL, "in the channel");
    fixture.hears(&["proof", "in the channel"]).await;
    fixture.is_told_by("78", "913", "in the private thread");
    let asked_about_both = async || {
        let uses = fixture.uses("GET /guilds/ID/members/ID").await;
        uses.len() == 2 && uses.iter().all(|one| one.outcome.is_some())
    };
    eventually("Discord is asked about the private thread", asked_about_both).await;
    fixture.is_told_by("78", "911", "in the public thread");
    fixture.hears(&["proof", "in the channel", "in the public thread"]).await;
    // The questions whether person 77 sees these chats are uses of the bot for the agent.
    let uses = fixture.uses("GET /guilds/ID/members/ID").await;
    assert_eq!(uses.len(), 3, "one for each chat: {uses:?}");
    assert!(uses.iter().all(|one| one.kind.as_str() == "discord.bot"));
    feed.stop().await;
}

#[tokio::test]
async fn a_notice_to_the_sender_of_an_expired_message_is_a_recorded_use_of_the_bot() {
    let fixture = open(Timepiece::wound(Moment::from_seconds(1_765_000_000)), Settings::default()).await;
    let policy = StalePolicy { after: HOUR, action: StaleAction::Expire };
    fixture.server.identity.stale_policies.set_for_agent(&fixture.server.agent, Some(policy)).await.unwrap();
    fixture.server.start_edge();
    fixture.connected().await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    fixture.clock.wind(HOUR + Duration::from_secs(15));
    let told = || fixture.sent(CHANNEL).iter().any(|text| text.contains("waited too long"));
    assert!(fixture.stand_in.until(LONG, |_| told()).await);
    let recorded = async || {
        let uses = fixture.uses("POST /channels/ID/messages").await;
        uses.len() == 1 && uses[0].outcome.as_deref() == Some("ok") && uses[0].entry.is_some()
    };
    eventually("the use is recorded", recorded).await;
}
