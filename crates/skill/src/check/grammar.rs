//! Lint rules about parse errors, and about targets and their dependencies.

use super::{Check, FindingPlace};
use crate::syntax::blanks::trim;
use crate::syntax::tree::{LineTable, SkillTree};
use crate::syntax::{ParseErrorKind, excerpt};

pub fn check(check: &mut Check<'_>) {
    parse_errors(check);
    let tree = check.tree;
    if tree.targets.is_empty() && tree.template.is_none() && tree.errors.is_empty() {
        check.report(
            "no-targets",
            FindingPlace::SKILL,
            "the skill has no target and no body template".to_owned(),
        );
    }
    if !tree.targets.is_empty() && tree.entry.is_none() {
        check.report(
            "no-entry-target",
            FindingPlace::SKILL,
            "no target is the entry of the skill".to_owned(),
        );
    }
    if !tree.targets.is_empty() && !tree.has_default {
        let message = "the skill has no `default:` line, so its last target is the entry".to_owned();
        let last = tree.targets.last().map(|target| target.range);
        check.report("missing-default-target", FindingPlace::SKILL.at(last), message);
    }
    dependencies(check);
    ignored_lines(check);
}

/// Reports lines that a run ignores. Comments are meant to be ignored.
fn ignored_lines(check: &mut Check<'_>) {
    if check.tree.ignored_lines.is_empty() {
        return;
    }
    let source = check.tree.source();
    let table = LineTable::of(source);
    for number in &check.tree.ignored_lines {
        let range = table.line(*number);
        let text = trim(range.of(source));
        if !text.starts_with('#') {
            let message = format!("'{}' is no operation", excerpt(text));
            check.report("ignored-line", FindingPlace::range(range), message);
        }
    }
}

/// Reports each parse error under its rule. Malformed calls and operations of older versions are also reported as
/// malformed operations.
fn parse_errors(check: &mut Check<'_>) {
    for error in &check.tree.errors {
        let rules: &[&'static str] = match error.kind {
            ParseErrorKind::ReservedWord => &["reserved-keyword"],
            ParseErrorKind::Indentation => &["indentation"],
            ParseErrorKind::MalformedOp => &["malformed-op-grammar"],
            ParseErrorKind::MalformedCall | ParseErrorKind::LegacyOp => {
                &["parse-error", "malformed-op-grammar"]
            }
            ParseErrorKind::UnsupportedCondition => &["invalid-conditional-syntax"],
            ParseErrorKind::SingleEquals => &["single-equals"],
            ParseErrorKind::InvalidHeader | ParseErrorKind::MalformedBlock | ParseErrorKind::Structure => {
                &["parse-error"]
            }
        };
        for rule in rules {
            check.report(rule, FindingPlace::range(error.range), error.message.clone());
        }
    }
}

fn dependencies(check: &mut Check<'_>) {
    let tree = check.tree;
    for target in &tree.targets {
        for name in &target.dependencies {
            if tree.target_index(name).is_none() {
                let message =
                    format!("target '{}' depends on '{name}', which does not exist", excerpt(&target.name));
                let place = FindingPlace::block(&target.name).at(Some(target.range));
                check.report("missing-dependency", place, message);
            }
        }
    }
    let Some(entry) = tree.entry.as_deref().and_then(|entry| tree.target_index(entry)) else { return };
    let TargetWalk { reached, cycle } = TargetWalk::from(tree, entry);
    for (target, _) in tree.targets.iter().zip(reached).filter(|(_, reached)| !reached) {
        let message = format!("target '{}' is not needed by the entry target", target.name);
        check.report("orphan-target", FindingPlace::block(&target.name).at(Some(target.range)), message);
    }
    if let Some(cycle) = cycle {
        let names: Vec<&str> = cycle.iter().map(|index| tree.targets[*index].name.as_str()).collect();
        let range = cycle.first().map(|index| tree.targets[*index].range);
        let message = format!("targets depend on each other: {}", names.join(" → "));
        check.report("circular-dependency", FindingPlace::SKILL.at(range), message);
    }
}

/// The targets that a target needs, and the first cycle among them.
struct TargetWalk {
    reached: Vec<bool>,
    cycle: Option<Vec<usize>>,
}

impl TargetWalk {
    fn from(tree: &SkillTree, entry: usize) -> Self {
        let mut walk = Self { reached: vec![false; tree.targets.len()], cycle: None };
        let mut is_on_path = vec![false; tree.targets.len()];
        // Targets on the way from the entry, each with the number of its next dependency.
        let mut path = vec![(entry, 0)];
        (walk.reached[entry], is_on_path[entry]) = (true, true);
        while let Some((target, next)) = path.last_mut() {
            let target = *target;
            let dependency = tree.targets[target].dependencies.get(*next);
            *next += 1;
            let Some(name) = dependency else {
                is_on_path[target] = false;
                path.pop();
                continue;
            };
            let Some(index) = tree.target_index(name) else { continue };
            if is_on_path[index] {
                // The first cycle is enough, and looking for it takes time.
                walk.cycle.get_or_insert_with(|| {
                    let begin = path.iter().position(|(on_path, _)| *on_path == index).unwrap_or_default();
                    path[begin..].iter().map(|(on_path, _)| *on_path).chain([index]).collect()
                });
            } else if !walk.reached[index] {
                (walk.reached[index], is_on_path[index]) = (true, true);
                path.push((index, 0));
            }
        }
        walk
    }
}
