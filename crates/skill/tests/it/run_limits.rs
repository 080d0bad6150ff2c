//! Bounds of a run: whatever a skill does, the run ends with an error that names the limit.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use skill::tree::{OpKind, SkillTree};
use skill::{
    MemoryRefusal, PreparedSkill, RunContext, RunLimits, RunMemory, RunPolicy, SkillObject, SkillValue,
    run_skill,
};
use skill_doubles::drive;

use crate::running::{only_error, policy, run, skill, standard_host, transcript, try_run, try_run_with};

fn numbers(count: u32) -> SkillObject {
    let list = SkillValue::list((0..count).map(|number| f64::from(number).into()));
    [("N", list)].into_iter().collect()
}

#[track_caller]
fn exceeds(source: &str, limits: RunLimits, limit: &str) {
    let outcome = run(source, limits);
    let (class, message) = only_error(&outcome);
    assert_eq!(class, "OpError");
    assert!(message.contains(limit), "{message}");
}

#[test]
fn exponential_substitution_ends_at_the_limit_of_a_value() {
    let doubling = "$set A = \"xxxxxxxxxxxxxxxx\"\n".to_owned() + &"$set A = ${A}${A}\n".repeat(60);
    exceeds(&skill("", &doubling), RunLimits::default(), "16 MiB");
}

#[test]
fn a_text_that_grows_by_appends_ends_at_the_limit_of_a_value() {
    let appends = "$set A = \"x\"\n".to_owned() + &"$append A ${A}${A}\n".repeat(30);
    exceeds(&skill("", &appends), RunLimits::default(), "16 MiB");
}

#[test]
fn a_list_that_grows_by_appends_ends_at_the_limit_of_a_value() {
    let limits = RunLimits { value: 4096, ..RunLimits::default() };
    let lines = "$set L = []\nforeach I in ${N}:\n    $append L \"item ${I}\"";
    let context = RunContext { policy: policy(limits), ..RunContext::default() };
    let outcome =
        try_run_with(&standard_host(), &skill("# Vars: N\n", lines), &context, &numbers(1000)).unwrap();
    let (class, message) = only_error(&outcome);
    assert_eq!((class, message.contains("4096 bytes")), ("OpError", true), "{message}");
}

#[test]
fn filters_that_multiply_a_text_end_at_the_limit_of_a_value() {
    let lines = format!("$set A = \"{}\"\nemit(text=\"${{A{}}}\")", "'".repeat(1000), "|shell".repeat(30));
    exceeds(&skill("", &lines), RunLimits::default(), "16 MiB");
}

#[test]
fn all_variables_together_are_bounded() {
    let limits = RunLimits { variables: 10_000, ..RunLimits::default() };
    let big = "x".repeat(3000);
    let lines: String = (0..9).map(|n| format!("$set V{n} = \"{big}${{NOW}}\"\n")).collect();
    exceeds(&skill("", &lines), limits, "10000 bytes");
}

#[test]
fn the_transcript_is_bounded() {
    let limits = RunLimits { transcript: 1000, ..RunLimits::default() };
    let lines = "emit(text=\"0123456789\")\n".repeat(200);
    exceeds(&skill("", &lines), limits, "the transcript is larger than the limit of 1000 bytes");
}

#[test]
fn an_answer_of_a_tool_is_bounded_and_a_fallback_absorbs_it() {
    let limits = RunLimits { tool_answer: 1000, ..RunLimits::default() };
    let call = format!("$ tools.echo a=\"{}\" -> R", "x".repeat(2000));
    exceeds(&skill("", &call), limits, "1000 bytes");
    let outcome = run(&skill("", &format!("{call} (fallback: \"small\")\nemit(text=\"${{R}}\")")), limits);
    assert_eq!(transcript(&outcome), ["small"]);
}

#[test]
fn standard_output_is_bounded() {
    let limits = RunLimits { standard_output: 100, ..RunLimits::default() };
    exceeds(&skill("", "shell(command=\"printf %0200d 7\") -> R"), limits, "100 bytes");
}

#[test]
fn records_of_fallbacks_are_bounded() {
    let limits = RunLimits { fallback_records: 500, ..RunLimits::default() };
    let lines = "$ tools.fail why=x -> R (fallback: \"again\")\n".repeat(100);
    exceeds(&skill("", &lines), limits, "500 bytes");
}

