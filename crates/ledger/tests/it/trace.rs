use ledger::Request;
use posthouse_wire::{ActionId, EntryId, Outcome};

use crate::book::minutes;
use crate::outbox::{begins, request};

const HERON: &str = "inst_heron";

stories! {
    async fn the_trace_of_a_message_tells_every_step_with_its_time(book) {
        let start = book.clock.now();
        let entry = book.keeps(HERON, "m1").await;
        book.winds(minutes(1));
        let handed = book.clock.now();
        let taken = ledger::Acknowledgement { entry: entry.clone(), handed, place: None };
        book.winds(minutes(1));
        book.ledger.inbox().acknowledge(&HERON.into(), vec![taken]).await.unwrap();
        book.winds(minutes(1));
        let replying = Request { reply_to: Some("m1".into()), ..request(&book, "r1") };
        let (action, _) = begins(&book, replying).await;
        let outcome = Outcome { message_id: Some("4711".into()), ..Outcome::done() };
        book.ledger.outbox().finish(&HERON.into(), &action, &outcome, Some(book.clock.now()), None).await.unwrap();

        let story = book.ledger.traces().entry(&entry).await.unwrap().unwrap();
        let steps: Vec<_> = story.steps.iter().map(|step| (step.what, step.at)).collect();
        let expected = [
            ("accepted", start),
            ("durable", start),
            ("sent to agent", handed),
            ("acknowledged", start + minutes(2)),
            ("answered", start + minutes(3)),
        ];
        assert_eq!(steps, expected);
        assert_eq!(story.linked, [action.to_string()]);
        assert_eq!((story.what.as_str(), story.bot.as_str()), ("inbound", "tb"));
        assert_eq!((story.instance, story.message), (HERON.into(), Some("m1".into())));

        let story = book.ledger.traces().action(&action).await.unwrap().unwrap();
        let steps: Vec<_> = story.steps.iter().map(|step| step.what).collect();
        assert_eq!(steps, ["accepted", "posted", "done"]);
        assert_eq!(story.linked, [entry.to_string()]);
        assert_eq!((story.what.as_str(), story.chat), ("send", Some("chat-1".into())));
    }

    async fn a_failed_action_says_why_and_an_unfinished_one_says_nothing_more(book) {
        let (failed, _) = begins(&book, request(&book, "r1")).await;
        let refused = Outcome { error: Some("forbidden".to_owned()), ..Outcome::default() };
        book.ledger.outbox().finish(&HERON.into(), &failed, &refused, None, None).await.unwrap();
        let story = book.ledger.traces().action(&failed).await.unwrap().unwrap();
        let last = story.steps.last().unwrap();
        assert_eq!((last.what, last.note.as_deref()), ("failed", Some("forbidden")));

        let (open, _) = begins(&book, request(&book, "r2")).await;
        let story = book.ledger.traces().action(&open).await.unwrap().unwrap();
        assert_eq!(story.steps.iter().map(|step| step.what).collect::<Vec<_>>(), ["accepted"]);
    }

    async fn a_message_is_found_by_platform_chat_and_its_own_id_whoever_wrote_it(book) {
        let entry = book.keeps(HERON, "m1").await;
        book.keeps(HERON, "m2").await;
        let (action, _) = begins(&book, request(&book, "r1")).await;
        let outcome = Outcome { message_id: Some("4711".into()), ..Outcome::done() };
        book.ledger.outbox().finish(&HERON.into(), &action, &outcome, None, None).await.unwrap();
        let traces = book.ledger.traces();
        let (telegram, chat) = ("telegram".into(), "chat-1".into());
        let inbound = traces.message(&telegram, &chat, &"m1".into()).await.unwrap();
        assert_eq!(inbound.iter().map(|story| &story.id[..]).collect::<Vec<_>>(), [entry.as_str()]);
        let ours = traces.message(&telegram, &chat, &"4711".into()).await.unwrap();
        assert_eq!(ours.iter().map(|story| &story.id[..]).collect::<Vec<_>>(), [action.as_str()]);
        assert!(traces.message(&"discord".into(), &chat, &"m1".into()).await.unwrap().is_empty());
        assert!(traces.message(&telegram, &"chat-2".into(), &"m1".into()).await.unwrap().is_empty());
    }

    async fn an_id_that_names_nothing_has_no_story(book) {
        for id in ["", "ent_", "act_0", "nonsense\u{0}"] {
            assert!(book.ledger.traces().entry(&EntryId::new(id)).await.unwrap().is_none());
            assert!(book.ledger.traces().action(&ActionId::new(id)).await.unwrap().is_none());
        }
        assert!(book.ledger.traces().entry(&EntryId::mint(5)).await.unwrap().is_none());
        assert!(book.ledger.traces().action(&ActionId::mint(5)).await.unwrap().is_none());
    }
}
