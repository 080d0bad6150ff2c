//! Alarms: arms that the server sets for itself.

use ledger::{ArmFilter, ArmKey, ArmResult, ArmState, Armed, Due, Fault, NewAlarm, Removed};
use posthouse_wire::ScheduleId;
use posthouse_wire::cron::{FireAt, Policy};

use super::{SERVER, about, arm_request, at, delivered, postponed, refused};
use crate::book::{Book, START};

fn alarm(tenant: &str, job: &str, seconds: i64) -> NewAlarm {
    NewAlarm {
        target: "post".to_owned(),
        tenant: format!("ten_{tenant}").into(),
        job: job.into(),
        schedule: ScheduleId::mint(START.millis()),
        fire_at: FireAt::from_micros(at(seconds)),
    }
}

impl Book {
    async fn sets_within(&self, new: NewAlarm, quota: u32) -> Armed {
        self.ledger.arms().set_alarm(new, quota, self.clock.now()).await.unwrap()
    }

    async fn sets(&self, new: NewAlarm) -> ArmKey {
        match self.sets_within(new, 1000).await {
            Armed::New { key, .. } => key,
            other => panic!("it should be new: {other:?}"),
        }
    }

    async fn unsets(&self, target: &str, tenant: &str, job: &str) -> Option<ArmKey> {
        let tenant = format!("ten_{tenant}").into();
        self.ledger.arms().unset_alarm(target, &tenant, &job.into()).await.unwrap()
    }
}

