//! Ledger time: retention goes by elapsed time, whatever the wall clock shows.

use ledger::{
    Appended, BeginOutcome, CapabilityRecord, DeadLetterFilter, FailedDelivery, Ledger, Location, Owner,
    Sealed, TokenHash, Uses,
};
use posthouse_wire::{EntryId, Outcome};

use crate::book::{Book, START, days, hours, minutes, on};
use crate::outbox::request;

const HERON: &str = "inst_heron";

/// One message that waits and one that was acknowledged.
async fn waiting_and_taken(book: &Book) -> (EntryId, EntryId) {
    let waiting = book.keeps_letter(book.sighted(HERON, "waiting", None, &["key"])).await;
    let taken = book.keeps(HERON, "taken").await;
    book.acknowledges(HERON, &[&taken]).await;
    book.keeps(HERON, "newest").await;
    (waiting, taken)
}

/// Asserts that both exist and that a repeat of either is recognised.
async fn are_kept(book: &Book, waiting: &EntryId, taken: &EntryId) {
    assert_eq!(book.unread(HERON).await, ["waiting", "newest"]);
    assert_eq!(book.steps(waiting).await, ["accepted", "durable"]);
    assert_eq!(book.steps(taken).await.len(), 4);
    for (word, first) in [("waiting", waiting), ("taken", taken)] {
        let again = book.ledger.inbox().append(book.letter(HERON, word)).await.unwrap();
        assert_eq!(again, Appended::Known(first.clone()));
    }
    assert!(book.ledger.roster().chat_of_session(&HERON.into(), &"key".into()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_machine_that_boots_ten_days_behind_and_gets_the_right_time_keeps_fresh_and_acknowledged_messages()
{
    let book = Book::in_a_folder().await;
    book.prunes().await;
    let book = book.reopened_at(START - days(10)).await;
    let (waiting, taken) = waiting_and_taken(&book).await;
    book.clock.set(START);
    book.prunes().await;
    are_kept(&book, &waiting, &taken).await;
    // The same on the first day of a ledger.
    book.clock.set(START - days(10));
    let new = book.new_beside().await;
    let (waiting, taken) = waiting_and_taken(&new).await;
    new.clock.set(START);
    new.prunes().await;
    are_kept(&new, &waiting, &taken).await;
}

stories! {
    async fn a_step_of_a_hundred_days_either_way_deletes_nothing(book) {
        let (waiting, taken) = waiting_and_taken(&book).await;
        let dead = book.keeps(HERON, "dead").await;
        for _ in 0..3 {
            book.ledger.inbox().record_failed_delivery(&HERON.into(), &dead, FailedDelivery::Poison).await.unwrap();
        }
        let outbox = book.ledger.outbox();
        let BeginOutcome::Fresh { action, .. } = outbox.begin(request(&book, "done")).await.unwrap() else {
            panic!("it is new")
        };
        outbox.finish(&HERON.into(), &action, &Outcome::done(), None, None).await.unwrap();
        outbox.begin(request(&book, "open")).await.unwrap();
        for wall in [START + days(100), START - days(100)] {
            book.clock.set(wall);
            book.prunes().await;
            assert_eq!(book.ledger.inbox().dead_letters(DeadLetterFilter::default(), 10).await.unwrap().len(), 1);
            assert!(matches!(outbox.begin(request(&book, "done")).await.unwrap(), BeginOutcome::Finished { .. }));
            assert!(matches!(outbox.begin(request(&book, "open")).await.unwrap(), BeginOutcome::Unfinished { .. }));
            are_kept(&book, &waiting, &taken).await;
        }
    }

    async fn what_really_passed_still_ends_the_keeping_while_the_wall_clock_stands_behind(book) {
        let (waiting, taken) = waiting_and_taken(&book).await;
        book.clock.set(START - days(100));
        book.winds(days(7) + minutes(1));
        book.prunes().await;
        assert!(book.unread(HERON).await.is_empty());
        // The steps of a trace are ordered by their wall times.
        assert_eq!(book.steps(&waiting).await, ["dropped", "accepted", "durable"]);
        assert!(book.steps(&taken).await.is_empty());
        book.winds(days(90));
        book.prunes().await;
        assert!(book.ledger.roster().chat_of_session(&HERON.into(), &"key".into()).await.unwrap().is_none());
    }

    async fn credentials_end_by_wall_or_ledger_time_whichever_comes_first(book) {
        let holds = given(&book).await;
        assert_eq!(good(&book, &holds).await, GOOD);
        // A wall clock that runs ahead ends them, and one that is set right again gives them back.
        book.clock.set(START + days(2));
        book.prunes().await;
        assert_eq!(good(&book, &holds).await, [false; 4]);
        book.clock.set(START);
        assert_eq!(good(&book, &holds).await, GOOD);
        // A wall clock that was set back prolongs nothing.
        book.clock.set(START - days(100));
        book.winds(minutes(59));
        assert_eq!(good(&book, &holds).await, GOOD);
        book.winds(minutes(1));
        assert_eq!(good(&book, &holds).await, [false, true, true, false], "an hour has passed");
        book.winds(hours(23));
        assert_eq!(good(&book, &holds).await, [false; 4], "a day has passed");
        book.winds(hours(1));
        book.prunes().await;
        let sealed = book.ledger.vault().sealed_under_other_keys("none", 10).await.unwrap();
        assert_eq!(sealed.len(), 1, "only the current secret of the gateway is left");
    }

    async fn a_route_that_was_made_after_a_chat_came_takes_it_along_though_the_clock_was_set_back(book) {
        let (heron, otter) = (book.enrols("acme", "heron").await, book.enrols("acme", "otter").await);
        book.bot("tb", true).await;
        book.routes("tb", "chat:chat-9", &heron).await;
        book.keeps_letter(book.sighted(heron.as_str(), "one", Some("guild"), &[])).await;
        assert!(book.ledger.roster().may_reach(&heron, &on("tb"), &"chat-1".into()).await.unwrap());
        book.clock.set(START - days(1));
        book.winds(minutes(1));
        book.routes("tb", "scope:guild", &otter).await;
        assert!(!book.ledger.roster().may_reach(&heron, &on("tb"), &"chat-1".into()).await.unwrap());
    }
}

const GOOD: [bool; 4] = [true; 4];

/// Gives an agent credentials with an end: an access token and a capability for an hour, and a rotated client
/// secret and gateway secret for a day.
async fn given(book: &Book) -> Owner {
    let heron = book.enrols("acme", "heron").await;
    let (owner, now) = (Owner::Instance(heron.clone()), book.clock.now());
    let (tokens, vault) = (book.ledger.tokens(), book.ledger.vault());
    for secret in [1, 2] {
        tokens.create_client(&owner, TokenHash([secret; 32]), now, now + days(1)).await.unwrap();
        let sealed = Sealed { key_id: "k".to_owned(), blob: vec![secret] };
        vault.issue(&"gw".into(), &heron, sealed, now, now + days(1)).await.unwrap();
    }
    tokens.grant(&owner.client(), TokenHash([3; 32]), now + hours(1)).await.unwrap();
    let capability = CapabilityRecord {
        entry: None,
        tenant: "ten_acme".into(),
        instance: heron,
        kind: "reply".into(),
        session_keys: vec!["key".into()],
        sealed: Sealed { key_id: "k".to_owned(), blob: vec![9] },
        expires: Some(now + hours(1)),
        uses: Uses::Many,
    };
    vault.bind(capability).await.unwrap();
    owner
}

/// Whether the access token, the client secret, the gateway secret and the capability are good.
async fn good(book: &Book, owner: &Owner) -> [bool; 4] {
    let Owner::Instance(heron) = owner else { panic!("it is an agent's") };
    let (tokens, vault, now) = (book.ledger.tokens(), book.ledger.vault(), book.clock.now());
    let token = tokens.bearer(TokenHash([3; 32]), now).await.unwrap();
    let secret = tokens.client(&owner.client(), TokenHash([1; 32]), now).await.unwrap();
    let secrets = vault.gateway(&"gw".into()).await.unwrap().unwrap().secrets;
    let rotated = secrets.iter().find(|secret| secret.sealed.blob == [1]);
    let capability =
        vault.redeem(&"ten_acme".into(), heron, &"key".into(), &"reply".into(), None).await.unwrap();
    [
        token.is_some_and(|token| token.expires > now),
        secret.is_some(),
        rotated.is_some_and(|secret| secret.expires.unwrap() > now),
        capability.is_some(),
    ]
}

#[tokio::test]
async fn a_restart_with_the_wall_clock_set_back_adds_no_time() {
    let book = Book::in_a_folder().await;
    let (waiting, taken) = waiting_and_taken(&book).await;
    book.winds(hours(23));
    let book = book.reopened_at(START - days(10)).await;
    book.prunes().await;
    are_kept(&book, &waiting, &taken).await;
    book.winds(hours(1) + minutes(1));
    book.prunes().await;
    assert_ne!(book.keeps(HERON, "waiting").await, waiting, "a day has passed, and repeats are forgotten");
}

#[tokio::test]
async fn a_restart_adds_a_day_at_most_however_far_the_wall_clock_moved() {
    let book = Book::in_a_folder().await;
    let (waiting, taken) = waiting_and_taken(&book).await;
    let book = book.reopened_at(START + days(100)).await;
    assert_eq!(book.unread(HERON).await, ["waiting", "newest"]);
    are_kept(&book, &waiting, &taken).await;
    book.winds(minutes(10));
    book.prunes().await;
    assert_ne!(book.keeps(HERON, "taken").await, taken, "a day has passed, and repeats are forgotten");
    assert_eq!(book.steps(&waiting).await, ["accepted", "durable"]);
    book.winds(days(6));
    book.prunes().await;
    assert_eq!(book.steps(&waiting).await, ["accepted", "durable", "dropped"]);
}

#[tokio::test]
async fn whoever_was_cut_off_by_a_stop_has_ten_minutes_to_repeat_itself_whatever_the_clock_says() {
    let book = Book::in_a_folder().await;
    let (waiting, taken) = waiting_and_taken(&book).await;
    let outbox = book.ledger.outbox();
    let BeginOutcome::Fresh { action, .. } = outbox.begin(request(&book, "done")).await.unwrap() else {
        panic!("it is new")
    };
    outbox.finish(&HERON.into(), &action, &Outcome::done(), None, None).await.unwrap();
    outbox.begin(request(&book, "open")).await.unwrap();
    drop(outbox);
    let book = book.reopened_at(START + days(100)).await;
    for _ in 0..9 {
        book.winds(minutes(1));
        book.prunes().await;
    }
    let outbox = book.ledger.outbox();
    assert!(matches!(outbox.begin(request(&book, "done")).await.unwrap(), BeginOutcome::Finished { .. }));
    assert!(matches!(outbox.begin(request(&book, "open")).await.unwrap(), BeginOutcome::Unfinished { .. }));
    are_kept(&book, &waiting, &taken).await;
    book.winds(minutes(2));
    book.prunes().await;
    assert!(matches!(outbox.begin(request(&book, "done")).await.unwrap(), BeginOutcome::Fresh { .. }));
    assert!(matches!(outbox.begin(request(&book, "open")).await.unwrap(), BeginOutcome::Fresh { .. }));
}

#[tokio::test]
async fn a_clock_that_is_set_back_and_right_again_at_every_restart_adds_no_time() {
    let mut book = Book::in_a_folder().await;
    let (waiting, taken) = waiting_and_taken(&book).await;
    for _ in 0..8 {
        book = book.reopened_at(START - days(10)).await;
        book = book.reopened_at(START).await;
        book.prunes().await;
    }
    book.winds(minutes(11));
    book.prunes().await;
    are_kept(&book, &waiting, &taken).await;
}

#[tokio::test]
async fn whoever_was_cut_off_by_several_stops_has_ten_minutes_after_the_last() {
    let book = Book::in_a_folder().await;
    let (waiting, taken) = waiting_and_taken(&book).await;
    book.ledger.outbox().begin(request(&book, "open")).await.unwrap();
    let book = book.reopened_at(START + days(100)).await;
    book.winds(minutes(1));
    book.prunes().await;
    let book = book.reopened().await;
    book.winds(minutes(9));
    book.prunes().await;
    are_kept(&book, &waiting, &taken).await;
    let outbox = book.ledger.outbox();
    assert!(matches!(outbox.begin(request(&book, "open")).await.unwrap(), BeginOutcome::Unfinished { .. }));
    book.winds(minutes(2));
    book.prunes().await;
    assert!(matches!(outbox.begin(request(&book, "open")).await.unwrap(), BeginOutcome::Fresh { .. }));
    drop(outbox);
    // After a server that ran for longer, only its own downtime counts.
    let book = book.reopened().await;
    book.prunes().await;
    assert_ne!(book.keeps(HERON, "taken").await, taken);
}

#[tokio::test]
async fn a_server_that_was_away_for_hours_counts_them() {
    let book = Book::in_a_folder().await;
    let (waiting, _) = waiting_and_taken(&book).await;
    let book = book.reopened_at(START + hours(5)).await;
    book.winds(hours(19) + minutes(1));
    book.prunes().await;
    assert_ne!(book.keeps(HERON, "waiting").await, waiting);
}

#[tokio::test]
async fn a_killed_server_goes_on_from_its_last_round_of_pruning() {
    let book = Book::in_a_folder().await;
    let (waiting, _) = waiting_and_taken(&book).await;
    book.winds(hours(3));
    book.prunes().await;
    // A killed server stores nothing at close.
    let copy = book.folder().join("killed").join("ledger.db");
    std::fs::create_dir(copy.parent().unwrap()).unwrap();
    book.ledger.facts().backup(&copy).await.unwrap();
    book.winds(hours(20));
    let place = Location::Folder(copy.parent().unwrap().to_owned());
    let ledger = Ledger::open(place, book.clock.clone()).await.unwrap();
    book.winds(hours(1) - minutes(1));
    while ledger.facts().prune().await.unwrap() {}
    let known = ledger.inbox().append(book.letter(HERON, "waiting")).await.unwrap();
    assert_eq!(known, Appended::Known(waiting));
    book.winds(minutes(2));
    while ledger.facts().prune().await.unwrap() {}
    assert!(matches!(ledger.inbox().append(book.letter(HERON, "waiting")).await.unwrap(), Appended::Kept(_)));
}

#[tokio::test]
async fn an_upgrade_adds_a_day_at_most_however_far_the_wall_clock_is_ahead() {
    let mut book = Book::in_a_folder().await;
    let (waiting, _) = waiting_and_taken(&book).await;
    let elsewhere = Ledger::open(Location::Memory, book.clock.clone()).await.unwrap();
    drop(std::mem::replace(&mut book.ledger, elsewhere));
    book.beside().execute_batch("DELETE FROM ledger_clock").unwrap();
    let book = book.reopened_at(START + days(100)).await;
    book.prunes().await;
    assert_eq!(book.unread(HERON).await, ["waiting", "newest"]);
    book.winds(days(6) + minutes(1));
    book.prunes().await;
    assert_eq!(book.steps(&waiting).await, ["accepted", "durable", "dropped"]);
}

#[tokio::test]
async fn at_upgrade_stamps_that_lie_ahead_are_taken_as_now() {
    let mut book = Book::in_a_folder().await;
    let (waiting, _) = waiting_and_taken(&book).await;
    let elsewhere = Ledger::open(Location::Memory, book.clock.clone()).await.unwrap();
    drop(std::mem::replace(&mut book.ledger, elsewhere));
    let ahead = (START + days(300)).millis();
    book.beside()
        .execute_batch(&format!("DELETE FROM ledger_clock; UPDATE entries SET counted = {ahead}"))
        .unwrap();
    let book = book.reopened().await;
    assert_eq!(book.unread(HERON).await, ["waiting", "newest"]);
    book.winds(days(1) + minutes(1));
    book.prunes().await;
    book.winds(days(6));
    book.prunes().await;
    assert_eq!(book.steps(&waiting).await, ["accepted", "durable", "dropped"]);
}
