//! Limits of single tenants.

use std::collections::BTreeMap;

use ledger::LimitName::{Messages, Requests, Sockets};
use ledger::{LimitName, Removed};

stories! {
    async fn a_tenant_has_the_limits_that_were_set_for_it_until_they_are_reset(book) {
        book.enrols("acme", "heron").await;
        book.enrols("zen", "egret").await;
        let limits = book.ledger.tenant_limits();
        let (acme, zen) = ("ten_acme".into(), "ten_zen".into());
        assert!(limits.tenant_limits(&acme).await.unwrap().is_empty());
        let set = BTreeMap::from([(Messages, Some(5)), (Sockets, Some(0)), (Requests, None)]);
        for _ in 0..2 {
            assert!(limits.set_tenant_limits(&acme, set.clone()).await.unwrap());
        }
        let own = limits.tenant_limits(&acme).await.unwrap();
        assert_eq!(own, BTreeMap::from([(Messages, 5), (Sockets, 0)]));
        assert!(limits.tenant_limits(&zen).await.unwrap().is_empty());
        let changed = BTreeMap::from([(Messages, None), (Requests, Some(u32::MAX))]);
        assert!(limits.set_tenant_limits(&acme, changed).await.unwrap());
        let own = limits.tenant_limits(&acme).await.unwrap();
        assert_eq!(own, BTreeMap::from([(Sockets, 0), (Requests, u32::MAX)]));
    }

    async fn the_limits_of_a_tenant_are_removed_with_it(book) {
        let heron = book.enrols("acme", "heron").await;
        let (limits, roster) = (book.ledger.tenant_limits(), book.ledger.roster());
        let set = BTreeMap::from([(Messages, Some(5))]);
        assert!(!limits.set_tenant_limits(&"ten_nobody".into(), set.clone()).await.unwrap());
        assert!(limits.set_tenant_limits(&"ten_acme".into(), set).await.unwrap());
        assert_eq!(roster.remove_instance(&heron).await.unwrap(), Removed::Gone);
        assert_eq!(roster.remove_tenant(&"ten_acme".into()).await.unwrap(), Removed::Gone);
        assert!(limits.tenant_limits(&"ten_acme".into()).await.unwrap().is_empty());
    }
}

#[test]
fn every_limit_is_found_by_its_name() {
    for (at, limit) in LimitName::ALL.into_iter().enumerate() {
        assert_eq!((limit.as_str().parse(), limit as usize), (Ok(limit), at));
    }
}
