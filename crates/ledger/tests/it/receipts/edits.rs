//! Edits of replies.

use ledger::{REPLIES, REPLY_BYTES, StoredReply};

use super::*;

fn message(book: &Book, id: &str, text: &str) -> NewReply {
    NewReply { message: id.into(), ..utterance(book, text) }
}

async fn says(book: &Book, to: Option<&EntryId>, id: &str, text: &str) -> ReceiptKey {
    let said =
        book.ledger.receipts().said(&HERON.into(), &"post-ci".into(), to, message(book, id, text)).await;
    said.unwrap().expect("a conversation that has begun")
}

async fn edits(book: &Book, by: &str, chat: &str, id: &str, text: &str) -> bool {
    book.ledger.receipts().amended(&by.into(), &chat.into(), message(book, id, text)).await.unwrap()
}

async fn replies(book: &Book, to: ReceiptKey) -> Vec<StoredReply> {
    book.ledger.receipts().replies(to).await.unwrap()
}

stories! {
    async fn an_edit_changes_the_words_where_they_were_said(book) {
        let first = kept(&book, word(&book, "d1", "one")).await;
        let one = says(&book, Some(&first), "m1", "let me see").await;
        says(&book, Some(&first), "m2", "a moment").await;
        kept(&book, word(&book, "d2", "two")).await;
        let two = told(&book, "d2").await.key;
        book.winds(minutes(1));
        let answer = NewReply { what: ReplyKind::Answer, ..message(&book, "m1", "four") };
        assert!(book.ledger.receipts().amended(&HERON.into(), &"post-ci".into(), answer).await.unwrap());
        let now = book.clock.now();
        let [edited, other] = &replies(&book, one).await[..] else { panic!("both are still there") };
        assert_eq!((edited.text.as_str(), edited.what, edited.at), ("four", ReplyKind::Answer, now));
        assert_eq!((edited.message.as_str(), other.text.as_str()), ("m1", "a moment"));
        assert!(replies(&book, two).await.is_empty(), "what it was told last has nothing to do with it");
    }

    async fn nobody_edits_what_another_said_or_what_was_said_elsewhere(book) {
        kept(&book, word(&book, "d1", "one")).await;
        let key = says(&book, None, "m1", "mine").await;
        let otters = NewReceipt { instance: Some(OTTER.into()), agent: "otter".to_owned(), ..word(&book, "d2", "one") };
        kept(&book, otters).await;
        kept(&book, NewReceipt { chat: Some("post-other".into()), ..word(&book, "d3", "one") }).await;
        assert!(!edits(&book, OTTER, "post-ci", "m1", "yours").await);
        assert!(!edits(&book, HERON, "post-other", "m1", "elsewhere").await);
        assert!(!edits(&book, HERON, "post-ci", "m2", "never said").await);
        assert_eq!(texts(&book, key).await, ["mine"]);
        for dispatch in ["d2", "d3"] {
            assert!(texts(&book, told(&book, dispatch).await.key).await.is_empty());
        }
    }

    async fn the_latest_of_the_same_message_id_is_meant(book) {
        kept(&book, word(&book, "d1", "one")).await;
        let key = says(&book, None, "m", "one").await;
        says(&book, None, "m", "two").await;
        assert!(edits(&book, HERON, "post-ci", "m", "three").await);
        assert_eq!(texts(&book, key).await, ["one", "three"]);
    }

    async fn an_edit_is_kept_to_the_bounds_and_others_go_before_it_does(book) {
        kept(&book, word(&book, "d1", "one")).await;
        let key = says(&book, None, "old", "old").await;
        says(&book, None, "m", "short").await;
        says(&book, None, "new", "new").await;
        assert!(edits(&book, HERON, "post-ci", "m", &"x".repeat(REPLY_BYTES - 3)).await);
        assert_eq!(replies(&book, key).await.iter().map(|reply| reply.message.as_str()).collect::<Vec<_>>(), ["m", "new"]);
        assert!(edits(&book, HERON, "post-ci", "m", &"é".repeat(REPLY_BYTES)).await);
        let kept = replies(&book, key).await;
        assert_eq!((kept.len(), kept[0].message.as_str(), kept[0].text.len()), (1, "m", REPLY_BYTES), "cut");
        assert!(edits(&book, HERON, "post-ci", "m", "short again").await);
        assert_eq!(texts(&book, key).await, ["short again"]);
        assert!(!edits(&book, HERON, "post-ci", "old", "too late").await, "it was let go");
    }

    async fn many_edits_are_one_reply(book) {
        kept(&book, word(&book, "d1", "one")).await;
        let key = says(&book, None, "before", "before").await;
        says(&book, None, "m", "").await;
        for number in 0..REPLIES + 5 {
            assert!(edits(&book, HERON, "post-ci", "m", &number.to_string()).await);
        }
        assert_eq!(texts(&book, key).await, ["before", "24"]);
    }
}
