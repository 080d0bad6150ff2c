//! Guarantees of a resolved write.

use std::sync::{Arc, mpsc};

use futures_util::future::BoxFuture;
use ledger::{
    AgentPrincipals, Appended, AttemptOutcome, AuthorPolicy, Fault, FireAttempt, MediaKey, Opened, Owner,
    RelevancePolicy, Request, Sealed, Seq, TokenHash,
};
use parking_lot::Mutex;
use posthouse_wire::cron::FireAt;
use posthouse_wire::{InstanceId, Outcome, TenantId};

use crate::book::{Book, hours};
use crate::media::file;
use crate::outbox::{begins, request};
use crate::prompts::{prompt, thread};
use crate::rooms::{line, room};

const HERON: &str = "inst_heron";
/// Jobs that would fit into one commit, if one tenant could fill it.
const FLOOD: u64 = 128;

/// Number of commits for a flood of jobs that all wait for the writer at the same time.
async fn commits_of_a_flood(
    book: &Book,
    heron: &InstanceId,
    job: impl Fn(u64) -> BoxFuture<'static, ()>,
) -> u64 {
    let (entered, blocked) = mpsc::channel::<()>();
    let (release, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    // Blocks the writer after a commit.
    book.ledger.inbox().follow(Arc::new(move |_| {
        let _ = entered.send(());
        let _ = held.lock().recv();
    }));
    let (inbox, letter) = (book.ledger.inbox(), book.letter(heron.as_str(), "first"));
    let first = tokio::spawn(async move { inbox.append(letter).await });
    tokio::task::yield_now().await;
    blocked.recv().unwrap();
    let before = book.ledger.commits();
    let jobs: Vec<_> = (0..FLOOD).map(|number| tokio::spawn(job(number))).collect();
    // The runtime returns here after a part of the jobs, so that one turn does not start all of them.
    for _ in 0..FLOOD {
        tokio::task::yield_now().await;
    }
    release.send(()).unwrap();
    // From now on the writer is not blocked any more.
    drop(release);
    first.await.unwrap().unwrap();
    for job in jobs {
        job.await.unwrap();
    }
    book.ledger.commits() - before
}

/// Number of commits for many access tokens of one client.
async fn commits_for_tokens(book: &Book, heron: &InstanceId, owner: Owner) -> u64 {
    let (tokens, client, now) = (book.ledger.tokens(), owner.client(), book.clock.now());
    assert!(tokens.create_client(&owner, TokenHash([1; 32]), now, now).await.unwrap());
    let grant = |number: u64| -> BoxFuture<'static, ()> {
        let (tokens, client) = (tokens.clone(), client.clone());
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&number.to_be_bytes());
        Box::pin(async move {
            assert!(tokens.grant(&client, TokenHash(hash), now + hours(1)).await.unwrap());
        })
    };
    commits_of_a_flood(book, heron, grant).await
}

