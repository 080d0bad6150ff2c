use ledger::{Appended, BeginOutcome, CapabilityRecord, DeadLetterFilter, FailedDelivery, Sealed, Seq, Uses};
use posthouse_wire::Outcome;

use crate::book::{Book, days, hours, minutes, on};
use crate::outbox::request;

const HERON: &str = "inst_heron";

stories! {
    async fn nothing_young_is_touched(book) {
        let taken = book.keeps_letter(book.sighted(HERON, "taken", None, &["key"])).await;
        book.keeps(HERON, "waiting").await;
        book.acknowledges(HERON, &[&taken]).await;
        book.winds(hours(23));
        assert_eq!(book.prunes().await, 1);
        assert_eq!(book.unread(HERON).await, ["waiting"]);
        assert_eq!(book.steps(&taken).await, ["accepted", "durable", "sent to agent", "acknowledged"]);
        let again = book.ledger.inbox().append(book.letter(HERON, "taken")).await.unwrap();
        assert_eq!(again, Appended::Known(taken));
        assert!(book.ledger.roster().knows_chat(&HERON.into(), &on("tb"), &"chat-1".into()).await.unwrap());
    }

    async fn repeats_are_recognised_for_a_day(book) {
        let first = book.keeps(HERON, "one").await;
        book.winds(hours(24) + minutes(1));
        book.prunes().await;
        let second = book.keeps(HERON, "one").await;
        assert_ne!(first, second);
        assert_eq!(book.unread(HERON).await, ["one", "one"]);
    }

    async fn what_nobody_fetched_in_a_week_is_dropped_and_the_trace_says_so(book) {
        let late = book.keeps(HERON, "late").await;
        book.winds(days(7) - minutes(1));
        book.keeps(HERON, "young").await;
        book.prunes().await;
        assert_eq!(book.unread(HERON).await, ["late", "young"]);
        book.winds(minutes(2));
        book.prunes().await;
        assert_eq!(book.unread(HERON).await, ["young"]);
        assert_eq!(book.steps(&late).await, ["accepted", "durable", "dropped"]);
        let story = book.ledger.traces().entry(&late).await.unwrap().unwrap();
        assert_eq!(story.steps[2].at, book.clock.now(), "the day it was dropped, not the day it came");
        book.winds(days(6));
        book.prunes().await;
        assert_eq!(book.steps(&late).await.len(), 3, "a drop is told for a week too");
        book.winds(days(2));
        book.prunes().await;
        assert!(book.steps(&late).await.is_empty());
    }

    async fn a_trace_is_told_for_a_week(book) {
        let old = book.keeps(HERON, "old").await;
        book.acknowledges(HERON, &[&old]).await;
        book.keeps(HERON, "newest").await;
        book.winds(days(6));
        book.prunes().await;
        assert_eq!(book.steps(&old).await.len(), 4);
        book.winds(days(1) + minutes(1));
        book.prunes().await;
        assert!(book.steps(&old).await.is_empty());
    }

    async fn dead_letters_stay_for_thirty_days_and_may_still_be_redriven_then(book) {
        let (early, last) = (book.keeps(HERON, "early").await, book.keeps(HERON, "last").await);
        for entry in [&early, &last] {
            for _ in 0..3 {
                book.ledger.inbox().record_failed_delivery(&HERON.into(), entry, FailedDelivery::Poison).await.unwrap();
            }
        }
        book.keeps(HERON, "newest").await;
        book.winds(days(29));
        book.prunes().await;
        assert_eq!(book.ledger.inbox().dead_letters(DeadLetterFilter::default(), 10).await.unwrap().len(), 2);
        book.ledger.inbox().redrive(&last).await.unwrap();
        book.winds(days(2));
        book.prunes().await;
        assert!(book.steps(&early).await.is_empty());
        assert_eq!(book.unread(HERON).await, ["last"], "a redriven letter is kept as long as a new one");
        book.winds(days(6));
        book.prunes().await;
        assert!(book.unread(HERON).await.is_empty());
    }

    async fn a_finished_request_is_remembered_for_ten_minutes_and_its_trace_for_a_week(book) {
        let BeginOutcome::Fresh { action, .. } = book.ledger.outbox().begin(request(&book, "r1")).await.unwrap() else {
            panic!("it is new")
        };
        book.winds(minutes(5));
        book.ledger.outbox().finish(&HERON.into(), &action, &Outcome::done(), None, None).await.unwrap();
        book.winds(minutes(9));
        book.prunes().await;
        let again = book.ledger.outbox().begin(request(&book, "r1")).await.unwrap();
        assert_eq!(again, BeginOutcome::Finished { action: action.clone(), outcome: Outcome::done() });
        book.winds(minutes(2));
        book.prunes().await;
        let fresh = book.ledger.outbox().begin(request(&book, "r1")).await.unwrap();
        assert!(matches!(fresh, BeginOutcome::Fresh { .. }));
        assert!(book.ledger.traces().action(&action).await.unwrap().is_some());
        book.winds(days(7));
        book.prunes().await;
        assert!(book.ledger.traces().action(&action).await.unwrap().is_none());
    }

    async fn a_request_that_nobody_knows_the_end_of_is_remembered_for_a_day(book) {
        book.ledger.outbox().begin(request(&book, "cut off")).await.unwrap();
        book.winds(hours(23));
        book.prunes().await;
        let again = book.ledger.outbox().begin(request(&book, "cut off")).await.unwrap();
        assert!(matches!(again, BeginOutcome::Unfinished { .. }));
        book.winds(hours(2));
        book.prunes().await;
        let fresh = book.ledger.outbox().begin(request(&book, "cut off")).await.unwrap();
        assert!(matches!(fresh, BeginOutcome::Fresh { .. }));
    }

    async fn a_conversation_may_be_answered_for_ninety_days(book) {
        book.keeps_letter(book.sighted(HERON, "one", None, &["key"])).await;
        book.winds(days(89));
        book.prunes().await;
        let roster = book.ledger.roster();
        assert!(roster.knows_chat(&HERON.into(), &on("tb"), &"chat-1".into()).await.unwrap());
        assert!(roster.chat_of_session(&HERON.into(), &"key".into()).await.unwrap().is_some());
        book.winds(days(2));
        book.prunes().await;
        assert!(!roster.knows_chat(&HERON.into(), &on("tb"), &"chat-1".into()).await.unwrap());
        assert!(roster.chat_of_session(&HERON.into(), &"key".into()).await.unwrap().is_none());
        assert_eq!(roster.last_identity(&HERON.into(), &"chat-1".into()).await.unwrap(), None);
    }

    async fn a_used_up_capability_waits_for_a_use_that_may_be_given_back(book) {
        bind(&book, "once", Some(minutes(30)), Uses::Left(1)).await;
        let (id, _) = redeem(&book, "once").await.unwrap();
        assert!(redeem(&book, "once").await.is_none());
        book.prunes().await;
        book.ledger.vault().give_back(&"ten".into(), id).await.unwrap();
        assert!(redeem(&book, "once").await.is_some());
    }

    async fn lapsed_capabilities_and_ended_secrets_go(book) {
        bind(&book, "short", Some(minutes(5)), Uses::Many).await;
        bind(&book, "endless", None, Uses::Many).await;
        let heron = book.enrols("acme", "heron").await;
        let vault = book.ledger.vault();
        let now = book.clock.now();
        for blob in [1, 2] {
            let secret = Sealed { key_id: "k".to_owned(), blob: vec![blob] };
            assert!(vault.issue(&"gw".into(), &heron, secret, now, now + hours(24)).await.unwrap());
        }
        book.winds(hours(23));
        book.prunes().await;
        assert_eq!(vault.gateway(&"gw".into()).await.unwrap().unwrap().secrets.len(), 2);
        assert_eq!(sealed(&book).await, 3, "both secrets and the endless capability");
        book.winds(hours(2));
        book.prunes().await;
        let secrets = vault.gateway(&"gw".into()).await.unwrap().unwrap().secrets;
        assert_eq!(secrets.iter().map(|secret| secret.sealed.blob[0]).collect::<Vec<_>>(), [2]);
        assert!(redeem(&book, "endless").await.is_some());
        book.winds(days(91));
        book.prunes().await;
        assert_eq!(sealed(&book).await, 1);
    }

    async fn much_is_forgotten_a_little_at_a_time(book) {
        for number in 0..1100 {
            book.keeps(HERON, &number.to_string()).await;
        }
        book.winds(days(1) + minutes(1));
        assert_eq!(book.prunes().await, 3, "five hundred repeats a call");
        assert_eq!(book.prunes().await, 1);
        book.winds(days(7));
        assert_eq!(book.prunes().await, 3, "five hundred late ones a call");
        assert_eq!(book.ledger.inbox().size(&HERON.into()).await.unwrap().entries, 0);
    }

    async fn a_seq_is_never_given_out_twice(book) {
        let entry = book.keeps(HERON, "one").await;
        book.acknowledges(HERON, &[&entry]).await;
        let last = last_seq(&book, "two").await;
        book.acknowledges(HERON, &[&book.ledger.inbox().unread(&HERON.into(), Seq(0), 1).await.unwrap()[0].id]).await;
        book.winds(days(100));
        book.prunes().await;
        assert!(last_seq(&book, "three").await > last, "whoever is connected reads on from the last it saw");
    }
}

