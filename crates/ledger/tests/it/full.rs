//! A full inbox refuses the newest entry; nothing that was accepted is dropped to make room.

use bytes::Bytes;
use ledger::{Append, Appended, FailedDelivery, Fault, InboxLimits, LimitReached, Sender, Unread};
use posthouse_wire::EntryId;

use crate::book::{Book, days};

const HERON: &str = "inst_heron";
const OTTER: &str = "inst_otter";
/// A quarter is two entries, three quarters are six.
const EIGHT: InboxLimits = InboxLimits { entries: 8, bytes: i64::MAX };

/// A message of a person in a chat; `word` makes it unique.
fn by_person(book: &Book, person: &str, chat: &str, word: &str) -> Append {
    Append {
        chat: chat.into(),
        sender: Some(Sender::Person(person.to_owned())),
        limits: EIGHT,
        ..book.letter(HERON, word)
    }
}

fn by_program(book: &Book, client: &str, word: &str) -> Append {
    Append {
        platform: "post".into(),
        sender: Some(Sender::Program(client.into())),
        limits: EIGHT,
        ..book.letter(HERON, word)
    }
}

async fn refuses(book: &Book, letter: Append) -> LimitReached {
    match book.ledger.inbox().append(letter).await.unwrap() {
        Appended::Refused(full) => full,
        kept => panic!("{kept:?}"),
    }
}

/// Eight entries of eight people.
async fn fills(book: &Book) -> Vec<EntryId> {
    let mut kept = Vec::new();
    for number in 0..8 {
        let (name, chat) = (format!("p{number}"), format!("c{number}"));
        kept.push(book.keeps_letter(by_person(book, &name, &chat, &format!("full {number}"))).await);
    }
    kept
}

