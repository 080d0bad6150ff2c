//! The tutorial "Write a skill", run as printed.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

const GUIDE: &str = include_str!("../../../../docs/guide/write-a-skill.md");

/// Runs a line, or several, in the folder of the tutorial. Returns what a terminal would show.
fn shown(folder: &Path, lines: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_posthouse")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec 2>&1\n{lines}")]).current_dir(folder).stdin(Stdio::null());
    command.env_clear().env("PATH", path).env("SKILLSCRIPT_HOME", folder.join("home"));
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// The code blocks of the guide, each with its language.
fn blocks() -> impl Iterator<Item = (&'static str, &'static str)> {
    GUIDE.split("\n```").skip(1).step_by(2).map(|block| block.split_once('\n').unwrap())
}

#[test]
fn every_command_of_the_tutorial_prints_what_the_tutorial_shows() {
    let folder = TempDir::new().unwrap();
    let mut commands = 0;
    for (language, text) in blocks() {
        if language == "sh" {
            assert_eq!(shown(folder.path(), text), "", "{text}");
            continue;
        }
        assert_eq!(language, "console", "{text}");
        let text = format!("\n{text}\n");
        for step in text.split("\n$ ").skip(1) {
            let (command, expected) = step.split_once('\n').unwrap();
            assert_eq!(shown(folder.path(), command).trim_end(), expected.trim_end(), "{command}");
            commands += 1;
        }
    }
    assert!(commands > 0);
}
