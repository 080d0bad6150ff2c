use ledger::{ArmFate, ArmFilter, ArmKey, ArmResult, ArmState, Armed, FireAttempt};
use posthouse_wire::cron::FireAt;

use super::{Book, QUOTA, SERVER, about, arm_request, at, delivered, followed_by, postponed, refused};
use crate::book::{days, minutes};

async fn ending(book: &Book, instance: &posthouse_wire::InstanceId, schedule: &str) -> Option<String> {
    book.ledger.arms().ending(instance, &schedule.into()).await.unwrap()
}

async fn found(book: &Book, filter: ArmFilter) -> Vec<ArmKey> {
    book.ledger.arms().arms(filter, 100).await.unwrap().iter().map(|arm| arm.key).collect()
}

stories! {
    async fn history_is_read_backwards_by_pages(book) {
        let heron = book.enrols("acme", "heron").await;
        for number in 0..5 {
            for job in ["daily", "hourly"] {
                let key = book.arms(about(&heron, job, number)).await;
                book.fires(key, delivered()).await;
            }
        }
        let arms = book.ledger.arms();
        let (mut before, mut times) = (None, Vec::new());
        loop {
            let page = arms.history(&heron, Some(&"daily".into()), before, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            before = Some(last.number);
            assert!(page.iter().all(|line| line.job == "daily"));
            times.extend(page.into_iter().map(|line| line.fire_at));
        }
        let newest_first: Vec<_> = (0..5).rev().map(|s| FireAt::from_micros(at(s)).text().to_owned()).collect();
        assert_eq!(times, newest_first);
        assert_eq!(arms.history(&heron, None, None, 100).await.unwrap().len(), 10);
        assert_eq!(arms.history(&heron, None, None, 3).await.unwrap().len(), 3);
        assert!(arms.history(&"inst_nobody".into(), None, None, 3).await.unwrap().is_empty());
    }

    async fn the_numbers_of_an_agent_s_lines_tell_nothing_of_other_tenants(book) {
        let (heron, crane) = (book.enrols("acme", "heron").await, book.enrols("other", "crane").await);
        let numbers = async |of: &posthouse_wire::InstanceId, before| {
            let lines = book.ledger.arms().history(of, None, before, 100).await.unwrap();
            lines.iter().map(|line| line.number).collect::<Vec<_>>()
        };
        for round in 0..3 {
            for (agent, job) in [(&crane, "busy"), (&heron, "daily"), (&crane, "busier")] {
                let key = book.arms(about(agent, job, round)).await;
                book.fires(key, delivered()).await;
            }
        }
        assert_eq!(numbers(&heron, None).await, [3, 2, 1]);
        assert_eq!(numbers(&crane, None).await, [6, 5, 4, 3, 2, 1]);
        assert_eq!(numbers(&heron, Some(3)).await, [2, 1], "a page begins where the one before ended");
        let key = book.arms(about(&heron, "daily", 9)).await;
        book.fires(key, delivered()).await;
        assert_eq!(numbers(&heron, Some(3)).await, [2, 1], "also when lines were added meanwhile");
    }

    async fn a_fire_by_hand_is_a_line_of_its_own(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.arms(arm_request(&heron, 60)).await;
        let (time, attempt) = (FireAt::from_micros(at(0)), FireAttempt { status: Some(200), ..FireAttempt::default() });
        book.ledger.arms().note_fire(&heron, &"daily".into(), &time, attempt, book.clock.now()).await.unwrap();
        let lines = book.lines(&heron).await;
        assert_eq!((lines[0].what.as_str(), lines[0].fire_at.as_str()), ("manual", time.text()));
        assert_eq!((lines[0].status, lines[0].schedule.as_str()), (Some(200), ""));
        assert_eq!(book.due().await, [key], "the arm is not touched");
        assert_eq!(ending(&book, &heron, "").await, None);
    }

    async fn how_a_schedule_ended_is_told_once_it_has(book) {
        let (heron, otter) = (book.enrols("acme", "heron").await, book.enrols("acme", "otter").await);
        let first = arm_request(&heron, 0);
        let key = book.arms(first.clone()).await;
        let schedule = first.schedule.as_str();
        assert_eq!(ending(&book, &heron, schedule).await, None);
        book.fires(key, postponed(1)).await;
        assert_eq!(ending(&book, &heron, schedule).await, None);
        book.fires(key, ArmResult::Dead { attempt: refused() }).await;
        assert_eq!(ending(&book, &heron, schedule).await, None, "a dead arm is not over");
        book.ledger.arms().revive(&heron, book.clock.now()).await.unwrap();
        assert_eq!(ending(&book, &heron, schedule).await, None);
        let second = arm_request(&heron, 30);
        let key = book.arms(second.clone()).await;
        assert_eq!(ending(&book, &heron, schedule).await.as_deref(), Some("superseded"));
        let ArmResult::Ended { fate, attempt, successor, .. } = followed_by(ArmFate::Gone, 60) else { panic!() };
        let missed = vec![FireAt::from_micros(at(40))];
        book.fires(key, ArmResult::Ended { fate, attempt, missed, successor }).await;
        assert_eq!(ending(&book, &heron, second.schedule.as_str()).await.as_deref(), Some("gone"));
        assert_eq!(ending(&book, &otter, second.schedule.as_str()).await, None, "it is nobody else's to ask");
        let third = book.pending(&heron).await.schedule;
        book.cancels(&heron).await;
        assert_eq!(ending(&book, &heron, third.as_str()).await.as_deref(), Some("cancelled"));
        assert_eq!(ending(&book, &heron, "sch_unknown").await, None);
    }

    async fn pending_arms_are_found_by_whose_and_how_they_are(book) {
        let (heron, otter) = (book.enrols("acme", "heron").await, book.enrols("acme", "otter").await);
        let crane = book.enrols("other", "crane").await;
        let daily = book.arms(arm_request(&heron, 9)).await;
        let hourly = book.arms(about(&heron, "hourly", 8)).await;
        let of_otter = book.arms(arm_request(&otter, 7)).await;
        let of_crane = book.arms(arm_request(&crane, 6)).await;
        book.fires(hourly, ArmResult::Dead { attempt: refused() }).await;
        book.claims(&[of_crane], SERVER).await;
        let all = ArmFilter::default;
        assert_eq!(found(&book, all()).await, [daily, hourly, of_otter, of_crane]);
        assert_eq!(found(&book, ArmFilter { after: Some(hourly), ..all() }).await, [of_otter, of_crane]);
        let acme = ArmFilter { tenant: Some("ten_acme".into()), ..all() };
        assert_eq!(found(&book, acme.clone()).await, [daily, hourly, of_otter]);
        assert_eq!(found(&book, ArmFilter { after: Some(daily), ..acme.clone() }).await, [hourly, of_otter]);
        assert_eq!(found(&book, ArmFilter { job: Some("daily".into()), ..acme.clone() }).await, [daily, of_otter]);
        let of_heron = ArmFilter { instance: Some(heron.clone()), ..all() };
        assert_eq!(found(&book, of_heron.clone()).await, [daily, hourly]);
        assert_eq!(found(&book, ArmFilter { state: Some(ArmState::Dead), ..of_heron }).await, [hourly]);
        assert_eq!(found(&book, ArmFilter { state: Some(ArmState::Dispatching), ..all() }).await, [of_crane]);
        let strangers = ArmFilter { tenant: Some("ten_other".into()), instance: Some(heron), ..all() };
        assert!(found(&book, strangers).await.is_empty());
        assert_eq!(book.ledger.arms().arms(all(), 2).await.unwrap().len(), 2);
        assert_eq!(book.ledger.arms().count_by_state().await.unwrap(), (3, 1));
    }

    async fn a_step_of_the_wall_clock_deletes_no_history_and_lets_no_fire_be_made_again(book) {
        let heron = book.enrols("acme", "heron").await;
        let taken = book.arms(about(&heron, "taken", 0)).await;
        book.fires(taken, delivered()).await;
        for wall in [book.clock.now() + days(100), book.clock.now() - days(100)] {
            book.clock.set(wall);
            book.prunes().await;
            assert_eq!(book.words(&heron).await, ["delivered"]);
            let again = book.ledger.arms().arm(about(&heron, "taken", 0), QUOTA, wall).await.unwrap();
            assert!(matches!(again, Armed::Delivered { .. }), "{again:?}");
        }
    }

    async fn a_line_of_history_stays_for_thirty_days_and_a_pending_arm_for_ever(book) {
        let heron = book.enrols("acme", "heron").await;
        let taken = book.arms(about(&heron, "taken", 0)).await;
        book.fires(taken, delivered()).await;
        book.arms(arm_request(&heron, 0)).await;
        book.cancels(&heron).await;
        let dead = book.arms(about(&heron, "dead", 0)).await;
        book.fires(dead, ArmResult::Dead { attempt: refused() }).await;
        let far = book.arms(about(&heron, "far", 300_000_000)).await;
        book.winds(days(30));
        book.prunes().await;
        assert_eq!(book.words(&heron).await, ["dead", "cancelled", "delivered"]);
        book.winds(minutes(1));
        book.prunes().await;
        assert!(book.words(&heron).await.is_empty());
        assert_eq!(found(&book, ArmFilter::default()).await, [dead, far]);
    }

    async fn much_history_is_forgotten_a_little_at_a_time(book) {
        let heron = book.enrols("acme", "heron").await;
        let (now, mut keys) = (book.clock.now(), Vec::new());
        // Concurrently, so that they share their commits.
        let mut firing = tokio::task::JoinSet::new();
        for number in 0..1100 {
            let (arms, new) = (book.ledger.arms(), about(&heron, &number.to_string(), 0));
            firing.spawn(async move { arms.arm(new, u32::MAX, now).await.unwrap() });
        }
        for armed in firing.join_all().await {
            let Armed::New { key, .. } = armed else { panic!("it should be new: {armed:?}") };
            keys.push(key);
        }
        assert_eq!(book.claims(&keys, SERVER).await.len(), 1100);
        let mut settling = tokio::task::JoinSet::new();
        for key in keys {
            let arms = book.ledger.arms();
            settling.spawn(async move { arms.settle(key, SERVER, delivered(), now).await.unwrap() });
        }
        settling.join_all().await;
        book.winds(days(1) + minutes(1));
        assert_eq!(book.prunes().await, 3, "five hundred taken fires a call");
        book.winds(days(30));
        assert_eq!(book.prunes().await, 3, "five hundred lines a call");
        assert!(book.lines(&heron).await.is_empty());
    }
}

#[tokio::test]
async fn arms_and_history_are_there_after_a_restart() {
    let book = Book::in_a_folder().await;
    let heron = book.enrols("acme", "heron").await;
    let taken = book.arms(about(&heron, "taken", 0)).await;
    let first = book.arms(arm_request(&heron, 60)).await;
    book.fires(taken, delivered()).await;
    let book = book.reopened().await;
    assert_eq!(book.due().await, [first]);
    assert_eq!(book.words(&heron).await, ["delivered"]);
    let again = book.requests(about(&heron, "taken", 0)).await;
    assert!(matches!(again, Armed::Delivered { .. }));
    book.cancels(&heron).await;
    let book = book.reopened().await;
    assert!(book.arms(arm_request(&heron, 60)).await > first, "a key is never given out twice");
}

#[tokio::test]
async fn a_fire_that_was_taken_before_a_stop_is_not_made_again_by_an_agent_that_comes_back() {
    let book = Book::in_a_folder().await;
    let heron = book.enrols("acme", "heron").await;
    let taken = book.arms(arm_request(&heron, 0)).await;
    book.fires(taken, delivered()).await;
    let wall = book.clock.now() + days(100);
    let book = book.reopened_at(wall).await;
    book.winds(minutes(1));
    book.prunes().await;
    let book = book.reopened().await;
    book.prunes().await;
    assert!(matches!(book.requests(arm_request(&heron, 0)).await, Armed::Delivered { .. }));
    book.winds(minutes(10));
    book.prunes().await;
    assert!(matches!(book.requests(arm_request(&heron, 0)).await, Armed::New { .. }), "a day has passed");
}