stories! {
    async fn an_alarm_stands_in_line_with_arms_and_is_its_tenants(book) {
        let heron = book.enrols("acme", "heron").await;
        let late = book.arms(arm_request(&heron, 90)).await;
        let fired = book.sets(alarm("acme", "r1", 60)).await;
        let early = book.arms(about(&heron, "early", 30)).await;
        assert_eq!(book.due().await, [early, fired, late]);
        let held = book.ledger.arms().claim(vec![fired], SERVER, book.clock.now()).await.unwrap().remove(0);
        assert_eq!((held.target.as_deref(), held.tenant.as_str(), held.job.as_str()), (Some("post"), "ten_acme", "r1"));
        assert_eq!((held.instance.as_str(), held.callback, held.attempts), ("post:ten_acme", None, 0));
        assert_eq!((held.fire_at.due_us(), held.next_us, held.policy), (at(60), at(60), Policy::default()));
        assert_eq!(book.settles(fired, SERVER, delivered()).await, None);
        assert_eq!(book.due().await, [early, late]);
        assert!(book.sets(alarm("acme", "r1", 60)).await > fired, "one that fired is not remembered");
    }

    async fn the_same_alarm_again_changes_nothing_and_another_time_replaces_it(book) {
        book.tenant("acme").await;
        let new = alarm("acme", "r1", 60);
        let first = book.sets(new.clone()).await;
        let same = Armed::Same { schedule: new.schedule, due: Due { next_us: at(60), key: first } };
        assert_eq!(book.sets_within(alarm("acme", "r1", 60), 1000).await, same);
        let moved = book.sets_within(alarm("acme", "r1", 30), 1000).await;
        let Armed::New { key: second, superseded } = moved else { panic!("{moved:?}") };
        assert_eq!((superseded, book.due().await), (Some(first), vec![second]));
        assert!(book.claims(&[first], SERVER).await.is_empty());
    }

    async fn all_alarms_whose_job_begins_with_a_text_are_unset_and_no_others(book) {
        for tenant in ["acme", "umbrella"] {
            book.tenant(tenant).await;
        }
        let one = book.sets(alarm("acme", "7/100", 1)).await;
        let two = book.sets(alarm("acme", "7/200", 2)).await;
        let mut kept = vec![book.sets(alarm("acme", "70/100", 3)).await, book.sets(alarm("acme", "7", 4)).await];
        kept.push(book.sets(alarm("umbrella", "7/100", 5)).await);
        let unset = async |target: &str| {
            book.ledger.arms().unset_alarms(target, &"ten_acme".into(), "7/").await.unwrap()
        };
        assert_eq!(unset("other").await, []);
        assert_eq!(unset("post").await, [one, two]);
        assert_eq!(book.due().await, kept);
    }

    async fn bell_tenant_and_job_tell_alarms_apart(book) {
        book.tenant("acme").await;
        book.tenant("umbrella").await;
        let one = book.sets(alarm("acme", "r1", 1)).await;
        let two = book.sets(alarm("umbrella", "r1", 2)).await;
        let three = book.sets(NewAlarm { target: "skills".to_owned(), ..alarm("acme", "r1", 3) }).await;
        let four = book.sets(alarm("acme", "r2", 4)).await;
        assert_eq!(book.due().await, [one, two, three, four]);
        assert_eq!(book.unsets("post", "acme", "r1").await, Some(one));
        assert_eq!(book.unsets("post", "acme", "r1").await, None);
        assert_eq!(book.unsets("nothing", "acme", "r2").await, None);
        assert_eq!(book.due().await, [two, three, four]);
        let nowhere = book.ledger.arms().set_alarm(alarm("nowhere", "r1", 1), 1000, book.clock.now()).await;
        assert!(matches!(nowhere, Err(Fault::Storage(_))));
    }

    async fn an_alarm_that_failed_waits_and_rings_again_and_leaves_no_history(book) {
        let heron = book.enrols("acme", "heron").await;
        let key = book.sets(alarm("acme", "r1", 0)).await;
        let due = book.fires(key, postponed(5)).await;
        assert_eq!(due, Some(Due { next_us: at(5), key }));
        let held = book.ledger.arms().claim(vec![key], SERVER, book.clock.now()).await.unwrap().remove(0);
        assert_eq!((held.attempts, held.last_status), (1, Some(503)));
        assert_eq!(book.settles(key, SERVER, ArmResult::PutBack { next_us: Some(at(9)) }).await, Some(Due { next_us: at(9), key }));
        book.claims(&[key], "gone").await;
        let freed = book.ledger.arms().free_orphans(SERVER, START + crate::book::minutes(1), std::time::Duration::from_secs(1)).await.unwrap();
        assert_eq!(freed, [Due { next_us: at(61), key }], "nobody knows how it ended, so it fires again");
        book.fires(key, delivered()).await;
        assert!(book.words(&heron).await.is_empty());
        for nobody in ["", "post:ten_acme"] {
            assert!(book.words(&nobody.into()).await.is_empty());
        }
    }

    async fn an_alarm_replaced_or_unset_while_it_rings_stays_so(book) {
        book.tenant("acme").await;
        let first = book.sets(alarm("acme", "r1", 0)).await;
        book.claims(&[first], SERVER).await;
        let Armed::New { key: second, .. } = book.sets_within(alarm("acme", "r1", 60), 1000).await else { panic!() };
        assert_eq!(book.settles(first, SERVER, delivered()).await, None);
        assert_eq!(book.due().await, [second], "the older one's fire says nothing about it");
        book.claims(&[second], SERVER).await;
        book.unsets("post", "acme", "r1").await;
        assert_eq!(book.settles(second, SERVER, postponed(90)).await, None);
        assert!(book.due().await.is_empty());
        let third = book.sets(alarm("acme", "r1", 0)).await;
        book.claims(&[third], "another").await;
        assert_eq!(book.settles(third, SERVER, delivered()).await, None, "it is in another's hands");
        assert_eq!(book.claims(&[third], SERVER).await, []);
    }

    async fn no_agent_and_no_list_of_jobs_shows_an_alarm(book) {
        let heron = book.enrols("acme", "heron").await;
        let arms = book.ledger.arms();
        book.sets(alarm("acme", "daily", 1)).await;
        let dead = book.sets(alarm("acme", "dead", 1)).await;
        book.fires(dead, ArmResult::Dead { attempt: refused() }).await;
        let own = book.arms(arm_request(&heron, 60)).await;
        for filter in [
            ArmFilter::default(),
            ArmFilter { tenant: Some("ten_acme".into()), ..ArmFilter::default() },
            ArmFilter { instance: Some(heron.clone()), ..ArmFilter::default() },
            ArmFilter { job: Some("daily".into()), ..ArmFilter::default() },
            ArmFilter { state: Some(ArmState::Armed), ..ArmFilter::default() },
        ] {
            let found: Vec<_> = arms.arms(filter.clone(), 10).await.unwrap().iter().map(|arm| arm.key).collect();
            assert_eq!(found, [own], "{filter:?}");
        }
        let dead = ArmFilter { state: Some(ArmState::Dead), ..ArmFilter::default() };
        assert!(arms.arms(dead, 10).await.unwrap().is_empty());
        assert_eq!(arms.listing(&heron, 10).await.unwrap().len(), 1);
        assert_eq!(book.pending(&heron).await.key, own, "a job of the same name is another");
        assert_eq!(arms.revive(&heron, book.clock.now()).await.unwrap(), []);
        book.cancels(&heron).await;
        assert_eq!(book.due().await.len(), 1, "the alarm of that name stays");
    }

    async fn alarms_have_a_quota_of_their_own_by_tenant(book) {
        let heron = book.enrols("acme", "heron").await;
        book.tenant("umbrella").await;
        for job in ["r1", "r2"] {
            assert!(matches!(book.sets_within(alarm("acme", job, 60), 2).await, Armed::New { .. }));
        }
        assert_eq!(book.sets_within(alarm("acme", "r3", 60), 2).await, Armed::OverQuota);
        let moved = book.sets_within(alarm("acme", "r2", 90), 2).await;
        assert!(matches!(moved, Armed::New { superseded: Some(_), .. }), "a replaced one is not one more");
        assert!(matches!(book.sets_within(alarm("umbrella", "r3", 60), 2).await, Armed::New { .. }));
        let now = book.clock.now();
        let own = book.ledger.arms().arm(arm_request(&heron, 60), 1, now).await.unwrap();
        assert!(matches!(own, Armed::New { .. }), "and agents have theirs");
        book.unsets("post", "acme", "r1").await;
        assert!(matches!(book.sets_within(alarm("acme", "r3", 60), 2).await, Armed::New { .. }));
    }

    async fn alarms_go_with_their_tenant_and_not_with_an_agent(book) {
        let heron = book.enrols("acme", "heron").await;
        book.tenant("umbrella").await;
        book.sets(alarm("acme", "r1", 60)).await;
        let theirs = book.sets(alarm("umbrella", "r1", 60)).await;
        let roster = book.ledger.roster();
        assert_eq!(roster.remove_instance(&heron).await.unwrap(), Removed::Gone);
        assert_eq!(book.due().await.len(), 2);
        assert_eq!(roster.remove_tenant(&"ten_acme".into()).await.unwrap(), Removed::Gone);
        assert_eq!(book.due().await, [theirs]);
    }
}
