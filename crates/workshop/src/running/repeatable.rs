//! Runs that may be repeated after a crash: those of skills without effects, and whose skills have none.
//!
//! This is decided when a run is queued. A run that has an effect all the same is not repeated either
//! ([`FirstEffect`](super::first_effect::FirstEffect)).

use std::collections::HashSet;

use post::Caller;
use skill::{Footprint, OutputKind, SkillHeader, footprint, named_skills, names_skill_by_value};

use super::run_resources::RunResources;
use crate::fault::Fault;
use crate::skills::TenantSkills;

/// Built-in tools that are part of the language, and change nothing outside of a run.
const OF_THE_LANGUAGE: &[&str] = &["json_parse", "execute_skill"];
/// Built-in tools that only read. A connector of the operator with such a name takes its place.
pub const READING_TOOLS: &[&str] = &["data_read", "llm", "skill_read"];
/// Skills that are looked at. A skill that names more counts as one with effects.
const SKILLS: usize = 50;

/// Whether a stored skill, and every skill that it names, only reads. A skill that cannot be read has effects.
pub async fn is_repeatable(
    skills: &TenantSkills,
    resources: &RunResources,
    by: &Caller,
    name: &str,
) -> Result<bool, Fault> {
    let (mut seen, mut next) = (HashSet::new(), vec![name.to_owned()]);
    while let Some(name) = next.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        if seen.len() > SKILLS {
            return Ok(false);
        }
        let Ok(loaded) = skills.load(by, &name, None).await? else { return Ok(false) };
        if has_effects(&loaded.source, resources) {
            return Ok(false);
        }
        next.extend(named_skills(&loaded.source));
    }
    Ok(true)
}

fn has_effects(source: &str, resources: &RunResources) -> bool {
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
    let only_reads = |tool: &str| {
        OF_THE_LANGUAGE.contains(&tool)
            || (READING_TOOLS.contains(&tool) && resources.tools.connector(tool).is_none())
    };
    delivers
        || !connectors.is_empty()
        || builtins.iter().any(|tool| !only_reads(tool))
        || !shell_binaries.is_empty()
        || unsafe_shell + file_writes + notifies > 0
        // A name that is only known when the skill runs cannot be looked up.
        || names_skill_by_value(source)
}

#[cfg(test)]
mod tests {
    use errand::Errand;
    use posthouse_time::{Moment, Timepiece};

    use super::*;
    use crate::running::connectors_file::{ConnectorClass, FileConnector};
    use crate::running::tool_clients::{ToolClientParts, ToolClients};

    /// What a tenant has whose operator configured a connector of this name.
    fn with_connector(name: Option<&str>) -> RunResources {
        let timepiece = Timepiece::wound(Moment::from_seconds(1));
        let connector = |name: &str| FileConnector {
            name: name.to_owned(),
            class: ConnectorClass::Http,
            config: serde_json::json!({ "endpoint": "https://tools.example/mcp" })
                .as_object()
                .unwrap()
                .clone(),
            allowed_tools: None,
        };
        let parts = ToolClientParts {
            errand: Errand::new(errand::Config::default()),
            tenant: None,
            child_environment: None,
            timepiece: timepiece.clone(),
        };
        let (tools, errors) = ToolClients::new(name.into_iter().map(connector).collect(), &parts);
        assert_eq!(errors, Vec::<String>::new());
        RunResources { tools, ..RunResources::none(timepiece) }
    }

    #[test]
    fn a_name_that_is_known_only_when_the_skill_runs_counts_as_an_effect() {
        let resources = with_connector(None);
        let calls = |value: &str| {
            format!("# Templates: other\ngo:\n    $ execute_skill skill_name={value} -> R\ndefault: go\n")
        };
        for computed in ["${WHICH}", "\"${WHICH}\"", "a${WHICH}", "$(WHICH)"] {
            assert!(has_effects(&calls(computed), &resources), "{computed}");
        }
        assert!(!has_effects(&calls("\"child\""), &resources));
    }

    #[test]
    fn a_connector_of_the_operator_in_the_place_of_a_built_in_tool_has_effects() {
        for tool in READING_TOOLS {
            let body = format!("# Skill: s\ngo:\n    $ {tool} a=\"x\" -> R\ndefault: go\n");
            assert!(!has_effects(&body, &with_connector(None)), "{tool}");
            assert!(has_effects(&body, &with_connector(Some(tool))), "{tool}");
        }
    }

    #[test]
    fn reading_has_no_effects_and_everything_else_has() {
        let resources = with_connector(None);
        let body = |ops: &str| format!("# Skill: s\ngo:\n    {ops}\ndefault: go\n");
        for reads in ["$ data_read query=\"x\" -> R", "emit(text=\"x\")", "file_read(path=\"/x\") -> F"] {
            assert!(!has_effects(&body(reads), &resources), "{reads}");
        }
        for acts in [
            "$ data_write content=\"x\"",
            "$ mail.send to=\"x\"",
            "shell(command=\"ls\")",
            "notify(agent=\"a\", message=\"x\")",
            "file_write(path=\"/x\", content=\"y\", approved=\"yes\")",
            "exchange(agent=\"a\", message=\"x\") -> R",
        ] {
            assert!(has_effects(&body(acts), &resources), "{acts}");
        }
        let delivers = "# Skill: s\n# Output: agent: a\ngo:\n    emit(text=\"x\")\ndefault: go\n";
        assert!(has_effects(delivers, &resources));
    }
}
