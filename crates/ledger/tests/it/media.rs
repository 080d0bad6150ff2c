//! Media: rows of files, their keys, their end, and the files to delete.

use ledger::{KEYS_OF_A_FILE, MediaKey, MediaRecord, RoomFile, RoomMessage};
use posthouse_wire::{InstanceId, MediaFile, MediaId};

use crate::book::{Book, days, hours, minutes};
use crate::rooms::{line, room};

pub fn file(of: &InstanceId, tenant: &str, size: i64) -> MediaRecord {
    MediaRecord {
        id: MediaId::mint(),
        file: MediaFile::mint(),
        tenant: format!("ten_{tenant}").into(),
        instance: of.clone(),
        mime: "image/png".to_owned(),
        filename: "cat.png".to_owned(),
        size,
    }
}

async fn keeps(book: &Book, record: &MediaRecord) {
    assert!(book.ledger.media().keep_media(record.clone(), book.clock.now() + hours(1)).await.unwrap());
}

fn used(book: &Book) -> i64 {
    book.ledger.usage().media_of_tenant(&"ten_acme".into()).used
}

async fn to_delete(book: &Book) -> Vec<MediaFile> {
    let mut files = book.ledger.media().files_to_delete(100).await.unwrap();
    files.sort();
    files
}

stories! {
    async fn a_file_has_a_row_until_its_end_and_its_bytes_are_listed_for_deletion(book) {
        let heron = book.enrols("acme", "heron").await;
        let media = book.ledger.media();
        let cat = file(&heron, "acme", 700);
        keeps(&book, &cat).await;
        assert_eq!(media.media(&cat.id).await.unwrap(), Some(cat.clone()));
        assert_eq!(used(&book), 700);
        // The same file fetched again replaces the first.
        let again = MediaRecord { file: MediaFile::mint(), size: 900, ..cat.clone() };
        keeps(&book, &again).await;
        assert_eq!((media.media(&cat.id).await.unwrap(), used(&book)), (Some(again.clone()), 900));
        assert_eq!(to_delete(&book).await, std::slice::from_ref(&cat.file));
        media.files_deleted(vec![cat.file.clone()]).await.unwrap();
        assert_eq!(media.files_without_row(vec![cat.file.clone(), again.file.clone()]).await.unwrap(), [cat.file]);
        book.winds(hours(1));
        assert_eq!(media.media(&cat.id).await.unwrap(), None);
        book.winds(minutes(1));
        book.prunes().await;
        assert_eq!((to_delete(&book).await, used(&book)), (vec![again.file], 0));
    }

    async fn the_files_of_each_agent_are_counted_and_it_is_known_whether_it_shares_the_room_for_them(book) {
        let (heron, media) = (book.enrols("acme", "heron").await, book.ledger.media());
        let acme = "ten_acme".into();
        assert!(!media.shares_media(&acme, &heron).await.unwrap());
        book.enrols("globex", "stork").await;
        assert!(!media.shares_media(&acme, &heron).await.unwrap(), "the agents of others do not count");
        let egret = book.enrols("acme", "egret").await;
        assert!(media.shares_media(&acme, &heron).await.unwrap() && media.shares_media(&acme, &egret).await.unwrap());
        let held = || [&heron, &egret].map(|agent| book.ledger.usage().media_of_agent(agent));
        let (cat, dog) = (file(&heron, "acme", 700), file(&egret, "acme", 30));
        keeps(&book, &cat).await;
        keeps(&book, &dog).await;
        assert_eq!((held(), used(&book)), ([700, 30], 730));
        // The same file fetched again replaces the first.
        keeps(&book, &MediaRecord { file: MediaFile::mint(), size: 900, ..cat.clone() }).await;
        assert_eq!(held(), [900, 30]);
        // A file for an agent that is gone leaves nothing.
        let nobody = file(&"inst_nobody".into(), "acme", 5);
        assert!(!media.keep_media(nobody.clone(), book.clock.now() + hours(1)).await.unwrap());
        assert_eq!(book.ledger.usage().media_of_agent(&nobody.instance), 0);
        media.remove_media(&heron, &cat.id).await.unwrap();
        assert_eq!((held(), used(&book)), ([0, 30], 30));
    }

    async fn a_key_opens_its_file_for_its_time_by_both_clocks(book) {
        let heron = book.enrols("acme", "heron").await;
        let media = book.ledger.media();
        let (cat, dog) = (file(&heron, "acme", 1), file(&heron, "acme", 1));
        keeps(&book, &cat).await;
        keeps(&book, &dog).await;
        let key = |record: &MediaRecord, hash: &str| MediaKey { media: record.id.clone(), hash: hash.to_owned() };
        let opens = async |key: MediaKey| media.media_of_key(&key).await.unwrap().is_some();
        book.winds(minutes(30));
        let until = book.clock.now() + hours(1);
        media.add_media_keys(&heron, vec![key(&cat, "k1"), key(&file(&heron, "acme", 1), "k2")], until).await.unwrap();
        assert!(opens(key(&cat, "k1")).await);
        assert!(!opens(key(&cat, "k2")).await && !opens(key(&dog, "k1")).await);
        // The file lasts as long as its key.
        book.winds(minutes(59));
        assert!(opens(key(&cat, "k1")).await && media.media(&dog.id).await.unwrap().is_none());
        book.clock.set(book.clock.now() + days(2));
        assert!(!opens(key(&cat, "k1")).await, "the wall clock has passed its end");
        let later = book.clock.now() + hours(1);
        for number in 0..=KEYS_OF_A_FILE {
            media.add_media_keys(&heron, vec![key(&cat, &format!("n{number}"))], later).await.unwrap();
        }
        assert!(!opens(key(&cat, "n0")).await && opens(key(&cat, "n1")).await, "the oldest made room");
    }

    async fn files_end_with_their_agent_and_none_is_kept_for_a_removed_one(book) {
        let heron = book.enrols("acme", "heron").await;
        let cat = file(&heron, "acme", 5);
        keeps(&book, &cat).await;
        let foreign = MediaRecord { tenant: "ten_globex".into(), ..file(&heron, "acme", 5) };
        let media = book.ledger.media();
        assert!(!media.keep_media(foreign, book.clock.now() + hours(1)).await.unwrap());
        book.ledger.roster().remove_instance(&heron).await.unwrap();
        assert_eq!((to_delete(&book).await, used(&book)), (vec![cat.file.clone()], 0));
        assert!(!media.keep_media(cat, book.clock.now() + hours(1)).await.unwrap());
    }

    async fn a_file_of_a_room_goes_with_its_message_and_an_unsent_one_after_a_day(book) {
        let heron = book.enrols("acme", "heron").await;
        book.invites(&heron, "ada").await;
        let rooms = book.ledger.rooms();
        rooms.enter(room(&book, "web-1", &heron, "ada")).await.unwrap();
        let (sent, unsent) = (file(&heron, "acme", 5), file(&heron, "acme", 6));
        let shown = |record: &MediaRecord| RoomFile {
            media: record.id.clone(),
            mime: record.mime.clone(),
            filename: record.filename.clone(),
            size: record.size,
            expired: false,
        };
        for record in [&sent, &unsent] {
            assert!(book.ledger.media().keep_media(record.clone(), book.clock.now() + days(7)).await.unwrap());
            assert!(rooms.add_file(&"web-1".into(), shown(record)).await.unwrap());
        }
        let message = RoomMessage { files: vec![shown(&sent)], ..line(&book, "m1", false, "look") };
        rooms.say(&"web-1".into(), message).await.unwrap();
        let lines = rooms.messages_after(&"web-1".into(), 0, None, 1000).await.unwrap();
        assert_eq!(lines[0].1.files, [shown(&sent)]);
        let taken = vec![sent.id.clone(), unsent.id.clone()];
        let free = rooms.files_for(&"web-1".into(), &"m2".into(), taken).await.unwrap();
        assert_eq!(free, [shown(&unsent)], "a file belongs to one message");
        assert!(!rooms.has_file(&"web-2".into(), &sent.id).await.unwrap());
        book.winds(days(1) + minutes(1));
        book.prunes().await;
        assert_eq!((to_delete(&book).await, used(&book)), (vec![unsent.file.clone()], 5));
        book.winds(days(90));
        book.prunes().await;
        assert_eq!(used(&book), 0);
        assert!(!rooms.has_file(&"web-1".into(), &sent.id).await.unwrap());
    }
}
