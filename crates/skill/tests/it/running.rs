//! Runs a skill in the standard environment, for tests of single rules.

use std::sync::Arc;

use skill::tree::SkillTree;
use skill::{
    PreparedSkill, RunContext, RunError, RunLimits, RunPolicy, SkillObject, SkillOutcome, run_skill,
};
use skill_doubles::{AgentsPlayed, StandardHost, StandardSettings, drive};

/// A skill with its header and one target `go` that holds the given lines.
pub fn skill(header: &str, lines: &str) -> String {
    let body: String = lines.lines().map(|line| format!("    {line}\n")).collect();
    format!("# Skill: probe\n# Status: Approved\n{header}go:\n{body}default: go\n")
}

pub fn standard_host() -> StandardHost {
    StandardHost::new(StandardSettings::default(), AgentsPlayed::standard())
}

pub fn policy(limits: RunLimits) -> Arc<RunPolicy> {
    Arc::new(RunPolicy { limits, shell_programs: Some(vec!["printf".to_owned()]), ..RunPolicy::default() })
}

/// Runs a text. Mistakes of the text itself are mistakes of the test.
pub fn try_run(host: &StandardHost, source: &str, context: &RunContext) -> Result<SkillOutcome, RunError> {
    try_run_with(host, source, context, &SkillObject::default())
}

pub fn try_run_with(
    host: &StandardHost,
    source: &str,
    context: &RunContext,
    inputs: &SkillObject,
) -> Result<SkillOutcome, RunError> {
    let tree = Arc::new(SkillTree::parse(source));
    assert!(tree.errors.is_empty(), "{:?}", tree.errors);
    let run = async {
        let skill = PreparedSkill::new(host, tree, inputs).await?;
        run_skill(host, &skill, context).await
    };
    drive(&host.clock, run).expect("the run waits for something that never comes")
}

pub fn run(source: &str, limits: RunLimits) -> SkillOutcome {
    let context = RunContext { policy: policy(limits), ..RunContext::default() };
    try_run(&standard_host(), source, &context).unwrap()
}

pub fn transcript(outcome: &SkillOutcome) -> Vec<&str> {
    outcome.transcript.iter().map(|line| line.as_str()).collect()
}

/// Class and message of the only error.
pub fn only_error(outcome: &SkillOutcome) -> (&str, &str) {
    assert_eq!(outcome.errors.len(), 1, "{:?}", outcome.errors);
    (outcome.errors[0].class.name(), &outcome.errors[0].message)
}
