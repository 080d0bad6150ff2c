use std::time::Duration;

use ledger::{ArmFate, ArmKey, ArmResult, ArmState, Armed, Due, FireAttempt};
use posthouse_wire::cron::FireAt;

use super::{Book, SERVER, about, arm_request, at, delivered, ended, followed_by, postponed, refused};
use crate::book::{hours, minutes};

const OTHER: &str = "server-2";

stories! {
    async fn the_heap_is_filled_by_pages_in_order(book) {
        let heron = book.enrols("acme", "heron").await;
        let mut keys = Vec::new();
        for (job, seconds) in [("c", 30), ("a", 10), ("b2", 20), ("b1", 20), ("d", 40)] {
            keys.push(book.arms(about(&heron, job, seconds)).await);
        }
        let ordered = [(10, keys[1]), (20, keys[2]), (20, keys[3]), (30, keys[0])];
        let (mut last, mut seen) = (Due { next_us: i64::MIN, key: ArmKey(0) }, Vec::new());
        loop {
            let page = book.ledger.arms().due(last, at(40), 1).await.unwrap();
            let Some(due) = page.first() else { break };
            last = *due;
            seen.push(*due);
        }
        assert_eq!(seen, ordered.map(|(seconds, key)| Due { next_us: at(seconds), key }));
        assert_eq!(book.ledger.arms().due(last, i64::MAX, 9).await.unwrap().len(), 1, "before, not at, the end");
    }

    async fn what_is_taken_is_nobody_elses(book) {
        let heron = book.enrols("acme", "heron").await;
        let first = book.arms(about(&heron, "one", 0)).await;
        let second = book.arms(about(&heron, "two", 0)).await;
        let lease = book.clock.now() + minutes(1);
        let held = book.ledger.arms().claim(vec![first, first, ArmKey(99)], SERVER, lease).await.unwrap();
        assert_eq!(held.len(), 1, "once, and what is not there is left out");
        assert_eq!((held[0].key, held[0].state, held[0].job.as_str()), (first, ArmState::Dispatching, "one"));
        assert_eq!(book.claims(&[first, second], OTHER).await, [second]);
        assert!(book.due().await.is_empty());
        assert_eq!(book.settles(first, OTHER, postponed(60)).await, None);
        assert!(book.words(&heron).await.is_empty());
    }

    async fn a_lease_is_renewed_by_whoever_holds_it(book) {
        let heron = book.enrols("acme", "heron").await;
        let mut keys = Vec::new();
        for job in ["kept", "cancelled", "other's", "settled"] {
            keys.push(book.arms(about(&heron, job, 0)).await);
        }
        book.claims(&[keys[0], keys[1], keys[3]], SERVER).await;
        book.claims(&[keys[2]], OTHER).await;
        book.ledger.arms().cancel(&heron, &"cancelled".into(), book.clock.now()).await.unwrap();
        book.settles(keys[3], SERVER, postponed(60)).await;
        let lost = book.ledger.arms().renew(keys.clone(), SERVER, book.clock.now() + minutes(1)).await.unwrap();
        assert_eq!(lost, keys[1..]);
    }

    async fn a_taken_fire_ends_its_arm_with_a_line(book) {
        let heron = book.enrols("acme", "heron").await;
        let new = arm_request(&heron, 0);
        let key = book.arms(new.clone()).await;
        book.winds(Duration::from_millis(7));
        assert_eq!(book.fires(key, delivered()).await, None);
        assert!(book.ledger.arms().pending(&heron, &"daily".into()).await.unwrap().is_none());
        let lines = book.lines(&heron).await;
        assert_eq!(lines.len(), 1);
        let line = &lines[0];
        assert_eq!((line.what.as_str(), line.at), ("delivered", book.clock.now()));
        assert_eq!((&line.job, &line.schedule, line.fire_at.as_str()), (&new.job, &new.schedule, new.fire_at.text()));
        assert_eq!((line.status, &line.error, line.late_ms, line.next), (Some(202), &None, Some(7), None));
        assert_eq!(book.settles(key, SERVER, delivered()).await, None);
        assert_eq!(book.lines(&heron).await.len(), 1, "settling twice is settling once");
    }

    async fn a_failed_attempt_waits_for_its_retry(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.arms(arm_request(&heron, 0)).await;
        let failed = book.clock.now();
        assert_eq!(book.fires(key, postponed(1)).await, Some(Due { next_us: at(1), key }));
        book.winds(Duration::from_secs(1));
        let poked = ArmResult::Postponed { attempt: FireAttempt::default(), next_us: at(3) + 1, pause: Duration::ZERO, poked: true };
        book.fires(key, poked).await;
        let again = book.ledger.arms().claim(vec![key], SERVER, book.clock.now()).await.unwrap();
        assert_eq!((again[0].attempts, again[0].poked, again[0].next_us), (2, true, at(3) + 1));
        assert_eq!((again[0].failing_since, again[0].last_status), (Some(failed), None));
        book.settles(key, SERVER, postponed(7)).await;
        let arm = book.pending(&heron).await;
        assert_eq!((arm.state, arm.attempts, arm.poked), (ArmState::Armed, 3, true));
        assert_eq!((arm.last_status, arm.last_error.as_deref()), (Some(503), Some("draining")));
        let lines = book.lines(&heron).await;
        assert!(lines.iter().all(|line| line.what == "attempt"));
        assert_eq!((lines[2].status, lines[2].error.as_deref(), lines[2].late_ms), (Some(503), Some("draining"), Some(12)));
        let next = lines[1].next.unwrap();
        assert_eq!(next.millis() * 1000, at(3) + 1000, "the first millisecond at which it may be");
    }

    async fn an_arm_given_up_stays_dead_and_visible(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.arms(arm_request(&heron, 0)).await;
        assert_eq!(book.fires(key, ArmResult::Dead { attempt: refused() }).await, None);
        let arm = book.pending(&heron).await;
        assert_eq!((arm.state, arm.attempts, arm.failing_since), (ArmState::Dead, 1, Some(book.clock.now())));
        assert!(book.due().await.is_empty());
        assert!(book.claims(&[key], SERVER).await.is_empty());
        assert_eq!(book.words(&heron).await, ["dead"]);
        assert_eq!(book.ledger.arms().count_by_state().await.unwrap(), (0, 1));
    }

    async fn what_was_not_tried_is_put_back_as_it_was(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.arms(arm_request(&heron, 0)).await;
        let put_back = ArmResult::PutBack { next_us: Some(at(2)) };
        assert_eq!(book.fires(key, put_back).await, Some(Due { next_us: at(2), key }));
        let arm = book.pending(&heron).await;
        assert_eq!((arm.state, arm.attempts, arm.failing_since), (ArmState::Armed, 0, None));
        assert!(book.lines(&heron).await.is_empty());
    }

    async fn the_next_known_time_is_armed_as_its_predecessor_ends(book) {
        let heron = book.enrols("acme", "heron").await;
        let first = ledger::NewArm { callback: None, ..arm_request(&heron, 0) };
        let key = book.arms(first).await;
        let ArmResult::Ended { fate, attempt, successor, .. } = followed_by(ArmFate::Delivered, 90) else { panic!() };
        let missed = vec![FireAt::from_micros(at(30)), FireAt::from_micros(at(60))];
        let then = vec![FireAt::from_micros(at(120))];
        let successor = successor.map(|next| ledger::Successor { then: then.clone(), ..next });
        book.winds(minutes(1));
        let settled = ArmResult::Ended { fate, attempt, missed, successor: successor.clone() };
        let due = book.fires(key, settled).await.unwrap();
        let arm = book.pending(&heron).await;
        assert_eq!((arm.key, arm.next_us), (due.key, at(90)));
        assert!(due.key > key);
        let next = successor.unwrap();
        assert_eq!((arm.schedule, arm.fire_at, arm.dedup), (next.schedule, next.fire_at, next.dedup));
        assert_eq!((arm.callback, arm.then, arm.created), (None, then, book.clock.now()));
        assert_eq!((arm.state, arm.attempts), (ArmState::Armed, 0));
        let told: Vec<_> = book.lines(&heron).await.into_iter().map(|line| (line.what, line.fire_at)).collect();
        let time = |seconds| FireAt::from_micros(at(seconds)).text().to_owned();
        let expected = [("delivered", time(0)), ("missed", time(60)), ("missed", time(30))];
        assert_eq!(told, expected.map(|(what, time)| (what.to_owned(), time)));
    }

    async fn a_fire_given_up_for_a_later_time_ends_for_it(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.arms(arm_request(&heron, 0)).await;
        let due = book.fires(key, followed_by(ArmFate::Dead, 90)).await.unwrap();
        assert_eq!(book.due().await, [due.key]);
        assert_eq!(book.words(&heron).await, ["dead"]);
    }

    async fn a_fire_taken_after_it_was_superseded_is_not_made_again(book) {
        let heron = book.enrols("acme", "heron").await;
        let old = arm_request(&heron, 0);
        let first = book.arms(old.clone()).await;
        book.claims(&[first], SERVER).await;
        let second = book.arms(arm_request(&heron, 60)).await;
        assert_eq!(book.settles(first, SERVER, followed_by(ArmFate::Delivered, 90)).await, None);
        assert_eq!(book.due().await, [second], "the agent's newer request stands");
        let repeat = book.requests(arm_request(&heron, 0)).await;
        assert_eq!(repeat, Armed::Delivered { schedule: old.schedule, at: book.clock.now() });
        assert_eq!(book.words(&heron).await, ["delivered", "superseded"]);
        book.settles(first, SERVER, delivered()).await;
        assert_eq!(book.words(&heron).await.len(), 2, "settling twice is settling once");
    }

    async fn a_failure_after_it_was_superseded_means_nothing(book) {
        let heron = book.enrols("acme", "heron").await;
        let first = book.arms(arm_request(&heron, 0)).await;
        book.claims(&[first], SERVER).await;
        let second = book.arms(arm_request(&heron, 60)).await;
        for settled in [postponed(5), ArmResult::Dead { attempt: refused() }, ended(ArmFate::Missed), ArmResult::PutBack { next_us: Some(at(1)) }] {
            assert_eq!(book.settles(first, SERVER, settled).await, None);
        }
        assert_eq!(book.due().await, [second]);
        assert_eq!(book.words(&heron).await, ["superseded"]);
        assert!(matches!(book.requests(arm_request(&heron, 0)).await, Armed::New { .. }), "nobody took it");
    }

    async fn a_fire_superseded_and_requested_again_during_its_attempt_is_over(book) {
        let heron = book.enrols("acme", "heron").await;
        let first = book.arms(arm_request(&heron, 0)).await;
        book.claims(&[first], SERVER).await;
        book.arms(arm_request(&heron, 60)).await;
        book.arms(arm_request(&heron, 0)).await;
        let next = book.settles(first, SERVER, followed_by(ArmFate::Delivered, 90)).await.unwrap();
        assert_eq!(book.due().await, [next.key]);
        assert!(matches!(book.requests(arm_request(&heron, 0)).await, Armed::Delivered { .. }));
    }

    async fn a_fire_accepted_after_a_cancel_is_recorded_but_keeps_nothing_from_firing(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.arms(arm_request(&heron, 0)).await;
        book.claims(&[key], SERVER).await;
        assert_eq!(book.cancels(&heron).await, Some(key));
        assert_eq!(book.settles(key, SERVER, followed_by(ArmFate::Delivered, 60)).await, None);
        assert!(book.due().await.is_empty(), "a cancelled job has no successor");
        assert_eq!(book.words(&heron).await, ["delivered", "cancelled"]);
        book.arms(arm_request(&heron, 0)).await;
    }

    async fn a_cancel_after_it_was_superseded_forgets_it_too(book) {
        let heron = book.enrols("acme", "heron").await;
        let first = book.arms(arm_request(&heron, 0)).await;
        book.claims(&[first], SERVER).await;
        book.arms(arm_request(&heron, 60)).await;
        book.cancels(&heron).await;
        book.arms(arm_request(&heron, 0)).await;
        assert_eq!(book.settles(first, SERVER, delivered()).await, None);
        assert_eq!(book.pending(&heron).await.fire_at.due_us(), at(0), "it was requested after the cancel");
        assert_eq!(book.words(&heron).await, ["delivered", "cancelled", "superseded"]);
    }

    async fn what_others_held_is_freed_as_a_failed_attempt(book) {
        let heron = book.enrols("acme", "heron").await;
        let begun = book.arms(about(&heron, "begun", 0)).await;
        let ahead = book.arms(about(&heron, "ahead", 5)).await;
        let mine = book.arms(about(&heron, "mine", 0)).await;
        let waiting = book.arms(about(&heron, "waiting", 0)).await;
        book.claims(&[begun, ahead], OTHER).await;
        book.claims(&[mine], SERVER).await;
        book.winds(Duration::from_secs(1));
        let freed = book.ledger.arms().free_orphans(SERVER, book.clock.now(), Duration::from_secs(2)).await.unwrap();
        assert_eq!(freed, [Due { next_us: at(3), key: begun }, Due { next_us: at(5), key: ahead }]);
        assert_eq!(book.due().await, [waiting, begun, ahead]);
        let arm = book.ledger.arms().pending(&heron, &"begun".into()).await.unwrap().unwrap();
        assert_eq!((arm.attempts, arm.failing_since), (1, Some(book.clock.now())));
        let arm = book.ledger.arms().pending(&heron, &"ahead".into()).await.unwrap().unwrap();
        assert_eq!((arm.attempts, arm.state), (0, ArmState::Armed));
        let lines = book.lines(&heron).await;
        assert_eq!(lines.len(), 1, "those not yet due are just let go of");
        assert_eq!((lines[0].what.as_str(), lines[0].job.as_str()), ("attempt", "begun"));
        assert_eq!(lines[0].error.as_deref(), Some("the server stopped during the attempt"));
        book.winds(hours(1));
        assert!(book.ledger.arms().free_orphans(SERVER, book.clock.now(), Duration::from_secs(2)).await.unwrap().is_empty());
        assert_eq!(book.settles(mine, SERVER, delivered()).await, None);
        assert_eq!(book.words(&heron).await[0], "delivered", "what the living hold is theirs, lease or not");
    }

    async fn a_fire_taken_after_it_was_freed_ends_its_arm(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.arms(arm_request(&heron, 0)).await;
        book.claims(&[key], OTHER).await;
        book.ledger.arms().free_orphans(SERVER, book.clock.now(), Duration::from_secs(1)).await.unwrap();
        assert_eq!(book.settles(key, OTHER, postponed(9)).await, None, "a failure is not its to report");
        let next = book.settles(key, OTHER, followed_by(ArmFate::Delivered, 60)).await.unwrap();
        assert_eq!(book.due().await, [next.key]);
        assert!(matches!(book.requests(arm_request(&heron, 0)).await, Armed::Delivered { .. }));
    }

    async fn a_fire_taken_after_another_took_it_over_is_remembered(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.arms(arm_request(&heron, 0)).await;
        book.claims(&[key], OTHER).await;
        book.ledger.arms().free_orphans(SERVER, book.clock.now(), Duration::from_secs(1)).await.unwrap();
        book.claims(&[key], SERVER).await;
        assert_eq!(book.settles(key, OTHER, followed_by(ArmFate::Delivered, 60)).await, None);
        assert_eq!(book.pending(&heron).await.state, ArmState::Dispatching);
        assert_eq!(book.settles(key, SERVER, ended(ArmFate::Duplicate)).await, None);
        assert!(matches!(book.requests(arm_request(&heron, 0)).await, Armed::Delivered { .. }));
        assert_eq!(book.words(&heron).await, ["duplicate", "delivered", "attempt"]);
    }
}

#[tokio::test]
async fn what_was_held_when_the_server_fell_is_found_at_the_next_start() {
    let book = Book::in_a_folder().await;
    let heron = book.enrols("acme", "heron").await;
    let (held, waiting) = (about(&heron, "held", 0), about(&heron, "waiting", 60));
    let (held, waiting) = (book.arms(held).await, book.arms(waiting).await);
    book.claims(&[held], SERVER).await;
    let book = book.reopened().await;
    assert_eq!(book.due().await, [waiting]);
    let freed =
        book.ledger.arms().free_orphans(OTHER, book.clock.now(), Duration::from_secs(1)).await.unwrap();
    assert_eq!(freed, [Due { next_us: at(1), key: held }]);
    assert_eq!(book.due().await, [held, waiting]);
}