stories! {
    async fn a_full_inbox_refuses_the_newest_and_drops_nothing_that_was_accepted(book) {
        let kept = fills(&book).await;
        for _ in 0..3 {
            assert_eq!(refuses(&book, by_person(&book, "late", "c9", "late")).await, LimitReached::Inbox);
        }
        assert_eq!(refuses(&book, by_program(&book, "tenant:t", "late")).await, LimitReached::Inbox);
        assert_eq!(book.unread(HERON).await.len(), 8);
        assert_eq!(book.steps(&kept[0]).await, ["accepted", "durable"]);
        let elsewhere = Append { limits: EIGHT, ..book.letter(OTTER, "another inbox has its own room") };
        book.keeps_letter(elsewhere).await;
        // A refused event leaves no dedup key behind: the same event is stored once there is room.
        book.acknowledges(HERON, &[&kept[3]]).await;
        book.keeps_letter(by_person(&book, "late", "c9", "late")).await;
        assert_eq!(refuses(&book, by_person(&book, "later", "c10", "later")).await, LimitReached::Inbox);
    }

    async fn an_inbox_is_full_by_bytes_too(book) {
        let limits = InboxLimits { entries: 1000, bytes: 1000 };
        let letter = |word: &str, size: usize| Append {
            chat: word.into(),
            event: Bytes::from(vec![b'x'; size]),
            limits,
            ..book.letter(HERON, word)
        };
        book.keeps_letter(letter("larger than a quarter, and the first", 600)).await;
        book.keeps_letter(letter("b", 250)).await;
        assert_eq!(refuses(&book, letter("c", 151)).await, LimitReached::Inbox);
        book.keeps_letter(letter("d", 150)).await;
        assert_eq!(refuses(&book, letter("e", 1)).await, LimitReached::Inbox);
    }

    async fn one_person_or_chat_holds_at_most_a_quarter_of_an_inbox(book) {
        // In one chat, regardless of who writes.
        book.keeps_letter(by_person(&book, "ann", "group", "1")).await;
        book.keeps_letter(by_person(&book, "ben", "group", "2")).await;
        assert_eq!(refuses(&book, by_person(&book, "cid", "group", "3")).await, LimitReached::Share);
        // One person, in any chat.
        book.keeps_letter(by_person(&book, "ann", "own", "4")).await;
        assert_eq!(refuses(&book, by_person(&book, "ann", "another", "5")).await, LimitReached::Share);
        // Others get through, and a share is free again once it was read.
        let bens = book.keeps_letter(by_person(&book, "ben", "own of ben", "6")).await;
        assert_eq!(refuses(&book, by_person(&book, "ben", "third", "7")).await, LimitReached::Share);
        book.acknowledges(HERON, &[&bens]).await;
        book.keeps_letter(by_person(&book, "ben", "third", "7")).await;
    }

    async fn one_program_credential_holds_at_most_three_quarters_of_an_inbox(book) {
        for number in 0..6 {
            book.keeps_letter(by_program(&book, "tenant:t", &format!("n{number}"))).await;
        }
        assert_eq!(refuses(&book, by_program(&book, "tenant:t", "n6")).await, LimitReached::Share);
        book.keeps_letter(by_person(&book, "ann", "own", "a guest still gets through")).await;
        book.keeps_letter(by_program(&book, "agent:inst_otter", "and another credential")).await;
        assert_eq!(refuses(&book, by_program(&book, "agent:inst_otter", "but no more")).await, LimitReached::Inbox);
    }

    async fn a_guest_s_flood_leaves_room_for_a_program_and_pushes_nothing_of_it_out(book) {
        let first = book.keeps_letter(by_program(&book, "tenant:t", "before the flood")).await;
        let mut refused = 0;
        for number in 0..100 {
            let letter = by_person(&book, "guest", "own", &format!("flood {number}"));
            match book.ledger.inbox().append(letter).await.unwrap() {
                Appended::Refused(full) => {
                    assert_eq!(full, LimitReached::Share);
                    refused += 1;
                }
                Appended::Kept(_) => {}
                known => panic!("{known:?}"),
            }
        }
        assert_eq!(refused, 98, "a guest holds a quarter");
        for number in 0..5 {
            book.keeps_letter(by_program(&book, "tenant:t", &format!("after the flood {number}"))).await;
        }
        assert_eq!(book.steps(&first).await, ["accepted", "durable"]);
        assert_eq!(book.unread(HERON).await[0], "before the flood");
    }

    async fn a_repeat_is_known_when_the_inbox_is_full(book) {
        let kept = fills(&book).await;
        let again = book.ledger.inbox().append(by_person(&book, "p0", "c0", "full 0")).await.unwrap();
        assert_eq!(again, Appended::Known(kept[0].clone()));
    }

    async fn a_redriven_dead_letter_always_fits(book) {
        let kept = fills(&book).await;
        for _ in 0..3 {
            book.ledger.inbox().record_failed_delivery(&HERON.into(), &kept[0], FailedDelivery::Poison).await.unwrap();
        }
        book.keeps_letter(by_person(&book, "late", "c9", "takes its place")).await;
        assert_eq!(refuses(&book, by_person(&book, "later", "c10", "later")).await, LimitReached::Inbox);
        assert_eq!(book.ledger.inbox().redrive(&kept[0]).await.unwrap(), Some(HERON.into()));
        assert_eq!(book.unread(HERON).await.len(), 9);
        // It counts like any other from then on.
        book.acknowledges(HERON, &[&kept[1]]).await;
        assert_eq!(refuses(&book, by_person(&book, "later", "c10", "later")).await, LimitReached::Inbox);
        book.acknowledges(HERON, &[&kept[2]]).await;
        book.keeps_letter(by_person(&book, "later", "c10", "later")).await;
    }

    async fn retention_by_age_makes_room(book) {
        fills(&book).await;
        book.winds(days(8));
        assert_eq!(refuses(&book, by_person(&book, "late", "c9", "late")).await, LimitReached::Inbox);
        book.prunes().await;
        book.keeps_letter(by_person(&book, "late", "c9", "late")).await;
        assert_eq!(book.unread(HERON).await, ["late"]);
    }

    async fn a_write_that_failed_is_not_counted(book) {
        fills(&book).await;
        let kept = book.keeps(OTTER, "elsewhere").await;
        book.ledger.limit_pages(1).await.unwrap();
        let large = |word: &str| Append { event: Bytes::from(vec![b'x'; 100_000]), ..book.letter(OTTER, word) };
        for number in 0..20 {
            let failed = book.ledger.inbox().append(large(&format!("l{number}"))).await;
            assert!(matches!(failed, Err(Fault::Full)), "{failed:?}");
        }
        book.ledger.limit_pages(100_000).await.unwrap();
        let limits = InboxLimits { entries: 2, bytes: i64::MAX };
        book.keeps_letter(Append { limits, chat: "another".into(), ..book.letter(OTTER, "second") }).await;
        let third = Append { limits, chat: "third".into(), ..book.letter(OTTER, "third") };
        assert_eq!(refuses(&book, third.clone()).await, LimitReached::Inbox);
        book.acknowledges(OTTER, &[&kept]).await;
        book.keeps_letter(third).await;
    }
}

#[tokio::test]
async fn what_an_inbox_holds_is_known_after_a_restart() {
    let book = Book::in_a_folder().await;
    for number in 0..2 {
        book.keeps_letter(by_person(&book, "ann", "own", &format!("a{number}"))).await;
    }
    let book = book.reopened().await;
    assert_eq!(refuses(&book, by_person(&book, "ann", "own", "a2")).await, LimitReached::Share);
    for number in 0..6 {
        book.keeps_letter(by_program(&book, "tenant:t", &format!("n{number}"))).await;
    }
    let book = book.reopened().await;
    assert_eq!(refuses(&book, by_person(&book, "ben", "bens", "b")).await, LimitReached::Inbox);
    let held = book.ledger.inbox().size(&HERON.into()).await.unwrap();
    assert_eq!(held, Unread { entries: 8, bytes: 16 });
}
