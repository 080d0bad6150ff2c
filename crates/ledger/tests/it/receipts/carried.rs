//! Deliveries over the relay connection: the entry holds their state.

use ledger::{Acknowledgement, Append, Created, FailedDelivery, ReceiptFilter, Removed};

use super::*;
use crate::book::{days, on};

stories! {
    async fn a_receipt_becomes_what_becomes_of_its_entry(book) {
        let start = book.clock.now();
        let entry = kept(&book, word(&book, "d1", "hello")).await;
        let receipt = told(&book, "d1").await;
        assert_eq!((receipt.state, receipt.entry.as_ref()), (ReceiptState::Queued, Some(&entry)));
        assert_eq!((receipt.accepted_at, receipt.delivered_at, receipt.due), (start, None, None));
        book.winds(minutes(1));
        let handed = book.clock.now();
        book.winds(minutes(1));
        let taken = Acknowledgement { entry, handed, place: None };
        book.ledger.inbox().acknowledge(&HERON.into(), vec![taken]).await.unwrap();
        let receipt = told(&book, "d1").await;
        assert_eq!(receipt.state, ReceiptState::Acknowledged);
        assert_eq!(receipt.delivered_at, Some(handed));
        assert_eq!(receipt.acknowledged_at, Some(start + minutes(2)));
    }

    async fn a_dead_letter_failed_until_it_is_put_back_in_line(book) {
        let entry = kept(&book, word(&book, "d1", "hello")).await;
        for _ in 0..3 {
            book.ledger.inbox().record_failed_delivery(&HERON.into(), &entry, FailedDelivery::Poison).await.unwrap();
        }
        let receipt = told(&book, "d1").await;
        assert_eq!((receipt.state, receipt.acknowledged_at), (ReceiptState::Failed, None));
        book.ledger.inbox().redrive(&entry).await.unwrap();
        assert_eq!(state(&book, "d1").await, ReceiptState::Queued);
    }

    async fn what_nobody_came_for_has_expired(book) {
        let dropped = kept(&book, word(&book, "dropped", "one")).await;
        book.ledger.inbox().recall(&HERON.into(), &dropped).await.unwrap();
        kept(&book, word(&book, "late", "two")).await;
        assert_eq!(state(&book, "dropped").await, ReceiptState::Expired);
        book.winds(days(7) + minutes(1));
        book.prunes().await;
        let late = told(&book, "late").await;
        assert_eq!((late.state, late.acknowledged_at), (ReceiptState::Expired, None));
    }

    async fn the_same_delivery_again_appends_nothing(book) {
        let first = kept(&book, word(&book, "d1", "hello")).await;
        assert_eq!(appended(&book, word(&book, "d1", "hello")).await, Appended::Known(first.clone()));
        let other_key = Append { dedup: "other".into(), ..letter(&book, word(&book, "d1", "hello")) };
        let again = book.ledger.inbox().append(other_key).await.unwrap();
        assert_eq!(again, Appended::Known(first.clone()), "the receipt tells, whatever the dedup key");
        book.acknowledges(HERON, &[&first]).await;
        assert_eq!(appended(&book, word(&book, "d1", "hello")).await, Appended::Known(first));
        assert!(book.unread(HERON).await.is_empty());
        kept(&book, word(&book, "d1", "good evening")).await;
        kept(&book, word(&book, "d2", "hello")).await;
        assert_eq!(book.unread(HERON).await.len(), 2);
    }

    async fn repeats_are_known_for_as_long_as_the_receipt_even_when_the_entry_is_gone(book) {
        let first = kept(&book, word(&book, "d1", "hello")).await;
        book.acknowledges(HERON, &[&first]).await;
        kept(&book, word(&book, "newest", "hello")).await;
        book.winds(days(29));
        book.prunes().await;
        assert!(book.steps(&first).await.is_empty());
        assert_eq!(appended(&book, word(&book, "d1", "hello")).await, Appended::Known(first));
    }

    async fn another_tenants_dispatch_of_the_same_name_has_an_entry_of_its_own(book) {
        let ours = kept(&book, word(&book, "d1", "hello")).await;
        let new = NewReceipt { tenant: "ten_zeta".into(), instance: Some("inst_zeta".into()), ..word(&book, "d1", "hello") };
        let theirs = kept(&book, new).await;
        assert_ne!(ours, theirs);
        assert_eq!(book.unread("inst_zeta").await, ["d1"]);
    }

    async fn an_entry_with_a_receipt_takes_no_part_in_other_peoples_dedup_keys(book) {
        kept(&book, word(&book, "d1", "hello")).await;
        let post = ledger::BotRef { platform: "post".into(), bot: "post".into() };
        assert_eq!(book.ledger.inbox().known(&post, &"d1".into()).await.unwrap(), None);
        let plain = Append { receipt: None, ..letter(&book, word(&book, "d1", "hello")) };
        book.keeps_letter(plain).await;
        assert_eq!(book.ledger.inbox().known(&on("tb"), &"d1".into()).await.unwrap(), None);
    }

    async fn what_was_scheduled_is_carried_by_the_entry_it_becomes(book) {
        let at = book.clock.now() + minutes(5);
        let key = opened(&book, scheduled(&book, "d1", "wake up", at)).await;
        assert_eq!((state(&book, "d1").await, told(&book, "d1").await.due), (ReceiptState::Scheduled, Some(at)));
        book.winds(minutes(5));
        let now = book.clock.now();
        let brought = book.ledger.receipts().start_scheduled(key, now + minutes(1)).await.unwrap().unwrap();
        assert_eq!((brought.receipt.state, brought.body), (ReceiptState::Queued, body("wake up")));
        let new = NewReceipt { skipped: true, ..word(&book, "d1", "wake up") };
        let entry = kept(&book, new.clone()).await;
        let receipt = told(&book, "d1").await;
        assert_eq!((receipt.key, receipt.entry.as_ref(), receipt.due), (key, Some(&entry), None));
        assert_eq!((receipt.skipped, receipt.verb, receipt.attempts), (true, DispatchVerb::Wake, 1));
        assert_eq!(appended(&book, new).await, Appended::Known(entry.clone()), "a second ring is no second wake");
        book.acknowledges(HERON, &[&entry]).await;
        assert_eq!(state(&book, "d1").await, ReceiptState::Acknowledged);
        book.winds(minutes(5));
        let now = book.clock.now();
        assert!(book.ledger.receipts().claim_outgoing(now, &[], 10).await.unwrap().is_empty());
        assert!(book.ledger.receipts().start_scheduled(key, now).await.unwrap().is_none());
    }

    async fn what_failed_on_its_way_to_the_line_may_be_sent_again(book) {
        let at = book.clock.now() + minutes(5);
        let key = opened(&book, scheduled(&book, "d1", "wake up", at)).await;
        attempted(&book, key, failed()).await;
        let receipt = told(&book, "d1").await;
        assert_eq!((receipt.state, receipt.attempts, receipt.due), (ReceiptState::Failed, 0, None));
        let entry = kept(&book, word(&book, "d1", "wake up")).await;
        let receipt = told(&book, "d1").await;
        assert_eq!((receipt.key, receipt.entry, receipt.error), (key, Some(entry), None));
        assert_eq!(receipt.state, ReceiptState::Queued);
    }

    async fn only_the_answer_to_what_an_entry_carries_is_noted(book) {
        kept(&book, word(&book, "d1", "hello")).await;
        let key = told(&book, "d1").await.key;
        attempted(&book, key, delivered(&book)).await;
        attempted(&book, key, postponed(book.clock.now())).await;
        attempted(&book, key, failed()).await;
        let receipt = told(&book, "d1").await;
        assert_eq!((receipt.state, receipt.attempts, receipt.answer), (ReceiptState::Queued, 0, None));
        let (receipts, answer) = (book.ledger.receipts(), r#"{"woken":true}"#.to_owned());
        receipts.note_answer(&receipt.tenant, &receipt.dispatch, receipt.digest, answer).await.unwrap();
        assert_eq!(told(&book, "d1").await.answer.as_deref(), Some(r#"{"woken":true}"#));
    }

    async fn the_receipts_of_a_removed_agent_stay_and_have_expired(book) {
        let heron = book.enrols("acme", "heron").await;
        assert_eq!(heron, HERON);
        let taken = kept(&book, word(&book, "taken", "hello")).await;
        book.acknowledges(HERON, &[&taken]).await;
        kept(&book, word(&book, "waiting", "hello")).await;
        opened(&book, scheduled(&book, "scheduled", "hello", book.clock.now() + minutes(5))).await;
        opened(&book, call(&book, "called", "hello")).await;
        assert_eq!(book.ledger.roster().remove_instance(&heron).await.unwrap(), Removed::Gone);
        assert_eq!(state(&book, "taken").await, ReceiptState::Acknowledged);
        assert_eq!(state(&book, "waiting").await, ReceiptState::Expired);
        let wake = told(&book, "scheduled").await;
        assert_eq!((wake.state, wake.due), (ReceiptState::Expired, None));
        assert_eq!(state(&book, "called").await, ReceiptState::Queued, "that is no agent of ours");
        let said = book.ledger.receipts().said(&heron, &"post-ci".into(), None, utterance(&book, "ghost")).await;
        assert_eq!(said.unwrap(), None);
    }

    async fn nothing_is_still_to_be_delivered_for_a_tenant_that_is_removed(book) {
        assert_eq!(book.tenant("acme").await, Created::Made);
        opened(&book, call(&book, "called", "hello")).await;
        let theirs = NewReceipt { tenant: "ten_zeta".into(), ..call(&book, "theirs", "hello") };
        opened(&book, theirs).await;
        assert_eq!(book.ledger.roster().remove_tenant(&"ten_acme".into()).await.unwrap(), Removed::Gone);
        let receipt = told(&book, "called").await;
        assert_eq!((receipt.state, receipt.due), (ReceiptState::Failed, None));
        assert_eq!(receipt.error.as_deref(), Some("the tenant was removed"));
        assert_eq!(state(&book, "theirs").await, ReceiptState::Queued);
        assert_eq!(listed(&book, ReceiptFilter::default()).await.len(), 2);
    }
}
