//! Lists, newest first.

use super::*;
use crate::book::minutes;

stories! {
    async fn a_tenants_receipts_are_listed_newest_first_and_page_by_page(book) {
        for number in 0..5 {
            opened(&book, call(&book, &format!("d{number}"), "hello")).await;
            opened(&book, NewReceipt { tenant: "ten_zeta".into(), ..call(&book, "theirs", &number.to_string()) }).await;
        }
        assert_eq!(listed(&book, of_acme()).await, ["d4", "d3", "d2", "d1", "d0"]);
        let (mut before, mut seen) = (None, Vec::new());
        loop {
            let page = book.ledger.receipts().receipts(of_acme(), before, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            before = Some(last.key);
            seen.extend(page.into_iter().map(|receipt| receipt.dispatch.to_string()));
        }
        assert_eq!(seen, ["d4", "d3", "d2", "d1", "d0"]);
        assert_eq!(listed(&book, ReceiptFilter::default()).await.len(), 10, "the operator's list has everybody's");
    }

    async fn a_list_is_narrowed_by_sender_agent_and_state(book) {
        let heron = kept(&book, word(&book, "acknowledged", "hello")).await;
        book.acknowledges(HERON, &[&heron]).await;
        kept(&book, word(&book, "queued by relay", "hello")).await;
        opened(&book, call(&book, "queued", "hello")).await;
        let done = opened(&book, call(&book, "delivered", "hello")).await;
        attempted(&book, done, delivered(&book)).await;
        let given_up = opened(&book, NewReceipt { sent_by: Some(OTTER.into()), ..call(&book, "failed", "hello") }).await;
        attempted(&book, given_up, failed()).await;
        let other = NewReceipt { agent: "otter".to_owned(), ..scheduled(&book, "scheduled", "hello", book.clock.now()) };
        opened(&book, other).await;
        let session = NewReceipt { agent: "otter@den".to_owned(), ..call(&book, "to a session", "hello") };
        opened(&book, session).await;
        let another = NewReceipt { agent: "otterly".to_owned(), ..call(&book, "to another", "hello") };
        opened(&book, another).await;
        let theirs = NewReceipt { tenant: "ten_zeta".into(), ..scheduled(&book, "theirs", "hello", book.clock.now()) };
        opened(&book, theirs).await;

        let in_state = |state| ReceiptFilter { state: Some(state), ..of_acme() };
        for (state, expected) in [
            (ReceiptState::Scheduled, vec!["scheduled"]),
            (ReceiptState::Queued, vec!["to another", "to a session", "queued", "queued by relay"]),
            (ReceiptState::Delivered, vec!["delivered"]),
            (ReceiptState::Acknowledged, vec!["acknowledged"]),
            (ReceiptState::Failed, vec!["failed"]),
            (ReceiptState::Expired, vec![]),
        ] {
            assert_eq!(listed(&book, in_state(state)).await, expected, "{state:?}");
        }
        let everybodys = ReceiptFilter { tenant: None, ..in_state(ReceiptState::Scheduled) };
        assert_eq!(listed(&book, everybodys).await, ["theirs", "scheduled"]);
        let otter = ReceiptFilter { agent: Some("otter".to_owned()), ..of_acme() };
        assert_eq!(listed(&book, otter).await, ["to a session", "scheduled"]);
        let by_otter = ReceiptFilter { sent_by: Some(OTTER.into()), ..of_acme() };
        assert_eq!(listed(&book, by_otter.clone()).await, ["failed"]);
        assert_eq!(listed(&book, ReceiptFilter { state: Some(ReceiptState::Queued), ..by_otter }).await, [""; 0]);
        let by_heron = ReceiptFilter { sent_by: Some(HERON.into()), ..of_acme() };
        assert_eq!(listed(&book, by_heron).await, [""; 0]);
        let foreign = ReceiptFilter { tenant: Some("ten_zeta".into()), sent_by: Some(OTTER.into()), ..of_acme() };
        assert_eq!(listed(&book, foreign).await, [""; 0]);
    }

    async fn of_a_dispatch_that_is_used_again_and_again_the_first_thousand_are_told(book) {
        for number in 0..1001 {
            opened(&book, call(&book, "always the same", &number.to_string())).await;
            book.winds(minutes(1));
        }
        let told = book.ledger.receipts().receipts_of(None, None, &"always the same".into()).await.unwrap();
        assert_eq!(told.len(), 1000);
        assert!(told.is_sorted_by_key(|receipt| receipt.key));
    }

    async fn a_neighbour_that_uses_the_same_id_over_and_over_hides_nobodys_receipt(book) {
        let of_otter = |text: &str| NewReceipt { sent_by: Some(OTTER.into()), ..call(&book, "shared", text) };
        let texts: Vec<String> = (0..1001).map(|number| number.to_string()).collect();
        // All at once, so that they share their commits.
        let theirs: Vec<_> = texts
            .iter()
            .map(|text| {
                let (receipts, new) = (book.ledger.receipts(), of_otter(text));
                tokio::spawn(async move { receipts.open(new).await.map(drop) })
            })
            .collect();
        for opened in theirs {
            opened.await.unwrap().unwrap();
        }
        let own = opened(&book, NewReceipt { sent_by: Some(HERON.into()), ..call(&book, "shared", "own") }).await;
        let receipts = book.ledger.receipts();
        let (acme, zeta) = ("ten_acme".into(), "ten_zeta".into());
        let found = receipts.receipts_of(Some(&acme), Some(&HERON.into()), &"shared".into()).await.unwrap();
        assert_eq!(found.iter().map(|receipt| receipt.key).collect::<Vec<_>>(), [own]);
        let found = receipts.receipts_of(Some(&acme), Some(&OTTER.into()), &"shared".into()).await.unwrap();
        assert_eq!(found.len(), 1000);
        assert!(found.iter().all(|receipt| receipt.sent_by == Some(OTTER.into())));
        let stranger = receipts.receipts_of(Some(&acme), Some(&"inst_acme_egret".into()), &"shared".into()).await;
        assert_eq!(stranger.unwrap(), []);
        let elsewhere = receipts.receipts_of(Some(&zeta), Some(&HERON.into()), &"shared".into()).await;
        assert_eq!(elsewhere.unwrap(), []);
    }
}
