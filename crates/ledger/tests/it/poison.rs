use ledger::{DeadLetterFilter, FailedDelivery, Unread};
use posthouse_wire::EntryId;

use crate::book::{Book, minutes};

const HERON: &str = "inst_heron";

async fn record_failed_delivery(book: &Book, entry: &EntryId, failure: FailedDelivery) -> bool {
    book.ledger.inbox().record_failed_delivery(&HERON.into(), entry, failure).await.unwrap()
}

fn of_heron() -> DeadLetterFilter {
    DeadLetterFilter { instance: Some(HERON.into()), ..DeadLetterFilter::default() }
}

stories! {
    async fn the_third_sign_of_poison_makes_a_dead_letter_and_the_rest_goes_on(book) {
        let bad = book.keeps(HERON, "bad").await;
        book.keeps(HERON, "good").await;
        assert!(!record_failed_delivery(&book, &bad, FailedDelivery::Poison).await);
        assert!(!record_failed_delivery(&book, &bad, FailedDelivery::Poison).await);
        book.winds(minutes(1));
        assert!(record_failed_delivery(&book, &bad, FailedDelivery::Poison).await);
        assert!(!record_failed_delivery(&book, &bad, FailedDelivery::Poison).await, "it dies once");
        assert_eq!(book.unread(HERON).await, ["good"]);
        assert_eq!(book.ledger.inbox().size(&HERON.into()).await.unwrap(), Unread { entries: 1, bytes: 4 });
        let dead = book.ledger.inbox().dead_letters(of_heron(), 10).await.unwrap();
        assert_eq!(dead.len(), 1);
        assert_eq!((&dead[0].entry, dead[0].died), (&bad, book.clock.now()));
        assert_eq!(dead[0].accepted + minutes(1), dead[0].died);
        assert_eq!(book.steps(&bad).await, ["accepted", "durable", "dead letter"]);
    }

    async fn lost_sockets_count_from_the_tenth_on(book) {
        let entry = book.keeps(HERON, "innocent").await;
        for _ in 0..11 {
            assert!(!record_failed_delivery(&book, &entry, FailedDelivery::ConnectionLost).await);
        }
        assert!(record_failed_delivery(&book, &entry, FailedDelivery::ConnectionLost).await);
    }

    async fn losses_and_signs_of_poison_add_up(book) {
        let entry = book.keeps(HERON, "suspect").await;
        for _ in 0..9 {
            assert!(!record_failed_delivery(&book, &entry, FailedDelivery::ConnectionLost).await);
        }
        assert!(!record_failed_delivery(&book, &entry, FailedDelivery::Poison).await);
        assert!(!record_failed_delivery(&book, &entry, FailedDelivery::Poison).await);
        assert!(record_failed_delivery(&book, &entry, FailedDelivery::ConnectionLost).await, "the tenth loss is the third sign");
    }

    async fn a_redriven_letter_stands_at_its_old_place_with_a_clean_sheet(book) {
        let first = book.keeps(HERON, "first").await;
        book.keeps(HERON, "second").await;
        for _ in 0..9 {
            record_failed_delivery(&book, &first, FailedDelivery::ConnectionLost).await;
        }
        for _ in 0..3 {
            record_failed_delivery(&book, &first, FailedDelivery::Poison).await;
        }
        assert_eq!(book.ledger.inbox().redrive(&first).await.unwrap(), Some(HERON.into()));
        assert_eq!(book.ledger.inbox().redrive(&first).await.unwrap(), None, "repeating is harmless");
        assert_eq!(book.unread(HERON).await, ["first", "second"]);
        assert!(book.ledger.inbox().dead_letters(DeadLetterFilter::default(), 10).await.unwrap().is_empty());
        assert!(!record_failed_delivery(&book, &first, FailedDelivery::ConnectionLost).await);
        assert!(!record_failed_delivery(&book, &first, FailedDelivery::Poison).await);
        assert!(!record_failed_delivery(&book, &first, FailedDelivery::Poison).await);
        assert!(record_failed_delivery(&book, &first, FailedDelivery::Poison).await);
    }

    async fn what_is_not_there_has_no_setbacks_and_is_not_redriven(book) {
        let entry = book.keeps(HERON, "one").await;
        let inbox = book.ledger.inbox();
        for _ in 0..5 {
            assert!(!inbox.record_failed_delivery(&"inst_otter".into(), &entry, FailedDelivery::Poison).await.unwrap());
            assert!(!inbox.record_failed_delivery(&HERON.into(), &"nonsense".into(), FailedDelivery::Poison).await.unwrap());
        }
        assert_eq!(inbox.redrive(&entry).await.unwrap(), None);
        assert_eq!(inbox.redrive(&"nonsense".into()).await.unwrap(), None);
        book.acknowledges(HERON, &[&entry]).await;
        for _ in 0..5 {
            assert!(!record_failed_delivery(&book, &entry, FailedDelivery::Poison).await);
        }
    }

    async fn dead_letters_are_listed_newest_first_for_one_agent_or_for_all(book) {
        for (to, word) in [(HERON, "a"), ("inst_otter", "b"), (HERON, "c")] {
            let entry = book.keeps(to, word).await;
            book.winds(minutes(1));
            for _ in 0..3 {
                book.ledger.inbox().record_failed_delivery(&to.into(), &entry, FailedDelivery::Poison).await.unwrap();
            }
        }
        let inbox = book.ledger.inbox();
        assert_eq!(inbox.dead_letters(of_heron(), 10).await.unwrap().len(), 2);
        let all = inbox.dead_letters(DeadLetterFilter::default(), 10).await.unwrap();
        assert_eq!(all.len(), 3);
        assert!(all.is_sorted_by(|newer, older| newer.died > older.died));
        let mut pages = Vec::new();
        let mut filter = DeadLetterFilter::default();
        while let [letter] = &inbox.dead_letters(filter.clone(), 1).await.unwrap()[..] {
            pages.push(letter.entry.clone());
            filter.after = Some(letter.position);
        }
        assert_eq!(pages, all.iter().map(|letter| letter.entry.clone()).collect::<Vec<_>>());
    }
}
