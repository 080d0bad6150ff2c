use posthouse_time::Moment;
use posthouse_wire::{GatewayId, Secret, token};
use vault::{CredentialCheck, GatewayOwner};

use crate::safe::{Safe, hours, minutes};

fn minted(gateway: &str, secret: &Secret, now: Moment) -> String {
    token::mint(&gateway.into(), secret, 300, now.seconds())
}

async fn standing(safe: &Safe, token: &str) -> CredentialCheck {
    safe.vault.keyring().check_upgrade_token(token).await.unwrap()
}

#[tokio::test]
async fn an_issued_secret_opens_the_door_for_its_holder() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let secret = safe.vault.keyring().issue(&"gw".into(), &heron).await.unwrap().unwrap();
    assert_eq!(secret.expose().len(), 64);
    let holder = GatewayOwner { gateway: "gw".into(), instance: heron, tenant: "ten_acme".into() };
    assert_eq!(
        standing(&safe, &minted("gw", &secret, safe.clock.now())).await,
        CredentialCheck::Good(holder)
    );
}

#[tokio::test]
async fn whoever_is_unknown_wrong_or_malformed_is_refused_alike() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let secret = safe.vault.keyring().issue(&"gw".into(), &heron).await.unwrap().unwrap();
    let now = safe.clock.now();
    let wrong = Secret::new("wrong");
    let good = minted("gw", &secret, now);
    for token in [
        minted("unknown", &secret, now),
        minted("gw", &wrong, now),
        minted("gw", &Secret::new(""), now),
        String::new(),
        "é".to_owned(),
        "A".repeat(100_000),
        good[..good.len() - 4].to_owned(),
    ] {
        assert_eq!(standing(&safe, &token).await, CredentialCheck::Refused);
    }
}

#[tokio::test]
async fn a_rotated_secret_stays_good_for_a_day_beside_its_successor() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let keyring = safe.vault.keyring();
    let gateway: GatewayId = "gw".into();
    let old = keyring.issue(&gateway, &heron).await.unwrap().unwrap();
    safe.winds(hours(100));
    let new = keyring.issue(&gateway, &heron).await.unwrap().unwrap();
    assert!(!old.matches(new.expose()));
    safe.winds(hours(24) - minutes(1));
    for secret in [&old, &new] {
        let presented = minted("gw", secret, safe.clock.now());
        assert!(matches!(standing(&safe, &presented).await, CredentialCheck::Good(_)));
    }
    safe.winds(minutes(1));
    assert_eq!(standing(&safe, &minted("gw", &old, safe.clock.now())).await, CredentialCheck::Refused);
    assert!(matches!(standing(&safe, &minted("gw", &new, safe.clock.now())).await, CredentialCheck::Good(_)));
}

#[tokio::test]
async fn two_rotations_on_one_day_leave_all_three_good() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let mut secrets = Vec::new();
    for _ in 0..3 {
        secrets.push(safe.vault.keyring().issue(&"gw".into(), &heron).await.unwrap().unwrap());
        safe.winds(hours(10));
    }
    // The first ends 24 hours after the second came, the second 24 hours after the third.
    for (passed, good) in [(0, 3), (5, 2), (10, 1), (1000, 1)] {
        safe.winds(hours(passed));
        let mut standings = 0;
        for secret in &secrets {
            let presented = minted("gw", secret, safe.clock.now());
            standings += usize::from(matches!(standing(&safe, &presented).await, CredentialCheck::Good(_)));
        }
        assert_eq!(standings, good, "after {passed} hours more");
    }
}

#[tokio::test]
async fn a_revoked_credential_is_refused_at_once_and_for_good() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let keyring = safe.vault.keyring();
    let secret = keyring.issue(&"gw".into(), &heron).await.unwrap().unwrap();
    assert!(keyring.revoke(&"gw".into()).await.unwrap());
    assert!(!keyring.revoke(&"unknown".into()).await.unwrap());
    assert_eq!(standing(&safe, &minted("gw", &secret, safe.clock.now())).await, CredentialCheck::Refused);
    assert!(keyring.issue(&"gw".into(), &heron).await.unwrap().is_none());
    let listed = keyring.of(&heron).await.unwrap();
    assert_eq!(listed, [("gw".into(), crate::safe::START, Some(crate::safe::START))]);
}

#[tokio::test]
async fn a_credential_of_another_agent_cannot_be_taken_over() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let otter = safe.enrols("umbrella", "otter").await;
    let keyring = safe.vault.keyring();
    let secret = keyring.issue(&"gw".into(), &heron).await.unwrap().unwrap();
    assert!(keyring.issue(&"gw".into(), &otter).await.unwrap().is_none());
    let CredentialCheck::Good(holder) = standing(&safe, &minted("gw", &secret, safe.clock.now())).await
    else {
        panic!("it is good still")
    };
    assert_eq!(holder.instance, heron);
    assert!(keyring.of(&otter).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_late_token_says_how_late_it_is() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let secret = safe.vault.keyring().issue(&"gw".into(), &heron).await.unwrap().unwrap();
    let token = minted("gw", &secret, safe.clock.now());
    safe.winds(minutes(5));
    assert!(matches!(standing(&safe, &token).await, CredentialCheck::Good(_)));
    safe.winds(minutes(2));
    match standing(&safe, &token).await {
        CredentialCheck::Expired { holder, late_seconds } => {
            assert_eq!((holder.instance, late_seconds), (heron, 120));
        }
        other => panic!("{other:?}"),
    }
    safe.vault.keyring().revoke(&"gw".into()).await.unwrap();
    assert_eq!(standing(&safe, &token).await, CredentialCheck::Refused, "a revoked one is not called late");
}
