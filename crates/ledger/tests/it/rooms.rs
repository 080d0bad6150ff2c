use ledger::{ROOM_BYTES, Room, RoomMarks, RoomMessage};
use posthouse_wire::InstanceId;

use crate::book::{Book, days, minutes};

pub fn room(book: &Book, id: &str, of: &InstanceId, person: &str) -> Room {
    Room {
        id: id.into(),
        instance: of.clone(),
        invitation: Some(format!("inv_{person}").into()),
        person: person.to_owned(),
        created: book.clock.now(),
    }
}

pub fn line(book: &Book, message: &str, by_agent: bool, text: &str) -> RoomMessage {
    RoomMessage {
        message: message.into(),
        by_agent,
        text: text.to_owned(),
        reply_to: None,
        sent: book.clock.now(),
        edited: None,
        entry: None,
        delivered: None,
        marks: RoomMarks::default(),
        files: Vec::new(),
    }
}

stories! {
    async fn an_invitation_finds_the_same_room_again(book) {
        let heron = book.enrols("acme", "heron").await;
        let rooms = book.ledger.rooms();
        assert_eq!(rooms.enter(room(&book, "web-0", &heron, "ada")).await.unwrap(), None, "not invited yet");
        book.invites(&heron, "ada").await;
        book.invites(&heron, "Бобр 🦫").await;
        let first = rooms.enter(room(&book, "web-1", &heron, "ada")).await.unwrap().unwrap();
        book.winds(minutes(1));
        assert_eq!(rooms.enter(room(&book, "web-2", &heron, "ada")).await.unwrap(), Some(first.clone()));
        let other = rooms.enter(room(&book, "web-3", &heron, "Бобр 🦫")).await.unwrap().unwrap();
        assert_eq!(rooms.room(&"web-1".into()).await.unwrap(), Some(first.clone()));
        assert_eq!(rooms.room(&"web-2".into()).await.unwrap(), None);
        assert_eq!(rooms.rooms(&heron).await.unwrap(), [first, other]);
    }

    async fn the_latest_lines_are_told_oldest_first_and_each_once(book) {
        let heron = book.enrols("acme", "heron").await;
        let rooms = book.ledger.rooms();
        book.invites(&heron, "ada").await;
        rooms.enter(room(&book, "web-1", &heron, "ada")).await.unwrap();
        let web = "web-1".into();
        for (message, by_agent) in [("1", false), ("2", true), ("3", false)] {
            rooms.say(&web, line(&book, message, by_agent, &format!("line {message} 👋"))).await.unwrap();
        }
        rooms.say(&web, line(&book, "3", false, "not again")).await.unwrap();
        let texts = |told: Vec<(i64, RoomMessage)>| told.into_iter().map(|(_, line)| line.text).collect::<Vec<_>>();
        let place = rooms.place_before_latest(&web, 2, 10_000).await.unwrap();
        assert_eq!(texts(rooms.messages_after(&web, place, None, 10_000).await.unwrap()), ["line 2 👋", "line 3 👋"]);
        assert_eq!(rooms.messages_after(&web, 0, None, 10_000).await.unwrap().len(), 3);
        // By bytes: each has 11 of them, and one always fits.
        let place = rooms.place_before_latest(&web, 10, 30).await.unwrap();
        assert_eq!(texts(rooms.messages_after(&web, place, None, 10_000).await.unwrap()), ["line 2 👋", "line 3 👋"]);
        let place = rooms.place_before_latest(&web, 10, 1).await.unwrap();
        assert_eq!(texts(rooms.messages_after(&web, place, None, 10_000).await.unwrap()), ["line 3 👋"]);
        let first = rooms.messages_after(&web, 0, None, 1).await.unwrap();
        let next = rooms.messages_after(&web, first[0].0, None, 1).await.unwrap();
        assert_eq!((texts(first), texts(next)), (vec!["line 1 👋".to_owned()], vec!["line 2 👋".to_owned()]));
        let later = book.clock.now() + minutes(1);
        assert!(rooms.messages_after(&web, 0, Some(later), 10_000).await.unwrap().is_empty());
    }

    async fn an_agent_rewrites_its_own_lines_only(book) {
        let heron = book.enrols("acme", "heron").await;
        let rooms = book.ledger.rooms();
        book.invites(&heron, "ada").await;
        rooms.enter(room(&book, "web-1", &heron, "ada")).await.unwrap();
        let web = "web-1".into();
        rooms.say(&web, line(&book, "1", false, "mine")).await.unwrap();
        rooms.say(&web, line(&book, "2", true, "gro")).await.unwrap();
        book.winds(minutes(1));
        let now = book.clock.now();
        assert!(rooms.rewrite(&web, &"2".into(), "growing", now).await.unwrap());
        assert!(!rooms.rewrite(&web, &"1".into(), "forged", now).await.unwrap());
        assert!(!rooms.rewrite(&web, &"9".into(), "nothing", now).await.unwrap());
        let told = rooms.messages_after(&web, 0, None, 10_000).await.unwrap();
        assert_eq!((told[0].1.text.as_str(), told[0].1.edited), ("mine", None));
        assert_eq!((told[1].1.text.as_str(), told[1].1.edited), ("growing", Some(now)));
        let changed = rooms.messages_after(&web, 0, Some(now), 10_000).await.unwrap();
        assert_eq!(changed.len(), 1);
        assert!(rooms.delivered(&web, &"1".into(), now).await.unwrap());
        assert!(!rooms.delivered(&web, &"1".into(), now).await.unwrap(), "once");
    }

    async fn lines_are_kept_for_ninety_days_by_ledger_time(book) {
        let heron = book.enrols("acme", "heron").await;
        book.invites(&heron, "ada").await;
        let (rooms, web) = (book.ledger.rooms(), "web-1".into());
        rooms.enter(room(&book, "web-1", &heron, "ada")).await.unwrap();
        rooms.say(&web, line(&book, "1", true, "old")).await.unwrap();
        book.winds(days(60));
        rooms.say(&web, line(&book, "2", true, "young")).await.unwrap();
        book.clock.set(book.clock.now() + days(300));
        book.prunes().await;
        assert_eq!(rooms.messages_after(&web, 0, None, 10_000).await.unwrap().len(), 2, "a step deletes nothing");
        book.winds(days(31));
        book.prunes().await;
        let told = rooms.messages_after(&web, 0, None, 10_000).await.unwrap();
        assert_eq!(told.iter().map(|(_, line)| line.text.as_str()).collect::<Vec<_>>(), ["young"]);
    }

    async fn past_its_bytes_a_room_loses_its_oldest_lines_and_never_the_newest(book) {
        let heron = book.enrols("acme", "heron").await;
        book.invites(&heron, "ada").await;
        let (rooms, web) = (book.ledger.rooms(), "web-1".into());
        rooms.enter(room(&book, "web-1", &heron, "ada")).await.unwrap();
        let text = "x".repeat(1024 * 1024);
        let fits = ROOM_BYTES / (text.len() as i64 + 256);
        for number in 0..fits {
            rooms.say(&web, line(&book, &format!("{number}"), true, &text)).await.unwrap();
        }
        let first = || async { rooms.messages_after(&web, 0, None, 1).await.unwrap()[0].1.message.clone() };
        assert_eq!(first().await, "0");
        rooms.say(&web, line(&book, "one more", true, &text)).await.unwrap();
        assert_eq!(first().await, "1");
        // An edit that makes a line longer counts as well.
        let longer = "x".repeat(3 * 1024 * 1024);
        assert!(rooms.rewrite(&web, &"one more".into(), &longer, book.clock.now()).await.unwrap());
        assert_eq!(first().await, "3");
        let all = "x".repeat(ROOM_BYTES as usize + 1);
        rooms.say(&web, line(&book, "all by itself", true, &all)).await.unwrap();
        assert_eq!(first().await, "all by itself");
    }
}
