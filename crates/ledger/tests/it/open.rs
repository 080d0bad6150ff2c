//! Opening a ledger: the lock of its folder and the version of its schema.

use ledger::{Fault, Ledger, Location};

use crate::book::Book;

async fn refusal(book: &Book) -> Fault {
    let place = Location::Folder(book.folder().to_owned());
    match Ledger::open(place, book.clock.clone()).await {
        Ok(_) => panic!("it should not open"),
        Err(fault) => fault,
    }
}

/// Closes the ledger, changes its file by hand, and returns the error of opening it.
async fn refusal_after(change: &str) -> Fault {
    let mut book = Book::in_a_folder().await;
    let elsewhere = Ledger::open(Location::Memory, book.clock.clone()).await.unwrap();
    drop(std::mem::replace(&mut book.ledger, elsewhere));
    book.beside().execute_batch(change).unwrap();
    refusal(&book).await
}

#[tokio::test]
async fn a_ledger_survives_being_closed_and_opened() {
    let book = Book::in_a_folder().await;
    let entry = book.keeps("inst_heron", "one").await;
    book.keeps("inst_heron", "two").await;
    book.acknowledges("inst_heron", &[&entry]).await;
    let book = book.reopened().await;
    assert_eq!(book.unread("inst_heron").await, ["two"]);
    assert_eq!(book.steps(&entry).await.len(), 4);
    book.ledger.facts().set_fact("color", "green").await.unwrap();
    book.ledger.facts().set_fact("color", "blue").await.unwrap();
    let book = book.reopened().await;
    assert_eq!(book.ledger.facts().fact("color").await.unwrap().as_deref(), Some("blue"));
    assert_eq!(book.ledger.facts().fact("shape").await.unwrap(), None);
}

#[tokio::test]
async fn a_closed_ledger_is_one_file_without_a_log() {
    let mut book = Book::in_a_folder().await;
    book.keeps("inst_heron", "one").await;
    let elsewhere = Ledger::open(Location::Memory, book.clock.clone()).await.unwrap();
    drop(std::mem::replace(&mut book.ledger, elsewhere));
    assert!(!book.folder().join("ledger.db-wal").exists());
}

#[tokio::test]
async fn a_folder_in_use_is_refused_and_free_again_when_its_house_is_gone() {
    let book = Book::in_a_folder().await;
    let fault = refusal(&book).await;
    assert!(matches!(fault, Fault::InUse(_)));
    assert!(fault.to_string().contains("in use by another server"));
    book.reopened().await;
}

#[tokio::test]
async fn two_ledgers_stand_side_by_side() {
    let (one, two) = (Book::in_a_folder().await, Book::in_a_folder().await);
    one.keeps("inst_heron", "one").await;
    assert!(two.unread("inst_heron").await.is_empty());
}

#[tokio::test]
async fn a_newer_schema_is_refused_in_words() {
    let fault = refusal_after("PRAGMA user_version = 99").await;
    assert!(matches!(fault, Fault::Newer { found: 99, .. }));
    assert!(fault.to_string().contains("run the newer program"), "{fault}");
}

#[tokio::test]
async fn a_ledger_that_other_code_migrated_is_refused() {
    for change in [
        "UPDATE facts SET value = 'x' WHERE name = 'migration.1'",
        "DELETE FROM facts WHERE name = 'migration.1'",
    ] {
        let fault = refusal_after(change).await;
        assert!(matches!(fault, Fault::Altered { step: 1 }), "{fault}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_ledger_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ledger.db"), "this is a shopping list, not a ledger\n".repeat(100))
        .unwrap();
    let clock = posthouse_time::Timepiece::wall();
    let opened = Ledger::open(Location::Folder(folder.path().to_owned()), clock.clone()).await;
    assert!(matches!(opened.err(), Some(Fault::Storage(_))));
    let file = folder.path().join("ledger.db");
    let opened = Ledger::open(Location::Folder(file.join("below a file")), clock).await;
    assert!(matches!(opened.err(), Some(Fault::Storage(_))));
}
