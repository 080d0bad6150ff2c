//! Audit log: newest first, kept for ninety days.

use ledger::AuditEntry;

use crate::book::{Book, days};

fn entry(book: &Book, operation: &str) -> AuditEntry {
    AuditEntry {
        at: book.clock.now(),
        operation: operation.to_owned(),
        about: Some("acme".to_owned()),
        caller: Some([127, 0, 0, 1].into()),
        status: 201,
    }
}

async fn told(book: &Book) -> Vec<String> {
    let entries = book.ledger.audit().entries(None, 10).await.unwrap();
    entries.into_iter().map(|(_, entry)| entry.operation).collect()
}

stories! {
    async fn deeds_are_told_as_they_were_noted_newest_first_and_page_by_page(book) {
        let audit = book.ledger.audit();
        let plain = AuditEntry { about: None, caller: None, status: 422, ..entry(&book, "POST /tenants") };
        audit.record(entry(&book, "POST /tenants")).await.unwrap();
        audit.record(plain.clone()).await.unwrap();
        let first = audit.entries(None, 1).await.unwrap();
        assert_eq!(first[0].1, plain);
        let second = audit.entries(Some(first[0].0), 10).await.unwrap();
        assert_eq!(second.into_iter().map(|(_, entry)| entry).collect::<Vec<_>>(), [entry(&book, "POST /tenants")]);
    }

    async fn a_step_of_the_wall_clock_deletes_no_deed(book) {
        book.ledger.audit().record(entry(&book, "old")).await.unwrap();
        book.clock.set(book.clock.now() + days(100));
        book.prunes().await;
        assert_eq!(told(&book).await, ["old"]);
    }

    async fn deeds_are_told_for_ninety_days(book) {
        let audit = book.ledger.audit();
        audit.record(entry(&book, "old")).await.unwrap();
        book.winds(days(1));
        audit.record(entry(&book, "new")).await.unwrap();
        book.winds(days(89));
        book.prunes().await;
        assert_eq!(told(&book).await, ["new", "old"]);
        book.winds(days(1));
        book.prunes().await;
        assert_eq!(told(&book).await, ["new"]);
    }
}