#[test]
fn operations_are_counted_through_every_loop_and_every_skill() {
    let limits = RunLimits { operations: 1000, ..RunLimits::default() };
    let lines = "foreach A in ${N}:\n    foreach B in ${N}:\n        $set X = \"${B}\"";
    let context = RunContext { policy: policy(limits), ..RunContext::default() };
    let host = standard_host();
    let source = skill("# Vars: N\n", lines);
    let outcome = try_run_with(&host, &source, &context, &numbers(100)).unwrap();
    assert!(only_error(&outcome).1.contains("1000"), "{:?}", outcome.errors);
    // A skill that another one runs draws from the same number.
    host.skills.put("inner", &skill("", &"$set A = \"x\"\n".repeat(600)), None);
    let twice = skill(
        "",
        "$ execute_skill name=\"inner\" -> A\n$ execute_skill name=\"inner\" -> B\nemit(text=\"${B.errors}\")",
    );
    let outcome = try_run_with(&host, &twice, &context, &SkillObject::default()).unwrap();
    assert!(only_error(&outcome).1.contains("1000"), "{:?}", outcome.errors);
    assert_eq!(RunLimits::default().operations, 10_000_000);
}

#[test]
fn a_loop_over_a_million_items_ends() {
    let context = RunContext { policy: policy(RunLimits::default()), ..RunContext::default() };
    let source =
        skill("# Vars: N\n", "foreach I in ${N}:\n    $set LAST = \"${I}\"\nemit(text=\"${N|length}\")");
    let outcome = try_run_with(&standard_host(), &source, &context, &numbers(1_000_000)).unwrap();
    assert_eq!((transcript(&outcome), outcome.errors.len()), (vec!["1000000"], 0));
}

#[test]
fn json_that_is_nested_too_deep_is_an_error() {
    let source = skill("", &format!("$ json_parse {} -> R", "[".repeat(100_000)));
    exceeds(&source, RunLimits::default(), "nested deeper than 1000");
    let nested = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let outcome =
        run(&skill("", &format!("$ json_parse {nested} -> R\nemit(text=\"${{R}}\")")), RunLimits::default());
    assert_eq!(transcript(&outcome), [nested]);
}

#[test]
fn a_long_chain_of_targets_needs_no_stack() {
    let mut source = "# Skill: chain\nt0:\n    $set A = \"x\"\n".to_owned();
    for n in 1..20_000 {
        source.push_str(&format!("t{n}: t{}\n    $set A = \"x\"\n", n - 1));
    }
    let outcome = run(&(source + "default: t19999\n"), RunLimits::default());
    assert_eq!((outcome.target_order.len(), outcome.errors.len()), (20_000, 0));
}

#[test]
fn skills_that_run_each_other_end_at_the_depth_limit() {
    let host = standard_host();
    // Every skill hands on the errors of the one that it ran.
    let lines = "$ execute_skill name=\"pong\" -> R\n$set E = \"${R.errors} ${R.E|fallback:\"\"}\"";
    let ping = skill("# Returns: E\n", lines);
    host.skills.put("pong", &ping.replace("pong", "ping"), None);
    host.skills.put("ping", &ping, None);
    let context = RunContext { policy: policy(RunLimits::default()), ..RunContext::default() };
    let outcome = try_run_with(&host, &ping, &context, &SkillObject::default()).unwrap();
    let errors = outcome.variables.get("E").unwrap().rendered().into_owned();
    assert!(errors.contains("skills run each other deeper than 10"), "{errors}");
    assert_eq!(outcome.errors.len(), 0, "errors of a skill that was run are data");
}

#[test]
fn data_skills_that_inline_each_other_are_refused() {
    let host = standard_host();
    for (name, other) in [("left", "right"), ("right", "left")] {
        let body = skill("# Type: data\n", &format!("inline(skill=\"{other}\")")).replace("probe", name);
        host.skills.put(name, &body, None);
    }
    let context = RunContext::default();
    let source = skill("", "inline(skill=\"left\")");
    let error = try_run_with(&host, &source, &context, &SkillObject::default()).unwrap_err();
    assert!(error.message.contains("left → right → left"), "{}", error.message);
}

#[test]
fn data_skills_that_multiply_their_text_end_at_the_limit_of_a_value() {
    let host = standard_host();
    for level in 0..40 {
        let lines = match level {
            0 => "emit(text=\"0123456789\")".to_owned(),
            _ => format!("inline(skill=\"d{}\")\n", level - 1).repeat(2),
        };
        host.skills.put(
            &format!("d{level}"),
            &skill("# Type: data\n", &lines).replace("probe", &format!("d{level}")),
            None,
        );
    }
    let source = skill("", "inline(skill=\"d39\")");
    let error = try_run_with(&host, &source, &RunContext::default(), &SkillObject::default()).unwrap_err();
    assert_eq!(
        (error.class.name(), error.message.contains("16 MiB")),
        ("OpError", true),
        "{}",
        error.message
    );
}

