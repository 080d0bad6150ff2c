use std::sync::Arc;

use ledger::{Append, Appended, Seq, Unread};
use parking_lot::Mutex;
use posthouse_wire::EntryId;

use crate::book::{days, on};

const HERON: &str = "inst_heron";
const OTTER: &str = "inst_otter";

stories! {
    async fn an_entry_that_nobody_needs_is_taken_back_and_one_that_has_ended_stays_as_it_ended(book) {
        let inbox = book.ledger.inbox();
        let (kept, gone) = (book.keeps(HERON, "1").await, book.keeps(HERON, "2").await);
        assert_eq!(inbox.recall(&OTTER.into(), &gone).await.unwrap().entries, 0, "it is not theirs");
        let went = inbox.recall(&HERON.into(), &gone).await.unwrap();
        assert_eq!((went.entries, went.bytes > 0), (1, true));
        assert_eq!(inbox.recall(&HERON.into(), &gone).await.unwrap().entries, 0);
        assert_eq!(inbox.size(&HERON.into()).await.unwrap().entries, 1);
        book.acknowledges(HERON, &[&kept]).await;
        assert_eq!(inbox.recall(&HERON.into(), &kept).await.unwrap().entries, 0);
        let story = book.ledger.traces().entry(&kept).await.unwrap().unwrap();
        assert!(story.steps.iter().any(|step| step.what == "acknowledged"), "{story:?}");
    }

    async fn the_same_event_again_is_the_first_entry(book) {
        let first = book.keeps(HERON, "one").await;
        let again = book.ledger.inbox().append(book.letter(HERON, "one")).await.unwrap();
        assert_eq!(again, Appended::Known(first.clone()));
        assert_eq!(again.entry(), Some(&first));
        assert_eq!(book.unread(HERON).await, ["one"]);
        book.acknowledges(HERON, &[&first]).await;
        let late = book.ledger.inbox().append(book.letter(HERON, "one")).await.unwrap();
        assert_eq!(late, Appended::Known(first), "a repeat of what was taken is a repeat still");
        assert!(book.unread(HERON).await.is_empty());
    }

    async fn a_key_is_known_from_its_first_entry_on_to_its_own_bot(book) {
        let inbox = book.ledger.inbox();
        assert_eq!(inbox.known(&on("tb"), &"one".into()).await.unwrap(), None);
        let first = book.keeps(HERON, "one").await;
        assert_eq!(inbox.known(&on("tb"), &"one".into()).await.unwrap(), Some(first.clone()));
        assert_eq!(inbox.known(&on("other"), &"one".into()).await.unwrap(), None);
        book.acknowledges(HERON, &[&first]).await;
        assert_eq!(inbox.known(&on("tb"), &"one".into()).await.unwrap(), Some(first));
    }

    async fn what_a_platform_calls_its_attachments_lies_beside_the_event(book) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hearing = Arc::clone(&heard);
        book.ledger.inbox().follow(Arc::new(move |entry| hearing.lock().push(entry.references.clone())));
        let references = vec!["telegram:file:A\"1".to_owned(), "telegram:file:B".to_owned()];
        book.keeps_letter(Append { references: references.clone(), ..book.letter(HERON, "pictures") }).await;
        book.keeps(HERON, "words").await;
        let unread = book.ledger.inbox().unread(&HERON.into(), Seq(0), 10).await.unwrap();
        let kept: Vec<_> = unread.into_iter().map(|entry| entry.references).collect();
        assert_eq!(kept, [references, Vec::new()]);
        assert_eq!(*heard.lock(), kept);
    }

    async fn two_bots_may_count_their_events_alike(book) {
        book.keeps(HERON, "7").await;
        book.keeps_letter(Append { bot: "other".into(), ..book.letter(HERON, "7") }).await;
        book.keeps_letter(Append { platform: "discord".into(), ..book.letter(OTTER, "7") }).await;
        assert_eq!(book.unread(HERON).await, ["7", "7"]);
        assert_eq!(book.unread(OTTER).await, ["7"]);
    }

    async fn entries_are_read_oldest_first_from_where_one_stopped(book) {
        for word in ["a", "b", "c", "d"] {
            book.keeps(HERON, word).await;
            book.keeps(OTTER, &format!("not {word}")).await;
        }
        assert_eq!(book.unread(HERON).await, ["a", "b", "c", "d"]);
        let inbox = book.ledger.inbox();
        let two = inbox.unread(&HERON.into(), Seq(0), 2).await.unwrap();
        assert_eq!(two.len(), 2);
        let rest = inbox.unread(&HERON.into(), two[1].seq, 10).await.unwrap();
        let rest: Vec<_> = rest.iter().map(|entry| &entry.event[..]).collect();
        assert_eq!(rest, [b"c", b"d"]);
        assert!(inbox.unread(&"inst_nobody".into(), Seq(0), 10).await.unwrap().is_empty());
    }

    async fn acknowledging_forgets_once_and_repeating_it_is_harmless(book) {
        let one = book.keeps(HERON, "one").await;
        let two = book.keeps(HERON, "two").await;
        assert_eq!(book.acknowledges(HERON, &[&one, &one]).await, 1);
        assert_eq!(book.acknowledges(HERON, &[&one]).await, 0);
        assert_eq!(book.unread(HERON).await, ["two"]);
        let nonsense = [EntryId::new(""), EntryId::new("ent_zz"), EntryId::mint(1), EntryId::new("\u{0}é")];
        assert_eq!(book.acknowledges(HERON, &nonsense.iter().collect::<Vec<_>>()).await, 0);
        assert_eq!(book.acknowledges(HERON, &[&two]).await, 1);
        assert!(book.unread(HERON).await.is_empty());
    }

    async fn the_acknowledgement_of_another_agent_changes_nothing(book) {
        let entry = book.keeps(HERON, "one").await;
        assert_eq!(book.acknowledges(OTTER, &[&entry]).await, 0);
        assert_eq!(book.unread(HERON).await, ["one"]);
        assert_eq!(book.steps(&entry).await, ["accepted", "durable"]);
    }

    async fn the_size_of_an_inbox_is_what_is_unread(book) {
        let one = book.keeps(HERON, "one").await;
        book.keeps(HERON, "three").await;
        book.keeps(OTTER, "x").await;
        let inbox = book.ledger.inbox();
        assert_eq!(inbox.size(&HERON.into()).await.unwrap(), Unread { entries: 2, bytes: 8 });
        assert_eq!(inbox.size(&"inst_nobody".into()).await.unwrap(), Unread::default());
        book.acknowledges(HERON, &[&one]).await;
        let mut backlogs = inbox.backlogs().await.unwrap();
        backlogs.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = [
            (HERON.into(), Unread { entries: 1, bytes: 5 }),
            (OTTER.into(), Unread { entries: 1, bytes: 1 }),
        ];
        assert_eq!(backlogs, expected);
    }

    async fn a_follower_hears_every_entry_in_order_before_its_append_resolves(book) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ears = Arc::clone(&heard);
        book.ledger.inbox().follow(Arc::new(move |entry| ears.lock().push(entry.clone())));
        let appends = (0..100).map(|number| {
            let (inbox, letter) = (book.ledger.inbox(), book.letter(HERON, &number.to_string()));
            let heard = Arc::clone(&heard);
            tokio::spawn(async move {
                let kept = inbox.append(letter).await.unwrap();
                assert!(heard.lock().iter().any(|entry| Some(&entry.id) == kept.entry()));
            })
        });
        for append in appends.collect::<Vec<_>>() {
            append.await.unwrap();
        }
        book.ledger.inbox().append(book.letter(HERON, "7")).await.unwrap();
        let heard = heard.lock().clone();
        assert_eq!(heard.len(), 100, "a repeat is not heard again");
        assert!(heard.is_sorted_by_key(|entry| entry.seq));
        let kept = book.ledger.inbox().unread(&HERON.into(), Seq(0), 1000).await.unwrap();
        let same = kept.iter().zip(&heard).all(|(kept, heard)| {
            (&kept.id, kept.seq, &kept.instance, &kept.event) == (&heard.id, heard.seq, &heard.instance, &heard.event)
        });
        assert!(same);
    }

    async fn a_second_follower_is_ignored(book) {
        let heard = Arc::new(Mutex::new(0));
        for _ in 0..2 {
            let ears = Arc::clone(&heard);
            book.ledger.inbox().follow(Arc::new(move |_| *ears.lock() += 1));
        }
        book.keeps(HERON, "one").await;
        assert_eq!(*heard.lock(), 1);
    }

    async fn any_bytes_may_be_an_event(book) {
        let events = [vec![], vec![0; 3], "é\u{0}".into(), vec![b'x'; 3_000_000]];
        for (number, event) in events.iter().enumerate() {
            let letter = book.letter(HERON, &number.to_string());
            book.keeps_letter(Append { event: event.clone().into(), message: None, ..letter }).await;
        }
        let kept = book.ledger.inbox().unread(&HERON.into(), Seq(0), 10).await.unwrap();
        assert!(kept.iter().map(|entry| entry.event.to_vec()).eq(events));
    }
}

#[tokio::test]
async fn the_names_of_attachments_go_with_their_event() {
    let book = crate::book::Book::in_a_folder().await;
    let heron = book.enrols("acme", "heron").await;
    let mut kept = Vec::new();
    for word in ["taken", "dropped", "late"] {
        let references = vec!["telegram:file:canary".to_owned()];
        kept.push(book.keeps_letter(Append { references, ..book.letter(heron.as_str(), word) }).await);
    }
    let named = || -> i64 {
        let count = "SELECT count(*) FROM entries WHERE refs LIKE '%canary%'";
        book.beside().query_row(count, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(named(), 3);
    book.acknowledges(heron.as_str(), &[&kept[0]]).await;
    assert_eq!(named(), 2);
    book.ledger.inbox().recall(&heron, &kept[1]).await.unwrap();
    assert_eq!(named(), 1);
    book.winds(days(8));
    book.prunes().await;
    assert_eq!(named(), 0);
    let references = vec!["telegram:file:canary".to_owned()];
    book.keeps_letter(Append { references, ..book.letter(heron.as_str(), "removed") }).await;
    book.ledger.roster().remove_instance(&heron).await.unwrap();
    assert_eq!(named(), 0);
}
