//! A full disk, and the log that must not fill a disk by itself.

use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use ledger::{Append, Appended, Fault, InboxLimits, Ledger, Location, Seq};
use posthouse_time::Timepiece;
use posthouse_wire::EntryId;

use crate::book::Book;

const HERON: &str = "inst_heron";

/// Writes until the ledger reports a full disk, and returns what was stored by then.
async fn fills(book: &Book, ledger: &Ledger) -> Vec<EntryId> {
    let mut kept = Vec::new();
    for number in 0..100_000 {
        let letter = book.letter(HERON, &format!("filling {number}"));
        match ledger.inbox().append(Append { event: Bytes::from(vec![b'x'; 4000]), ..letter }).await {
            Ok(Appended::Kept(entry)) => kept.push(entry),
            Ok(other) => panic!("{other:?}"),
            Err(Fault::Full) => return kept,
            Err(other) => panic!("a full disk has its own word, not: {other}"),
        }
    }
    panic!("the disk never filled")
}

async fn unread(ledger: &Ledger) -> Vec<EntryId> {
    let (mut all, mut after) = (Vec::new(), Seq(0));
    loop {
        let page = ledger.inbox().unread(&HERON.into(), after, 1000).await.unwrap();
        let Some(last) = page.last() else { return all };
        after = last.seq;
        all.extend(page.into_iter().map(|entry| entry.id));
    }
}

stories! {
    async fn a_full_ledger_says_so_loses_nothing_and_works_again_once_there_is_room(book) {
        let mut kept = vec![book.keeps(HERON, "before").await];
        book.ledger.limit_pages(1).await.unwrap();
        kept.extend(fills(&book, &book.ledger).await);
        let again = book.ledger.inbox().append(book.letter(HERON, "before")).await;
        assert_eq!(again.unwrap(), Appended::Known(kept[0].clone()), "what needs no room goes on");
        assert_eq!(unread(&book.ledger).await, kept);
        book.ledger.limit_pages(100_000).await.unwrap();
        kept.push(book.keeps(HERON, "after").await);
        assert_eq!(unread(&book.ledger).await, kept);
        assert_eq!(book.acknowledges(HERON, &[&kept[0]]).await, 1);
    }
}

/// A small file system in memory, removed at the end of the test.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mounted() -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        mount(&["-t", "tmpfs", "-o", "size=4m", "tmpfs"], folder.path())?;
        Ok(Self(folder))
    }

    fn grows(&self) {
        mount(&["-o", "remount,size=64m"], self.0.path()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn mount(how: &[&str], at: &Path) -> Result<(), String> {
    let output = Command::new("mount").args(how).arg(at).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[tokio::test]
async fn a_disk_without_room_is_told_apart_and_costs_nothing_that_was_kept() {
    let disk = match SmallDisk::mounted() {
        Ok(disk) => disk,
        Err(reason) => {
            println!("not told here, since nothing can be mounted: {reason}");
            return;
        }
    };
    let book = Book::in_memory().await;
    let place = Location::Folder(disk.0.path().join("server"));
    let ledger = Ledger::open(place.clone(), book.clock.clone()).await.unwrap();
    let mut kept = fills(&book, &ledger).await;
    assert!(kept.len() > 20, "{}", kept.len());
    assert_eq!(unread(&ledger).await, kept);
    let backup = disk.0.path().join("backup");
    assert!(matches!(ledger.facts().backup(&backup).await, Err(Fault::Full)));
    assert!(!backup.exists(), "half a backup is none");
    drop(ledger);

    let ledger = Ledger::open(place.clone(), book.clock.clone()).await;
    disk.grows();
    let ledger = match ledger {
        Ok(ledger) => ledger,
        Err(Fault::Full) => Ledger::open(place.clone(), book.clock.clone()).await.unwrap(),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(unread(&ledger).await, kept);
    let Ok(Appended::Kept(entry)) = ledger.inbox().append(book.letter(HERON, "after")).await else {
        panic!("there is room again")
    };
    kept.push(entry);
    assert_eq!(unread(&ledger).await, kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_stays_short_under_constant_writing_and_reading() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(Location::Folder(folder.path().to_owned()), Timepiece::wall()).await.unwrap();
    let reading: Vec<_> = (0..4)
        .map(|_| {
            let inbox = ledger.inbox();
            tokio::spawn(async move {
                loop {
                    inbox.unread(&HERON.into(), Seq(0), 50).await.unwrap();
                }
            })
        })
        .collect();
    let writing: Vec<_> = (0..128)
        .map(|writer| {
            let inbox = ledger.inbox();
            tokio::spawn(async move {
                for number in 0..240 {
                    let key =
                        format!("{:08x}-{number}", (writer * 240_u32 + number).wrapping_mul(0x9e37_79b9));
                    let letter = Append {
                        forward: None,
                        to: HERON.into(),
                        platform: "telegram".into(),
                        bot: "tb".into(),
                        chat: key.as_str().into(),
                        message: Some(key.as_str().into()),
                        dedup: key.into(),
                        event: Bytes::from(vec![b'x'; 1500]),
                        references: Vec::new(),
                        album: None,
                        accepted: Timepiece::wall().now(),
                        sighting: None,
                        receipt: None,
                        id: None,
                        sender: None,
                        limits: InboxLimits::NONE,
                        stale: None,
                        turn: Default::default(),
                    };
                    inbox.append(letter).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writing {
        writer.await.unwrap();
    }
    reading.iter().for_each(tokio::task::JoinHandle::abort);
    let size = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len() / (1024 * 1024);
    let (log, whole) = (size("ledger.db-wal"), size("ledger.db"));
    assert!(whole >= 40, "the ledger itself has {whole} MiB");
    assert!(log < 160, "the log has {log} MiB");
}
