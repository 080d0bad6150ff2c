//! Order of targets: every target runs after the targets it needs.

use super::run_error::RunError;
use crate::syntax::tree::SkillTree;

enum Visit {
    New,
    Open,
    Done,
}

/// The targets that the entry needs, each once: depth first, dependencies in the order in which they are written.
pub fn target_order(tree: &SkillTree) -> Result<Vec<usize>, RunError> {
    let mut order = Vec::new();
    let Some(entry) = &tree.entry else { return Ok(order) };
    let find = |name: &str, wanted_by: &str| {
        tree.target_index(name).ok_or_else(|| {
            RunError::plain(format!("target '{wanted_by}' needs '{name}', which is not declared"))
        })
    };
    let mut visits: Vec<Visit> = tree.targets.iter().map(|_| Visit::New).collect();
    // Chains of targets can be long, so the walk keeps its own stack: a target, and how many dependencies are done.
    let mut open = vec![(find(entry, "default")?, 0)];
    while let Some((index, done)) = open.last_mut() {
        let target = &tree.targets[*index];
        visits[*index] = Visit::Open;
        let Some(dependency) = target.dependencies.get(*done) else {
            visits[*index] = Visit::Done;
            order.push(*index);
            open.pop();
            continue;
        };
        *done += 1;
        let next = find(dependency, &target.name)?;
        match visits[next] {
            Visit::New => open.push((next, 0)),
            Visit::Done => {}
            Visit::Open => {
                let circle = open.iter().skip_while(|(index, _)| *index != next);
                let names: Vec<&str> = circle.map(|(index, _)| tree.targets[*index].name.as_str()).collect();
                return Err(RunError::plain(format!(
                    "dependency cycle: {} → {dependency}",
                    names.join(" → ")
                )));
            }
        }
    }
    Ok(order)
}
