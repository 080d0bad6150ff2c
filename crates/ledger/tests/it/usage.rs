//! Storage of each tenant: counting, limits and release.

use bytes::Bytes;
use ledger::{
    Append, Appended, AskResult, AttemptOutcome, DispatchVerb, LimitReached, NewExchange, NewReceipt,
    NewReply, Opened, Opening, ReplyKind, Request, TenantStorage,
};
use posthouse_wire::InstanceId;

use crate::book::{Book, days, hours, minutes};
use crate::outbox::{begins, request};
use crate::rooms::{line, room};

fn storage(book: &Book, tenant: &str) -> TenantStorage {
    book.ledger.usage().of_tenant(&format!("ten_{tenant}").into())
}

fn used(book: &Book, tenant: &str) -> i64 {
    storage(book, tenant).used
}

async fn limit(book: &Book, tenant: &str, bytes: i64) {
    book.ledger.usage().set_tenant_limit(&format!("ten_{tenant}").into(), Some(bytes)).await.unwrap();
}

/// A delivery that a connector is to make.
fn call(book: &Book, dispatch: &str, body: &str) -> NewReceipt {
    NewReceipt {
        tenant: "ten_acme".into(),
        dispatch: dispatch.into(),
        digest: [7; 16],
        connector: "hook".to_owned(),
        agent: "heron".to_owned(),
        instance: None,
        chat: None,
        session: None,
        verb: DispatchVerb::Deliver,
        sender: "tenant:ten_acme".into(),
        sent_by: None,
        sent_at: book.clock.now(),
        accepted: book.clock.now(),
        skipped: false,
        open: Opening::Attempt { body: Bytes::from(body.to_owned()), due: book.clock.now() + minutes(1) },
    }
}

fn reply(book: &Book, message: &str, text: &str) -> NewReply {
    NewReply {
        at: book.clock.now(),
        what: ReplyKind::Said,
        message: message.into(),
        text: text.to_owned(),
        unfinished: false,
    }
}

/// Stores something of every kind for acme, and returns how much each added.
async fn stores_everything(book: &Book, heron: &InstanceId) -> Vec<(&'static str, i64)> {
    let mut stored = Vec::new();
    let mut before = used(book, "acme");
    let mut counted = |what| {
        let now = used(book, "acme");
        stored.push((what, now - before));
        before = now;
    };
    let thousand = "x".repeat(1000);
    book.keeps_letter(Append {
        event: Bytes::from(thousand.clone()),
        ..book.letter(heron.as_str(), "unread")
    })
    .await;
    counted("an unread entry");
    let Opened::Fresh(key) = book.ledger.receipts().open(call(book, "d1", &thousand)).await.unwrap() else {
        panic!("it is new")
    };
    counted("a receipt");
    book.ledger.receipts().replied(key, reply(book, "m1", &thousand)).await.unwrap();
    counted("a reply");
    let question = NewExchange {
        tenant: "ten_acme".into(),
        correlation: "q1".into(),
        caller: "tenant:ten_acme".into(),
        connector: "hook".to_owned(),
        agent: "heron".to_owned(),
        instance: None,
        chat: None,
        dispatch: "d2".into(),
        digest: [7; 16],
        opened: book.clock.now(),
        deadline: book.clock.now() + minutes(5),
        reply_token: None,
        collected: false,
    };
    let asked = book.ledger.exchanges().ask(question, call(book, "d2", "?"), 10).await.unwrap();
    assert!(matches!(asked, AskResult::Opened(_)));
    counted("a question");
    let (tenant, now) = ("ten_acme".into(), book.clock.now());
    book.ledger.exchanges().answer(&tenant, &"q1".into(), &thousand, 1, now).await.unwrap();
    counted("an answer");
    book.invites(heron, "ada").await;
    book.ledger.rooms().enter(room(book, "web-1", heron, "ada")).await.unwrap();
    book.ledger.rooms().say(&"web-1".into(), line(book, "1", true, &thousand)).await.unwrap();
    counted("a line of a room");
    stored
}

