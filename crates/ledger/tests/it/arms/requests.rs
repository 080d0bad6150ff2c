use ledger::{ArmFate, ArmState, Armed, Due, Fault, NewArm};
use posthouse_wire::cron::{FireAt, FireProof, Missed, Overlap, Policy};
use posthouse_wire::{InstanceId, JobId};

use super::{QUOTA, SERVER, about, arm_request, at, delivered, ended, followed_by, postponed, refused};
use crate::book::{hours, minutes};

stories! {
    async fn an_arm_is_kept_as_it_was_requested(book) {
        let heron = book.enrols("acme", "heron").await;
        let new = NewArm {
            callback: None,
            dedup: "whatever the agent likes".to_owned(),
            proof: FireProof::PerJobKey,
            policy: Policy { missed: Missed::All, window: Some(60), overlap: Overlap::Queue, jitter: 5 },
            then: vec![FireAt::from_micros(at(120)), FireAt::from_micros(at(180))],
            next_us: at(60) + 4_321,
            ..arm_request(&heron, 60)
        };
        let key = book.arms(new.clone()).await;
        let arm = book.pending(&heron).await;
        assert_eq!((arm.key, arm.tenant.as_str(), &arm.instance), (key, "ten_acme", &heron));
        assert_eq!((&arm.job, &arm.schedule, &arm.fire_at), (&new.job, &new.schedule, &new.fire_at));
        assert_eq!((&arm.callback, &arm.dedup, arm.proof), (&None, &new.dedup, new.proof));
        assert_eq!((&arm.policy, &arm.then, arm.next_us), (&new.policy, &new.then, new.next_us));
        assert_eq!((arm.state, arm.attempts, arm.poked), (ArmState::Armed, 0, false));
        assert_eq!((arm.last_status, arm.last_error, arm.failing_since), (None, None, None));
        assert_eq!(arm.created, book.clock.now());
    }

    async fn the_text_of_a_time_comes_back_byte_for_byte(book) {
        let heron = book.enrols("acme", "heron").await;
        let texts = ["2026-06-18T12:34:56Z", "2026-06-18t12:34:56.100+00:00", "2026-06-18 14:34:56.1234561+02:00"];
        for (number, text) in texts.into_iter().enumerate() {
            let fire_at = FireAt::parse(text).unwrap();
            let job = number.to_string();
            book.arms(NewArm { next_us: fire_at.due_us(), fire_at, ..about(&heron, &job, 0) }).await;
            let listed = book.ledger.arms().listing(&heron, 10).await.unwrap();
            assert!(listed.iter().any(|armed| armed.fire_at == text && armed.job_id == *job), "{text}");
            let arm = book.ledger.arms().pending(&heron, &job.into()).await.unwrap().unwrap();
            assert_eq!(arm.fire_at.text(), text);
        }
    }

    async fn whatever_a_peer_says_is_kept_as_it_said_it(book) {
        let heron = book.enrols("acme", "heron").await;
        for text in ["a\0b", "a'); DROP TABLE arms; --", "\u{10FFFF}\u{202e}", " ", "%_"] {
            let job = JobId::from(text);
            let new = NewArm { dedup: text.to_owned(), callback: Some(text.to_owned()), ..about(&heron, text, 9) };
            let key = book.arms(new).await;
            let arm = book.ledger.arms().pending(&heron, &job).await.unwrap().unwrap();
            assert_eq!((&arm.job, arm.dedup.as_str(), arm.callback.as_deref()), (&job, text, Some(text)));
            assert_eq!(book.fires(key, delivered()).await, None);
            let again = book.requests(NewArm { dedup: text.to_owned(), ..about(&heron, text, 9) }).await;
            assert!(matches!(again, Armed::Delivered { .. }), "{text:?}");
        }
    }

    async fn the_same_key_again_changes_nothing(book) {
        let heron = book.enrols("acme", "heron").await;
        let new = arm_request(&heron, 60);
        let key = book.arms(new.clone()).await;
        let again = book.requests(arm_request(&heron, 60)).await;
        assert_eq!(again, Armed::Same { schedule: new.schedule, due: Due { next_us: at(60), key } });
        assert_eq!(book.due().await, [key]);
        assert!(book.words(&heron).await.is_empty());
    }

    async fn a_changed_callback_under_the_same_key_is_taken_over_without_a_second_fire(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.arms(arm_request(&heron, 60)).await;
        let moved = NewArm {
            callback: Some("https://elsewhere.example".to_owned()),
            proof: FireProof::PerJobKey,
            policy: Policy { jitter: 3, ..Policy::default() },
            then: vec![FireAt::from_micros(at(120))],
            next_us: at(61),
            ..arm_request(&heron, 60)
        };
        assert!(matches!(book.requests(moved.clone()).await, Armed::Same { due, .. } if due.next_us == at(60)));
        let arm = book.pending(&heron).await;
        assert_eq!((arm.key, arm.callback, arm.proof), (key, moved.callback, moved.proof));
        assert_eq!((arm.policy, arm.then), (moved.policy, moved.then));
        assert_eq!(book.due().await, [key]);
        book.requests(arm_request(&heron, 60)).await;
        let arm = book.pending(&heron).await;
        assert_eq!((arm.proof, arm.policy, arm.then.len()), (FireProof::PortalJwt, Policy::default(), 0));
    }

    async fn a_repeat_while_it_is_under_way_leaves_it_under_way(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.arms(arm_request(&heron, 60)).await;
        book.claims(&[key], SERVER).await;
        let again = book.requests(arm_request(&heron, 60)).await;
        assert!(matches!(again, Armed::Same { due, .. } if due == Due { next_us: at(60), key }));
        assert_eq!(book.pending(&heron).await.state, ArmState::Dispatching);
        assert!(book.due().await.is_empty());
    }

    async fn a_repeat_of_one_that_waits_for_its_retry_does_not_hasten_it(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.arms(arm_request(&heron, 0)).await;
        book.fires(key, postponed(300)).await;
        let again = book.requests(arm_request(&heron, 0)).await;
        assert!(matches!(again, Armed::Same { due, .. } if due == Due { next_us: at(300), key }));
        assert_eq!(book.pending(&heron).await.attempts, 1);
    }

    async fn a_repeat_of_a_dead_one_arms_it_again_due_now(book) {
        let heron = book.enrols("acme", "heron").await;
        let new = arm_request(&heron, 0);
        let key = book.arms(new.clone()).await;
        book.fires(key, ledger::ArmResult::Dead { attempt: refused() }).await;
        book.winds(minutes(1));
        let again = book.requests(arm_request(&heron, 0)).await;
        assert_eq!(again, Armed::Same { schedule: new.schedule, due: Due { next_us: at(60), key } });
        let arm = book.pending(&heron).await;
        assert_eq!((arm.state, arm.attempts, arm.failing_since), (ArmState::Armed, 0, None));
        assert_eq!(book.due().await, [key]);
        assert_eq!(book.words(&heron).await, ["revived", "dead"]);
    }

    async fn another_time_replaces_the_pending_arm_even_amid_its_retries(book) {
        let heron = book.enrols("acme", "heron").await;
        let first = book.arms(arm_request(&heron, 60)).await;
        let second = book.requests(arm_request(&heron, 90)).await;
        let Armed::New { key: second, superseded } = second else { panic!("{second:?}") };
        assert_eq!(superseded, Some(first));
        assert!(second > first, "a key is never given out twice");
        book.fires(second, postponed(100)).await;
        let third = book.arms(arm_request(&heron, 120)).await;
        assert_eq!(book.due().await, [third]);
        let arm = book.pending(&heron).await;
        assert_eq!((arm.attempts, arm.failing_since, arm.last_status), (0, None, None));
        assert_eq!(book.words(&heron).await, ["superseded", "attempt", "superseded"]);
        assert!(book.claims(&[first, second], SERVER).await.is_empty());
    }

    async fn a_key_is_not_given_out_again_when_its_arm_is_gone(book) {
        let heron = book.enrols("acme", "heron").await;
        let first = book.arms(arm_request(&heron, 60)).await;
        book.cancels(&heron).await;
        assert!(book.arms(arm_request(&heron, 60)).await > first);
    }

    async fn a_taken_fire_is_not_made_again_for_a_day(book) {
        let heron = book.enrols("acme", "heron").await;
        for fate in [ArmFate::Delivered, ArmFate::Gone, ArmFate::Dropped, ArmFate::Duplicate, ArmFate::Overlap] {
            let new = about(&heron, fate.word(), 0);
            let key = book.arms(new.clone()).await;
            book.fires(key, ended(fate)).await;
            let taken = Armed::Delivered { schedule: new.schedule.clone(), at: book.clock.now() };
            assert_eq!(book.requests(about(&heron, fate.word(), 0)).await, taken);
            assert_eq!(book.requests(about(&heron, fate.word(), 0)).await, taken, "asking does not change it");
        }
        assert!(book.due().await.is_empty());
        book.winds(hours(24));
        book.prunes().await;
        let still = book.requests(about(&heron, "delivered", 0)).await;
        assert!(matches!(still, Armed::Delivered { .. }));
        book.winds(minutes(1));
        assert!(matches!(book.requests(about(&heron, "delivered", 0)).await, Armed::New { .. }), "unpruned");
        book.prunes().await;
        assert!(matches!(book.requests(about(&heron, "gone", 0)).await, Armed::New { .. }), "pruned");
    }

    async fn what_the_agent_did_not_take_is_armed_again(book) {
        let heron = book.enrols("acme", "heron").await;
        for fate in [ArmFate::Missed, ArmFate::Dead] {
            let key = book.arms(arm_request(&heron, 0)).await;
            book.fires(key, ended(fate)).await;
            book.arms(arm_request(&heron, 0)).await;
            book.cancels(&heron).await;
        }
        book.arms(arm_request(&heron, 0)).await;
        book.arms(arm_request(&heron, 60)).await;
        assert!(matches!(book.requests(arm_request(&heron, 0)).await, Armed::New { superseded: Some(_), .. }));
    }

    async fn a_repeat_of_a_taken_fire_leaves_its_successor_pending(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.arms(arm_request(&heron, 0)).await;
        let next = book.fires(key, followed_by(ArmFate::Delivered, 60)).await.unwrap();
        assert!(matches!(book.requests(arm_request(&heron, 0)).await, Armed::Delivered { .. }));
        assert_eq!(book.due().await, [next.key]);
    }

    async fn cancelling_ends_the_arm_and_nothing_armed_is_fine(book) {
        let heron = book.enrols("acme", "heron").await;
        assert_eq!(book.cancels(&heron).await, None);
        let key = book.arms(arm_request(&heron, 0)).await;
        book.fires(key, postponed(60)).await;
        assert_eq!(book.cancels(&heron).await, Some(key));
        assert_eq!(book.cancels(&heron).await, None);
        assert!(book.due().await.is_empty());
        assert!(book.ledger.arms().listing(&heron, 10).await.unwrap().is_empty());
        assert!(book.claims(&[key], SERVER).await.is_empty());
        assert_eq!(book.words(&heron).await, ["cancelled", "attempt"]);
    }

    async fn arming_after_a_cancel_always_works(book) {
        let heron = book.enrols("acme", "heron").await;
        for _ in 0..2 {
            let key = book.arms(arm_request(&heron, 0)).await;
            book.fires(key, delivered()).await;
            assert!(matches!(book.requests(arm_request(&heron, 0)).await, Armed::Delivered { .. }));
            book.cancels(&heron).await;
        }
        let other = book.arms(about(&heron, "other", 0)).await;
        book.fires(other, delivered()).await;
        book.cancels(&heron).await;
        let other = book.requests(about(&heron, "other", 0)).await;
        assert!(matches!(other, Armed::Delivered { .. }), "only the job that was cancelled is forgotten");
    }

    async fn two_agents_may_call_their_jobs_alike(book) {
        let (heron, otter) = (book.enrols("acme", "heron").await, book.enrols("acme", "otter").await);
        let (of_heron, of_otter) = (book.arms(arm_request(&heron, 0)).await, book.arms(arm_request(&otter, 0)).await);
        book.fires(of_heron, delivered()).await;
        assert!(matches!(book.requests(arm_request(&otter, 0)).await, Armed::Same { .. }));
        assert_eq!(book.cancels(&heron).await, None);
        assert_eq!(book.due().await, [of_otter]);
        assert!(book.ledger.arms().listing(&heron, 10).await.unwrap().is_empty());
        assert_eq!(book.ledger.arms().listing(&otter, 10).await.unwrap().len(), 1);
        assert!(book.lines(&otter).await.is_empty());
    }

    async fn an_instance_has_so_many_pending_arms_and_no_more(book) {
        let (heron, otter) = (book.enrols("acme", "heron").await, book.enrols("acme", "otter").await);
        let (arms, now) = (book.ledger.arms(), book.clock.now());
        let first = book.arms(about(&heron, "one", 0)).await;
        book.arms(about(&heron, "two", 60)).await;
        let over = arms.arm(about(&heron, "three", 60), 2, now).await.unwrap();
        assert_eq!(over, Armed::OverQuota);
        assert!(arms.pending(&heron, &"three".into()).await.unwrap().is_none());
        assert!(matches!(arms.arm(about(&heron, "two", 60), 2, now).await.unwrap(), Armed::Same { .. }));
        assert!(matches!(arms.arm(about(&heron, "two", 90), 2, now).await.unwrap(), Armed::New { .. }));
        assert!(matches!(arms.arm(arm_request(&otter, 60), 2, now).await.unwrap(), Armed::New { .. }));
        book.fires(first, followed_by(ArmFate::Delivered, 60)).await;
        assert_eq!(arms.arm(about(&heron, "three", 60), 2, now).await.unwrap(), Armed::OverQuota);
        let one = arms.arm(about(&heron, "one", 0), 2, now).await.unwrap();
        assert!(matches!(one, Armed::Delivered { .. }), "what needs no arm needs no room");
        arms.cancel(&heron, &"one".into(), now).await.unwrap();
        assert!(matches!(arms.arm(about(&heron, "three", 60), 2, now).await.unwrap(), Armed::New { .. }));
    }

    async fn an_instance_that_is_not_there_cannot_arm(book) {
        let nobody = InstanceId::from("inst_nobody");
        let refused = book.ledger.arms().arm(arm_request(&nobody, 0), QUOTA, book.clock.now()).await;
        assert!(matches!(refused, Err(Fault::Storage(_))));
        assert!(book.due().await.is_empty());
    }

    async fn the_listing_tells_what_was_not_taken_by_due_time(book) {
        let heron = book.enrols("acme", "heron").await;
        let late = about(&heron, "late", 900);
        book.arms(late.clone()).await;
        let held = book.arms(about(&heron, "held", 10)).await;
        let retried = book.arms(about(&heron, "retried", 5)).await;
        let taken = book.arms(about(&heron, "taken", 1)).await;
        let dead = book.arms(about(&heron, "dead", 2)).await;
        book.claims(&[held], SERVER).await;
        book.fires(retried, postponed(30)).await;
        book.fires(taken, delivered()).await;
        book.fires(dead, ledger::ArmResult::Dead { attempt: refused() }).await;
        let listed = book.ledger.arms().listing(&heron, 10).await.unwrap();
        let jobs: Vec<_> = listed.iter().map(|armed| armed.job_id.as_str()).collect();
        assert_eq!(jobs, ["held", "retried", "late"], "a dead one is asked for anew, and so revived");
        assert_eq!((listed[2].fire_at.as_str(), &listed[2].schedule_id), (late.fire_at.text(), &late.schedule));
        assert_eq!(book.ledger.arms().listing(&heron, 2).await.unwrap().len(), 2);
    }

    async fn an_agent_that_goes_takes_its_arms_along_and_their_history_stays(book) {
        let (heron, otter) = (book.enrols("acme", "heron").await, book.enrols("acme", "otter").await);
        let first = book.arms(about(&heron, "one", 0)).await;
        let held = book.arms(about(&heron, "two", 0)).await;
        let other = book.arms(arm_request(&otter, 0)).await;
        book.fires(first, postponed(60)).await;
        book.claims(&[held], SERVER).await;
        book.ledger.roster().remove_instance(&heron).await.unwrap();
        assert_eq!(book.due().await, [other]);
        assert!(book.claims(&[first], SERVER).await.is_empty());
        assert_eq!(book.settles(held, SERVER, delivered()).await, None);
        assert_eq!(book.words(&heron).await, ["cancelled", "cancelled", "attempt"]);
        assert!(book.words(&otter).await.is_empty());
    }
}
