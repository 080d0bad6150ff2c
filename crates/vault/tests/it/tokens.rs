use std::time::Duration;

use ledger::AccessRecord;
use posthouse_wire::{ClientId, InstanceId, Secret};
use vault::{AccessGrant, BOOTSTRAP_CLIENT, ClientOwner, Keyring, Login, Owner, Refreshed};

use crate::safe::{Safe, hours, minutes};

const SECOND: Duration = Duration::from_secs(1);

async fn client(keyring: &Keyring, owner: &Owner) -> (ClientId, Secret) {
    keyring.create_client(owner).await.unwrap().unwrap()
}

async fn access(keyring: &Keyring, client: &ClientId) -> AccessGrant {
    keyring.grant_access(client).await.unwrap().unwrap()
}

async fn bearer(keyring: &Keyring, token: &Secret) -> Option<AccessRecord> {
    keyring.access_record(Keyring::token_hash(token.expose())).await.unwrap()
}

async fn logs_in(keyring: &Keyring, instance: &InstanceId) -> Login {
    keyring.log_in(instance).await.unwrap().unwrap()
}

async fn refresh(keyring: &Keyring, token: &Secret) -> Refreshed {
    keyring.refresh(token.expose(), BOOTSTRAP_CLIENT, None).await.unwrap()
}

async fn refreshes(keyring: &Keyring, token: &Secret) -> Login {
    match refresh(keyring, token).await {
        Refreshed::Granted(login) | Refreshed::Forked(login, _) => login,
        Refreshed::Full(_) => panic!("put off"),
        Refreshed::Reused(_) => panic!("reused"),
        Refreshed::Refused => panic!("refused"),
    }
}

#[tokio::test]
async fn a_token_ends_by_wall_or_ledger_time_whichever_comes_first() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let keyring = safe.vault.keyring();
    let (id, _) = client(&keyring, &Owner::Instance(heron)).await;
    let (grant, start) = (access(&keyring, &id).await, safe.clock.now());
    assert!(bearer(&keyring, &grant.access_token).await.is_some());
    safe.clock.set(start + hours(2));
    assert!(
        bearer(&keyring, &grant.access_token).await.is_none(),
        "by the wall clock, although it is cached"
    );
    safe.clock.set(start - hours(100));
    assert!(bearer(&keyring, &grant.access_token).await.is_some());
    safe.winds(hours(1));
    assert!(bearer(&keyring, &grant.access_token).await.is_none(), "an hour has passed");
}

