use std::time::Duration;

use ledger::{LoginRecord, Owner, Pair, Removed, Renewal, TokenHash};
use posthouse_time::Moment;
use posthouse_wire::{ClientId, InstanceId, LoginId};

use crate::book::{Book, hours};

const MINUTE: Duration = Duration::from_secs(60);

fn hash(number: u8) -> TokenHash {
    TokenHash([number; 32])
}

/// A numbered hash of which there are many.
fn numbered(kind: u8, number: u32) -> TokenHash {
    let mut bytes = [kind; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    TokenHash(bytes)
}

fn pair(number: u8, now: Moment) -> Pair {
    Pair { access: hash(number), access_expires: now + hours(1), refresh: hash(number + 100) }
}

fn vps() -> ClientId {
    "hermes-cli-vps".into()
}

async fn logs_in(book: &Book, login: &str, instance: &InstanceId, number: u8) -> Option<LoginRecord> {
    let now = book.clock.now();
    book.ledger.tokens().log_in(&login.into(), &vps(), instance, pair(number, now), now).await.unwrap()
}

async fn refreshes(book: &Book, presented: TokenHash, next: u8) -> Renewal {
    let now = book.clock.now();
    book.ledger.tokens().refresh(presented, &vps(), pair(next, now), now, now - MINUTE).await.unwrap()
}

async fn is_known(book: &Book, access: TokenHash) -> bool {
    book.ledger.tokens().bearer(access, book.clock.now()).await.unwrap().is_some()
}

stories! {
    async fn a_client_is_named_after_its_owner_and_found_by_any_good_secret(book) {
        let heron = book.enrols("acme", "heron").await;
        let (tokens, now) = (book.ledger.tokens(), book.clock.now());
        let owner = Owner::Instance(heron.clone());
        assert!(tokens.create_client(&owner, hash(1), now, now + hours(24)).await.unwrap());
        assert!(tokens.create_client(&owner, hash(2), now, now + hours(24)).await.unwrap());
        for secret in [hash(1), hash(2)] {
            let found = tokens.client(&owner.client(), secret, now).await.unwrap().unwrap();
            assert_eq!((found.instance.as_ref(), found.tenant.as_str()), (Some(&heron), "ten_acme"));
        }
        let later = now + hours(24);
        assert!(tokens.client(&owner.client(), hash(1), later).await.unwrap().is_none(), "its day is over");
        assert!(tokens.client(&owner.client(), hash(2), later).await.unwrap().is_some());
        assert!(tokens.client(&owner.client(), hash(3), now).await.unwrap().is_none());
    }

    async fn a_secret_opens_its_own_client_and_no_other(book) {
        let heron = Owner::Instance(book.enrols("acme", "heron").await);
        let otter = Owner::Instance(book.enrols("umbrella", "otter").await);
        let acme = Owner::Tenant("ten_acme".into());
        let (tokens, now) = (book.ledger.tokens(), book.clock.now());
        for (owner, secret) in [(&heron, 1), (&otter, 2), (&acme, 3)] {
            assert!(tokens.create_client(owner, hash(secret), now, now).await.unwrap());
        }
        for (owner, secret) in [(&heron, 2), (&heron, 3), (&otter, 1), (&acme, 1), (&acme, 2)] {
            assert!(tokens.client(&owner.client(), hash(secret), now).await.unwrap().is_none());
        }
        let own = tokens.client(&acme.client(), hash(3), now).await.unwrap().unwrap();
        assert_eq!((own.instance, own.tenant.as_str()), (None, "ten_acme"));
        let of_acme = tokens.clients(Some(&"ten_acme".into())).await.unwrap();
        let names: Vec<_> = of_acme.iter().map(|client| client.client.as_str()).collect();
        assert_eq!(names, [heron.client().as_str(), "tenant:ten_acme"]);
        assert_eq!(tokens.clients(None).await.unwrap().len(), 3);
    }

    async fn nobody_gets_a_client_for_an_owner_that_is_not_there(book) {
        book.enrols("acme", "heron").await;
        let (tokens, now) = (book.ledger.tokens(), book.clock.now());
        for owner in [Owner::Instance("inst_nobody".into()), Owner::Tenant("ten_nobody".into())] {
            assert!(!tokens.create_client(&owner, hash(1), now, now).await.unwrap());
        }
        assert!(tokens.clients(None).await.unwrap().is_empty());
        assert!(!tokens.grant(&"agent:inst_nobody".into(), hash(1), now + hours(1)).await.unwrap());
        assert_eq!(logs_in(&book, "log_1", &"inst_nobody".into(), 1).await, None);
    }

    async fn a_revoked_client_ends_with_its_secrets_and_tokens_and_may_begin_anew(book) {
        let owner = Owner::Instance(book.enrols("acme", "heron").await);
        let (tokens, now, client) = (book.ledger.tokens(), book.clock.now(), owner.client());
        tokens.create_client(&owner, hash(1), now, now).await.unwrap();
        assert!(tokens.grant(&client, hash(11), now + hours(1)).await.unwrap());
        assert!(is_known(&book, hash(11)).await);
        assert!(tokens.revoke_client(&client, now).await.unwrap());
        assert!(tokens.revoke_client(&client, now + hours(1)).await.unwrap());
        assert!(!tokens.revoke_client(&"agent:unknown".into(), now).await.unwrap());
        assert!(!is_known(&book, hash(11)).await);
        assert!(tokens.client(&client, hash(1), now).await.unwrap().is_none());
        assert!(!tokens.grant(&client, hash(12), now + hours(1)).await.unwrap());
        assert_eq!(tokens.clients(None).await.unwrap()[0].revoked, Some(now), "the first time counts");

        assert!(tokens.create_client(&owner, hash(2), now, now + hours(24)).await.unwrap());
        assert!(tokens.client(&client, hash(1), now).await.unwrap().is_none(), "the old secret stays gone");
        assert!(tokens.client(&client, hash(2), now).await.unwrap().is_some());
        assert_eq!(tokens.clients(None).await.unwrap()[0].revoked, None);
    }

    async fn an_access_token_is_good_until_the_moment_it_expires(book) {
        let owner = Owner::Tenant("ten_acme".into());
        book.enrols("acme", "heron").await;
        let (tokens, now) = (book.ledger.tokens(), book.clock.now());
        tokens.create_client(&owner, hash(1), now, now).await.unwrap();
        tokens.grant(&owner.client(), hash(11), now + hours(1)).await.unwrap();
        book.clock.wind(hours(1) - Duration::from_millis(1));
        let record = tokens.bearer(hash(11), book.clock.now()).await.unwrap().unwrap();
        assert_eq!((record.client, record.tenant.as_str()), (owner.client(), "ten_acme"));
        assert_eq!((record.login, record.expires), (None, now + hours(1)));
        book.clock.wind(Duration::from_millis(1));
        assert!(!is_known(&book, hash(11)).await);
    }

    async fn a_login_is_its_instances_own_inside_its_tenant(book) {
        let heron = book.enrols("acme", "heron").await;
        book.enrols("umbrella", "otter").await;
        let login = logs_in(&book, "log_1", &heron, 1).await.unwrap();
        assert_eq!((login.tenant.as_str(), &login.instance), ("ten_acme", &heron));
        let roster = book.ledger.roster();
        let own = roster.instance_of_login(&"ten_acme".into(), &"log_1".into()).await.unwrap();
        assert_eq!(own.unwrap().id, heron);
        for (tenant, login) in [("ten_umbrella", "log_1"), ("ten_acme", "log_2"), ("ten_acme", "")] {
            let found = roster.instance_of_login(&tenant.into(), &login.into()).await.unwrap();
            assert!(found.is_none(), "{tenant} {login}");
        }
        let record = book.ledger.tokens().bearer(hash(1), book.clock.now()).await.unwrap().unwrap();
        assert_eq!((record.client, record.login), (vps(), Some(LoginId::from("log_1"))));
        assert_eq!(book.ledger.tokens().logins(Some(&"ten_umbrella".into())).await.unwrap(), []);
        assert_eq!(book.ledger.tokens().logins(None).await.unwrap(), [login]);
    }

    async fn a_new_login_ends_the_one_before_it(book) {
        let heron = book.enrols("acme", "heron").await;
        logs_in(&book, "log_1", &heron, 1).await.unwrap();
        logs_in(&book, "log_2", &heron, 2).await.unwrap();
        assert!(!is_known(&book, hash(1)).await && is_known(&book, hash(2)).await);
        assert_eq!(refreshes(&book, hash(101), 3).await, Renewal::Unknown);
        let tokens = book.ledger.tokens();
        assert!(!tokens.log_out(&"log_1".into()).await.unwrap());
        assert!(tokens.log_out(&"log_2".into()).await.unwrap());
        assert!(!tokens.log_out(&"log_2".into()).await.unwrap());
        assert!(!is_known(&book, hash(2)).await);
        assert_eq!(refreshes(&book, hash(102), 3).await, Renewal::Unknown);
        let roster = book.ledger.roster();
        assert!(roster.instance_of_login(&"ten_acme".into(), &"log_2".into()).await.unwrap().is_none());
    }

    async fn a_rotated_refresh_token_is_honoured_for_the_overlap_and_until_a_successor_was_used(book) {
        let heron = book.enrols("acme", "heron").await;
        logs_in(&book, "log_1", &heron, 1).await.unwrap();
        assert!(matches!(refreshes(&book, hash(101), 2).await, Renewal::Granted(_)));
        book.clock.wind(MINUTE);
        assert!(matches!(refreshes(&book, hash(101), 3).await, Renewal::Granted(_)), "two raced");
        assert!(is_known(&book, hash(1)).await && is_known(&book, hash(2)).await && is_known(&book, hash(3)).await);
        book.clock.wind(Duration::from_millis(1));
        assert!(matches!(refreshes(&book, hash(101), 7).await, Renewal::Granted(_)), "the answers were lost");
        assert!(matches!(refreshes(&book, hash(102), 5).await, Renewal::Granted(_)));
        let Renewal::Reused(login) = refreshes(&book, hash(101), 4).await else { panic!("it was reused") };
        assert_eq!(login.login, "log_1");
        assert!(!is_known(&book, hash(4)).await, "nothing was granted");
        assert!(matches!(refreshes(&book, hash(103), 6).await, Renewal::Granted(_)));
    }

    async fn a_refresh_token_is_good_for_its_own_client_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        logs_in(&book, "log_1", &heron, 1).await.unwrap();
        let (tokens, now) = (book.ledger.tokens(), book.clock.now());
        let other = tokens.refresh(hash(101), &"hermes-cli".into(), pair(2, now), now, now).await.unwrap();
        assert_eq!(other, Renewal::Unknown);
        assert_eq!(refreshes(&book, hash(1), 3).await, Renewal::Unknown, "an access token is none");
        assert!(matches!(refreshes(&book, hash(101), 4).await, Renewal::Granted(_)));
    }

    async fn a_removed_agent_takes_its_client_login_and_tokens_along(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("acme", "otter").await;
        let (tokens, now) = (book.ledger.tokens(), book.clock.now());
        for (instance, number) in [(&heron, 1), (&otter, 2)] {
            let owner = Owner::Instance(instance.clone());
            tokens.create_client(&owner, hash(number), now, now).await.unwrap();
            tokens.grant(&owner.client(), hash(number + 10), now + hours(1)).await.unwrap();
            logs_in(&book, &format!("log_{number}"), instance, number + 20).await.unwrap();
        }
        assert_eq!(book.ledger.roster().remove_instance(&heron).await.unwrap(), Removed::Gone);
        assert!(!is_known(&book, hash(11)).await && !is_known(&book, hash(21)).await);
        assert_eq!(refreshes(&book, hash(121), 31).await, Renewal::Unknown);
        let gone = Owner::Instance(heron).client();
        assert!(tokens.client(&gone, hash(1), now).await.unwrap().is_none());
        assert_eq!((tokens.clients(None).await.unwrap().len(), tokens.logins(None).await.unwrap().len()), (1, 1));
        assert!(is_known(&book, hash(12)).await && is_known(&book, hash(22)).await, "a neighbour keeps its own");
    }

    async fn a_removed_tenant_takes_its_client_along(book) {
        let heron = book.enrols("acme", "heron").await;
        let (tokens, now, owner) = (book.ledger.tokens(), book.clock.now(), Owner::Tenant("ten_acme".into()));
        tokens.create_client(&owner, hash(1), now, now).await.unwrap();
        tokens.grant(&owner.client(), hash(11), now + hours(1)).await.unwrap();
        let roster = book.ledger.roster();
        assert_eq!(roster.remove_tenant(&"ten_acme".into()).await.unwrap(), Removed::InUse);
        assert!(is_known(&book, hash(11)).await, "a tenant that stays keeps its client");
        roster.remove_instance(&heron).await.unwrap();
        assert_eq!(roster.remove_tenant(&"ten_acme".into()).await.unwrap(), Removed::Gone);
        assert!(!is_known(&book, hash(11)).await);
        assert!(tokens.clients(None).await.unwrap().is_empty());
    }

    async fn the_operator_acts_for_a_tenant_under_a_name_that_is_no_client(book) {
        let heron = book.enrols("acme", "heron").await;
        book.enrols("umbrella", "otter").await;
        let (tokens, now, acme) = (book.ledger.tokens(), book.clock.now(), "ten_acme".into());
        assert!(tokens.grant_operator(&acme, hash(1), now + hours(1)).await.unwrap());
        assert!(!tokens.grant_operator(&"ten_nobody".into(), hash(2), now + hours(1)).await.unwrap());
        assert!(!is_known(&book, hash(2)).await);
        let record = tokens.bearer(hash(1), now).await.unwrap().unwrap();
        assert_eq!((record.client.as_str(), record.tenant.as_str()), ("operator:ten_acme", "ten_acme"));
        assert_eq!((record.login, record.expires), (None, now + hours(1)));
        let client = ledger::operator_client(&acme);
        assert_eq!(client, record.client);
        assert!(tokens.clients(None).await.unwrap().is_empty());
        assert!(!tokens.grant(&client, hash(3), now + hours(1)).await.unwrap());
        assert!(!tokens.revoke_client(&client, now).await.unwrap());
        assert!(is_known(&book, hash(1)).await, "there is no such client to revoke");
        let roster = book.ledger.roster();
        tokens.grant_operator(&"ten_umbrella".into(), hash(4), now + hours(1)).await.unwrap();
        roster.remove_instance(&heron).await.unwrap();
        assert!(is_known(&book, hash(1)).await);
        assert_eq!(roster.remove_tenant(&acme).await.unwrap(), Removed::Gone);
        assert!(!is_known(&book, hash(1)).await && is_known(&book, hash(4)).await);
    }

    async fn what_has_expired_is_pruned_and_a_rotated_token_is_remembered_for_a_day(book) {
        let heron = book.enrols("acme", "heron").await;
        let (tokens, now, owner) = (book.ledger.tokens(), book.clock.now(), Owner::Instance(heron.clone()));
        tokens.create_client(&owner, hash(1), now, now).await.unwrap();
        tokens.create_client(&owner, hash(2), now, now + hours(1)).await.unwrap();
        logs_in(&book, "log_1", &heron, 11).await.unwrap();
        assert!(matches!(refreshes(&book, hash(111), 12).await, Renewal::Granted(_)));
        assert!(matches!(refreshes(&book, hash(112), 16).await, Renewal::Granted(_)));
        book.clock.wind(hours(23));
        book.ledger.house().prune().await.unwrap();
        assert!(matches!(refreshes(&book, hash(111), 13).await, Renewal::Reused(_)));
        book.clock.wind(hours(2));
        book.ledger.house().prune().await.unwrap();
        assert_eq!(refreshes(&book, hash(111), 14).await, Renewal::Unknown);
        assert!(tokens.bearer(hash(12), now).await.unwrap().is_none(), "the row itself is gone");
        assert!(tokens.client(&owner.client(), hash(1), now).await.unwrap().is_none());
        assert!(tokens.client(&owner.client(), hash(2), book.clock.now()).await.unwrap().is_some());
        assert!(matches!(refreshes(&book, hash(116), 15).await, Renewal::Granted(_)), "the last one waits for ever");
    }

    async fn whoever_asks_without_end_fills_no_disk(book) {
        let heron = book.enrols("acme", "heron").await;
        let (tokens, now, owner) = (book.ledger.tokens(), book.clock.now(), Owner::Instance(heron.clone()));
        tokens.create_client(&owner, hash(1), now, now).await.unwrap();
        let mut asking = tokio::task::JoinSet::new();
        for number in 0..1001 {
            let (tokens, client) = (book.ledger.tokens(), owner.client());
            let expires = now + hours(1) + Duration::from_millis(number.into());
            asking.spawn(async move { tokens.grant(&client, numbered(1, number), expires).await });
        }
        for granted in asking.join_all().await {
            assert!(granted.unwrap());
        }
        assert!(!is_known(&book, numbered(1, 0)).await, "the oldest gave way");
        assert!(is_known(&book, numbered(1, 1)).await && is_known(&book, numbered(1, 1000)).await);
        logs_in(&book, "log_1", &heron, 9).await.unwrap();
        for number in 0..128 {
            let next = Pair { access: numbered(2, number), access_expires: now + hours(1), refresh: numbered(3, number) };
            let granted = tokens.refresh(hash(109), &vps(), next, now, now).await.unwrap();
            assert!(matches!(granted, Renewal::Granted(_)), "{number}");
        }
        assert_eq!(refreshes(&book, hash(109), 10).await, Renewal::Unknown, "the oldest gave way");
        assert!(matches!(refreshes(&book, numbered(3, 127), 11).await, Renewal::Granted(_)));
    }
}