#[test]
fn a_long_run_gives_its_thread_back_again_and_again_and_can_be_dropped() {
    let host = standard_host();
    let tree = Arc::new(SkillTree::parse(&skill("# Vars: N\n", "foreach I in ${N}:\n    $set A = \"${I}\"")));
    let skill = drive(&host.clock, PreparedSkill::new(&host, tree, &numbers(100_000))).unwrap().unwrap();
    let context = RunContext::default();
    let mut run = Box::pin(run_skill(&host, &skill, &context));
    let mut polls = 0;
    while polls < 50 {
        let Poll::Pending = pin!(&mut run).poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the run ended after {polls} pauses");
        };
        polls += 1;
    }
    drop(run);
}

#[test]
fn a_run_that_waits_is_small() {
    let host = standard_host();
    let tree = Arc::new(SkillTree::parse(&skill("", "$ tools.slow ms=1000 -> R")));
    let skill =
        drive(&host.clock, PreparedSkill::new(&host, tree, &SkillObject::default())).unwrap().unwrap();
    let context = RunContext::default();
    let run = run_skill(&host, &skill, &context);
    assert!(size_of_val(&run) < 8 * 1024, "{}", size_of_val(&run));
}

#[test]
fn what_a_trace_records_is_bounded() {
    let limits = RunLimits { traced_operations: 10, ..RunLimits::default() };
    let context = RunContext { policy: policy(limits), is_traced: true, ..RunContext::default() };
    let source = skill("", &"$set A = \"x\"\n".repeat(25));
    let outcome = try_run_with(&standard_host(), &source, &context, &SkillObject::default()).unwrap();
    assert_eq!((outcome.trace.len(), outcome.untraced), (10, 15));
}

#[test]
fn the_texts_of_a_trace_are_cut_and_shared_by_the_rounds_of_a_loop() {
    let context = RunContext { is_traced: true, ..RunContext::default() };
    let lines = format!("foreach I in ${{N}}:\n    emit(text=\"{}\")", "é".repeat(50_000));
    let source = skill("# Vars: N\n", &lines);
    let outcome = try_run_with(&standard_host(), &source, &context, &numbers(100)).unwrap();
    assert_eq!((outcome.trace.len(), outcome.untraced), (101, 0));
    assert!(outcome.trace.iter().all(|op| op.body.len() <= 1027 && op.body.len() > 10));
    assert!(outcome.trace[..100].iter().all(|op| Arc::ptr_eq(&op.body, &outcome.trace[0].body)));
    assert!(outcome.trace[0].body.ends_with("é…"));
}

#[test]
fn a_trace_is_bounded_in_bytes_with_those_of_the_skills_that_the_run_runs() {
    let limits = RunLimits { trace: 10_000, ..RunLimits::default() };
    let context = RunContext { policy: policy(limits), is_traced: true, ..RunContext::default() };
    let host = standard_host();
    let emits = format!("emit(text=\"{}\")\n", "x".repeat(900)).repeat(30);
    host.skills.put("inner", &skill("", &emits), None);
    let source = skill("", &format!("$ execute_skill name=\"inner\" -> A\n{emits}"));
    let outcome = try_run_with(&host, &source, &context, &SkillObject::default()).unwrap();
    let children = outcome.child_traces.iter().flat_map(|child| &child.ops);
    let ops: Vec<_> = outcome.trace.iter().chain(children).collect();
    assert!(ops.iter().map(|op| op.body.len()).sum::<usize>() <= 10_000);
    assert_eq!((ops.is_empty(), ops.len() as u64 + outcome.untraced), (false, 61));
}

#[test]
fn a_loop_without_calls_ends_at_the_deadline_of_its_skill_and_at_that_of_the_operator() {
    for (header, max_duration) in [("# Deadline: 5\n", None), ("", Some(Duration::from_secs(5)))] {
        let host = standard_host();
        let source = skill(&format!("# Vars: N\n{header}"), "foreach I in ${N}:\n    $set A = \"${I}\"");
        let tree = Arc::new(SkillTree::parse(&source));
        let skill =
            drive(&host.clock, PreparedSkill::new(&host, tree, &numbers(1_000_000))).unwrap().unwrap();
        let policy = Arc::new(RunPolicy { max_duration, ..RunPolicy::default() });
        let context = RunContext { policy, ..RunContext::default() };
        let mut run = pin!(run_skill(&host, &skill, &context));
        let mut waker = Context::from_waker(Waker::noop());
        assert!(run.as_mut().poll(&mut waker).is_pending());
        let mut sleep = pin!(host.clock.sleep(Duration::from_secs(6)));
        assert!(sleep.as_mut().poll(&mut waker).is_pending() && host.clock.advance());
        let Poll::Ready(Ok(outcome)) = run.as_mut().poll(&mut waker) else {
            panic!("the run goes on behind its deadline");
        };
        assert!(outcome.deadline_exceeded);
        assert_eq!(only_error(&outcome).0, "RunDeadlineExceeded");
    }
}

