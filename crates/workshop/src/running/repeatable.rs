//! Runs that may be repeated after a crash: those of skills without effects, and whose skills have none.

use std::collections::HashSet;

use post::Caller;
use skill::{Footprint, OutputKind, SkillHeader, footprint, named_skills};

use crate::fault::Fault;
use crate::skills::TenantSkills;

/// Built-in tools that change nothing outside of a run.
const WITHOUT_EFFECT: &[&str] = &["json_parse", "execute_skill", "data_read", "llm", "skill_read"];
/// Skills that are looked at. A skill that names more counts as one with effects.
const SKILLS: usize = 50;

/// Whether a stored skill, and every skill that it names, only reads. A skill that cannot be read has effects.
pub async fn is_repeatable(skills: &TenantSkills, by: &Caller, name: &str) -> Result<bool, Fault> {
    let (mut seen, mut next) = (HashSet::new(), vec![name.to_owned()]);
    while let Some(name) = next.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        if seen.len() > SKILLS {
            return Ok(false);
        }
        let Ok(loaded) = skills.load(by, &name, None).await? else { return Ok(false) };
        if has_effects(&loaded.source) {
            return Ok(false);
        }
        next.extend(named_skills(&loaded.source));
    }
    Ok(true)
}

fn has_effects(source: &str) -> bool {
    let Footprint {
        connectors,
        builtins,
        shell_binaries,
        unsafe_shell,
        file_writes,
        file_reads: _,
        notifies,
    } = footprint(source);
    let delivers = SkillHeader::parse(source)
        .outputs
        .iter()
        .any(|output| matches!(output.kind, OutputKind::Agent | OutputKind::Template));
    delivers
        || !connectors.is_empty()
        || builtins.iter().any(|tool| !WITHOUT_EFFECT.contains(&tool.as_str()))
        || !shell_binaries.is_empty()
        || unsafe_shell + file_writes + notifies > 0
        // A name that is only known when the skill runs cannot be looked up.
        || (builtins.contains("execute_skill") && named_skills(source).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_has_no_effects_and_everything_else_has() {
        let body = |ops: &str| format!("# Skill: s\ngo:\n    {ops}\ndefault: go\n");
        for reads in ["$ data_read query=\"x\" -> R", "emit(text=\"x\")", "file_read(path=\"/x\") -> F"] {
            assert!(!has_effects(&body(reads)), "{reads}");
        }
        for acts in [
            "$ data_write content=\"x\"",
            "$ mail.send to=\"x\"",
            "shell(command=\"ls\")",
            "notify(agent=\"a\", message=\"x\")",
            "file_write(path=\"/x\", content=\"y\", approved=\"yes\")",
            "exchange(agent=\"a\", message=\"x\") -> R",
        ] {
            assert!(has_effects(&body(acts)), "{acts}");
        }
        assert!(has_effects("# Skill: s\n# Output: agent: a\ngo:\n    emit(text=\"x\")\ndefault: go\n"));
    }
}
