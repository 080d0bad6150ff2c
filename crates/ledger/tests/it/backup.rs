use ledger::{Fault, Ledger, Location};

use crate::book::Book;

const HERON: &str = "inst_heron";

/// Opens a backup as a ledger of its own.
async fn restored(file: &std::path::Path, book: &Book) -> (tempfile::TempDir, Ledger) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(file, folder.path().join("ledger.db")).unwrap();
    let ledger = Ledger::open(Location::Folder(folder.path().to_owned()), book.clock.clone()).await.unwrap();
    (folder, ledger)
}

#[tokio::test]
async fn a_backup_made_while_writing_is_whole_and_opens() {
    let book = Book::in_a_folder().await;
    for number in 0..2000 {
        book.keeps(HERON, &format!("before {number}")).await;
    }
    let going = tokio::spawn({
        let (inbox, letter) = (book.ledger.inbox(), book.letter(HERON, "meanwhile"));
        async move {
            for number in 0_u32.. {
                let mut letter = letter.clone();
                letter.dedup = number.to_string().into();
                inbox.append(letter).await.unwrap();
            }
        }
    });
    let file = book.folder().join("copy.db");
    book.ledger.facts().backup(&file).await.unwrap();
    going.abort();
    let copy = rusqlite::Connection::open(&file).unwrap();
    let verdict: String = copy.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    drop(copy);
    let (_folder, ledger) = restored(&file, &book).await;
    let kept = ledger.inbox().size(&HERON.into()).await.unwrap().entries;
    let now = book.ledger.inbox().size(&HERON.into()).await.unwrap().entries;
    assert!((2000..=now).contains(&kept), "{kept} of {now}");
}

#[tokio::test]
async fn a_backup_is_its_owners_alone_and_writes_over_nothing() {
    use std::os::unix::fs::PermissionsExt;

    let book = Book::in_a_folder().await;
    book.keeps(HERON, "one").await;
    let file = book.folder().join("it's a copy.db");
    book.ledger.facts().backup(&file).await.unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let before = std::fs::read(&file).unwrap();
    let again = book.ledger.facts().backup(&file).await;
    assert!(matches!(&again, Err(Fault::Storage(why)) if why.contains("exists")), "{again:?}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    let nowhere = book.folder().join("no such folder").join("copy.db");
    assert!(matches!(book.ledger.facts().backup(&nowhere).await, Err(Fault::Storage(_))));
}

#[tokio::test]
async fn a_ledger_in_memory_says_that_it_has_no_backup() {
    let book = Book::in_memory().await;
    let file = tempfile::tempdir().unwrap().path().join("copy.db");
    assert!(matches!(book.ledger.facts().backup(&file).await, Err(Fault::Storage(_))));
    assert!(!file.exists());
    book.keeps(HERON, "and goes on").await;
}
