//! Rules of the executor that no recorded program shows, or that differ from the reference on purpose.

use std::sync::Arc;
use std::time::Duration;

use skill::{RunContext, RunPolicy, SkillHost as _};
use skill_doubles::{AgentsPlayed, StandardHost, StandardSettings};

use crate::running::{only_error, policy, run, skill, standard_host, transcript, try_run};

fn limited(max_duration: Duration) -> RunContext {
    let policy = RunPolicy { max_duration: Some(max_duration), ..RunPolicy::default() };
    RunContext { policy: Arc::new(policy), ..RunContext::default() }
}

#[test]
fn a_loop_that_appends_to_its_own_list_goes_over_the_items_of_the_beginning() {
    let lines = "$set L = [a, b]\nforeach I in $(L):\n    $append L \"${I}${I}\"\nemit(text=\"${L}\")";
    assert_eq!(transcript(&run(&skill("", lines), Default::default())), [r#"["a","b","aa","bb"]"#]);
}

#[test]
fn an_append_to_an_item_shows_in_the_list_only_for_a_loop_over_the_value_itself() {
    let parse = "$ json_parse [[\"a\"]] -> L\n";
    for (list, expected) in [("$(L)", r#"[["a","x"]]"#), ("${L}", r#"[["a"]]"#)] {
        let lines = format!("{parse}foreach I in {list}:\n    $append I x\nemit(text=\"${{L}}\")");
        assert_eq!(transcript(&run(&skill("", &lines), Default::default())), [expected]);
    }
}

#[test]
fn an_operation_that_takes_too_long_ends_at_its_own_limit_or_at_that_of_the_run_whichever_is_smaller() {
    let call = "$ tools.slow ms=5000 timeout=0.5 -> R (fallback: \"late\")\nemit(text=\"${R}\")";
    let host = standard_host();
    let outcome = try_run(&host, &skill("", call), &limited(Duration::from_millis(501))).unwrap();
    assert_eq!((transcript(&outcome), outcome.deadline_exceeded), (vec!["late"], false));
    assert_eq!(host.elapsed(), Duration::from_millis(500));
    // At a tie the run ends: no timer decides this.
    let outcome = try_run(&standard_host(), &skill("", call), &limited(Duration::from_millis(500))).unwrap();
    assert_eq!((transcript(&outcome).len(), outcome.deadline_exceeded), (0, true));
    assert_eq!(outcome.uncertain_effects[0].op, "tools.slow");
}

#[test]
fn a_call_that_outlives_its_end_is_cleaned_up_within_the_time_of_the_run() {
    let host = standard_host();
    let source = skill("# Deadline: 3\n", "$ outliving.slow ms=60000 -> R");
    let outcome = try_run(&host, &source, &RunContext::default()).unwrap();
    assert!(outcome.deadline_exceeded);
    assert_eq!(host.clean_ups(), [("outliving".to_owned(), Duration::from_secs(1))]);
    assert!(host.elapsed() <= Duration::from_secs(3), "{:?}", host.elapsed());
}

#[test]
fn a_run_without_time_left_starts_no_call() {
    let host = standard_host();
    let lines = "$ tools.slow ms=2000 timeout=1 -> A (fallback: \"x\")\n$ tools.echo a=1 -> B";
    let outcome = try_run(&host, &skill("", lines), &limited(Duration::from_millis(1500))).unwrap();
    assert_eq!(outcome.errors.len(), 0, "{:?}", outcome.errors);
    let host = standard_host();
    let lines = "$ tools.slow ms=900 -> A\n$ tools.slow ms=900 -> B\n$ tools.echo a=1 -> C";
    let outcome = try_run(&host, &skill("", lines), &limited(Duration::from_secs(1))).unwrap();
    assert_eq!(only_error(&outcome).0, "RunDeadlineExceeded");
    assert_eq!(host.tool_calls().len(), 2);
}

#[test]
fn a_secret_reaches_the_tool_and_nothing_else() {
    let settings = StandardSettings {
        secrets: [("K".to_owned(), "hunter2".to_owned())].into_iter().collect(),
        ..StandardSettings::default()
    };
    let host = StandardHost::new(settings, AgentsPlayed::standard());
    let lines = "$ tools.echo a=[\"{{secret.K}}\",{\"b\":\"x {{ secret.K }}\"}] -> IGNORED\n$set IGNORED = \"\"\n\
                 $set DATA = \"{{secret.K}}\"\n$ tools.echo a=\"${DATA}\" -> INERT\n\
                 $ tools.fail why=\"no {{secret.K}}\" -> R (fallback: \"fb\")\n$ tools.fail why={{secret.K}} -> R";
    let context = RunContext { is_traced: true, ..RunContext::default() };
    let outcome = try_run(&host, &skill("# Requires: secret.K\n", lines), &context).unwrap();
    let calls = host.tool_calls();
    assert_eq!(calls[0].arguments.json(), r#"{"a":["hunter2",{"b":"x hunter2"}]}"#);
    assert_eq!(calls[1].arguments.json(), r#"{"a":"{{secret.K}}"}"#);
    let (class, message) = only_error(&outcome);
    assert_eq!((class, message), ("Error", "mock failure: {{secret.REDACTED}}"));
    assert!(outcome.fallbacks[0].reason.contains("no {{secret.REDACTED}}"));
    // The result of the first call is data of the skill; everything that the executor writes is clean.
    let left =
        format!("{:?} {:?} {:?} {:?}", outcome.errors, outcome.fallbacks, outcome.trace, outcome.transcript);
    assert!(!left.contains("hunter2"), "{left}");
}

#[test]
fn a_refused_command_resolves_no_secret() {
    let lines = "shell(argv=[\"curl\", \"{{secret.NONE}}\"]) -> R";
    let context = RunContext { policy: policy(Default::default()), ..RunContext::default() };
    let outcome = try_run(&standard_host(), &skill("# Requires: secret.NONE\n", lines), &context).unwrap();
    assert_eq!(only_error(&outcome).0, "ShellBinaryNotAllowedError");
}

#[test]
fn data_with_quotes_of_its_own_loses_one_pair_in_an_argument_without_quotes() {
    let lines = "$set Q = '\"a\\nb\"'\n$ tools.echo bare=${Q} quoted=\"${Q}\" -> R\nemit(text=\"${R}\")";
    assert_eq!(
        transcript(&run(&skill("", lines), Default::default())),
        [r#"{"bare":"a\\nb","quoted":"\"a\\nb\""}"#]
    );
}

#[test]
fn a_child_is_checked_again_only_if_its_text_has_changed() {
    let host = standard_host();
    host.skills.put("kid", &skill("", "emit(text=\"one\")"), None);
    let new = skill("", "emit(text=\"two\")").replace('\n', "\\n").replace('"', "\\\"");
    let lines = format!(
        "$ execute_skill name=\"kid\" -> A\n$ skill_write name=\"kid\" source=\"{new}\" overwrite=true approved=\"test\" -> W\n\
         $ execute_skill name=\"kid\" -> B (fallback: \"refused\")\nemit(text=\"${{A.outputs.text}} ${{B}}\")"
    );
    let outcome = try_run(&host, &skill("", &lines), &RunContext::default()).unwrap();
    assert_eq!(transcript(&outcome), ["one refused"], "{:?}", outcome.errors);
}

#[test]
fn an_output_that_cannot_be_delivered_is_recorded_and_the_run_stays_green() {
    let host = StandardHost::new(StandardSettings::default(), AgentsPlayed::standard());
    let source = skill("# Output: agent: nobody@s\n# Output: agent: desk\n", "emit(text=\"x\")");
    let outcome = try_run(&host, &source, &RunContext::default()).unwrap();
    assert_eq!((outcome.wake_receipts.len(), outcome.delivery_receipts.len()), (1, 1));
    assert_eq!((outcome.failed_deliveries.len(), outcome.errors.len()), (0, 0));
}

#[test]
fn a_trigger_sets_variables_after_the_inputs_and_only_for_the_skill_that_it_starts() {
    let host = standard_host();
    host.skills.put("kid", &skill("", "emit(text=\"${TRIGGER_TYPE}\")"), None);
    let variables =
        vec![("TRIGGER_TYPE".into(), "cron".into()), ("N".into(), 7.0.into()), ("L".into(), "[a]".into())];
    let context = RunContext { variables, ..RunContext::default() };
    let lines =
        "$ execute_skill name=\"kid\" -> R\nemit(text=\"${TRIGGER_TYPE} ${N} ${L} ${R.outputs.text}\")";
    let outcome = try_run(&host, &skill("# Vars: N=1\n", lines), &context).unwrap();
    assert_eq!(transcript(&outcome), ["cron 7 [\"a\"] inline"]);
}

#[test]
fn the_operations_of_skills_that_a_skill_runs_are_traced_apart() {
    let host = standard_host();
    host.skills.put("kid", &skill("", "emit(text=\"hi\")").replace("probe", "kid"), None);
    let lines = "$ execute_skill name=\"kid\" -> A\n$ execute_skill name=\"kid\" -> B";
    let context = RunContext { is_traced: true, ..RunContext::default() };
    let outcome = try_run(&host, &skill("", lines), &context).unwrap();
    assert_eq!(outcome.trace.len(), 2);
    let children: Vec<_> =
        outcome.child_traces.iter().map(|child| (&*child.skill_name, child.depth, child.ops.len())).collect();
    assert_eq!(children, [("kid", 1, 1), ("kid", 1, 1)]);
    // All traces of children together are bounded.
    let limits = skill::RunLimits { traced_operations: 3, ..Default::default() };
    let context = RunContext { policy: policy(limits), is_traced: true, ..RunContext::default() };
    let outcome =
        try_run(&host, &skill("", &"$ execute_skill name=\"kid\" -> A\n".repeat(3)), &context).unwrap();
    assert_eq!((outcome.trace.len(), outcome.child_traces.len(), outcome.untraced), (3, 2, 1));
}

#[test]
fn a_reference_must_resolve_even_in_an_argument_that_a_later_one_replaces() {
    let outcome = run(&skill("", "$ tools.echo a=${NOWHERE} a=1 -> R"), Default::default());
    assert_eq!(only_error(&outcome).0, "UnresolvedVariableError");
    let outcome = run(&skill("", "$ tools.echo a=x a=1 -> R\nemit(text=\"${R}\")"), Default::default());
    assert_eq!(transcript(&outcome), [r#"{"a":1}"#]);
}
