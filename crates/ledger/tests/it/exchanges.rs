//! Exchanges, from asking a question to its end.

mod looked_for;

use std::collections::HashSet;

use bytes::Bytes;
use ledger::{
    Answered, AskResult, DispatchVerb, Exchange, ExchangeState, NewExchange, NewReceipt, Opening, Removed,
    TokenHash,
};
use posthouse_time::Moment;
use posthouse_wire::delivery::{Cause, DeliveryFailed};

use crate::book::{Book, days, hours, minutes};

const MOST: u32 = 3;
const HERON: &str = "inst_acme_heron";

/// A question to heron, open for five minutes.
fn question(book: &Book, correlation: &str) -> NewExchange {
    NewExchange {
        tenant: "ten_acme".into(),
        correlation: correlation.into(),
        caller: "tenant:ten_acme".into(),
        connector: "relay".to_owned(),
        agent: "heron".to_owned(),
        instance: Some(HERON.into()),
        chat: Some(format!("post-x-{correlation}").into()),
        dispatch: "d1".into(),
        digest: [7; 16],
        opened: book.clock.now(),
        deadline: book.clock.now() + minutes(5),
        reply_token: None,
        collected: false,
    }
}

async fn asks(book: &Book, new: NewExchange) -> AskResult {
    let receipt = NewReceipt {
        tenant: new.tenant.clone(),
        dispatch: new.dispatch.clone(),
        digest: new.digest,
        connector: new.connector.clone(),
        agent: new.agent.clone(),
        instance: new.instance.clone(),
        chat: new.chat.clone(),
        session: None,
        verb: DispatchVerb::Exchange,
        sender: new.caller.clone(),
        sent_by: None,
        sent_at: new.opened,
        accepted: new.opened,
        skipped: false,
        open: Opening::Attempt { body: Bytes::from_static(b"?"), due: new.opened + minutes(1) },
    };
    book.ledger.exchanges().ask(new, receipt, MOST).await.unwrap()
}

async fn opens(book: &Book, new: NewExchange) {
    assert!(matches!(asks(book, new).await, AskResult::Opened(_)));
}

async fn answers(book: &Book, correlation: &str, content: &str) -> Answered {
    let now = book.clock.now();
    let exchanges = book.ledger.exchanges();
    exchanges.answer(&"ten_acme".into(), &correlation.into(), content, 42, now).await.unwrap()
}

async fn found(book: &Book, correlation: &str) -> Option<Exchange> {
    book.ledger.exchanges().exchange(&"ten_acme".into(), &correlation.into()).await.unwrap()
}

async fn told(book: &Book, correlation: &str) -> Exchange {
    found(book, correlation).await.unwrap()
}

async fn expires(book: &Book, at_most: u32) -> Vec<String> {
    let ended = book.ledger.exchanges().expire(book.clock.now(), at_most, HashSet::new()).await.unwrap();
    ended.into_iter().map(|(tenant, correlation)| format!("{tenant} {correlation}")).collect()
}

async fn listed(book: &Book, tenant: &str, caller: Option<&str>) -> Vec<String> {
    let caller = caller.map(Into::into);
    let page = book.ledger.exchanges().exchanges(&tenant.into(), caller.as_ref(), None, 100).await.unwrap();
    page.into_iter().map(|exchange| exchange.correlation.to_string()).collect()
}

