//! Audit log: newest first, kept for ninety days.

use ledger::Deed;

use crate::book::{Book, days};

fn deed(book: &Book, operation: &str) -> Deed {
    Deed {
        at: book.clock.now(),
        operation: operation.to_owned(),
        about: Some("acme".to_owned()),
        caller: Some([127, 0, 0, 1].into()),
        status: 201,
    }
}

async fn told(book: &Book) -> Vec<String> {
    let deeds = book.ledger.audit().deeds(None, 10).await.unwrap();
    deeds.into_iter().map(|(_, deed)| deed.operation).collect()
}

stories! {
    async fn deeds_are_told_as_they_were_noted_newest_first_and_page_by_page(book) {
        let audit = book.ledger.audit();
        let plain = Deed { about: None, caller: None, status: 422, ..deed(&book, "POST /tenants") };
        audit.note(deed(&book, "POST /tenants")).await.unwrap();
        audit.note(plain.clone()).await.unwrap();
        let first = audit.deeds(None, 1).await.unwrap();
        assert_eq!(first[0].1, plain);
        let second = audit.deeds(Some(first[0].0), 10).await.unwrap();
        assert_eq!(second.into_iter().map(|(_, deed)| deed).collect::<Vec<_>>(), [deed(&book, "POST /tenants")]);
    }

    async fn a_step_of_the_wall_clock_deletes_no_deed(book) {
        book.ledger.audit().note(deed(&book, "old")).await.unwrap();
        book.clock.set(book.clock.now() + days(100));
        book.prunes().await;
        assert_eq!(told(&book).await, ["old"]);
    }

    async fn deeds_are_told_for_ninety_days(book) {
        let audit = book.ledger.audit();
        audit.note(deed(&book, "old")).await.unwrap();
        book.winds(days(1));
        audit.note(deed(&book, "new")).await.unwrap();
        book.winds(days(89));
        book.prunes().await;
        assert_eq!(told(&book).await, ["new", "old"]);
        book.winds(days(1));
        book.prunes().await;
        assert_eq!(told(&book).await, ["new"]);
    }
}