#[tokio::test]
async fn a_client_stands_for_its_owner_and_its_token_for_the_client() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let keyring = safe.vault.keyring();
    let (id, secret) = client(&keyring, &Owner::Instance(heron.clone())).await;
    assert_eq!(id, format!("agent:{heron}").as_str());
    assert!(secret.expose().len() >= 64 && secret.expose().starts_with("phs_"));
    let found = keyring.client(id.as_str(), secret.expose()).await.unwrap().unwrap();
    let expected = ClientOwner { client: id.clone(), tenant: "ten_acme".into(), instance: Some(heron) };
    assert_eq!(found, expected);
    let grant = access(&keyring, &id).await;
    assert_eq!(grant.expires_in, hours(1));
    let expected = AccessRecord {
        client: id,
        tenant: "ten_acme".into(),
        login: None,
        agent: None,
        expires: grant.expires,
    };
    assert_eq!(bearer(&keyring, &grant.access_token).await, Some(expected));

    let (own, secret) = client(&keyring, &Owner::Tenant("ten_acme".into())).await;
    assert_eq!(own, "tenant:ten_acme");
    assert_eq!(keyring.client(own.as_str(), secret.expose()).await.unwrap().unwrap().instance, None);
    for owner in [Owner::Instance("inst_x".into()), Owner::Tenant("ten_x".into())] {
        assert!(keyring.create_client(&owner).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn whatever_is_no_client_of_that_name_is_refused_alike() {
    let safe = Safe::open().await;
    let keyring = safe.vault.keyring();
    let heron = Owner::Instance(safe.enrols("acme", "heron").await);
    let otter = Owner::Instance(safe.enrols("umbrella", "otter").await);
    let (id, secret) = client(&keyring, &heron).await;
    let (other, others) = client(&keyring, &otter).await;
    let grant = access(&keyring, &id).await;
    for (client, presented) in [
        (id.as_str(), others.expose()),
        (other.as_str(), secret.expose()),
        ("tenant:ten_acme", secret.expose()),
        (id.as_str(), ""),
        (id.as_str(), &secret.expose()[1..]),
        ("", secret.expose()),
        (id.as_str(), grant.access_token.expose()),
    ] {
        assert!(keyring.client(client, presented).await.unwrap().is_none());
    }
    for token in [secret.expose(), "", "é", &"A".repeat(100_000), &grant.access_token.expose()[..10]] {
        assert!(keyring.access_record(Keyring::token_hash(token)).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_further_secret_overlaps_the_one_before_it_for_a_day() {
    let safe = Safe::open().await;
    let owner = Owner::Instance(safe.enrols("acme", "heron").await);
    let keyring = safe.vault.keyring();
    let (id, old) = client(&keyring, &owner).await;
    let (again, new) = client(&keyring, &owner).await;
    assert_eq!(id, again);
    safe.winds(hours(24) - SECOND);
    assert!(keyring.client(id.as_str(), old.expose()).await.unwrap().is_some());
    safe.winds(SECOND);
    assert!(keyring.client(id.as_str(), old.expose()).await.unwrap().is_none());
    assert!(keyring.client(id.as_str(), new.expose()).await.unwrap().is_some());
}

#[tokio::test]
async fn an_access_token_ends_with_its_hour_even_if_it_was_just_seen() {
    let safe = Safe::open().await;
    let owner = Owner::Instance(safe.enrols("acme", "heron").await);
    let keyring = safe.vault.keyring();
    let (id, _) = client(&keyring, &owner).await;
    let grant = access(&keyring, &id).await;
    safe.winds(hours(1) - SECOND);
    assert!(bearer(&keyring, &grant.access_token).await.is_some());
    safe.winds(SECOND);
    assert!(bearer(&keyring, &grant.access_token).await.is_none());
}

#[tokio::test]
async fn access_is_never_granted_for_less_than_a_quarter_of_an_hour() {
    let safe = Safe::open().await;
    let owner = Owner::Instance(safe.enrols("acme", "heron").await);
    let keyring = safe.vault.keyring().granting_access_for(minutes(2));
    let (id, _) = client(&keyring, &owner).await;
    assert_eq!(access(&keyring, &id).await.expires_in, minutes(15));
    let longer = safe.vault.keyring().granting_access_for(hours(2));
    assert_eq!(access(&longer, &id).await.expires_in, hours(2));
}

#[tokio::test]
async fn revoking_is_immediate_for_everybody_who_holds_a_keyring() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let (keyring, another) = (safe.vault.keyring(), safe.vault.clone().keyring());
    let (id, secret) = client(&keyring, &Owner::Instance(heron.clone())).await;
    let grant = access(&keyring, &id).await;
    let login = logs_in(&keyring, &heron).await;
    assert!(bearer(&another, &grant.access_token).await.is_some());
    assert!(keyring.revoke_client(&id).await.unwrap());
    assert!(bearer(&another, &grant.access_token).await.is_none());
    assert!(keyring.client(id.as_str(), secret.expose()).await.unwrap().is_none());
    assert!(keyring.grant_access(&id).await.unwrap().is_none());
    assert!(!keyring.revoke_client(&"agent:inst_x".into()).await.unwrap());

    assert!(bearer(&another, &login.access.access_token).await.is_some(), "a login is not the client's");
    assert!(keyring.log_out(&login.login).await.unwrap());
    assert!(bearer(&another, &login.access.access_token).await.is_none());
    assert!(matches!(refresh(&keyring, &login.refresh_token).await, Refreshed::Refused));
    assert!(!keyring.log_out(&login.login).await.unwrap());

    let (anew, _) = client(&keyring, &Owner::Instance(heron)).await;
    assert_eq!(keyring.clients(None).await.unwrap()[0].revoked, None);
    assert!(keyring.grant_access(&anew).await.unwrap().is_some());
}

#[tokio::test]
async fn an_answer_of_the_ledger_is_believed_for_five_seconds_and_not_after_it_was_forgotten() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let keyring = safe.vault.keyring();
    let (id, _) = client(&keyring, &Owner::Instance(heron)).await;
    let grant = access(&keyring, &id).await;
    assert!(bearer(&keyring, &grant.access_token).await.is_some());
    // As another node would.
    safe.ledger.tokens().revoke_client(&id, safe.clock.now()).await.unwrap();
    safe.winds(5 * SECOND);
    assert!(bearer(&keyring, &grant.access_token).await.is_none());

    safe.ledger
        .tokens()
        .create_client(&owner_of(&id), ledger::TokenHash([7; 32]), safe.clock.now(), safe.clock.now())
        .await
        .unwrap();
    let grant = access(&keyring, &id).await;
    assert!(bearer(&keyring, &grant.access_token).await.is_some());
    safe.ledger.tokens().revoke_client(&id, safe.clock.now()).await.unwrap();
    assert!(bearer(&keyring, &grant.access_token).await.is_none());
}

#[tokio::test]
async fn the_operator_acts_for_a_tenant_for_a_quarter_of_an_hour() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    // However long others have access.
    let keyring = safe.vault.keyring().granting_access_for(hours(5));
    let acme = "ten_acme".into();
    assert!(keyring.operator_access(&"ten_nobody".into()).await.unwrap().is_none());
    let grant = keyring.operator_access(&acme).await.unwrap().unwrap();
    assert_eq!((grant.expires_in, grant.expires), (minutes(15), safe.clock.now() + minutes(15)));
    let operator = ClientId::from("operator:ten_acme");
    let expected = AccessRecord {
        client: operator.clone(),
        tenant: acme,
        login: None,
        agent: None,
        expires: grant.expires,
    };
    assert_eq!(bearer(&keyring, &grant.access_token).await, Some(expected));

    assert!(keyring.client(operator.as_str(), grant.access_token.expose()).await.unwrap().is_none());
    assert!(keyring.grant_access(&operator).await.unwrap().is_none());
    assert!(matches!(refresh(&keyring, &grant.access_token).await, Refreshed::Refused));
    assert!(!keyring.revoke_client(&operator).await.unwrap());
    assert!(bearer(&keyring, &grant.access_token).await.is_some(), "it is no client that could be revoked");
    assert!(keyring.clients(None).await.unwrap().is_empty());
    safe.winds(minutes(15) - SECOND);
    assert!(bearer(&keyring, &grant.access_token).await.is_some());
    safe.winds(SECOND);
    assert!(bearer(&keyring, &grant.access_token).await.is_none());

    let grant = keyring.operator_access(&"ten_acme".into()).await.unwrap().unwrap();
    assert!(bearer(&keyring, &grant.access_token).await.is_some());
    let roster = safe.ledger.roster();
    roster.remove_instance(&heron).await.unwrap();
    roster.remove_tenant(&"ten_acme".into()).await.unwrap();
    assert!(bearer(&keyring, &grant.access_token).await.is_none(), "it ended with the tenant");
}

fn owner_of(client: &ClientId) -> Owner {
    Owner::Instance(client.as_str().strip_prefix("agent:").unwrap().into())
}

#[tokio::test]
async fn a_login_is_found_by_its_tenant_and_refreshes_without_end() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let keyring = safe.vault.keyring();
    let mut login = logs_in(&keyring, &heron).await;
    let first = login.login.clone();
    for _ in 0..5 {
        let seen = bearer(&keyring, &login.access.access_token).await.unwrap();
        assert_eq!((seen.client.as_str(), seen.tenant.as_str()), (BOOTSTRAP_CLIENT, "ten_acme"));
        assert_eq!(seen.login.as_ref(), Some(&first));
        let own = safe.ledger.roster().instance_of_login(&seen.tenant, &first).await.unwrap();
        assert_eq!(own.unwrap().id, heron);
        let stranger = safe.ledger.roster().instance_of_login(&"ten_umbrella".into(), &first).await.unwrap();
        assert!(stranger.is_none());
        safe.winds(hours(1000));
        assert!(bearer(&keyring, &login.access.access_token).await.is_none());
        safe.ledger.facts().prune().await.unwrap();
        login = refreshes(&keyring, &login.refresh_token).await;
        assert_eq!(login.login, first);
    }
    assert!(keyring.log_in(&"inst_x".into()).await.unwrap().is_none());
    assert_eq!(keyring.logins(Some(&"ten_acme".into())).await.unwrap().len(), 1);
}

#[tokio::test]
async fn two_that_race_for_a_refresh_both_get_a_pair_and_a_late_third_is_told() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let keyring = safe.vault.keyring();
    let login = logs_in(&keyring, &heron).await;
    let one = refreshes(&keyring, &login.refresh_token).await;
    safe.winds(60 * SECOND);
    let two = refreshes(&keyring, &login.refresh_token).await;
    assert!(!one.refresh_token.matches(two.refresh_token.expose()));
    safe.winds(SECOND);
    refreshes(&keyring, &one.refresh_token).await;
    match refresh(&keyring, &login.refresh_token).await {
        Refreshed::Reused(which) => assert_eq!(which, login.login),
        _ => panic!("it was exchanged a minute ago, and what it was exchanged for was used"),
    }
    for pair in [&one, &two] {
        assert!(bearer(&keyring, &pair.access.access_token).await.is_some(), "the login goes on");
    }
    refreshes(&keyring, &two.refresh_token).await;
}