#[test]
fn a_reference_has_a_bounded_number_of_filters() {
    let trims = |count: usize| "|trim".repeat(count);
    for lines in ["emit(text=\"${A%}\")", "if ${A%}:\n    ? x", "if ${A%} == \"x\":\n    ? x"] {
        let source = |count| skill("", &format!("$set A = \"x\"\n{}", lines.replace('%', &trims(count))));
        assert_eq!(run(&source(32), RunLimits::default()).errors.len(), 0);
        exceeds(&source(33), RunLimits::default(), "more filters than the limit of 32");
    }
}

#[test]
fn what_one_operation_reads_is_bounded() {
    let inputs: SkillObject = [("A", SkillValue::from("x".repeat(1 << 20)))].into_iter().collect();
    let context = RunContext::default();
    for lines in [
        format!("emit(text=\"{}\")", "${A|length}".repeat(300)),
        format!("emit(text='{}')", "${A|contains:\"y\"}".repeat(300)),
    ] {
        let outcome =
            try_run_with(&standard_host(), &skill("# Vars: A\n", &lines), &context, &inputs).unwrap();
        assert!(only_error(&outcome).1.contains("256 MiB"), "{:?}", outcome.errors);
    }
}

#[test]
fn a_run_pauses_after_every_long_read() {
    let list = SkillValue::list((0..100_000).map(|number| f64::from(number).into())).json();
    let inputs: SkillObject =
        [("L", SkillValue::from(list)), ("N", SkillValue::list((0..50).map(|_| "x".into())))]
            .into_iter()
            .collect();
    for body in
        ["if ${I} in ${L}:\n        ? x", "foreach J in ${L|head:\"0\"}:\n        ? x", "? ${L|length}"]
    {
        let host = standard_host();
        let source = skill("# Vars: L, N\n", &format!("foreach I in ${{N}}:\n    {body}"));
        let tree = Arc::new(SkillTree::parse(&source));
        assert!(tree.errors.is_empty(), "{:?}", tree.errors);
        let skill = drive(&host.clock, PreparedSkill::new(&host, tree, &inputs)).unwrap().unwrap();
        let context = RunContext::default();
        let mut run = pin!(run_skill(&host, &skill, &context));
        let mut pauses = 0;
        while run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            pauses += 1;
        }
        assert!(pauses >= 45, "{pauses} pauses: {body}");
    }
}

#[test]
fn the_items_that_open_loops_keep_are_counted_with_the_variables() {
    let limits = RunLimits { variables: 100_000, ..RunLimits::default() };
    let nested = |loops: usize| -> String {
        (0..loops)
            .map(|depth| format!("{}foreach I{depth} in ${{T}}:\n", "    ".repeat(depth)))
            .collect::<String>()
            + &"    ".repeat(loops)
            + "$set X = \"x\""
    };
    let list = SkillValue::list((0..200).map(|_| "x".into())).json();
    let inputs: SkillObject = [("T", SkillValue::from(list))].into_iter().collect();
    let limited = RunLimits { operations: 1000, ..limits };
    let run = |lines: &str, limits| {
        let context = RunContext { policy: policy(limits), ..RunContext::default() };
        try_run_with(&standard_host(), &skill("# Vars: T\n", lines), &context, &inputs).unwrap()
    };
    assert!(only_error(&run(&nested(9), limited)).1.contains("items of loops is larger"));
    // What a loop kept is free again behind it.
    let one_by_one = vec![nested(1); 20].join("\n");
    assert_eq!(run(&one_by_one, limits).errors.len(), 0);
}

