//! Runs and triggers of skills: the queue, what a crash leaves, and bounds.

use ledger::{
    BusyRuns, EndedRun, NewRun, NewTrigger, QUEUED_RUNS, RUN_ATTEMPTS, RunFilter, RunState, TenantDispatch,
};
use posthouse_time::Moment;
use posthouse_wire::{DispatchId, TenantId};

fn run(tenant: &str, id: &str, repeatable: bool) -> NewRun {
    NewRun {
        id: id.into(),
        tenant: tenant.into(),
        skill: "tide".to_owned(),
        version: None,
        source: "event".to_owned(),
        trigger_name: "turn".to_owned(),
        trigger_id: Some("trig-1".to_owned()),
        caller: "trigger:trig-1".to_owned(),
        fired: Moment::from_millis(1),
        inputs: Some("{}".to_owned()),
        repeatable,
        cause: None,
    }
}

fn ended(state: RunState) -> EndedRun {
    EndedRun {
        state,
        version: Some("v1".to_owned()),
        ended: Moment::from_millis(9),
        error: None,
        record: Some("{}".to_owned()),
    }
}

fn event(skill: &str, name: &str, declarative: bool) -> NewTrigger {
    NewTrigger {
        skill: skill.to_owned(),
        source: "event".to_owned(),
        name: name.to_owned(),
        params: Some(vec!["WHO".to_owned()]),
        declarative,
        expires: None,
    }
}

