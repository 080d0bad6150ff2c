use std::time::Duration;

use ledger::{
    HttpCredentials, LoginRecord, Owner, REFRESH_LINES, RefreshRequest, Removed, Renewal, RenewedCredentials,
    Sealed, TokenHash, TokenPair, WhichCredentials,
};
use posthouse_time::Moment;
use posthouse_wire::{ClientId, InstanceId, LoginId};

use crate::book::{Book, hours};

const MINUTE: Duration = Duration::from_secs(60);

fn hash(number: u8) -> TokenHash {
    TokenHash([number; 32])
}

/// A numbered hash, for tests that need many.
fn numbered(kind: u8, number: u32) -> TokenHash {
    let mut bytes = [kind; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    TokenHash(bytes)
}

fn pair(number: u8, now: Moment) -> TokenPair {
    TokenPair { access: hash(number), access_expires: now + hours(1), refresh: hash(number + 100) }
}

fn vps() -> ClientId {
    "hermes-cli-vps".into()
}

async fn logs_in(book: &Book, login: &str, instance: &InstanceId, number: u8) -> Option<LoginRecord> {
    let now = book.clock.now();
    book.ledger.tokens().log_in(&login.into(), &vps(), instance, pair(number, now), now).await.unwrap()
}

fn request(book: &Book, presented: TokenHash, next: TokenPair) -> RefreshRequest {
    let now = book.clock.now();
    RefreshRequest {
        presented,
        client: vps(),
        address: None,
        next,
        now,
        honoured_since: now - MINUTE,
        lapse_at: now + hours(24),
    }
}

async fn refreshes(book: &Book, presented: TokenHash, next: u8) -> Renewal {
    let request = request(book, presented, pair(next, book.clock.now()));
    book.ledger.tokens().refresh(request).await.unwrap()
}

/// The same with numbered tokens and an address.
async fn exchanges(book: &Book, presented: TokenHash, next: u32, from: &str) -> Renewal {
    let expires = book.clock.now() + hours(1);
    let next = TokenPair { access: numbered(2, next), access_expires: expires, refresh: numbered(3, next) };
    let request = RefreshRequest { address: Some(from.to_owned()), ..request(book, presented, next) };
    book.ledger.tokens().refresh(request).await.unwrap()
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
        assert!(matches!(refreshes(&book, hash(103), 6).await, Renewal::Forked(_)), "the other one that raced");
    }

    async fn a_refresh_token_is_good_for_its_own_client_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        logs_in(&book, "log_1", &heron, 1).await.unwrap();
        let other = request(&book, hash(101), pair(2, book.clock.now()));
        let other = RefreshRequest { client: "hermes-cli".into(), ..other };
        assert_eq!(book.ledger.tokens().refresh(other).await.unwrap(), Renewal::Unknown);
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
        book.ledger.facts().prune().await.unwrap();
        assert!(matches!(refreshes(&book, hash(111), 13).await, Renewal::Reused(_)));
        book.clock.wind(hours(2));
        book.ledger.facts().prune().await.unwrap();
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
        for number in 0..512 {
            assert!(matches!(exchanges(&book, hash(109), number, "here").await, Renewal::Granted(_)), "{number}");
        }
        let full = exchanges(&book, hash(109), 512, "here").await;
        assert!(matches!(full, Renewal::Full(_)), "nobody used any of these: {full:?}");
        assert!(matches!(exchanges(&book, numbered(3, 0), 513, "here").await, Renewal::Granted(_)), "the oldest is good");
    }

    async fn a_line_forks_when_two_successors_of_one_token_have_both_been_presented(book) {
        let heron = book.enrols("acme", "heron").await;
        let login = logs_in(&book, "log_1", &heron, 1).await.unwrap();
        assert_eq!((login.lines, login.addresses.len()), (1, 0));
        assert!(matches!(exchanges(&book, hash(101), 1, "10.0.0.1").await, Renewal::Granted(_)));
        assert!(matches!(exchanges(&book, hash(101), 2, "10.0.0.1").await, Renewal::Granted(_)), "a race is no fork");
        let Renewal::Granted(login) = exchanges(&book, numbered(3, 1), 3, "10.0.0.1").await else { panic!() };
        assert_eq!(login.lines, 1);
        let Renewal::Forked(login) = exchanges(&book, numbered(3, 2), 4, "10.0.0.2").await else { panic!() };
        assert_eq!(login.lines, 2);
        let mut addresses = login.addresses;
        addresses.sort();
        assert_eq!(addresses, ["10.0.0.1", "10.0.0.2"]);
        for (presented, next) in [(3, 5), (4, 6), (5, 7), (6, 8)] {
            let Renewal::Granted(login) = exchanges(&book, numbered(3, presented), next, "10.0.0.1").await else {
                panic!("{presented}")
            };
            assert_eq!(login.lines, 2, "each line goes on by itself");
        }
        assert_eq!(book.ledger.tokens().logins(None).await.unwrap()[0].lines, 2);
    }

    async fn successors_that_were_never_presented_lapse_a_day_after_a_sibling_was_used(book) {
        let heron = book.enrols("acme", "heron").await;
        logs_in(&book, "log_1", &heron, 1).await.unwrap();
        for next in [1, 2, 3] {
            exchanges(&book, hash(101), next, "here").await;
        }
        // None of them was used for a month: all are valid.
        book.clock.wind(hours(24 * 30));
        book.ledger.facts().prune().await.unwrap();
        assert!(matches!(exchanges(&book, numbered(3, 1), 4, "here").await, Renewal::Granted(_)));
        book.clock.wind(hours(24) - MINUTE);
        assert!(matches!(exchanges(&book, numbered(3, 2), 5, "here").await, Renewal::Forked(_)));
        book.clock.wind(MINUTE);
        assert!(matches!(exchanges(&book, numbered(3, 3), 6, "here").await, Renewal::Reused(_)));
        book.clock.wind(MINUTE);
        book.ledger.facts().prune().await.unwrap();
        assert_eq!(exchanges(&book, numbered(3, 3), 7, "here").await, Renewal::Unknown);
        for (presented, next) in [(4, 8), (5, 9)] {
            assert!(matches!(exchanges(&book, numbered(3, presented), next, "here").await, Renewal::Granted(_)));
        }
    }

    async fn a_race_every_hour_makes_no_line_and_fills_nothing(book) {
        let heron = book.enrols("acme", "heron").await;
        logs_in(&book, "log_1", &heron, 1).await.unwrap();
        let mut latest = hash(101);
        for hour in 0..400 {
            exchanges(&book, latest, 2 * hour, "here").await;
            let Renewal::Granted(login) = exchanges(&book, latest, 2 * hour + 1, "here").await else { panic!("{hour}") };
            assert_eq!(login.lines, 1, "hour {hour}");
            latest = numbered(3, 2 * hour + hour % 2);
            book.clock.wind(hours(1));
            book.ledger.facts().prune().await.unwrap();
        }
    }

    async fn at_eight_lines_a_further_fork_waits_and_nobody_is_pushed_out(book) {
        let heron = book.enrols("acme", "heron").await;
        logs_in(&book, "log_1", &heron, 1).await.unwrap();
        // The owner's own successor, and those of a copied file.
        for next in 0..=REFRESH_LINES + 1 {
            exchanges(&book, hash(101), next, "here").await;
        }
        assert!(matches!(exchanges(&book, numbered(3, 0), 100, "owner").await, Renewal::Granted(_)));
        for copy in 1..REFRESH_LINES {
            let forked = exchanges(&book, numbered(3, copy), 100 + copy, "thief").await;
            assert!(matches!(forked, Renewal::Forked(_)), "{copy}: {forked:?}");
        }
        for day in 0..5 {
            let full = exchanges(&book, numbered(3, REFRESH_LINES), 200 + day, "thief").await;
            let Renewal::Full(login) = full else { panic!("day {day}: {full:?}") };
            assert_eq!(login.lines, REFRESH_LINES);
            book.clock.wind(hours(23));
            book.ledger.facts().prune().await.unwrap();
        }
        // However long one copy is used, the owner keeps its own line.
        let mut latest = numbered(3, 101);
        for next in 1000..1300 {
            assert!(matches!(exchanges(&book, latest, next, "thief").await, Renewal::Granted(_)));
            latest = numbered(3, next);
        }
        let Renewal::Granted(login) = exchanges(&book, numbered(3, 100), 300, "owner").await else { panic!() };
        assert_eq!(login.lines, REFRESH_LINES);
    }

    async fn however_often_one_copy_of_a_login_is_refreshed_the_others_keep_their_access_tokens(book) {
        let heron = book.enrols("acme", "heron").await;
        logs_in(&book, "log_1", &heron, 1).await.unwrap();
        assert!(matches!(exchanges(&book, hash(101), 0, "owner").await, Renewal::Granted(_)));
        assert!(matches!(exchanges(&book, hash(101), 1, "thief").await, Renewal::Granted(_)));
        for next in 2..1_050 {
            book.clock.wind(Duration::from_millis(1));
            assert!(matches!(exchanges(&book, numbered(3, next - 1), next, "thief").await, Renewal::Granted(_)));
        }
        assert!(is_known(&book, numbered(2, 0)).await, "the owner has no newer one");
        assert!(is_known(&book, numbered(2, 1_049)).await);
        assert!(!is_known(&book, numbered(2, 1)).await, "the oldest of those that were succeeded gave way");
    }

    async fn all_credentials_of_an_agent_end_and_come_back_in_one_commit_each(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("acme", "otter").await;
        let (tokens, vault, now) = (book.ledger.tokens(), book.ledger.vault(), book.clock.now());
        let sealed = || Sealed { key_id: "k1".to_owned(), blob: vec![1] };
        let renewed = |name: &str, number: u8| RenewedCredentials {
            gateway: format!("gw_{name}").as_str().into(),
            secret: sealed(),
            http: HttpCredentials {
                client_secret: hash(number),
                overlap_until: now,
                login: format!("log_{name}").as_str().into(),
                login_client: vps(),
                login_tokens: pair(number + 10, now),
            },
        };
        for (agent, name, number) in [(&heron, "heron", 1), (&otter, "otter", 2)] {
            let before = book.ledger.commits();
            assert!(tokens.renew_credentials(agent, renewed(name, number), now).await.unwrap());
            assert_eq!(book.ledger.commits() - before, 1);
        }
        tokens.grant(&Owner::Instance(heron.clone()).client(), hash(21), now + hours(1)).await.unwrap();
        let before = book.ledger.commits();
        let ended = tokens.end_credentials(&heron, WhichCredentials::All, now).await.unwrap();
        assert_eq!(book.ledger.commits() - before, 1);
        assert_eq!(ended.gateways, ["gw_heron"]);
        assert_eq!(ended.client, Some(Owner::Instance(heron.clone()).client()));
        assert_eq!(ended.login, Some("log_heron".into()));
        assert!(!is_known(&book, hash(11)).await && !is_known(&book, hash(21)).await);
        assert_eq!(refreshes(&book, hash(111), 30).await, Renewal::Unknown);
        assert!(tokens.client(&Owner::Instance(heron.clone()).client(), hash(1), now).await.unwrap().is_none());
        assert!(vault.gateway(&"gw_heron".into()).await.unwrap().unwrap().revoked.is_some());
        assert!(tokens.end_credentials(&heron, WhichCredentials::All, now).await.unwrap().is_empty());
        // A revoked gateway does not come back, nor is another agent's taken; nothing else is changed then.
        for gateway in ["gw_heron", "gw_otter"] {
            let stale = RenewedCredentials { gateway: gateway.into(), ..renewed("again", 3) };
            assert!(!tokens.renew_credentials(&heron, stale, now).await.unwrap(), "{gateway}");
        }
        assert!(tokens.logins(None).await.unwrap().iter().all(|login| login.instance == otter));
        assert!(tokens.renew_credentials(&heron, renewed("again", 3), now).await.unwrap());
        assert!(is_known(&book, hash(13)).await && is_known(&book, hash(12)).await);
    }

    async fn one_kind_of_credential_ends_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        let (tokens, now, owner) = (book.ledger.tokens(), book.clock.now(), Owner::Instance(heron.clone()));
        tokens.create_client(&owner, hash(1), now, now).await.unwrap();
        logs_in(&book, "log_1", &heron, 11).await.unwrap();
        let ended = tokens.end_credentials(&heron, WhichCredentials::Login, now).await.unwrap();
        assert_eq!((ended.client, ended.login), (None, Some("log_1".into())));
        let nothing = tokens.end_credentials(&heron, WhichCredentials::Gateway("gw_x".into()), now).await.unwrap();
        assert!(nothing.is_empty());
        let ended = tokens.end_credentials(&heron, WhichCredentials::Client, now).await.unwrap();
        assert_eq!((ended.client, ended.login), (Some(owner.client()), None));
    }
}

/// In memory every read counts as a commit.
#[tokio::test]
async fn a_refresh_that_is_put_off_costs_no_commit() {
    let book = Book::in_a_folder().await;
    let heron = book.enrols("acme", "heron").await;
    logs_in(&book, "log_1", &heron, 1).await.unwrap();
    for next in 0..=REFRESH_LINES {
        exchanges(&book, hash(101), next, "here").await;
    }
    for copy in 0..REFRESH_LINES {
        exchanges(&book, numbered(3, copy), 100 + copy, "here").await;
    }
    let before = book.ledger.commits();
    for again in 0..20 {
        let full = exchanges(&book, numbered(3, REFRESH_LINES), 200 + again, "thief").await;
        assert!(matches!(full, Renewal::Full(_)), "{full:?}");
        book.clock.wind(MINUTE);
    }
    assert_eq!(book.ledger.commits(), before);
}