stories! {
    async fn whatever_a_tenant_stores_counts_and_is_given_back_when_it_goes(book) {
        let heron = book.enrols("acme", "heron").await;
        book.enrols("globex", "otter").await;
        for (what, bytes) in stores_everything(&book, &heron).await {
            assert!((500..2500).contains(&bytes), "{what}: {bytes}");
        }
        assert_eq!(used(&book, "globex"), 0);
        // Rooms are kept longest, for ninety days; the newest receipt is never deleted.
        let dispatch = call(&book, "d3", "");
        book.winds(days(91));
        let Opened::Fresh(key) = book.ledger.receipts().open(dispatch).await.unwrap() else { panic!() };
        let done = AttemptOutcome::Delivered { at: book.clock.now(), answer: String::new() };
        book.ledger.receipts().attempted(key, done).await.unwrap();
        book.prunes().await;
        assert_eq!(used(&book, "acme"), 512, "the newest receipt alone");
    }

    async fn a_tenant_without_room_is_refused_and_another_gets_its_share(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("globex", "otter").await;
        limit(&book, "acme", 2100).await;
        let first = book.keeps(heron.as_str(), "one").await;
        let filling = Append { event: Bytes::from(vec![b'x'; 1500]), ..book.letter(heron.as_str(), "two") };
        book.keeps_letter(filling).await;
        assert!(!storage(&book, "acme").has_room());
        let refused = book.ledger.inbox().append(book.letter(heron.as_str(), "three")).await.unwrap();
        assert_eq!(refused, Appended::Refused(LimitReached::Tenant));
        assert!(!book.ledger.usage().has_room_for(&heron));
        assert_eq!(
            book.ledger.inbox().append(book.letter(heron.as_str(), "one")).await.unwrap(),
            Appended::Known(first.clone()),
            "a repeat needs no room"
        );
        assert!(book.ledger.usage().has_room_for(&otter));
        book.keeps(otter.as_str(), "another tenant").await;
        book.acknowledges(heron.as_str(), &[&first]).await;
        book.keeps(heron.as_str(), "three").await;
        book.ledger.usage().set_tenant_limit(&"ten_acme".into(), None).await.unwrap();
        let storage = storage(&book, "acme");
        assert_eq!((storage.limit, storage.own_limit), (ledger::TENANT_BYTES, false));
    }

    async fn what_was_rolled_back_does_not_count(book) {
        let heron = book.enrols("acme", "heron").await;
        book.keeps(heron.as_str(), "kept").await;
        let before = used(&book, "acme");
        book.ledger.fail_writes(Some(("INSERT", "chats"))).await.unwrap();
        let letter = book.sighted(heron.as_str(), "cut off", None, &["key"]);
        assert!(book.ledger.inbox().append(letter).await.is_err());
        assert_eq!(used(&book, "acme"), before);
        // An inbox that was empty before is empty again. A ledger in a debug build checks that when it is closed.
        let otter = book.enrols("globex", "otter").await;
        let letter = book.sighted(otter.as_str(), "cut off", None, &["key"]);
        assert!(book.ledger.inbox().append(letter).await.is_err());
        assert_eq!(book.ledger.inbox().size(&otter).await.unwrap().entries, 0);
    }

    async fn history_past_its_rows_is_taken_from_whoever_has_more_than_their_share(book) {
        let heron = book.enrols("acme", "heron").await;
        let otter = book.enrols("globex", "otter").await;
        book.ledger.limit_history(40);
        let mut quiet = Vec::new();
        for number in 0..10 {
            let entry = book.keeps(otter.as_str(), &format!("quiet {number}")).await;
            book.acknowledges(otter.as_str(), &[&entry]).await;
            quiet.push(entry);
        }
        let mut flood = Vec::new();
        for number in 0..60 {
            let entry = book.keeps(heron.as_str(), &format!("flood {number}")).await;
            book.acknowledges(heron.as_str(), &[&entry]).await;
            flood.push(entry);
        }
        let waiting = book.keeps(heron.as_str(), "still waiting").await;
        book.winds(hours(2));
        book.prunes().await;
        for entry in &quiet {
            assert_eq!(book.steps(entry).await.len(), 4, "the other tenant's week is whole");
        }
        assert!(book.steps(&flood[30]).await.is_empty(), "the oldest go");
        assert!(!book.steps(&flood[31]).await.is_empty(), "as many as are too much");
        assert!(!book.steps(&flood[59]).await.is_empty(), "the latest stay");
        assert_eq!(book.steps(&waiting).await, ["accepted", "durable"]);
        assert_eq!(book.unread(heron.as_str()).await, ["still waiting"]);
    }
}

#[tokio::test]
async fn sums_are_the_same_after_a_restart_also_of_agents_that_were_removed() {
    let book = Book::in_a_folder().await;
    let heron = book.enrols("acme", "heron").await;
    stores_everything(&book, &heron).await;
    begins(&book, Request { instance: heron.clone(), ..request(&book, "r1") }).await;
    let before = used(&book, "acme");
    let book = book.reopened().await;
    assert_eq!(used(&book, "acme"), before);
    let rows = |book: &Book| -> (i64, i64) {
        let one = "SELECT entries, actions FROM tenant_usage WHERE tenant = 'ten_acme'";
        book.beside().query_row(one, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    assert_eq!(rows(&book), (1, 1));
    // Messages and rooms are deleted with an agent; their traces stay for another week.
    book.ledger.roster().remove_instance(&heron).await.unwrap();
    assert_eq!(rows(&book), (1, 1));
    let book = book.reopened().await;
    let otter = book.enrols("acme", "otter").await;
    book.keeps(otter.as_str(), "the newest entry stays").await;
    book.winds(days(15));
    book.prunes().await;
    assert_eq!(rows(&book), (1, 0), "the rows of the removed agent were counted down");
}

#[tokio::test]
async fn a_disk_that_refuses_writes_is_told_until_one_succeeds() {
    let book = Book::in_a_folder().await;
    book.keeps("inst_heron", "before").await;
    assert!(book.ledger.facts().refusal().is_none());
    book.ledger.limit_pages(1).await.unwrap();
    let mut number = 0;
    while book.ledger.facts().refusal().is_none() {
        number += 1;
        let large = Append {
            event: Bytes::from(vec![b'x'; 4000]),
            ..book.letter("inst_heron", &format!("{number}"))
        };
        let _ = book.ledger.inbox().append(large).await;
        assert!(number < 10_000, "the disk never filled");
    }
    // A statement that fails by itself says nothing about the disk, nor does a read.
    book.ledger.inbox().size(&"inst_heron".into()).await.unwrap();
    assert!(matches!(book.ledger.facts().refusal(), Some(ledger::Fault::Full)));
    book.ledger.limit_pages(100_000).await.unwrap();
    book.ledger.facts().prune().await.unwrap();
    assert!(book.ledger.facts().refusal().is_none());
}
