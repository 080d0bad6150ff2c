//! Chats of people with two ids: found by either, kept for 90 days, never somebody else's.

use ledger::{Bot, BotRef, KnownPerson, PersonIds, PrincipalPolicy};
use posthouse_time::Moment;

use crate::book::{Book, days};

fn person(lasting: Option<&str>, shown: Option<&str>) -> PersonIds {
    PersonIds { lasting: lasting.map(Into::into), shown: shown.map(Into::into) }
}

async fn bot(book: &Book) -> BotRef {
    let record = Bot {
        platform: "pigeon".into(),
        id: "p1".into(),
        shared: false,
        principals: PrincipalPolicy::default(),
        settings: "{}".to_owned(),
        created: Moment::default(),
    };
    book.ledger.roster().create_bot(record).await.unwrap();
    BotRef { platform: "pigeon".into(), bot: "p1".into() }
}

stories! {
    async fn either_id_leads_to_the_chat_and_another_person_with_the_same_number_has_none(book) {
        let (on, people) = (bot(&book).await, book.ledger.person_chats());
        let both = person(Some("US.1"), Some("155"));
        assert_eq!(people.chat_of_person(&on, &both).await.unwrap(), KnownPerson::Unknown);
        people.note_person(&on, &both, &"155".into()).await.unwrap();
        let known = KnownPerson::InChat("155".into());
        for ids in [&both, &person(Some("US.1"), None), &person(None, Some("155")), &person(Some("US.1"), Some("166"))] {
            assert_eq!(people.chat_of_person(&on, ids).await.unwrap(), known, "{ids:?}");
        }
        let other = person(Some("US.2"), Some("155"));
        assert_eq!(people.chat_of_person(&on, &other).await.unwrap(), KnownPerson::TookOver);
        people.note_person(&on, &other, &"US.2".into()).await.unwrap();
        assert_eq!(people.chat_of_person(&on, &person(None, Some("155"))).await.unwrap(), KnownPerson::InChat("US.2".into()));
        let elsewhere = BotRef { bot: "p2".into(), ..on.clone() };
        assert_eq!(people.chat_of_person(&elsewhere, &both).await.unwrap(), KnownPerson::Unknown);
        people.note_person(&elsewhere, &both, &"155".into()).await.unwrap();
        assert_eq!(people.chat_of_person(&elsewhere, &both).await.unwrap(), KnownPerson::Unknown, "there is no such bot");
    }

    async fn a_person_who_is_silent_for_90_days_is_forgotten(book) {
        let (on, people) = (bot(&book).await, book.ledger.person_chats());
        let (silent, talks) = (person(Some("US.1"), None), person(Some("US.2"), None));
        people.note_person(&on, &silent, &"US.1".into()).await.unwrap();
        people.note_person(&on, &talks, &"US.2".into()).await.unwrap();
        book.winds(days(89));
        people.note_person(&on, &talks, &"US.2".into()).await.unwrap();
        book.winds(days(2));
        book.prunes().await;
        assert_eq!(people.chat_of_person(&on, &silent).await.unwrap(), KnownPerson::Unknown);
        assert_eq!(people.chat_of_person(&on, &talks).await.unwrap(), KnownPerson::InChat("US.2".into()));
    }
}
