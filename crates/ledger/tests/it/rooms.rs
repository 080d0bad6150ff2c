use ledger::{Invite, Line, Room};
use posthouse_wire::InstanceId;

use crate::book::{Book, minutes};

fn room(book: &Book, id: &str, of: &InstanceId, person: &str) -> Room {
    Room { id: id.into(), instance: of.clone(), person: person.to_owned(), created: book.clock.now() }
}

fn line(book: &Book, message: &str, by_agent: bool, text: &str) -> Line {
    Line {
        message: message.into(),
        by_agent,
        text: text.to_owned(),
        reply_to: None,
        said: book.clock.now(),
        edited: None,
    }
}

stories! {
    async fn a_person_finds_the_same_room_again(book) {
        let heron = book.enrols("acme", "heron").await;
        let rooms = book.ledger.rooms();
        let first = rooms.enter(room(&book, "web-1", &heron, "ada")).await.unwrap();
        book.winds(minutes(1));
        assert_eq!(rooms.enter(room(&book, "web-2", &heron, "ada")).await.unwrap(), first);
        let other = rooms.enter(room(&book, "web-3", &heron, "Бобр 🦫")).await.unwrap();
        assert_eq!(rooms.room(&"web-1".into()).await.unwrap(), Some(first.clone()));
        assert_eq!(rooms.room(&"web-2".into()).await.unwrap(), None);
        assert_eq!(rooms.rooms(&heron).await.unwrap(), [first, other]);
    }

    async fn the_latest_lines_are_told_oldest_first_and_each_once(book) {
        let heron = book.enrols("acme", "heron").await;
        let rooms = book.ledger.rooms();
        rooms.enter(room(&book, "web-1", &heron, "ada")).await.unwrap();
        let web = "web-1".into();
        for (message, by_agent) in [("1", false), ("2", true), ("3", false)] {
            rooms.say(&web, line(&book, message, by_agent, &format!("line {message} 👋"))).await.unwrap();
        }
        rooms.say(&web, line(&book, "3", false, "not again")).await.unwrap();
        let told = rooms.history(&web, 2).await.unwrap();
        assert_eq!(told.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["line 2 👋", "line 3 👋"]);
        assert_eq!(rooms.history(&web, 10).await.unwrap().len(), 3);
    }

    async fn an_agent_rewrites_its_own_lines_only(book) {
        let heron = book.enrols("acme", "heron").await;
        let rooms = book.ledger.rooms();
        rooms.enter(room(&book, "web-1", &heron, "ada")).await.unwrap();
        let web = "web-1".into();
        rooms.say(&web, line(&book, "1", false, "mine")).await.unwrap();
        rooms.say(&web, line(&book, "2", true, "gro")).await.unwrap();
        book.winds(minutes(1));
        let now = book.clock.now();
        assert!(rooms.rewrite(&web, &"2".into(), "growing", now).await.unwrap());
        assert!(!rooms.rewrite(&web, &"1".into(), "forged", now).await.unwrap());
        assert!(!rooms.rewrite(&web, &"9".into(), "nothing", now).await.unwrap());
        let told = rooms.history(&web, 10).await.unwrap();
        assert_eq!((told[0].text.as_str(), told[0].edited), ("mine", None));
        assert_eq!((told[1].text.as_str(), told[1].edited), ("growing", Some(now)));
    }

    async fn a_person_has_one_invitation_and_it_can_be_withdrawn(book) {
        let rooms = book.ledger.rooms();
        let invite = |hash: &str| Invite {
            hash: hash.to_owned(),
            person: "ada".to_owned(),
            created: book.clock.now(),
        };
        rooms.invite(invite("old")).await.unwrap();
        rooms.invite(invite("new")).await.unwrap();
        assert_eq!(rooms.invited("old").await.unwrap(), None, "a new link ends the one before");
        assert_eq!(rooms.invited("new").await.unwrap(), Some(invite("new")));
        assert_eq!(rooms.invites().await.unwrap().len(), 1);
        assert!(rooms.withdraw_invite("ada").await.unwrap());
        assert!(!rooms.withdraw_invite("ada").await.unwrap());
        assert_eq!(rooms.invited("new").await.unwrap(), None);
    }
}
