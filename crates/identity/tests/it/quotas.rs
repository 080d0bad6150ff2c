//! Quotas of tenants and agents: the limits of the server, those of one tenant, and tenants that flood.

use std::collections::BTreeMap;

use identity::{OverQuota, QuotaKind};
use ledger::LimitName;

use crate::fixtures::{TestAgent, TestServer, seconds};

impl TestAgent {
    async fn gets_message(&self) -> Result<(), OverQuota> {
        self.server.identity.quotas.take(QuotaKind::Message, &self.tenant, Some(&self.instance)).await
    }

    /// Takes messages until one is refused.
    async fn is_flooded(&self) -> (u32, OverQuota) {
        let mut taken = 0;
        loop {
            match self.gets_message().await {
                Ok(()) => taken += 1,
                Err(over) => return (taken, over),
            }
        }
    }

    async fn set(&self, limit: LimitName, value: Option<u32>) {
        let changes = BTreeMap::from([(limit, value)]);
        assert!(self.server.identity.quotas.set_limits(&self.tenant, changes).await.unwrap());
    }
}

#[tokio::test]
async fn a_tenant_that_uses_up_its_quota_leaves_another_its_own_and_gets_more_as_time_passes() {
    let server = TestServer::open().await;
    let (heron, crow) = (server.enrol("acme", "heron", &[]).await, server.enrol("rival", "crow", &[]).await);
    let (taken, over) = heron.is_flooded().await;
    assert_eq!((taken, over.limit), (600, LimitName::AgentMessages));
    assert!(crow.gets_message().await.is_ok());
    server.clock.wind(over.retry_after);
    assert_eq!(heron.is_flooded().await.0, 1);
    // A step of the wall clock refills nothing.
    server.clock.set(server.clock.now() + seconds(3600));
    assert!(heron.gets_message().await.is_err());
    let used = server.identity.quotas.used(&heron.tenant).await;
    assert_eq!(used.messages, 591, "the tenant's bucket refills ten times as fast");
}

#[tokio::test]
async fn a_limit_of_one_tenant_takes_effect_at_once_and_for_no_other() {
    let server = TestServer::open().await;
    let (heron, crow) = (server.enrol("acme", "heron", &[]).await, server.enrol("rival", "crow", &[]).await);
    heron.gets_message().await.unwrap();
    heron.set(LimitName::AgentMessages, Some(3)).await;
    assert_eq!(heron.is_flooded().await.1.value, 3);
    assert_eq!(crow.is_flooded().await.0, 600);
    heron.set(LimitName::AgentMessages, Some(0)).await;
    server.clock.wind(seconds(3600));
    assert_eq!(heron.is_flooded().await.0, 0, "a limit of zero lets nothing through");
    heron.set(LimitName::AgentMessages, None).await;
    assert_eq!(heron.is_flooded().await.0, 600);
    assert!(server.identity.quotas.own_limits(&heron.tenant).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_limits_of_a_tenant_are_read_once_however_many_messages_it_gets() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron", &[]).await;
    // The notifications of its enrolment may come around meanwhile.
    let cost = async || {
        let before = server.ledger.reads();
        heron.is_flooded().await;
        server.ledger.reads() - before
    };
    while cost().await > 0 {
        server.clock.wind(seconds(60));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn tenants_that_use_nothing_are_forgotten_and_one_that_floods_is_not() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron", &[]).await;
    let quotas = &server.identity.quotas;
    heron.is_flooded().await;
    for number in 0..5_000 {
        quotas.take(QuotaKind::Request, &format!("ten_{number}").into(), None).await.unwrap();
    }
    assert!(heron.gets_message().await.is_err());
    server.clock.wind(seconds(60));
    let socket = quotas.open_socket(&heron.tenant, &heron.instance).await.unwrap();
    for number in 5_000..20_000 {
        quotas.take(QuotaKind::Request, &format!("ten_{number}").into(), None).await.unwrap();
        server.clock.wind(seconds(1));
    }
    assert_eq!(quotas.used(&heron.tenant).await.sockets, 1, "an open socket is remembered");
    drop(socket);
    assert_eq!(quotas.used(&heron.tenant).await.sockets, 0);
}
