//! Receipts of everything that programs send.

mod carried;
mod conversations;
mod edits;
mod lists;
mod outgoing;
mod prune;
mod replies;
mod trace;

use bytes::Bytes;
use ledger::{
    Append, Appended, AttemptOutcome, DispatchVerb, NewReceipt, NewReply, Opened, Opening, Receipt,
    ReceiptFilter, ReceiptKey, ReceiptState, ReplyKind,
};
use posthouse_time::Moment;
use posthouse_wire::EntryId;

use crate::book::{Book, minutes};

const HERON: &str = "inst_acme_heron";
const OTTER: &str = "inst_acme_otter";

/// A message of a program to heron over the relay connection. The same dispatch and text are the same
/// delivery.
fn word(book: &Book, dispatch: &str, word: &str) -> NewReceipt {
    let mut digest = [0; 16];
    digest.iter_mut().zip(word.bytes()).for_each(|(digest, byte)| *digest = byte);
    NewReceipt {
        tenant: "ten_acme".into(),
        dispatch: dispatch.into(),
        digest,
        connector: "relay".to_owned(),
        agent: "heron".to_owned(),
        instance: Some(HERON.into()),
        chat: Some("post-ci".into()),
        session: Some("ci".to_owned()),
        verb: DispatchVerb::Deliver,
        sender: "tenant:ten_acme".into(),
        sent_by: None,
        sent_at: book.clock.now(),
        accepted: book.clock.now(),
        skipped: false,
        open: Opening::Entry,
    }
}

/// The same to an agent behind a connector.
pub fn call(book: &Book, dispatch: &str, text: &str) -> NewReceipt {
    NewReceipt {
        connector: "hook".to_owned(),
        instance: None,
        chat: None,
        session: None,
        open: Opening::Attempt { body: body(text), due: book.clock.now() + minutes(1) },
        ..word(book, dispatch, text)
    }
}

fn scheduled(book: &Book, dispatch: &str, text: &str, at: Moment) -> NewReceipt {
    NewReceipt {
        verb: DispatchVerb::Wake,
        open: Opening::Scheduled { body: body(text), at },
        ..word(book, dispatch, text)
    }
}

fn body(text: &str) -> Bytes {
    Bytes::from(format!("body of {text}"))
}

fn letter(book: &Book, receipt: NewReceipt) -> Append {
    let to = receipt.instance.clone().expect("the recipient of a relay message");
    let chat = receipt.chat.clone().expect("the conversation of a relay message");
    let message = receipt.dispatch.as_str().to_owned();
    Append {
        platform: "post".into(),
        bot: "post".into(),
        chat,
        receipt: Some(Box::new(receipt)),
        ..book.letter(to.as_str(), &message)
    }
}

async fn kept(book: &Book, receipt: NewReceipt) -> EntryId {
    book.keeps_letter(letter(book, receipt)).await
}

async fn appended(book: &Book, receipt: NewReceipt) -> Appended {
    book.ledger.inbox().append(letter(book, receipt)).await.unwrap()
}

async fn opened(book: &Book, new: NewReceipt) -> ReceiptKey {
    match book.ledger.receipts().open(new).await.unwrap() {
        Opened::Fresh(key) => key,
        Opened::Known(receipt) => panic!("{receipt:?} was there before"),
    }
}

async fn known(book: &Book, new: NewReceipt) -> Receipt {
    match book.ledger.receipts().open(new).await.unwrap() {
        Opened::Known(receipt) => *receipt,
        Opened::Fresh(key) => panic!("{key:?} was not there before"),
    }
}

/// The only receipt of a dispatch.
async fn told(book: &Book, dispatch: &str) -> Receipt {
    let mut receipts = book.ledger.receipts().receipts_of(None, None, &dispatch.into()).await.unwrap();
    assert_eq!(receipts.len(), 1, "{receipts:?}");
    receipts.remove(0)
}

async fn state(book: &Book, dispatch: &str) -> ReceiptState {
    told(book, dispatch).await.state
}

async fn attempted(book: &Book, key: ReceiptKey, what: AttemptOutcome) {
    book.ledger.receipts().attempted(key, what).await.unwrap();
}

