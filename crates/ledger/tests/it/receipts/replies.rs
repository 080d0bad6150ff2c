//! Replies of agents.

use ledger::{REPLIES, REPLY_BYTES};

use super::*;

async fn says(book: &Book, by: &str, chat: &str, to: Option<&EntryId>, text: &str) -> Option<ReceiptKey> {
    book.ledger.receipts().said(&by.into(), &chat.into(), to, utterance(book, text)).await.unwrap()
}

stories! {
    async fn words_belong_to_the_entry_they_name_and_otherwise_to_the_latest(book) {
        let first = kept(&book, word(&book, "d1", "one")).await;
        let second = kept(&book, word(&book, "d2", "two")).await;
        let (one, two) = (told(&book, "d1").await.key, told(&book, "d2").await.key);
        assert_eq!(says(&book, HERON, "post-ci", Some(&first), "to the first").await, Some(one));
        assert_eq!(says(&book, HERON, "post-ci", Some(&second), "to the second").await, Some(two));
        assert_eq!(says(&book, HERON, "post-ci", None, "to whom it concerns").await, Some(two));
        assert_eq!(says(&book, HERON, "post-ci", Some(&"nonsense".into()), "hm").await, Some(two));
        assert_eq!(says(&book, HERON, "post-ci", Some(&EntryId::mint(5)), "ha").await, Some(two));
        assert_eq!(texts(&book, one).await, ["to the first"]);
        assert_eq!(texts(&book, two).await, ["to the second", "to whom it concerns", "hm", "ha"]);
    }

    async fn nobody_speaks_in_another_agents_conversation(book) {
        let herons = kept(&book, word(&book, "d1", "one")).await;
        let otters = NewReceipt { instance: Some(OTTER.into()), agent: "otter".to_owned(), ..word(&book, "d2", "one") };
        kept(&book, otters).await;
        let (of_heron, of_otter) = (told(&book, "d1").await.key, told(&book, "d2").await.key);
        assert_eq!(says(&book, OTTER, "post-ci", Some(&herons), "mine").await, Some(of_otter));
        assert_eq!(says(&book, OTTER, "post-other", Some(&herons), "mine").await, None);
        assert_eq!(says(&book, HERON, "post-other", Some(&herons), "elsewhere").await, None, "not in this conversation");
        assert_eq!(says(&book, "inst_zeta", "post-ci", Some(&herons), "mine").await, None);
        assert!(texts(&book, of_heron).await.is_empty());
        assert_eq!(texts(&book, of_otter).await, ["mine"]);
    }

    async fn an_entry_that_no_program_sent_takes_no_words(book) {
        let entry = book.keeps(HERON, "hello").await;
        assert_eq!(says(&book, HERON, "chat-1", Some(&entry), "hello yourself").await, None);
    }

    async fn what_is_only_scheduled_was_not_said_yet(book) {
        kept(&book, word(&book, "now", "one")).await;
        let later = opened(&book, scheduled(&book, "later", "two", book.clock.now() + minutes(5))).await;
        let now = told(&book, "now").await.key;
        assert_eq!(says(&book, HERON, "post-ci", None, "aye").await, Some(now));
        kept(&book, word(&book, "between", "three")).await;
        kept(&book, word(&book, "later", "two")).await;
        assert_eq!(says(&book, HERON, "post-ci", None, "up").await, Some(later), "it came last, if noted first");
    }

    async fn the_latest_twenty_replies_are_kept(book) {
        let key = opened(&book, call(&book, "d1", "hello")).await;
        for number in 0..REPLIES + 5 {
            book.ledger.receipts().replied(key, utterance(&book, &number.to_string())).await.unwrap();
        }
        let expected: Vec<String> = (5..REPLIES + 5).map(|number| number.to_string()).collect();
        assert_eq!(texts(&book, key).await, expected);
    }

    async fn the_latest_64_kib_of_replies_are_kept(book) {
        let key = opened(&book, call(&book, "d1", "hello")).await;
        let receipts = book.ledger.receipts();
        let reply = |text: String| receipts.replied(key, utterance(&book, &text));
        for letter in ["a", "b", "c"] {
            reply(letter.repeat(REPLY_BYTES / 2)).await.unwrap();
        }
        let kept = texts(&book, key).await;
        assert_eq!(kept.iter().map(|text| &text[..1]).collect::<Vec<_>>(), ["b", "c"]);
        reply("d".to_owned()).await.unwrap();
        assert_eq!(texts(&book, key).await.len(), 2, "one byte more and the oldest goes");
        reply("é".repeat(REPLY_BYTES)).await.unwrap();
        let kept = texts(&book, key).await;
        assert_eq!((kept.len(), kept[0].len()), (1, REPLY_BYTES), "one that is longer is cut");
        reply(format!("x{}", "é".repeat(REPLY_BYTES))).await.unwrap();
        assert_eq!(texts(&book, key).await[0].len(), REPLY_BYTES - 1, "between two characters");
    }

    async fn a_reply_says_when_and_what_it_was(book) {
        let key = opened(&book, call(&book, "d1", "hello")).await;
        let kinds = [ReplyKind::Said, ReplyKind::Answer, ReplyKind::Duplicate, ReplyKind::LateReply];
        for what in kinds {
            let reply = NewReply { what, message: what.word().into(), ..utterance(&book, "text") };
            book.ledger.receipts().replied(key, reply).await.unwrap();
        }
        let replies = book.ledger.receipts().replies(key).await.unwrap();
        assert_eq!(replies.iter().map(|reply| reply.what).collect::<Vec<_>>(), kinds);
        assert!(replies.iter().all(|reply| reply.at == book.clock.now() && reply.message == reply.what.word()));
    }

    async fn a_receipt_that_is_gone_takes_nothing(book) {
        book.ledger.receipts().replied(ReceiptKey(4711), utterance(&book, "hello?")).await.unwrap();
        assert!(texts(&book, ReceiptKey(4711)).await.is_empty());
    }
}