stories! {
    async fn tenants_take_turns_in_the_queue_and_a_busy_one_is_passed_over(book) {
        book.enrols("acme", "heron").await;
        book.enrols("zen", "egret").await;
        let runs = book.ledger.skill_runs();
        for number in 0..3 {
            assert!(runs.queue_run(run("ten_acme", &format!("run_a{number}"), false)).await.unwrap());
        }
        assert!(runs.queue_run(run("ten_zen", "run_z0", false)).await.unwrap());
        assert!(runs.queue_run(run("ten_zen", "run_z0", false)).await.unwrap(), "a known id changes nothing");
        let (mut last, mut order) = (TenantId::from(""), Vec::new());
        while let Some(next) = runs.next_run(&last, &BusyRuns::default()).await.unwrap() {
            last = next.run.tenant.clone();
            order.push(next.run.id.to_string());
        }
        assert_eq!(order, ["run_a0", "run_z0", "run_a1", "run_a2"]);
        assert!(runs.queue_run(run("ten_acme", "run_a3", false)).await.unwrap());
        let acme = TenantId::from("ten_acme");
        let busy = BusyRuns { tenants: vec![acme.clone()], ..BusyRuns::default() };
        assert_eq!(runs.next_run(&last, &busy).await.unwrap(), None);
        let skill = run("ten_acme", "", false).skill;
        let other = NewRun { skill: "other".to_owned(), ..run("ten_acme", "run_other", false) };
        assert!(runs.queue_run(other).await.unwrap());
        let busy = BusyRuns { skills: vec![(acme, skill)], ..BusyRuns::default() };
        let next = runs.next_run(&last, &busy).await.unwrap().unwrap();
        assert_eq!(next.run.id.as_str(), "run_other", "a later run of another skill passes those of a busy one");
        assert_eq!(runs.next_run(&last, &busy).await.unwrap(), None);
    }

    async fn a_flood_of_events_of_one_tenant_fills_only_its_own_queue(book) {
        book.enrols("acme", "heron").await;
        book.enrols("zen", "egret").await;
        let runs = book.ledger.skill_runs();
        for number in 0..QUEUED_RUNS {
            assert!(runs.queue_run(run("ten_acme", &format!("run_{number}"), false)).await.unwrap());
        }
        assert!(!runs.queue_run(run("ten_acme", "run_more", false)).await.unwrap());
        assert!(runs.queue_run(run("ten_zen", "run_zen", false)).await.unwrap());
    }

    async fn after_a_crash_a_run_without_effects_begins_again_and_one_with_effects_does_not(book) {
        book.enrols("acme", "heron").await;
        let (runs, acme) = (book.ledger.skill_runs(), TenantId::from("ten_acme"));
        for (id, repeatable) in [("run_reads", true), ("run_acts", false)] {
            runs.queue_run(run("ten_acme", id, repeatable)).await.unwrap();
        }
        runs.begin_run(NewRun { inputs: None, ..run("ten_acme", "run_called", true) }).await.unwrap();
        let state = async |id: &str| runs.run(&acme, &id.into()).await.unwrap().unwrap().state;
        for attempt in 1..=RUN_ATTEMPTS {
            while runs.next_run(&acme, &BusyRuns::default()).await.unwrap().is_some() {}
            let again = runs.take_over_runs(Moment::from_millis(5)).await.unwrap().0;
            assert_eq!(again, usize::from(attempt < RUN_ATTEMPTS), "attempt {attempt}");
        }
        assert_eq!(state("run_reads").await, RunState::Interrupted, "not for ever");
        assert_eq!(state("run_acts").await, RunState::Interrupted);
        assert_eq!(state("run_called").await, RunState::Interrupted, "its caller is gone");
    }

    async fn a_run_that_had_an_effect_is_not_begun_again(book) {
        book.enrols("acme", "heron").await;
        let (runs, acme) = (book.ledger.skill_runs(), TenantId::from("ten_acme"));
        for id in ["run_1", "run_2"] {
            runs.queue_run(run("ten_acme", id, true)).await.unwrap();
            runs.next_run(&acme, &BusyRuns::default()).await.unwrap().unwrap();
        }
        runs.note_effect(&"ten_zen".into(), &"run_2".into()).await.unwrap();
        runs.note_effect(&acme, &"run_1".into()).await.unwrap();
        assert_eq!(runs.take_over_runs(Moment::from_millis(5)).await.unwrap(), (1, 1));
        let state = async |id: &str| runs.run(&acme, &id.into()).await.unwrap().unwrap().state;
        assert_eq!((state("run_1").await, state("run_2").await), (RunState::Interrupted, RunState::Queued));
    }

    async fn a_run_ends_once_and_leads_to_its_dispatches(book) {
        book.enrols("acme", "heron").await;
        book.enrols("zen", "egret").await;
        let (runs, acme, zen) = (book.ledger.skill_runs(), TenantId::from("ten_acme"), TenantId::from("ten_zen"));
        runs.begin_run(run("ten_acme", "run_1", false)).await.unwrap();
        for tenant in [&zen, &acme, &acme] {
            let dispatch = if tenant == &zen { "d-zen" } else { "d-1" };
            runs.note_dispatch(tenant, &"run_1".into(), &dispatch.into()).await.unwrap();
        }
        runs.end_run(&zen, &"run_1".into(), ended(RunState::Failed)).await.unwrap();
        assert_eq!(runs.run(&acme, &"run_1".into()).await.unwrap().unwrap().state, RunState::Running);
        runs.end_run(&acme, &"run_1".into(), ended(RunState::Succeeded)).await.unwrap();
        runs.end_run(&acme, &"run_1".into(), ended(RunState::Failed)).await.unwrap();
        let stored = runs.run(&acme, &"run_1".into()).await.unwrap().unwrap();
        assert_eq!((stored.state, stored.record.as_deref()), (RunState::Succeeded, Some("{}")));
        assert_eq!(stored.run.inputs, None, "inputs are kept only until the end");
        assert_eq!(runs.run(&zen, &"run_1".into()).await.unwrap(), None);
        assert_eq!(runs.runs(&zen, RunFilter::default(), None, 9).await.unwrap(), []);
        let sent = TenantDispatch { tenant: acme.clone(), id: "d-1".into() };
        assert_eq!(runs.dispatches_of_run(&"run_1".into()).await.unwrap(), std::slice::from_ref(&sent));
        assert_eq!(runs.runs_of_dispatch(&sent).await.unwrap()[0].run.id, "run_1");
        let namesake = TenantDispatch { tenant: zen.clone(), ..sent };
        assert_eq!(runs.runs_of_dispatch(&namesake).await.unwrap(), []);
        assert!(!runs.cancel_queued_run(&acme, &"run_1".into(), Moment::from_millis(9)).await.unwrap());
    }

    async fn a_run_leads_to_its_cause_and_a_cause_to_its_runs(book) {
        book.enrols("acme", "heron").await;
        book.enrols("zen", "egret").await;
        let runs = book.ledger.skill_runs();
        let of = |tenant: &str| TenantDispatch { tenant: tenant.into(), id: "d-1".into() };
        let namesake = NewRun { cause: Some("d-1".into()), ..run("ten_zen", "run_0", false) };
        assert!(runs.queue_run(namesake).await.unwrap());
        let causes = [("run_1", Some("d-1")), ("run_2", None), ("run_3", Some("d-1"))];
        for (id, cause) in causes {
            let cause = cause.map(DispatchId::from);
            assert!(runs.queue_run(NewRun { cause, ..run("ten_acme", id, false) }).await.unwrap());
        }
        for (id, cause) in causes {
            assert_eq!(runs.cause_of_run(&id.into()).await.unwrap(), cause.map(|_| of("ten_acme")));
        }
        assert_eq!(runs.cause_of_run(&"run_404".into()).await.unwrap(), None);
        for (limit, expected) in [(10, &["run_1", "run_3"][..]), (1, &["run_1"])] {
            let caused = runs.runs_caused_by(&of("ten_acme"), limit).await.unwrap();
            let ids: Vec<String> = caused.into_iter().map(|run| run.run.id.to_string()).collect();
            assert_eq!(ids, expected);
        }
    }

    async fn triggers_follow_the_skills_and_an_event_name_has_one_skill(book) {
        book.enrols("acme", "heron").await;
        let (triggers, acme) = (book.ledger.skill_triggers(), TenantId::from("ten_acme"));
        let now = Moment::from_millis(1000);
        let declared = vec![event("a", "open", true), event("b", "close", true)];
        let all = triggers.follow_skills(&acme, declared.clone(), "v1", now).await.unwrap();
        assert_eq!(all.iter().map(|one| one.number).collect::<Vec<_>>(), [1, 2]);
        triggers.enable_trigger(&acme, 1, false).await.unwrap().unwrap();
        let added = triggers.add_trigger(&acme, event("c", "close", false), now).await.unwrap().unwrap();
        assert_eq!(added.number, 3, "it takes the name over");
        let all = triggers.follow_skills(&acme, vec![event("a", "open", true)], "v2", now).await.unwrap();
        let kept: Vec<_> = all.iter().map(|one| (one.number, one.enabled)).collect();
        assert_eq!(kept, [(1, false), (3, true)], "what exists keeps its number and its switch");
        assert_eq!(triggers.triggers(&acme).await.unwrap().1.as_deref(), Some("v2"));
        assert!(triggers.remove_trigger(&acme, 3).await.unwrap());
        assert!(!triggers.remove_trigger(&acme, 3).await.unwrap());
        assert!(!triggers.remove_trigger(&"ten_zen".into(), 1).await.unwrap());
    }
}