stories! {
    async fn an_answer_that_has_to_be_looked_for_is_overdue_once_its_time_is_up_and_until_it_came(book) {
        for (correlation, collected) in [("c1", true), ("c2", true), ("c3", false)] {
            opens(&book, NewExchange { collected, ..question(&book, correlation) }).await;
        }
        let exchanges = book.ledger.exchanges();
        let overdue = async |since| {
            let found: Vec<(i64, Exchange)> = exchanges.overdue(since, None, 10).await.unwrap();
            found.into_iter().map(|(_, exchange)| exchange.correlation.to_string()).collect::<Vec<_>>()
        };
        let opened = book.clock.now();
        assert_eq!(overdue(opened).await, [""; 0], "they are still open");
        assert_eq!(answers(&book, "c2", "in time").await, Answered::First);
        book.winds(minutes(6));
        assert_eq!(expires(&book, 10).await.len(), 2);
        assert_eq!(overdue(opened).await, ["c1"]);
        assert_eq!(overdue(book.clock.now()).await, [""; 0], "it ended before that");
        exchanges.stop_looking(&"ten_acme".into(), &"c1".into()).await.unwrap();
        assert_eq!(overdue(opened).await, [""; 0]);
    }

    async fn a_question_is_kept_as_it_was_asked(book) {
        let new = NewExchange { reply_token: Some(TokenHash([9; 32])), ..question(&book, "c1") };
        opens(&book, new.clone()).await;
        let expected = Exchange {
            tenant: new.tenant,
            correlation: new.correlation,
            caller: new.caller,
            connector: new.connector,
            agent: new.agent,
            instance: new.instance,
            chat: new.chat,
            dispatch: new.dispatch,
            digest: new.digest,
            opened: new.opened,
            deadline: new.deadline,
            left: minutes(5),
            state: ExchangeState::Open,
            ended: None,
            answer: None,
            error: None,
        };
        assert_eq!(told(&book, "c1").await, expected);
        let exchanges = book.ledger.exchanges();
        let in_chat = exchanges.exchange_in(&HERON.into(), &"post-x-c1".into()).await.unwrap();
        assert_eq!(in_chat.as_ref(), Some(&expected));
        assert_eq!(exchanges.exchange_of_token(TokenHash([9; 32])).await.unwrap(), Some(expected));
        assert_eq!(exchanges.exchange_of_token(TokenHash([8; 32])).await.unwrap(), None);
    }

    async fn the_same_caller_attaches_to_the_same_question(book) {
        opens(&book, question(&book, "c1")).await;
        let again = NewExchange { dispatch: "d2".into(), opened: Moment::from_millis(1), ..question(&book, "c1") };
        assert_eq!(asks(&book, again.clone()).await, AskResult::Attached(Box::new(told(&book, "c1").await)));
        answers(&book, "c1", "forty-two").await;
        let AskResult::Attached(answered) = asks(&book, again).await else { panic!("it is the same question") };
        assert_eq!(answered.answer, Some(("forty-two".to_owned(), 42)), "also after it was answered");
        assert_eq!(answered.dispatch, "d1");
    }

    async fn an_id_belongs_to_one_question_of_one_caller(book) {
        opens(&book, question(&book, "c1")).await;
        assert_eq!(asks(&book, NewExchange { digest: [8; 16], ..question(&book, "c1") }).await, AskResult::InUse);
        let other = NewExchange { caller: "agent:inst_acme_otter".into(), ..question(&book, "c1") };
        assert_eq!(asks(&book, other).await, AskResult::InUse);
        opens(&book, NewExchange { tenant: "ten_zeta".into(), ..question(&book, "c1") }).await;
    }

    async fn a_tenant_has_so_many_open_questions_and_no_more(book) {
        for correlation in ["c1", "c2", "c3"] {
            opens(&book, question(&book, correlation)).await;
        }
        assert_eq!(asks(&book, question(&book, "c4")).await, AskResult::TooMany);
        assert_eq!(found(&book, "c4").await, None);
        assert!(matches!(asks(&book, question(&book, "c1")).await, AskResult::Attached(_)), "that opens nothing");
        opens(&book, NewExchange { tenant: "ten_zeta".into(), ..question(&book, "c4") }).await;
        answers(&book, "c2", "done").await;
        opens(&book, question(&book, "c4")).await;
        assert_eq!(asks(&book, question(&book, "c5")).await, AskResult::TooMany);
    }

    async fn the_first_answer_counts(book) {
        opens(&book, question(&book, "c1")).await;
        book.winds(minutes(1));
        assert_eq!(answers(&book, "c1", "first").await, Answered::First);
        assert_eq!(answers(&book, "c1", "second").await, Answered::Duplicate);
        let exchange = told(&book, "c1").await;
        assert_eq!((exchange.state, exchange.ended), (ExchangeState::Answered, Some(book.clock.now())));
        assert_eq!(exchange.answer, Some(("first".to_owned(), 42)));
        book.winds(minutes(10));
        assert_eq!(answers(&book, "c1", "third").await, Answered::Duplicate, "also past the deadline");
        assert!(expires(&book, 10).await.is_empty());
    }

    async fn an_answer_at_the_deadline_is_late_and_ends_the_question(book) {
        opens(&book, question(&book, "c1")).await;
        book.winds(minutes(5));
        assert_eq!(answers(&book, "c1", "sorry").await, Answered::Late);
        let exchange = told(&book, "c1").await;
        assert_eq!((exchange.state, exchange.answer), (ExchangeState::TimedOut, None));
        assert_eq!(exchange.ended, Some(book.clock.now()));
        assert_eq!(answers(&book, "c1", "sorry again").await, Answered::Late);
        assert!(expires(&book, 10).await.is_empty());
    }

    async fn nobody_answers_another_tenants_question(book) {
        opens(&book, NewExchange { tenant: "ten_zeta".into(), ..question(&book, "c1") }).await;
        assert_eq!(answers(&book, "c1", "mine").await, Answered::Absent);
        assert_eq!(found(&book, "c1").await, None);
        let exchanges = book.ledger.exchanges();
        exchanges.fail(&"ten_acme".into(), &"c1".into(), "{}", book.clock.now()).await.unwrap();
        let theirs = exchanges.exchange(&"ten_zeta".into(), &"c1".into()).await.unwrap().unwrap();
        assert_eq!((theirs.state, theirs.answer), (ExchangeState::Open, None));
        let otter = exchanges.exchange_in(&"inst_acme_otter".into(), &"post-x-c1".into()).await.unwrap();
        assert_eq!(otter, None, "a question is found by the agent it was put to");
        assert_eq!(exchanges.exchange_in(&HERON.into(), &"post-x-c2".into()).await.unwrap(), None);
    }

    async fn a_question_that_could_not_be_put_has_failed_and_stays_so(book) {
        opens(&book, question(&book, "c1")).await;
        opens(&book, question(&book, "c2")).await;
        answers(&book, "c2", "done").await;
        for correlation in ["c1", "c2", "c3"] {
            let now = book.clock.now();
            book.ledger.exchanges().fail(&"ten_acme".into(), &correlation.into(), "{}", now).await.unwrap();
        }
        let exchange = told(&book, "c1").await;
        assert_eq!((exchange.state, exchange.error.as_deref()), (ExchangeState::Failed, Some("{}")));
        assert_eq!(told(&book, "c2").await.state, ExchangeState::Answered);
        assert_eq!(answers(&book, "c1", "I heard it after all").await, Answered::Late);
        assert_eq!(told(&book, "c1").await.answer, None);
    }

    async fn what_is_open_at_its_deadline_times_out_a_little_at_a_time(book) {
        assert_eq!(book.ledger.exchanges().next_deadline().await.unwrap(), None);
        let start = book.clock.now();
        for (correlation, after) in [("c3", 3), ("c1", 1), ("c2", 2)] {
            opens(&book, NewExchange { deadline: start + minutes(after), ..question(&book, correlation) }).await;
        }
        let next = || async { book.ledger.exchanges().next_deadline().await.unwrap() };
        assert_eq!(next().await, Some(minutes(1)));
        assert!(expires(&book, 10).await.is_empty());
        book.winds(minutes(2));
        assert_eq!(expires(&book, 1).await, ["ten_acme c1"]);
        assert_eq!(expires(&book, 10).await, ["ten_acme c2"]);
        assert!(expires(&book, 10).await.is_empty());
        assert_eq!(next().await, Some(minutes(1)));
        assert_eq!(told(&book, "c1").await.state, ExchangeState::TimedOut);
        assert_eq!(told(&book, "c3").await.state, ExchangeState::Open);
    }

    async fn questions_are_listed_newest_first_and_page_by_page(book) {
        for (correlation, caller) in [("a", "tenant:ten_acme"), ("c", "agent:otter"), ("b", "tenant:ten_acme")] {
            opens(&book, NewExchange { caller: caller.into(), ..question(&book, correlation) }).await;
        }
        answers(&book, "a", "done").await;
        book.winds(minutes(1));
        opens(&book, question(&book, "0")).await;
        opens(&book, NewExchange { tenant: "ten_zeta".into(), ..question(&book, "z") }).await;
        assert_eq!(listed(&book, "ten_acme", None).await, ["0", "c", "b", "a"]);
        assert_eq!(listed(&book, "ten_acme", Some("agent:otter")).await, ["c"]);
        assert_eq!(listed(&book, "ten_acme", Some("tenant:ten_acme")).await, ["0", "b", "a"]);
        assert_eq!(listed(&book, "ten_zeta", None).await, ["z"]);
        assert_eq!(listed(&book, "ten_zeta", Some("agent:otter")).await, [""; 0]);
        let (mut before, mut seen) = (None, Vec::new());
        loop {
            let page = book.ledger.exchanges().exchanges(&"ten_acme".into(), None, before, 1).await.unwrap();
            let Some(last) = page.last() else { break };
            before = Some((last.opened, last.correlation.clone()));
            seen.push(last.correlation.to_string());
        }
        assert_eq!(seen, ["0", "c", "b", "a"]);
    }

    async fn questions_to_an_agent_that_is_removed_have_failed(book) {
        let heron = book.enrols("acme", "heron").await;
        opens(&book, question(&book, "open")).await;
        opens(&book, question(&book, "answered")).await;
        answers(&book, "answered", "done").await;
        let otter = NewExchange { instance: Some("inst_acme_otter".into()), ..question(&book, "otters") };
        opens(&book, otter).await;
        assert_eq!(book.ledger.roster().remove_instance(&heron).await.unwrap(), Removed::Gone);
        let exchange = told(&book, "open").await;
        assert_eq!((exchange.state, exchange.ended), (ExchangeState::Failed, Some(book.clock.now())));
        let error: DeliveryFailed = serde_json::from_str(&exchange.error.unwrap()).unwrap();
        assert_eq!((error.agent_id.as_str(), error.cause_kind), ("heron", Cause::ClientValidation));
        assert_eq!(told(&book, "answered").await.state, ExchangeState::Answered);
        assert_eq!(told(&book, "otters").await.state, ExchangeState::Open);
    }

    async fn a_step_of_the_wall_clock_deletes_no_question_that_ended(book) {
        opens(&book, question(&book, "answered")).await;
        answers(&book, "answered", "done").await;
        for wall in [book.clock.now() + days(100), book.clock.now() - days(100)] {
            book.clock.set(wall);
            book.prunes().await;
            assert_eq!(listed(&book, "ten_acme", None).await, ["answered"]);
        }
    }

    async fn questions_are_kept_for_a_week_after_their_end(book) {
        opens(&book, question(&book, "answered")).await;
        opens(&book, NewExchange { deadline: book.clock.now() + days(60), ..question(&book, "open") }).await;
        book.winds(minutes(1));
        answers(&book, "answered", "done").await;
        book.winds(days(7) - hours(1));
        book.prunes().await;
        assert_eq!(listed(&book, "ten_acme", None).await, ["open", "answered"]);
        book.winds(hours(2));
        book.prunes().await;
        assert_eq!(listed(&book, "ten_acme", None).await, ["open"]);
        opens(&book, question(&book, "answered")).await;
    }
}

#[tokio::test]
async fn a_question_stays_open_across_a_restart() {
    let book = Book::in_a_folder().await;
    opens(&book, question(&book, "c1")).await;
    opens(&book, question(&book, "c2")).await;
    let book = book.reopened().await;
    assert!(matches!(asks(&book, question(&book, "c1")).await, AskResult::Attached(_)));
    assert_eq!(answers(&book, "c1", "still here").await, Answered::First);
    let book = book.reopened().await;
    assert_eq!(answers(&book, "c1", "again").await, Answered::Duplicate);
    book.winds(minutes(9));
    assert_eq!(expires(&book, 10).await, ["ten_acme c2"]);
}
