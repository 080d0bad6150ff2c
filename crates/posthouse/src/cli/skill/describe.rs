//! Footprints in plain words, for people who approve a skill.

use std::collections::BTreeSet;

use skill::Footprint;

use crate::cli::output::without_control_characters;

/// What a skill touches, one line each.
pub fn describe(name: &str, version: &str, footprint: &Footprint) -> String {
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
    let title = format!("{name} (version {version})");
    let text = match lines.is_empty() {
        true => format!("{title} touches nothing outside of its own run.\n"),
        false => format!("{title}\n{}", lines.iter().map(|line| format!("  {line}\n")).collect::<String>()),
    };
    // The text of a skill is foreign.
    without_control_characters(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footprint_is_told_in_plain_words() {
        let body = "go:\n    $ tools.echo\n    shell(command=\"ls\")\n    shell(command=\"rm\", unsafe=true)\n    \
                    file_read(path=\"/x\")\n    file_read(path=\"/y\")\n";
        assert_eq!(
            describe("tide", "0123", &skill::footprint(body)),
            "tide (version 0123)\n  calls tools of the connectors tools\n  runs the programs bash, ls\n  \
             runs a command without checks (once)\n  reads files (2 times)\n"
        );
        let nothing = describe("tide", "0123", &skill::footprint("go:\n    emit(text=\"x\")\n"));
        assert_eq!(nothing, "tide (version 0123) touches nothing outside of its own run.\n");
    }
}
