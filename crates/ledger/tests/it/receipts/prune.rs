//! Receipts are kept for thirty days.

use ledger::FailedDelivery;

use super::*;
use crate::book::{days, hours};

async fn keys(book: &Book) -> Vec<String> {
    listed(book, ReceiptFilter::default()).await
}

stories! {
    async fn receipts_and_what_was_said_are_told_for_thirty_days(book) {
        let entry = kept(&book, word(&book, "relayed", "hello")).await;
        book.acknowledges(HERON, &[&entry]).await;
        let key = book.ledger.receipts().said(&HERON.into(), &"post-ci".into(), None, utterance(&book, "aye")).await;
        let key = key.unwrap().unwrap();
        let called = opened(&book, call(&book, "call", "hello")).await;
        attempted(&book, called, delivered(&book)).await;
        opened(&book, call(&book, "newest", "hello")).await;
        book.winds(days(30) - hours(1));
        book.prunes().await;
        assert_eq!(keys(&book).await, ["newest", "call", "relayed"]);
        assert_eq!(texts(&book, key).await, ["aye"]);
        book.winds(hours(2));
        book.prunes().await;
        assert_eq!(keys(&book).await, ["newest"]);
        assert!(texts(&book, key).await.is_empty());
        let said = book.ledger.receipts().said(&HERON.into(), &"post-ci".into(), None, utterance(&book, "well")).await;
        assert_eq!(said.unwrap(), None);
        assert!(kept(&book, word(&book, "relayed", "hello")).await > entry, "a repeat is not known any more");
    }

    async fn a_step_of_the_wall_clock_by_thirty_one_days_deletes_no_receipts(book) {
        let entry = kept(&book, word(&book, "relayed", "hello")).await;
        book.acknowledges(HERON, &[&entry]).await;
        let called = opened(&book, call(&book, "call", "hello")).await;
        attempted(&book, called, delivered(&book)).await;
        opened(&book, call(&book, "newest", "hello")).await;
        let start = book.clock.now();
        for wall in [start + days(31), start - days(31), start] {
            book.clock.set(wall);
            book.prunes().await;
            assert_eq!(keys(&book).await, ["newest", "call", "relayed"]);
        }
    }

    async fn a_receipt_says_how_its_entry_ended_when_the_entry_is_gone(book) {
        let start = book.clock.now();
        let taken = kept(&book, word(&book, "taken", "hello")).await;
        book.winds(minutes(1));
        book.acknowledges(HERON, &[&taken]).await;
        let dead = kept(&book, word(&book, "dead", "hello")).await;
        for _ in 0..3 {
            book.ledger.inbox().record_failed_delivery(&HERON.into(), &dead, FailedDelivery::Poison).await.unwrap();
        }
        kept(&book, word(&book, "waiting", "hello")).await;
        book.winds(days(15));
        book.prunes().await;
        kept(&book, word(&book, "newest", "hello")).await;
        book.winds(days(14));
        book.prunes().await;
        assert!(book.steps(&taken).await.is_empty());
        let receipt = told(&book, "taken").await;
        assert_eq!((receipt.state, receipt.entry.as_ref()), (ReceiptState::Acknowledged, Some(&taken)));
        assert_eq!((receipt.delivered_at, receipt.acknowledged_at), (Some(start + minutes(1)), Some(start + minutes(1))));
        let waiting = told(&book, "waiting").await;
        assert!(book.steps(waiting.entry.as_ref().unwrap()).await.is_empty());
        assert_eq!((waiting.state, waiting.delivered_at, waiting.acknowledged_at), (ReceiptState::Expired, None, None));
        assert_eq!(state(&book, "dead").await, ReceiptState::Failed, "its letter is still there");
    }

    async fn what_is_scheduled_waits_for_its_time_and_is_told_for_thirty_days_then(book) {
        let at = book.clock.now() + days(60);
        let key = opened(&book, scheduled(&book, "far", "hello", at)).await;
        opened(&book, call(&book, "newest", "hello")).await;
        book.winds(days(60));
        book.prunes().await;
        assert_eq!(keys(&book).await, ["newest", "far"]);
        let now = book.clock.now();
        assert!(book.ledger.receipts().start_scheduled(key, now + minutes(1)).await.unwrap().is_some());
        attempted(&book, key, delivered(&book)).await;
        book.winds(days(29));
        book.prunes().await;
        assert_eq!(keys(&book).await, ["newest", "far"]);
        book.winds(days(2));
        book.prunes().await;
        assert_eq!(keys(&book).await, ["newest"]);
    }

    async fn a_key_is_never_given_out_twice(book) {
        let first = opened(&book, call(&book, "one", "hello")).await;
        book.winds(days(100));
        book.prunes().await;
        assert!(opened(&book, call(&book, "two", "hello")).await > first, "alarms and entries know receipts by it");
    }

    async fn much_is_forgotten_a_little_at_a_time(book) {
        for number in 0..1100 {
            kept(&book, word(&book, &number.to_string(), "hello")).await;
        }
        book.winds(days(40));
        assert_eq!(book.prunes().await, 3, "five hundred a call");
        assert_eq!(keys(&book).await, ["1099"]);
    }
}

#[tokio::test]
async fn no_word_outlives_its_receipt() {
    let book = Book::in_a_folder().await;
    kept(&book, word(&book, "d1", "hello")).await;
    let receipts = book.ledger.receipts();
    receipts.said(&HERON.into(), &"post-ci".into(), None, utterance(&book, "aye")).await.unwrap();
    opened(&book, call(&book, "newest", "hello")).await;
    let left = |table: &str| -> i64 {
        book.beside().query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((left("receipts"), left("replies"), left("talks")), (2, 1, 1));
    book.winds(days(31));
    book.prunes().await;
    assert_eq!((left("receipts"), left("replies"), left("talks")), (1, 0, 0));
}
