use std::time::Duration;

use ledger::Uses;
use posthouse_wire::{InstanceId, Secret, SessionKey};
use vault::{CapturedCapability, Granted, Redemption};

use crate::safe::{Safe, minutes};

const KIND: &str = "discord.interaction_token";

pub async fn bind(
    safe: &Safe,
    instance: &InstanceId,
    keys: &[&str],
    value: &str,
    lifetime: Option<Duration>,
    uses: Uses,
) {
    let keys: Vec<SessionKey> = keys.iter().map(|key| (*key).into()).collect();
    let captured = CapturedCapability { kind: KIND.into(), value: Secret::new(value), lifetime, uses };
    let tenant = safe.ledger.roster().instance(instance).await.unwrap().unwrap().tenant;
    safe.vault.bind(&tenant, instance, &keys, None, vec![captured]).await.unwrap();
}

async fn redeemed(safe: &Safe, tenant: &str, of: &InstanceId, key: &str, kind: &str) -> Option<Granted> {
    match safe.vault.redeem(&tenant.into(), of, &key.into(), &kind.into(), None).await.unwrap() {
        Redemption::Granted(granted) => Some(granted),
        Redemption::Nothing => None,
    }
}

/// What heron of acme gets.
async fn value(safe: &Safe, of: &InstanceId, key: &str) -> Option<String> {
    redeemed(safe, "ten_acme", of, key, KIND).await.map(|granted| granted.value.expose().to_owned())
}

#[tokio::test]
async fn a_capability_is_redeemed_by_any_key_of_its_session() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    bind(&safe, &heron, &["a", "b"], "ride", Some(minutes(15)), Uses::Many).await;
    for key in ["a", "b", "a"] {
        assert_eq!(value(&safe, &heron, key).await.as_deref(), Some("ride"));
    }
}

#[tokio::test]
async fn nobody_else_gets_it_and_all_of_them_hear_the_same() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let sister = safe.enrols("acme", "sister").await;
    let otter = safe.enrols("umbrella", "otter").await;
    bind(&safe, &heron, &["key"], "ride", None, Uses::Left(1)).await;
    assert!(redeemed(&safe, "ten_umbrella", &otter, "key", KIND).await.is_none());
    assert!(redeemed(&safe, "ten_acme", &otter, "key", KIND).await.is_none());
    assert!(redeemed(&safe, "ten_umbrella", &heron, "key", KIND).await.is_none());
    assert!(redeemed(&safe, "ten_acme", &sister, "key", KIND).await.is_none());
    assert!(redeemed(&safe, "ten_acme", &heron, "other key", KIND).await.is_none());
    assert!(redeemed(&safe, "ten_acme", &heron, "key", "line.reply_token").await.is_none());
    assert!(redeemed(&safe, "ten_acme", &heron, "key", KIND).await.is_some(), "and none of them used it up");
}

#[tokio::test]
async fn sessions_of_the_same_name_in_two_tenants_are_two() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let otter = safe.enrols("umbrella", "otter").await;
    bind(&safe, &heron, &["key"], "heron's", None, Uses::Many).await;
    bind(&safe, &otter, &["key"], "otter's", None, Uses::Many).await;
    assert_eq!(value(&safe, &heron, "key").await.as_deref(), Some("heron's"));
    let theirs = redeemed(&safe, "ten_umbrella", &otter, "key", KIND).await.unwrap();
    assert_eq!(theirs.value.expose(), "otter's");
}

#[tokio::test]
async fn a_use_is_taken_and_only_what_surely_did_nothing_gives_it_back() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    bind(&safe, &heron, &["a", "b"], "once", None, Uses::Left(1)).await;
    let granted = redeemed(&safe, "ten_acme", &heron, "a", KIND).await.unwrap();
    assert_eq!(value(&safe, &heron, "b").await, None, "one use, whatever the key");
    safe.vault.give_back(granted).await.unwrap();
    assert_eq!(value(&safe, &heron, "b").await.as_deref(), Some("once"));
    assert_eq!(value(&safe, &heron, "b").await, None);
}

#[tokio::test]
async fn two_who_redeem_the_last_use_at_once_do_not_both_get_it() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    bind(&safe, &heron, &["key"], "once", None, Uses::Left(1)).await;
    let (one, two) = tokio::join!(value(&safe, &heron, "key"), value(&safe, &heron, "key"));
    assert_eq!(usize::from(one.is_some()) + usize::from(two.is_some()), 1);
}

#[tokio::test]
async fn a_capability_lapses_a_margin_before_the_platform_forgets_it() {
    for (lifetime, good) in [(900, 839), (300, 269), (20, 17)] {
        let safe = Safe::open().await;
        let heron = safe.enrols("acme", "heron").await;
        bind(&safe, &heron, &["key"], "ride", Some(Duration::from_secs(lifetime)), Uses::Many).await;
        safe.winds(Duration::from_secs(good));
        assert!(value(&safe, &heron, "key").await.is_some(), "{lifetime}");
        safe.winds(Duration::from_secs(1));
        assert!(value(&safe, &heron, "key").await.is_none(), "{lifetime}");
    }
}

#[tokio::test]
async fn the_newest_of_a_kind_wins() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    bind(&safe, &heron, &["a", "b"], "old", Some(minutes(15)), Uses::Many).await;
    bind(&safe, &heron, &["b", "c"], "new", Some(minutes(15)), Uses::Many).await;
    for (key, expected) in [("a", "old"), ("b", "new"), ("c", "new")] {
        assert_eq!(value(&safe, &heron, key).await.as_deref(), Some(expected));
    }
}