async fn last_seq(book: &Book, word: &str) -> Seq {
    book.keeps(HERON, word).await;
    book.ledger.inbox().unread(&HERON.into(), Seq(0), 10).await.unwrap().last().unwrap().seq
}

async fn bind(book: &Book, kind: &str, lifetime: Option<std::time::Duration>, uses: Uses) {
    let record = CapabilityRecord {
        entry: None,
        tenant: "ten".into(),
        instance: HERON.into(),
        kind: kind.into(),
        session_keys: vec!["key".into()],
        sealed: Sealed { key_id: "k".to_owned(), blob: vec![9] },
        expires: lifetime.map(|lifetime| book.clock.now() + lifetime),
        uses,
    };
    book.ledger.vault().bind(record).await.unwrap();
}

async fn redeem(book: &Book, kind: &str) -> Option<(i64, Sealed)> {
    let (tenant, instance) = ("ten".into(), HERON.into());
    let redeemed =
        book.ledger.vault().redeem(&tenant, &instance, &"key".into(), &kind.into(), None).await.unwrap();
    redeemed.map(|redeemed| (redeemed.capability, redeemed.sealed))
}

/// How many sealed values there are at all.
async fn sealed(book: &Book) -> usize {
    book.ledger.vault().sealed_under_other_keys("none", 100).await.unwrap().len()
}
