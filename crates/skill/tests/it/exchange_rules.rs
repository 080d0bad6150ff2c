//! The `exchange` operation: one question, one answer, within a time limit.

use std::time::Duration;

use skill::tree::SkillTree;
use skill::{RunContext, SkillHost as _, SkillOutcome};
use skill_doubles::{AgentDouble, AgentFlags, AgentsPlayed, StandardHost, StandardSettings};

use crate::running::{only_error, skill, transcript, try_run};

/// Three connectors that reach `desk`: the first cannot return answers. No connector returns answers of `lamp`.
fn host(stays_silent: bool) -> StandardHost {
    let connector = |(name, agent, answers): (&str, &str, bool)| AgentDouble {
        name: name.into(),
        agents: vec![agent.to_owned()],
        flags: AgentFlags { answers, stays_silent, ..AgentFlags::default() },
    };
    let connectors =
        [("mute", "desk", false), ("first", "desk", true), ("second", "desk", true), ("far", "lamp", false)];
    StandardHost::new(StandardSettings::default(), AgentsPlayed::new(connectors.map(connector).into()))
}

fn run(host: &StandardHost, header: &str, lines: &str) -> SkillOutcome {
    try_run(host, &skill(header, lines), &RunContext::default()).unwrap()
}

#[test]
fn the_first_connector_that_can_bring_an_answer_is_asked_once() {
    let host = host(false);
    let lines = "$set Q = \"why\"\n\
                 exchange(agent=\"desk\", message=\"${Q}?\", timeout=5, correlation_id=\"c-${Q}\") -> R\n\
                 emit(text=\"${R.agent_id} ${R.correlation_id} ${R.data.heard} ${R.content}\")";
    let outcome = run(&host, "", lines);
    assert_eq!(transcript(&outcome), [r#"desk c-why why? {"agent":"desk","heard":"why?"}"#]);
    let calls = host.agents.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].field("connector").unwrap().rendered(), "first");
    let meta = calls[0].field("payload").and_then(|payload| payload.field("meta")).unwrap();
    assert_eq!(meta.field("correlation_id").unwrap().rendered(), "c-why");
}

#[test]
fn without_a_message_the_transcript_is_asked_and_without_a_correlation_id_there_is_a_fresh_one() {
    let host = host(false);
    let lines = "emit(text=\"one\")\nemit(text=\"two\")\nexchange(agent=\"desk\", connectors=[\"second\"]) -> R\n\
                 emit(text=\"${R.data.heard} ${R.correlation_id|length}\")";
    let outcome = run(&host, "", lines);
    assert_eq!(transcript(&outcome)[2], "one\ntwo 36");
    assert_eq!(host.agents.calls()[0].field("connector").unwrap().rendered(), "second");
}

#[test]
fn an_answer_that_does_not_come_is_a_timeout_that_a_fallback_absorbs() {
    let silent = host(true);
    let outcome = run(&silent, "", "exchange(agent=\"desk\", message=\"m\", timeout=30) -> R");
    assert_eq!(only_error(&outcome).0, "TimeoutError");
    assert_eq!(outcome.errors[0].op_kind, "exchange");
    assert_eq!(silent.elapsed(), Duration::from_secs(30));
    let lines =
        "exchange(agent=\"desk\", message=\"m\", timeout=30) -> R (fallback: \"later\")\nemit(text=\"${R}\")";
    assert_eq!(transcript(&run(&host(true), "", lines)), ["later"]);
}

#[test]
fn the_deadline_of_a_run_cuts_a_question_and_its_effect_is_uncertain() {
    let lines = "exchange(agent=\"desk\", message=\"m\", timeout=30) -> R (fallback: \"never\")";
    let outcome = run(&host(true), "# Deadline: 2\n", lines);
    assert!(outcome.deadline_exceeded);
    assert_eq!(outcome.uncertain_effects[0].op_kind, "exchange");
}

#[test]
fn only_an_agent_that_a_connector_reaches_can_be_asked_and_no_session() {
    let class = |lines: &str| only_error(&run(&host(false), "", lines)).0.to_owned();
    assert_eq!(class("exchange(agent=\"nobody\", message=\"m\") -> R"), "DeliveryFailedError");
    assert_eq!(class("exchange(agent=\"lamp\", message=\"m\") -> R"), "NotImplementedError");
    let session = "$set A = \"desk@s\"\nexchange(agent=\"${A}\", message=\"m\") -> R";
    assert_eq!(class(session), "ExchangeAddressError");
    let tree = SkillTree::parse(&skill("", "exchange(agent=\"desk@s\", message=\"m\") -> R"));
    assert_eq!(tree.errors.len(), 1);
}

#[test]
fn a_mechanical_run_asks_nobody() {
    let host = host(false);
    let context = RunContext { is_mechanical: true, ..RunContext::default() };
    let source = skill("", "exchange(agent=\"desk\", message=\"abc\") -> R\nemit(text=\"${R.content}\")");
    let outcome = try_run(&host, &source, &context).unwrap();
    let preview = "Would exchange with agent 'desk' (3 chars; mechanical: true preview).";
    assert_eq!((transcript(&outcome), host.agents.calls().len()), (vec![preview, "R.content"], 0));
}
