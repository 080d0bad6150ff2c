use std::time::Duration;

use ledger::{ArmResult, ArmState, Due, FireAttempt};

use super::{Book, SERVER, about, arm_request, at, postponed, refused};
use crate::book::{hours, minutes};

stories! {
    async fn a_sign_of_life_brings_back_what_failed_and_nothing_else(book) {
        let (heron, otter) = (book.enrols("acme", "heron").await, book.enrols("acme", "otter").await);
        let dead = book.arms(about(&heron, "dead", 0)).await;
        let waiting = book.arms(about(&heron, "waiting", 0)).await;
        let future = book.arms(about(&heron, "future", 7200)).await;
        let held = book.arms(about(&heron, "held", 0)).await;
        let foreign = book.arms(arm_request(&otter, 0)).await;
        for key in [dead, foreign] {
            book.fires(key, ArmResult::Dead { attempt: refused() }).await;
        }
        for key in [waiting, held] {
            book.fires(key, postponed(7000)).await;
        }
        book.claims(&[held], SERVER).await;
        book.winds(hours(1));
        let now_us = at(3600);
        let due = book.ledger.arms().revive(&heron, book.clock.now()).await.unwrap();
        assert_eq!(due, [Due { next_us: now_us, key: dead }, Due { next_us: now_us, key: waiting }]);
        assert_eq!(book.due().await, [dead, waiting, future]);
        let arm = book.ledger.arms().pending(&heron, &"dead".into()).await.unwrap().unwrap();
        assert_eq!((arm.state, arm.attempts, arm.failing_since), (ArmState::Armed, 0, None));
        assert_eq!(arm.last_status, Some(503), "what was wrong is still told");
        let arm = book.ledger.arms().pending(&heron, &"waiting".into()).await.unwrap().unwrap();
        assert_eq!((arm.attempts, arm.failing_since.is_some()), (1, true), "the same series, only sooner");
        let lines = book.lines(&heron).await;
        assert_eq!((lines[0].what.as_str(), lines[0].job.as_str()), ("revived", "dead"));
        assert_eq!(lines[0].next, Some(book.clock.now()));
        assert_eq!(lines[1].what, "attempt", "hastening a retry is no news");
        assert!(book.ledger.arms().revive(&heron, book.clock.now()).await.unwrap().is_empty());
        assert_eq!(book.ledger.arms().count_by_state().await.unwrap(), (4, 1));
    }

    async fn an_attempt_that_may_have_been_heard_is_not_followed_by_another_before_its_time(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.arms(arm_request(&heron, 0)).await;
        let attempt = FireAttempt { unsure: true, ..FireAttempt::default() };
        book.fires(key, ArmResult::Postponed { attempt, next_us: at(9), pause: Duration::ZERO, poked: false }).await;
        assert!(book.ledger.arms().revive(&heron, book.clock.now()).await.unwrap().is_empty());
        assert_eq!(book.pending(&heron).await.next_us, at(9));
    }

    async fn one_job_is_tried_again_on_request(book) {
        let heron = book.enrols("acme", "heron").await;
        let (arms, daily) = (book.ledger.arms(), "daily".into());
        assert_eq!(arms.redrive(&heron, &daily, book.clock.now()).await.unwrap(), None);
        let key = book.arms(arm_request(&heron, 60)).await;
        let early = arms.redrive(&heron, &daily, book.clock.now()).await.unwrap();
        assert_eq!(early, Some(Due { next_us: at(60), key }), "its first attempt never comes early");
        book.winds(minutes(1));
        book.fires(key, postponed(400)).await;
        let sooner = arms.redrive(&heron, &daily, book.clock.now()).await.unwrap();
        assert_eq!(sooner, Some(Due { next_us: at(60), key }));
        assert_eq!(arms.redrive(&heron, &daily, book.clock.now()).await.unwrap(), sooner);
        book.fires(key, ArmResult::Dead { attempt: refused() }).await;
        book.winds(minutes(1));
        let revived = arms.redrive(&heron, &daily, book.clock.now()).await.unwrap();
        assert_eq!(revived, Some(Due { next_us: at(120), key }));
        assert_eq!(book.words(&heron).await, ["revived", "dead", "revived", "attempt"]);
        book.claims(&[key], SERVER).await;
        assert_eq!(arms.redrive(&heron, &daily, book.clock.now()).await.unwrap(), revived);
        assert_eq!(book.pending(&heron).await.state, ArmState::Dispatching);
    }
}

/// In a folder, since in memory reads go through the writer too.
#[tokio::test]
async fn a_sign_of_life_of_a_healthy_agent_costs_no_commit() {
    let book = Book::in_a_folder().await;
    let heron = book.enrols("acme", "heron").await;
    book.arms(arm_request(&heron, 0)).await;
    let before = book.ledger.commits();
    assert!(book.ledger.arms().revive(&heron, book.clock.now()).await.unwrap().is_empty());
    assert_eq!(book.ledger.commits(), before);
}