#[tokio::test]
async fn a_refresh_token_is_good_for_refreshing_alone_and_for_its_client_alone() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let keyring = safe.vault.keyring();
    let login = logs_in(&keyring, &heron).await;
    assert!(bearer(&keyring, &login.refresh_token).await.is_none());
    assert!(matches!(refresh(&keyring, &login.access.access_token).await, Refreshed::Refused));
    assert!(matches!(refresh(&keyring, &Secret::new("")).await, Refreshed::Refused));
    let other = keyring.refresh(login.refresh_token.expose(), "hermes-cli", None).await.unwrap();
    assert!(matches!(other, Refreshed::Refused));
    refreshes(&keyring, &login.refresh_token).await;
}

#[tokio::test]
async fn a_new_login_ends_the_one_before_it_at_once() {
    let safe = Safe::open().await;
    let heron = safe.enrols("acme", "heron").await;
    let keyring = safe.vault.keyring();
    let old = logs_in(&keyring, &heron).await;
    assert!(bearer(&keyring, &old.access.access_token).await.is_some());
    let new = logs_in(&keyring, &heron).await;
    assert!(bearer(&keyring, &old.access.access_token).await.is_none());
    assert!(matches!(refresh(&keyring, &old.refresh_token).await, Refreshed::Refused));
    assert!(bearer(&keyring, &new.access.access_token).await.is_some());
}
