//! A dispatch in the trace.

use ledger::MessageTimeline;
use posthouse_wire::delivery::DeliveryFailed;

use super::*;
use crate::book::{days, minutes};

async fn stories(book: &Book, dispatch: &str) -> Vec<MessageTimeline> {
    book.ledger.traces().dispatch(&dispatch.into()).await.unwrap()
}

fn steps(story: &MessageTimeline) -> Vec<(&str, Moment)> {
    story.steps.iter().map(|step| (step.what, step.at)).collect()
}

stories! {
    async fn the_story_of_an_entry_begins_with_its_emission(book) {
        let start = book.clock.now();
        let sent_at = start + minutes(5);
        let entry = kept(&book, NewReceipt { sent_at, ..word(&book, "d1", "hello") }).await;
        book.acknowledges(HERON, &[&entry]).await;
        let story = book.ledger.traces().entry(&entry).await.unwrap().unwrap();
        let expected =
            [("emitted", sent_at), ("accepted", start), ("durable", start), ("sent to agent", start), ("acknowledged", start)];
        assert_eq!(steps(&story), expected, "a program's clock may be ahead of ours");
        assert_eq!(story.steps[0].note.as_deref(), Some("dispatch d1"));
        assert_eq!((story.dispatch.as_ref().unwrap().id.as_str(), story.what.as_str()), ("d1", "inbound"));
        assert_eq!(stories(&book, "d1").await, [story]);
        let plain = book.keeps(HERON, "plain").await;
        assert_eq!(book.ledger.traces().entry(&plain).await.unwrap().unwrap().dispatch, None);
    }

    async fn a_dispatch_tells_of_everything_it_reached(book) {
        let start = book.clock.now();
        let entry = kept(&book, word(&book, "d1", "hello")).await;
        let called = opened(&book, call(&book, "d1", "called")).await;
        let refused = opened(&book, call(&book, "d1", "refused")).await;
        opened(&book, scheduled(&book, "d1", "later", start + minutes(9))).await;
        book.winds(minutes(1));
        attempted(&book, called, delivered(&book)).await;
        attempted(&book, refused, failed()).await;
        let told = stories(&book, "d1").await;
        assert_eq!(told.iter().map(|story| story.id.as_str()).collect::<Vec<_>>(), [entry.as_str(), "d1", "d1", "d1"]);
        assert!(told.iter().all(|story| story.dispatch.as_ref().is_some_and(|dispatch| dispatch.id == "d1")));
        let later = start + minutes(1);
        assert_eq!(steps(&told[1]), [("emitted", start), ("accepted", start), ("delivered", later)]);
        assert_eq!(steps(&told[2]), [("emitted", start), ("accepted", start), ("failed", later)]);
        assert_eq!(told[2].steps[2].note.as_deref(), Some("no such pane, after 1 attempt"));
        assert_eq!(steps(&told[3]), [("emitted", start), ("accepted", start)]);
        assert_eq!((told[1].platform.as_str(), told[1].bot.as_str(), told[1].what.as_str()), ("hook", "heron", "deliver"));
        assert_eq!((&told[1].instance, &told[3].instance), (&"".into(), &HERON.into()));
        assert_eq!(stories(&book, "d2").await, []);
    }

    async fn a_dispatch_is_told_of_after_its_entry_is_gone(book) {
        let start = book.clock.now();
        let entry = kept(&book, word(&book, "d1", "hello")).await;
        book.winds(minutes(1));
        book.acknowledges(HERON, &[&entry]).await;
        kept(&book, word(&book, "newest", "hello")).await;
        book.winds(days(8));
        book.prunes().await;
        assert!(book.ledger.traces().entry(&entry).await.unwrap().is_none());
        let [story] = &stories(&book, "d1").await[..] else { panic!("one delivery, one story") };
        let taken = start + minutes(1);
        assert_eq!(steps(story), [("emitted", start), ("accepted", start), ("delivered", taken), ("acknowledged", taken)]);
        assert_eq!((story.id.as_str(), story.chat.as_ref()), (entry.as_str(), Some(&"post-ci".into())));
    }

    async fn a_failure_is_told_in_words_with_the_number_of_its_attempts(book) {
        let key = opened(&book, call(&book, "d1", "hello")).await;
        attempted(&book, key, postponed(book.clock.now())).await;
        attempted(&book, key, postponed(book.clock.now())).await;
        let error = DeliveryFailed::http_status("heron", 503, "the receiver answered 503");
        let error = serde_json::to_string(&error).unwrap();
        attempted(&book, key, AttemptOutcome::Failed { error: error.clone(), answer: None }).await;
        let never = opened(&book, scheduled(&book, "d2", "hello", book.clock.now())).await;
        attempted(&book, never, AttemptOutcome::Failed { error, answer: None }).await;
        for (dispatch, why) in [
            ("d1", "http_status: the receiver answered 503, after 3 attempts"),
            ("d2", "http_status: the receiver answered 503"),
        ] {
            let [story] = &stories(&book, dispatch).await[..] else { panic!("one delivery, one story") };
            let last = story.steps.last().unwrap();
            assert_eq!((last.what, last.note.as_deref()), ("failed", Some(why)));
        }
    }

    async fn what_the_agent_said_is_among_the_steps_and_its_words_are_not(book) {
        let start = book.clock.now();
        let called = opened(&book, call(&book, "called", "hello")).await;
        let entry = kept(&book, word(&book, "relayed", "hello")).await;
        let relayed = told(&book, "relayed").await.key;
        attempted(&book, called, delivered(&book)).await;
        book.acknowledges(HERON, &[&entry]).await;
        let kinds = [ReplyKind::Said, ReplyKind::Answer, ReplyKind::Duplicate, ReplyKind::LateReply];
        for what in kinds {
            book.winds(minutes(1));
            for key in [called, relayed] {
                let reply = NewReply { what, ..utterance(&book, "between us") };
                book.ledger.receipts().replied(key, reply).await.unwrap();
            }
        }
        let at = |minute| start + minutes(minute);
        let said = [("said", at(1)), ("answer", at(2)), ("duplicate", at(3)), ("late_reply", at(4))];
        for (dispatch, before) in [("called", 3), ("relayed", 5)] {
            let [story] = &stories(&book, dispatch).await[..] else { panic!("one delivery, one story") };
            assert_eq!(steps(story)[before..], said, "{dispatch}");
            assert!(!format!("{story:?}").contains("between us"));
        }
        assert_eq!(book.ledger.traces().entry(&entry).await.unwrap(), stories(&book, "relayed").await.pop());
    }

    async fn a_late_answer_to_a_question_that_failed_stands_behind_the_failure(book) {
        let key = opened(&book, NewReceipt { verb: DispatchVerb::Exchange, ..call(&book, "d1", "how much?") }).await;
        attempted(&book, key, failed()).await;
        book.winds(minutes(9));
        let late = NewReply { what: ReplyKind::LateReply, ..utterance(&book, "four") };
        book.ledger.receipts().replied(key, late).await.unwrap();
        let [story] = &stories(&book, "d1").await[..] else { panic!("one delivery, one story") };
        let told: Vec<_> = story.steps.iter().map(|step| step.what).collect();
        assert_eq!(told, ["emitted", "accepted", "failed", "late_reply"]);
    }
}
