//! Attempts of deliveries, and their retries.

use ledger::Outgoing;

use super::*;
use crate::book::minutes;

async fn claims(book: &Book) -> Vec<Outgoing> {
    let now = book.clock.now();
    book.ledger.receipts().claim_outgoing(now + minutes(1), &[], 10).await.unwrap()
}

async fn next(book: &Book) -> Option<Moment> {
    let next = book.ledger.receipts().next_outgoing(&[]).await.unwrap();
    next.map(|left| book.clock.now() + left)
}

/// Whether any body is still stored.
fn bodies(book: &Book) -> i64 {
    book.beside().query_row("SELECT count(body) FROM receipts", [], |row| row.get(0)).unwrap()
}

stories! {
    async fn an_attempt_that_is_never_reported_is_due_again(book) {
        assert_eq!(next(&book).await, None);
        let key = opened(&book, call(&book, "d1", "hello")).await;
        assert_eq!(next(&book).await, Some(book.clock.now() + minutes(1)));
        assert!(claims(&book).await.is_empty(), "somebody is at it");
        book.winds(minutes(1));
        let claimed = claims(&book).await;
        assert_eq!((claimed.len(), claimed[0].receipt.key, &claimed[0].body), (1, key, &body("hello")));
        assert_eq!(claimed[0].receipt.due, Some(book.clock.now() + minutes(1)));
        assert!(claims(&book).await.is_empty(), "it is under a lease");
        book.winds(minutes(1));
        assert_eq!(claims(&book).await[0].body, body("hello"), "the same bytes every time");
    }

    async fn what_is_due_is_taken_oldest_first_and_so_much_at_a_time(book) {
        for (dispatch, due) in [("late", 3), ("early", 1), ("middle", 2)] {
            let open = Opening::Attempt { body: body(dispatch), due: book.clock.now() + minutes(due) };
            opened(&book, NewReceipt { open, ..call(&book, dispatch, "hello") }).await;
        }
        book.winds(minutes(5));
        let now = book.clock.now();
        let receipts = book.ledger.receipts();
        let first = receipts.claim_outgoing(now + minutes(1), &[], 2).await.unwrap();
        let rest = receipts.claim_outgoing(now + minutes(1), &[], 2).await.unwrap();
        let names: Vec<_> = first.iter().chain(&rest).map(|out| out.receipt.dispatch.to_string()).collect();
        assert_eq!(names, ["early", "middle", "late"]);
    }

    async fn a_failure_that_may_pass_is_tried_again_and_counted(book) {
        let key = opened(&book, call(&book, "d1", "hello")).await;
        let due = book.clock.now() + minutes(2);
        attempted(&book, key, postponed(due)).await;
        let receipt = told(&book, "d1").await;
        assert_eq!((receipt.state, receipt.attempts, receipt.due), (ReceiptState::Queued, 1, Some(due)));
        assert_eq!((receipt.error.as_deref(), receipt.answer.as_deref()), (Some("503"), Some("{}")));
        assert_eq!(next(&book).await, Some(due));
        book.winds(minutes(2));
        assert_eq!(claims(&book).await.len(), 1);
        attempted(&book, key, delivered(&book)).await;
        let receipt = told(&book, "d1").await;
        assert_eq!((receipt.state, receipt.attempts, receipt.due), (ReceiptState::Delivered, 2, None));
        assert_eq!((receipt.error, receipt.delivered_at), (None, Some(book.clock.now())));
        assert_eq!(receipt.acknowledged_at, None, "nobody's own word");
        assert_eq!(next(&book).await, None);
    }

    async fn one_that_has_ended_stays_as_it_ended(book) {
        let (done, given_up) =
            (opened(&book, call(&book, "done", "a")).await, opened(&book, call(&book, "given up", "a")).await);
        attempted(&book, done, delivered(&book)).await;
        attempted(&book, given_up, failed()).await;
        let (first, second) = (told(&book, "done").await, told(&book, "given up").await);
        assert_eq!((second.state, second.error.as_deref()), (ReceiptState::Failed, Some("no such pane")));
        book.winds(minutes(1));
        for what in [failed(), postponed(book.clock.now()), delivered(&book)] {
            attempted(&book, done, what.clone()).await;
            attempted(&book, given_up, what).await;
        }
        assert_eq!((told(&book, "done").await, told(&book, "given up").await), (first, second));
        assert!(claims(&book).await.is_empty());
        attempted(&book, ReceiptKey(4711), failed()).await;
    }

    async fn what_could_not_be_promised_is_taken_back_and_may_be_asked_for_again(book) {
        let at = book.clock.now() + minutes(5);
        let refused = opened(&book, scheduled(&book, "d1", "hello", at)).await;
        book.ledger.receipts().withdraw(refused, "{}".to_owned()).await.unwrap();
        assert_eq!(told(&book, "d1").await.state, ReceiptState::Failed);
        let key = opened(&book, scheduled(&book, "d1", "hello", at)).await;
        let now = book.clock.now();
        assert!(book.ledger.receipts().start_scheduled(key, now + minutes(1)).await.unwrap().is_some());
        book.ledger.receipts().withdraw(key, "{}".to_owned()).await.unwrap();
        let again = known(&book, scheduled(&book, "d1", "hello", at)).await;
        assert_eq!((again.key, again.state), (key, ReceiptState::Queued), "what was brought up is not taken back");
    }

    async fn the_clock_alone_brings_up_what_is_scheduled(book) {
        let at = book.clock.now() + minutes(5);
        let key = opened(&book, scheduled(&book, "d1", "hello", at)).await;
        assert_eq!(next(&book).await, None);
        book.winds(minutes(10));
        assert!(claims(&book).await.is_empty());
        let now = book.clock.now();
        let receipts = book.ledger.receipts();
        let brought = receipts.start_scheduled(key, now + minutes(1)).await.unwrap().unwrap();
        assert_eq!((brought.receipt.state, brought.receipt.due), (ReceiptState::Queued, Some(now + minutes(1))));
        assert!(receipts.start_scheduled(key, now + minutes(1)).await.unwrap().is_none(), "somebody is at it");
        assert_eq!(next(&book).await, Some(now + minutes(1)), "and if they never report it is due again");
        book.winds(minutes(1));
        let now = book.clock.now();
        assert!(receipts.start_scheduled(key, now + minutes(1)).await.unwrap().is_some(), "a second ring finds it due");
        attempted(&book, key, delivered(&book)).await;
        book.winds(minutes(5));
        let now = book.clock.now();
        assert!(receipts.start_scheduled(key, now).await.unwrap().is_none());
        assert!(receipts.start_scheduled(ReceiptKey(4711), now).await.unwrap().is_none());
    }

    async fn what_the_caller_was_told_in_spite_of_a_failure_is_kept_with_it(book) {
        let nothing_sent = r#"{"woken":false}"#.to_owned();
        let wake = opened(&book, NewReceipt { verb: DispatchVerb::Wake, ..call(&book, "wake", "hello") }).await;
        let failed_all_the_same =
            AttemptOutcome::Failed { error: "nobody there".to_owned(), answer: Some(nothing_sent.clone()) };
        attempted(&book, wake, failed_all_the_same).await;
        let again = known(&book, NewReceipt { verb: DispatchVerb::Wake, ..call(&book, "wake", "hello") }).await;
        assert_eq!((again.state, again.error.as_deref()), (ReceiptState::Failed, Some("nobody there")));
        assert_eq!(again.answer, Some(nothing_sent), "the same again can be answered the same");
    }

    async fn a_failure_for_good_does_not_go_on_promising_another_attempt(book) {
        let key = opened(&book, call(&book, "d1", "hello")).await;
        attempted(&book, key, postponed(book.clock.now() + minutes(1))).await;
        assert_eq!(told(&book, "d1").await.answer.as_deref(), Some("{}"));
        attempted(&book, key, failed()).await;
        let receipt = told(&book, "d1").await;
        assert_eq!((receipt.state, receipt.attempts, receipt.answer), (ReceiptState::Failed, 2, None));
    }

    async fn what_was_told_of_a_failure_is_not_told_of_the_entry_that_it_becomes(book) {
        let key = opened(&book, scheduled(&book, "d1", "hello", book.clock.now())).await;
        let told_so = AttemptOutcome::Failed { error: "no".to_owned(), answer: Some("{}".to_owned()) };
        attempted(&book, key, told_so).await;
        kept(&book, word(&book, "d1", "hello")).await;
        let receipt = told(&book, "d1").await;
        assert_eq!((receipt.key, receipt.state, receipt.answer), (key, ReceiptState::Queued, None));
    }
}

#[tokio::test]
async fn peoples_words_are_gone_as_soon_as_nothing_is_left_to_do_with_them() {
    let book = Book::in_a_folder().await;
    let at = book.clock.now() + minutes(5);
    let (done, given_up) =
        (opened(&book, call(&book, "1", "a")).await, opened(&book, call(&book, "2", "a")).await);
    let (carried, never) = (
        opened(&book, scheduled(&book, "3", "a", at)).await,
        opened(&book, scheduled(&book, "4", "a", at)).await,
    );
    assert_eq!(bodies(&book), 4);
    attempted(&book, done, delivered(&book)).await;
    attempted(&book, given_up, failed()).await;
    attempted(&book, never, failed()).await;
    assert_eq!(bodies(&book), 1);
    kept(&book, word(&book, "3", "a")).await;
    assert_eq!(bodies(&book), 0);
    assert_eq!(told(&book, "3").await.key, carried);
}
