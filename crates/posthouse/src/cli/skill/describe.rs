//! Footprints in plain words, for people who approve a skill: what it does, which secrets it gets, what starts it.

use std::collections::BTreeSet;

use skill::{Footprint, OutputKind, SkillHeader, TriggerSource};

use crate::cli::output::without_control_characters;

/// What a skill touches, one line each.
pub fn describe(name: &str, version: &str, source: &str) -> String {
    let (footprint, header) = (skill::footprint(source), SkillHeader::parse(source));
    let mut lines = operations(&footprint);
    lines.extend(outputs(&header));
    if !header.secret_requires.is_empty() {
        lines.push(format!("uses the secrets {}", header.secret_requires.join(", ")));
    }
    let title = format!("{name} (version {version})");
    let mut text = match lines.is_empty() {
        true => format!("{title} touches nothing outside of its own run.\n"),
        false => format!("{title}\n{}", indented(&lines)),
    };
    // They touch nothing, but after the approval the skill runs without a caller.
    text.push_str(&indented(&starts(&header)));
    // The text of a skill is foreign.
    without_control_characters(&text)
}

fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

fn operations(footprint: &Footprint) -> Vec<String> {
    let names = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
    let times = |count: u32| if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let mut lines = Vec::new();
    for (set, words) in [
        (&footprint.connectors, "calls tools of the connectors"),
        (&footprint.builtins, "calls the tools"),
        (&footprint.shell_binaries, "runs the programs"),
    ] {
        if !set.is_empty() {
            lines.push(format!("{words} {}", names(set)));
        }
    }
    for (count, words) in [
        (footprint.unsafe_shell, "runs a command without checks"),
        (footprint.file_writes, "writes files"),
        (footprint.file_reads, "reads files"),
        (footprint.notifies, "sends messages to agents"),
    ] {
        if count > 0 {
            lines.push(format!("{words} ({})", times(count)));
        }
    }
    lines
}

/// The agents that get the result. An output for a file only names it in the result; nothing is written.
fn outputs(header: &SkillHeader) -> impl Iterator<Item = String> {
    header.outputs.iter().filter_map(|output| {
        let target = output.target.as_deref().unwrap_or_default();
        match output.kind {
            OutputKind::Agent => Some(format!("sends its result to the agent {target}")),
            OutputKind::Template => Some(format!("sends its result to the agent {target} as a template")),
            OutputKind::Text | OutputKind::None | OutputKind::File => None,
        }
    })
}

fn starts(header: &SkillHeader) -> Vec<String> {
    let start = |trigger: &skill::SkillTrigger| match trigger.source {
        TriggerSource::Cron => format!("starts by itself at the times {}", trigger.name),
        TriggerSource::Event => format!("starts at every event {}", trigger.name),
    };
    header.triggers.iter().map(start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footprint_is_told_in_plain_words() {
        let body = "go:\n    $ tools.echo\n    shell(command=\"ls\")\n    shell(command=\"rm\", unsafe=true)\n    \
                    file_read(path=\"/x\")\n    file_read(path=\"/y\")\n";
        assert_eq!(
            describe("tide", "0123", body),
            "tide (version 0123)\n  calls tools of the connectors tools\n  runs the programs bash, ls\n  \
             runs a command without checks (once)\n  reads files (2 times)\n"
        );
        let nothing = describe("tide", "0123", "go:\n    emit(text=\"x\")\n");
        assert_eq!(nothing, "tide (version 0123) touches nothing outside of its own run.\n");
    }

    #[test]
    fn a_header_is_told_too_because_it_sends_gets_secrets_and_starts_runs() {
        let header = "# Skill: tide\n# Output: text, agent: ${WHO}, file: notes/tide\n# Output: template: card\n\
                      # Requires: secret.HARBOUR_KEY secret.OTHER\n# Triggers: cron: 0 6 * * *, event: door.open\n";
        let go = "go:\n    emit(text=\"x\")\ndefault: go\n";
        assert_eq!(
            describe("tide", "0123", &format!("{header}{go}")),
            "tide (version 0123)\n  sends its result to the agent ${WHO}\n  \
             sends its result to the agent card as a template\n  uses the secrets HARBOUR_KEY, OTHER\n  \
             starts by itself at the times 0 6 * * *\n  starts at every event door.open\n"
        );
        let agent = describe("tide", "0123", &format!("# Output: agent: heron\n{go}"));
        assert_eq!(agent, "tide (version 0123)\n  sends its result to the agent heron\n");
        let timed = describe("tide", "0123", &format!("# Triggers: cron: 0 6 * * *\n{go}"));
        assert_eq!(
            timed,
            "tide (version 0123) touches nothing outside of its own run.\n  starts by itself at the times 0 6 * * *\n"
        );
    }
}
