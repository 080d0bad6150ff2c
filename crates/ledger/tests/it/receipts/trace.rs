//! A dispatch in the trace.

use ledger::Story;

use super::*;
use crate::book::{days, minutes};

async fn stories(book: &Book, dispatch: &str) -> Vec<Story> {
    book.ledger.traces().dispatch(&dispatch.into()).await.unwrap()
}

fn steps(story: &Story) -> Vec<(&str, Moment)> {
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
            [("emitted", sent_at), ("accepted", start), ("durable", start), ("handed to seat", start), ("acknowledged", start)];
        assert_eq!(steps(&story), expected, "a program's clock may be ahead of ours");
        assert_eq!(story.steps[0].note.as_deref(), Some("dispatch d1"));
        assert_eq!((story.dispatch.as_ref().unwrap().as_str(), story.what.as_str()), ("d1", "inbound"));
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
        assert!(told.iter().all(|story| story.dispatch == Some("d1".into())));
        let later = start + minutes(1);
        assert_eq!(steps(&told[1]), [("emitted", start), ("accepted", start), ("delivered", later)]);
        assert_eq!(steps(&told[2]), [("emitted", start), ("accepted", start), ("failed", later)]);
        assert_eq!(told[2].steps[2].note.as_deref(), Some("no such pane"));
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
}