fn delivered(book: &Book) -> AttemptOutcome {
    AttemptOutcome::Delivered { at: book.clock.now(), answer: r#"{"delivered_at":1}"#.to_owned() }
}

fn failed() -> AttemptOutcome {
    AttemptOutcome::Failed { error: "no such pane".to_owned(), answer: None }
}

fn postponed(due: Moment) -> AttemptOutcome {
    AttemptOutcome::Postponed { due, error: "503".to_owned(), answer: "{}".to_owned() }
}

fn utterance(book: &Book, text: &str) -> NewReply {
    NewReply {
        at: book.clock.now(),
        what: ReplyKind::Said,
        message: "m".into(),
        text: text.to_owned(),
        unfinished: false,
    }
}

async fn texts(book: &Book, of: ReceiptKey) -> Vec<String> {
    let replies = book.ledger.receipts().replies(of).await.unwrap();
    replies.into_iter().map(|reply| reply.text).collect()
}

/// The dispatches of a list.
async fn listed(book: &Book, filter: ReceiptFilter) -> Vec<String> {
    let receipts = book.ledger.receipts().receipts(filter, None, 100).await.unwrap();
    receipts.into_iter().map(|receipt| receipt.dispatch.to_string()).collect()
}

fn of_acme() -> ReceiptFilter {
    ReceiptFilter { tenant: Some("ten_acme".into()), ..ReceiptFilter::default() }
}

stories! {
    async fn a_receipt_tells_everything_that_was_noted(book) {
        let new = NewReceipt {
            sender: "operator:ten_acme".into(),
            sent_by: Some(OTTER.into()),
            sent_at: Moment::from_millis(7),
            accepted: Moment::from_millis(7),
            skipped: true,
            ..call(&book, "d1", "hello")
        };
        let key = opened(&book, new.clone()).await;
        let expected = Receipt {
            key,
            tenant: new.tenant.clone(),
            dispatch: new.dispatch.clone(),
            digest: new.digest,
            connector: "hook".to_owned(),
            agent: "heron".to_owned(),
            instance: None,
            chat: None,
            session: None,
            verb: DispatchVerb::Deliver,
            sender: new.sender.clone(),
            sent_by: new.sent_by.clone(),
            sent_at: new.sent_at,
            accepted_at: new.accepted,
            delivered_at: None,
            acknowledged_at: None,
            state: ReceiptState::Queued,
            due: Some(book.clock.now() + minutes(1)),
            attempts: 0,
            error: None,
            skipped: true,
            entry: None,
            answer: None,
        };
        let receipts = book.ledger.receipts();
        let found = receipts.receipt(&new.tenant, &new.dispatch, new.digest).await.unwrap();
        assert_eq!(found, Some(expected.clone()));
        assert_eq!(receipts.receipts_of(Some(&new.tenant), None, &new.dispatch).await.unwrap(), [expected]);
    }

    async fn whoever_sends_with_their_own_credential_is_named_by_it(book) {
        opened(&book, call(&book, "program", "hello")).await;
        let own = NewReceipt { sent_by: Some(OTTER.into()), ..call(&book, "agent", "hello") };
        opened(&book, NewReceipt { sender: format!("agent:{OTTER}").into(), ..own }).await;
        assert_eq!(told(&book, "program").await.sender, "tenant:ten_acme");
        assert_eq!(told(&book, "agent").await.sender, "agent:inst_acme_otter");
    }

    async fn the_same_delivery_again_is_answered_with_the_first_receipt(book) {
        let first = opened(&book, call(&book, "d1", "hello")).await;
        book.winds(minutes(1));
        attempted(&book, first, delivered(&book)).await;
        let again = known(&book, call(&book, "d1", "hello")).await;
        assert_eq!((again.key, again.state), (first, ReceiptState::Delivered));
        assert_eq!(again.answer.as_deref(), Some(r#"{"delivered_at":1}"#));
        let other_text = opened(&book, call(&book, "d1", "good evening")).await;
        assert!(other_text > first, "the same id over another text is another delivery");
        let receipts = book.ledger.receipts().receipts_of(None, None, &"d1".into()).await.unwrap();
        assert_eq!(receipts.iter().map(|receipt| receipt.key).collect::<Vec<_>>(), [first, other_text]);
    }

    async fn the_same_words_of_another_tenant_are_another_delivery(book) {
        let ours = call(&book, "d1", "hello");
        let theirs = NewReceipt { tenant: "ten_zeta".into(), ..ours.clone() };
        let (first, second) = (opened(&book, ours.clone()).await, opened(&book, theirs.clone()).await);
        let receipts = book.ledger.receipts();
        for (tenant, key) in [(&ours.tenant, first), (&theirs.tenant, second)] {
            let found = receipts.receipts_of(Some(tenant), None, &"d1".into()).await.unwrap();
            assert_eq!(found.iter().map(|receipt| receipt.key).collect::<Vec<_>>(), [key]);
            let found = receipts.receipt(tenant, &"d1".into(), ours.digest).await.unwrap().unwrap();
            assert_eq!(found.key, key);
        }
        assert_eq!(receipts.receipts_of(None, None, &"d1".into()).await.unwrap().len(), 2, "the operator sees both");
        let nobody = "ten_nobody".into();
        assert_eq!(receipts.receipts_of(Some(&nobody), None, &"d1".into()).await.unwrap(), []);
        assert_eq!(receipts.receipt(&nobody, &"d1".into(), ours.digest).await.unwrap(), None);
    }

    async fn what_an_entry_carries_is_opened_with_the_entry_only(book) {
        assert!(book.ledger.receipts().open(word(&book, "d1", "hello")).await.is_err());
        assert_eq!(book.ledger.receipts().receipts_of(None, None, &"d1".into()).await.unwrap(), []);
    }
}

#[tokio::test]
async fn receipts_survive_the_server() {
    let book = Book::in_a_folder().await;
    let entry = kept(&book, word(&book, "relayed", "hello")).await;
    let queued = opened(&book, call(&book, "call", "hello")).await;
    let later = opened(&book, scheduled(&book, "wake", "hello", book.clock.now() + minutes(9))).await;
    let said =
        book.ledger.receipts().said(&HERON.into(), &"post-ci".into(), None, utterance(&book, "aye")).await;
    let book = book.reopened().await;
    assert_eq!(told(&book, "relayed").await.entry, Some(entry));
    assert_eq!(texts(&book, said.unwrap().unwrap()).await, ["aye"]);
    assert_eq!(known(&book, call(&book, "call", "hello")).await.key, queued);
    let receipts = book.ledger.receipts();
    assert_eq!(receipts.next_outgoing(&[]).await.unwrap(), Some(minutes(1)));
    book.winds(minutes(9));
    let now = book.clock.now();
    let outgoing = receipts.claim_outgoing(now + minutes(1), &[], 10).await.unwrap();
    assert_eq!(
        outgoing.iter().map(|out| (out.receipt.key, out.body.clone())).collect::<Vec<_>>(),
        [(queued, body("hello"))]
    );
    let brought = receipts.start_scheduled(later, now + minutes(1)).await.unwrap().unwrap();
    assert_eq!(brought.body, body("hello"));
}