stories! {
    async fn an_agent_that_asks_for_many_tokens_fills_no_commit_alone(book) {
        book.tenant("acme").await;
        let heron = book.enrols("acme", "heron").await;
        let commits = commits_for_tokens(&book, &heron, Owner::Instance(heron.clone())).await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} tokens");
    }

    async fn a_program_that_asks_for_many_tokens_fills_no_commit_alone(book) {
        book.tenant("acme").await;
        let heron = book.enrols("acme", "heron").await;
        let tenant = book.ledger.roster().instance(&heron).await.unwrap().unwrap().tenant;
        let commits = commits_for_tokens(&book, &heron, Owner::Tenant(tenant)).await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} tokens");
    }

    async fn an_agent_that_declares_many_policies_fills_no_commit_alone(book) {
        book.tenant("acme").await;
        let heron = book.enrols("acme", "heron").await;
        let commits = commits_of_a_flood(&book, &heron, |_| {
            let (policies, heron) = (book.ledger.relevance(), heron.clone());
            let policy = RelevancePolicy {
                require_address: true,
                free_scopes: Vec::new(),
                allow_other_bots: false,
            };
            Box::pin(async move {
                assert!(policies.declare_relevance(&heron, &"telegram".into(), policy).await.unwrap());
            })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} policies");
    }

    async fn an_agent_that_manages_who_reaches_it_many_times_fills_no_commit_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        let commits = commits_of_a_flood(&book, &heron, |number| {
            let (ledger, heron) = (book.ledger.clone(), heron.clone());
            let (expires, on) = (book.clock.now() + hours(1), "telegram".into());
            let policy = AgentPrincipals { platform: None, policy: AuthorPolicy::OwnerOnly, allowed: Vec::new() };
            let mut code = [0; 32];
            code[..8].copy_from_slice(&number.to_be_bytes());
            Box::pin(async move {
                match number % 4 {
                    0 => drop(ledger.bindings().mint_link_code(&heron, TokenHash(code), None, expires).await.unwrap()),
                    1 => drop(ledger.bindings().unbind(&heron, &on, &"ada".into()).await.unwrap()),
                    2 => drop(ledger.bindings().set_dm_default(&heron, &on, &"ada".into()).await.unwrap()),
                    _ => drop(ledger.principals().set_principals(&heron, policy).await.unwrap()),
                }
            })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} changes");
    }

    async fn follow_ups_without_a_capability_fill_no_commit_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        let commits = commits_of_a_flood(&book, &heron, |number| {
            let (vault, heron) = (book.ledger.vault(), heron.clone());
            let (session, kind) = (number.to_string().as_str().into(), "web.reply_token".into());
            Box::pin(async move {
                assert!(vault.redeem(&"ten_acme".into(), &heron, &session, &kind, None).await.unwrap().is_none());
            })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} follow-ups");
    }

    async fn results_of_an_agents_actions_fill_no_commit_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        let request = Request { instance: heron.clone(), ..request(&book, "r1") };
        let (action, _) = begins(&book, request).await;
        let commits = commits_of_a_flood(&book, &heron, |_| {
            let (outbox, heron, action) = (book.ledger.outbox(), heron.clone(), action.clone());
            Box::pin(async move { outbox.finish(&heron, &action, &Outcome::done(), None, None).await.unwrap() })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} results");
    }

    async fn ends_of_a_tenants_credential_uses_fill_no_commit_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        let tenant: TenantId = "ten_acme".into();
        let begun =
            book.ledger.capability_uses().begin_bot_use(&tenant, &heron, None, &"telegram".into()).await.unwrap();
        let commits = commits_of_a_flood(&book, &heron, |_| {
            let (uses, tenant) = (book.ledger.capability_uses(), tenant.clone());
            Box::pin(async move { uses.end_use(&tenant, begun, "getFile", "ok").await.unwrap() })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} uses");
    }

    async fn capability_uses_that_a_tenant_gets_back_fill_no_commit_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        let commits = commits_of_a_flood(&book, &heron, |number| {
            let vault = book.ledger.vault();
            Box::pin(async move { vault.give_back(&"ten_acme".into(), number as i64).await.unwrap() })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} uses");
    }

    async fn presses_of_an_agents_prompts_fill_no_commit_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        let commits = commits_of_a_flood(&book, &heron, |number| {
            let (prompts, shown) = (book.ledger.prompts(), prompt(&heron, "chat-1", &number.to_string()));
            Box::pin(async move { assert!(!prompts.press(&shown, &"once".into()).await.unwrap()) })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} presses");
    }

    async fn names_for_an_agents_threads_fill_no_commit_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        let commits = commits_of_a_flood(&book, &heron, |number| {
            let (threads, made) = (book.ledger.threads(), thread(&heron, &number.to_string(), "plans"));
            Box::pin(async move { threads.thread_named(&made, "mine").await.unwrap() })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} names");
    }

    async fn keys_and_ends_of_an_agents_files_fill_no_commit_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        let commits = commits_of_a_flood(&book, &heron, |number| {
            let (media, heron, until) = (book.ledger.media(), heron.clone(), book.clock.now() + hours(1));
            let id = file(&heron, "acme", 1).id;
            Box::pin(async move {
                match number % 2 {
                    0 => media.remove_media(&heron, &id).await.unwrap(),
                    _ => {
                        let key = MediaKey { media: id, hash: number.to_string() };
                        media.add_media_keys(&heron, vec![key], until).await.unwrap();
                    }
                }
            })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} files");
    }

    async fn a_tenant_that_asks_for_its_secret_many_times_fills_no_commit_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        let commits = commits_of_a_flood(&book, &heron, |_| {
            let vault = book.ledger.vault();
            let fresh = Sealed { key_id: "k1".to_owned(), blob: b"x".to_vec() };
            Box::pin(async move {
                assert!(vault.tenant_secret(&"ten_acme".into(), "delivery", fresh).await.unwrap().is_some());
            })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} requests");
    }

    async fn fires_by_hand_fill_no_commit_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        let commits = commits_of_a_flood(&book, &heron, |number| {
            let (arms, heron, now) = (book.ledger.arms(), heron.clone(), book.clock.now());
            let time = FireAt::from_micros(now.millis() * 1000 + number as i64);
            Box::pin(async move {
                arms.note_fire(&heron, &"daily".into(), &time, FireAttempt::default(), now).await.unwrap();
            })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} fires");
    }

    async fn a_room_with_many_messages_fills_no_commit_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        book.invites(&heron, "ada").await;
        book.ledger.rooms().enter(room(&book, "web-1", &heron, "ada")).await.unwrap().unwrap();
        let commits = commits_of_a_flood(&book, &heron, |number| {
            let (rooms, line) = (book.ledger.rooms(), line(&book, &number.to_string(), false, "hello"));
            Box::pin(async move { rooms.say(&"web-1".into(), line).await.unwrap() })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} messages");
    }

    async fn questions_that_a_tenant_gives_up_fill_no_commit_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        let commits = commits_of_a_flood(&book, &heron, |number| {
            let (exchanges, now) = (book.ledger.exchanges(), book.clock.now());
            let correlation = number.to_string().into();
            Box::pin(async move { exchanges.fail(&"ten_acme".into(), &correlation, "gone", now).await.unwrap() })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} questions");
    }

    async fn attempts_of_one_tenant_fill_no_commit_alone(book) {
        let heron = book.enrols("acme", "heron").await;
        let receipt = crate::receipts::call(&book, "d-1", "hello");
        let Opened::Fresh(key) = book.ledger.receipts().open(receipt).await.unwrap() else { panic!("it is new") };
        let commits = commits_of_a_flood(&book, &heron, |_| {
            let (receipts, due) = (book.ledger.receipts(), book.clock.now() + hours(1));
            let put_off = AttemptOutcome::Postponed { due, error: "no".to_owned(), answer: "{}".to_owned() };
            Box::pin(async move { receipts.attempted(key, put_off).await.unwrap() })
        })
        .await;
        assert!(commits >= 4, "{commits} commits for {FLOOD} attempts");
    }

    async fn many_callers_share_one_commit(book) {
        // All of them wait while the writer is blocked.
        let commits = commits_of_a_flood(&book, &HERON.into(), |number| {
            let (inbox, letter) = (book.ledger.inbox(), book.letter(HERON, &number.to_string()));
            Box::pin(async move { drop(inbox.append(letter).await.unwrap()) })
        })
        .await;
        assert!(commits <= FLOOD / 32 + 2, "{commits} commits for {FLOOD} callers");
        assert_eq!(book.ledger.inbox().size(&HERON.into()).await.unwrap().entries, FLOOD as i64 + 1);
    }

    async fn one_callers_failure_is_not_its_neighbours(book) {
        // The follower blocks the writer after its first commit, so that the other jobs wait together.
        let (release, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        book.ledger.inbox().follow(Arc::new(move |entry| {
            if &entry.event[..] == b"first" {
                let _ = held.lock().recv();
            }
        }));
        let appends: Vec<_> = ["first", "a", "b", "c"]
            .map(|word| {
                let (inbox, letter) = (book.ledger.inbox(), book.letter(HERON, word));
                tokio::spawn(async move { inbox.append(letter).await })
            })
            .into();
        let vault = book.ledger.vault();
        let nowhere = tokio::spawn(async move {
            let sealed = Sealed { key_id: "k1".to_owned(), blob: b"of no connector".to_vec() };
            vault.put_connector_secret(&"con_nobody".into(), "token", sealed).await
        });
        let (inbox, letter) = (book.ledger.inbox(), book.letter(HERON, "d"));
        let last = tokio::spawn(async move { inbox.append(letter).await });
        tokio::task::yield_now().await;
        release.send(()).unwrap();
        for append in appends {
            assert!(matches!(append.await.unwrap(), Ok(Appended::Kept(_))));
        }
        assert!(matches!(last.await.unwrap(), Ok(Appended::Kept(_))));
        assert!(matches!(nowhere.await.unwrap(), Err(Fault::Storage(_))));
        assert_eq!(book.unread(HERON).await, ["first", "a", "b", "c", "d"]);
    }

    async fn a_caller_that_went_away_still_had_its_work_done(book) {
        let (inbox, letter) = (book.ledger.inbox(), book.letter(HERON, "one"));
        let caller = tokio::spawn(async move { inbox.append(letter).await });
        tokio::task::yield_now().await;
        caller.abort();
        let _ = caller.await;
        book.keeps(HERON, "two").await;
        assert_eq!(book.unread(HERON).await, ["one", "two"]);
    }

    async fn a_read_sees_every_write_that_has_resolved(book) {
        for number in 0..200_i64 {
            book.keeps(HERON, &number.to_string()).await;
            assert_eq!(book.ledger.inbox().size(&HERON.into()).await.unwrap().entries, number + 1);
        }
    }
}

#[tokio::test]
async fn what_has_resolved_is_in_the_file() {
    let book = Book::in_a_folder().await;
    let beside = book.beside();
    for number in 1..=20_i64 {
        book.keeps(HERON, &number.to_string()).await;
        let there: i64 = beside.query_row("SELECT count(*) FROM entries", [], |row| row.get(0)).unwrap();
        assert_eq!(there, number);
    }
}

#[tokio::test]
async fn a_long_read_stops_no_write_and_sees_none() {
    let book = Book::in_a_folder().await;
    book.keeps(HERON, "before").await;
    let beside = book.beside();
    let count = || -> i64 { beside.query_row("SELECT count(*) FROM entries", [], |row| row.get(0)).unwrap() };
    beside.execute_batch("BEGIN").unwrap();
    assert_eq!(count(), 1);
    for number in 0..50 {
        book.keeps(HERON, &number.to_string()).await;
    }
    assert_eq!(count(), 1);
    beside.execute_batch("COMMIT").unwrap();
    assert_eq!(count(), 51);
}

#[tokio::test]
async fn many_readers_wait_their_turn_and_all_are_served() {
    let book = Book::in_a_folder().await;
    book.keeps(HERON, "one").await;
    let reads: Vec<_> = (0..500)
        .map(|_| {
            let inbox = book.ledger.inbox();
            tokio::spawn(async move { inbox.unread(&HERON.into(), Seq(0), 10).await.unwrap().len() })
        })
        .collect();
    for read in reads {
        assert_eq!(read.await.unwrap(), 1);
    }
}

#[tokio::test]
async fn the_last_handle_may_be_dropped_by_the_follower() {
    let book = Book::in_memory().await;
    let letter = book.letter(HERON, "one");
    let Book { ledger, .. } = book;
    let held = Arc::new(Mutex::new(Some(ledger.clone())));
    let (release, released) = mpsc::channel::<()>();
    let (dropped, seen) = mpsc::channel::<()>();
    let (hand, released) = (Arc::clone(&held), Mutex::new(released));
    ledger.inbox().follow(Arc::new(move |_| {
        let _ = released.lock().recv();
        drop(hand.lock().take());
        let _ = dropped.send(());
    }));
    let inbox = ledger.inbox();
    let caller = tokio::spawn(async move { inbox.append(letter).await });
    tokio::task::yield_now().await;
    caller.abort();
    let _ = caller.await;
    drop(ledger);
    release.send(()).unwrap();
    seen.recv().unwrap();
    assert!(held.lock().is_none(), "and it did not wait for itself");
}