#[test]
fn all_places_that_inline_a_data_skill_share_its_parsed_texts() {
    let host = standard_host();
    host.skills.put("d", &skill("# Type: data\n", "emit(text=\"a ${NOW}\")").replace("probe", "d"), None);
    let lines = "inline(skill=\"d\")\n".repeat(2) + &"inline(skill=\"d\") -> V\n".repeat(2);
    let tree = Arc::new(SkillTree::parse(&skill("", &lines)));
    let prepared =
        drive(&host.clock, PreparedSkill::new(&host, tree, &SkillObject::default())).unwrap().unwrap();
    let texts = prepared.tree.targets[0].ops.iter().map(|op| match &op.kind {
        OpKind::Emit(emit) => emit.text.text().as_ptr(),
        OpKind::Set(set) => set.value.text().as_ptr(),
        other => panic!("{other:?}"),
    });
    let texts: Vec<_> = texts.collect();
    assert!(texts.len() == 4 && texts[0] == texts[1] && texts[2] == texts[3]);
}

#[test]
fn all_inlined_texts_of_a_skill_together_are_bounded() {
    let host = standard_host();
    let long = format!("emit(text=\"{}\")", "x".repeat(20_000));
    let many = "emit(text=\"\")\n".repeat(200);
    for (name, lines) in [("long", long), ("many", many)] {
        host.skills.put(name, &skill("# Type: data\n", &lines).replace("probe", name), None);
    }
    for line in ["inline(skill=\"long\")\n", "inline(skill=\"long\") -> V\n", "inline(skill=\"many\")\n"] {
        let source = skill("", &line.repeat(1000));
        let error =
            try_run_with(&host, &source, &RunContext::default(), &SkillObject::default()).unwrap_err();
        assert!(error.message.contains("inlined data skills is larger than the limit of 16 MiB"), "{line}");
    }
}

#[test]
fn all_outputs_share_one_text() {
    let outputs: Vec<String> = (0..50_000).map(|number| format!("file: f{number}")).collect();
    let header = format!("# Output: {}\n", outputs.join(", "));
    // A copy of the transcript for each output would need 50 GB.
    let outcome =
        run(&skill(&header, &format!("emit(text=\"{}\")", "x".repeat(1 << 20))), RunLimits::default());
    assert_eq!(outcome.outputs.len(), 50_000);
    let texts =
        outcome.outputs.iter().map(|(_, value)| value.as_ref().and_then(SkillValue::as_text).unwrap());
    assert_eq!(texts.map(str::as_ptr).collect::<HashSet<_>>().len(), 1);
}

/// A budget that several runs share.
#[derive(Debug)]
struct Budget {
    limit: usize,
    held: AtomicUsize,
}

impl RunMemory for Budget {
    fn reserve(&self, bytes: usize) -> Result<(), MemoryRefusal> {
        let held = self.held.load(Ordering::Relaxed) + bytes;
        if held > self.limit {
            return Err(MemoryRefusal { what: "what these runs hold together", limit: self.limit });
        }
        self.held.store(held, Ordering::Relaxed);
        Ok(())
    }

    fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[test]
fn runs_share_a_budget_of_memory_and_give_it_back_with_their_outcome() {
    const MEBIBYTE: usize = 1 << 20;
    let budget = Arc::new(Budget { limit: 4 * MEBIBYTE, held: AtomicUsize::new(0) });
    let memory: Arc<dyn RunMemory> = Arc::clone(&budget) as _;
    let policy = Arc::new(RunPolicy { memory: Some(memory), ..RunPolicy::default() });
    let context = RunContext { policy, ..RunContext::default() };
    let long = "x".repeat(MEBIBYTE);
    let grows = skill("", &format!("$set A = {long}\n$append A ${A}\nemit(text=\"done\")", A = "{A}"));
    let host = standard_host();
    let first = try_run(&host, &grows, &context).unwrap();
    assert_eq!(transcript(&first), ["done"]);
    assert!(budget.held.load(Ordering::Relaxed) >= 2 * MEBIBYTE);
    let refused = try_run(&host, &grows, &context).unwrap();
    let (class, message) = only_error(&refused);
    assert_eq!(class, "OpError");
    assert_eq!(message, "what these runs hold together is larger than the limit of 4 MiB");
    // A small one runs beside them, and an error block can still report.
    let small = try_run(&host, &skill("", "emit(text=\"small\")"), &context).unwrap();
    assert_eq!(transcript(&small), ["small"]);
    let reports =
        format!("$set A = {long}\n$append A ${{A}}\n$append A ${{A}}\nelse:\nemit(text=\"too much\")");
    let reports = skill("", &reports).replace("    else:", "else:");
    drop((first, refused, small));
    assert_eq!(budget.held.load(Ordering::Relaxed), 0, "everything is given back");
    let outcome = try_run(&host, &reports, &context).unwrap();
    assert_eq!(transcript(&outcome), ["too much"], "{:?}", outcome.errors);
}
