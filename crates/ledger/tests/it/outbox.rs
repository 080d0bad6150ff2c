use ledger::{BeginOutcome, Request};
use posthouse_wire::{ActionId, EntryId, Outcome};

use crate::book::Book;

const HERON: &str = "inst_heron";

pub fn request(book: &Book, id: &str) -> Request {
    Request {
        gateway: "gw".into(),
        request: id.into(),
        instance: HERON.into(),
        op: "send".to_owned(),
        platform: "telegram".into(),
        bot: "tb".into(),
        chat: Some("chat-1".into()),
        reply_to: None,
        received: book.clock.now(),
    }
}

pub async fn begins(book: &Book, request: Request) -> (ActionId, Option<EntryId>) {
    match book.ledger.outbox().begin(request).await.unwrap() {
        BeginOutcome::Fresh { action, answers } => (action, answers),
        other => panic!("it should be new: {other:?}"),
    }
}

stories! {
    async fn a_request_is_acted_on_once_and_its_answer_remembered(book) {
        let outbox = book.ledger.outbox();
        let (action, answers) = begins(&book, request(&book, "r1")).await;
        assert_eq!(answers, None);
        let outcome = Outcome { message_id: Some("4711".into()), ..Outcome::done() };
        outbox.finish(&HERON.into(), &action, &outcome, Some(book.clock.now()), None).await.unwrap();
        let again = outbox.begin(request(&book, "r1")).await.unwrap();
        assert_eq!(again, BeginOutcome::Finished { action, outcome });
    }

    async fn a_request_that_was_cut_off_is_not_begun_again(book) {
        let (action, _) = begins(&book, request(&book, "r1")).await;
        let again = book.ledger.outbox().begin(request(&book, "r1")).await.unwrap();
        assert_eq!(again, BeginOutcome::Unfinished { action });
    }

    async fn a_refusal_is_an_answer_to_remember_too(book) {
        let (action, _) = begins(&book, request(&book, "r1")).await;
        let refused = Outcome { error: Some("chat not found".to_owned()), ..Outcome::default() };
        book.ledger.outbox().finish(&HERON.into(), &action, &refused, None, None).await.unwrap();
        let again = book.ledger.outbox().begin(request(&book, "r1")).await.unwrap();
        assert_eq!(again, BeginOutcome::Finished { action, outcome: refused });
    }

    async fn the_first_ending_is_the_one_that_counts(book) {
        let (action, _) = begins(&book, request(&book, "r1")).await;
        book.ledger.outbox().finish(&HERON.into(), &action, &Outcome::done(), None, None).await.unwrap();
        book.ledger.outbox().finish(&HERON.into(), &action, &Outcome::default(), None, None).await.unwrap();
        book.ledger.outbox().finish(&HERON.into(), &"act_nonsense".into(), &Outcome::done(), None, None).await.unwrap();
        let again = book.ledger.outbox().begin(request(&book, "r1")).await.unwrap();
        assert_eq!(again, BeginOutcome::Finished { action, outcome: Outcome::done() });
    }

    async fn two_gateways_may_name_their_requests_alike(book) {
        let (first, _) = begins(&book, request(&book, "r1")).await;
        let (second, _) = begins(&book, Request { gateway: "gw-2".into(), ..request(&book, "r1") }).await;
        assert_ne!(first, second);
    }

    async fn an_action_that_replies_is_linked_to_the_entry_it_answers(book) {
        let entry = book.keeps(HERON, "m1").await;
        book.keeps("inst_otter", "m2").await;
        let replying = |id, to: &str| Request { reply_to: Some(to.into()), ..request(&book, id) };
        assert_eq!(begins(&book, replying("r1", "m1")).await.1, Some(entry));
        assert_eq!(begins(&book, replying("r2", "m2")).await.1, None, "another agent's message is none of its");
        assert_eq!(begins(&book, replying("r3", "unknown")).await.1, None);
        let elsewhere = Request { chat: Some("chat-2".into()), ..replying("r4", "m1") };
        assert_eq!(begins(&book, elsewhere).await.1, None);
    }
}
