//! Commands for authors of skills without a server: lint, compile, fmt, test, watch, and the `skillfile` names.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const SKILL: &str =
    "# Skill: tide\n# Vars: HARBOUR=Bergen\ngo:\n    emit(text=\"tide at ${HARBOUR}\")\ndefault: go\n";
const WRONG: &str = "# Skill: tide\ngo:\n    emit(text=\"${HARBOR}\")\ndefault: go\n";

pub struct Author {
    pub folder: TempDir,
}

impl Author {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let author = Self { folder: tempfile::tempdir().unwrap() };
        files.iter().for_each(|(name, text)| author.write(name, text));
        author
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Makes a file readable for its owner alone, as a private key must be.
    pub fn keep_private(&self, name: &str) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthouse"));
        command.args(words).current_dir(self.folder.path()).env_clear();
        command.env("SKILLSCRIPT_HOME", self.path("home")).env("PATH", std::env::var_os("PATH").unwrap());
        command
    }

    pub fn runs(&self, words: &[&str]) -> Output {
        self.command(words).stdin(Stdio::null()).output().unwrap()
    }

    /// The exit code, and what was printed.
    pub fn prints(&self, words: &[&str]) -> (i32, String) {
        let output = self.runs(words);
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }

    pub fn json(&self, words: &[&str]) -> (i32, Value) {
        let (code, text) = self.prints(words);
        (code, serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")))
    }
}

#[test]
fn lint_shows_line_column_mark_rule_and_remedy_and_fails_on_errors() {
    let author = Author::new(&[("tide.skill.md", WRONG), ("fine.skill.md", SKILL)]);
    let (code, text) = author.prints(&["skill", "lint", "tide.skill.md"]);
    assert_eq!(code, 1, "{text}");
    for part in ["error[undeclared-var]", "tide.skill.md:3:16", "^^^^^^^^^", "help: declare it"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (code, found) = author.json(&["skill", "lint", "tide.skill.md", "--json"]);
    let (first, counted) = (&found["findings"][0], &found["error_count"]);
    assert_eq!((code, &first["rule"], counted), (1, &json!("undeclared-var"), &json!(1)));
    assert_eq!(first["start"], json!({"line": 3, "column": 16}));
    assert_eq!(author.prints(&["skill", "lint", "fine.skill.md"]), (0, "no findings\n".to_owned()));
    let missing = author.runs(&["skill", "lint", "ghost"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("there is no file ghost"));
    // With a server it may be the name of a stored skill, and the error says that it was taken for one.
    let taken = author.runs(&["skill", "lint", "ghost", "--url", "http://127.0.0.1:9"]);
    let error = String::from_utf8_lossy(&taken.stderr);
    assert!(error.contains("there is no file ghost") && error.contains("no credentials"), "{error}");
}

#[test]
fn compile_renders_with_inputs_and_data_skills_of_the_folder() {
    let data =
        "# Skill: rules\n# Status: Approved\n# Type: data\ngo:\n    emit(text=\"be kind\")\ndefault: go\n";
    let caller =
        "# Skill: day\n# Vars: A=1\ngo:\n    inline(skill=\"rules\")\n    emit(text=\"${A}\")\ndefault: go\n";
    let author = Author::new(&[("day.skill.md", caller), ("rules.skill.md", data), ("bad.skill.md", WRONG)]);
    let words = ["skill", "compile", "day.skill.md", "--input", "A=7", "--provenance", "p.json"];
    let (code, text) = author.prints(&words);
    assert!(code == 0 && text.ends_with("- Tell the user: be kind\n- Tell the user: 7\n"), "{text}");
    let provenance: Value = serde_json::from_str(&author.text("p.json")).unwrap();
    assert_eq!(provenance["data_skills_inlined"][0]["name"], "rules");
    let (_, compiled) = author.json(&["skill", "compile", "day.skill.md", "--format", "prose", "--json"]);
    assert_eq!(compiled["target_order"], json!(["go"]));
    let refused = author.runs(&["skill", "compile", "bad.skill.md"]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("error[undeclared-var]"));
}

#[test]
fn fmt_rewrites_a_file_once_and_refuses_a_signed_one() {
    let signed = "#Skill:a\n# Status: Approved v3:abc\ngo:  \n    ? x \ndefault: go\n";
    let author =
        Author::new(&[("a.skill.md", "#skill:a\ngo:  \n    ? x \ndefault: go"), ("s.skill.md", signed)]);
    assert_eq!(author.prints(&["skill", "fmt", "a.skill.md", "--check"]).0, 1);
    assert_eq!(author.prints(&["skill", "fmt", "a.skill.md"]).1, "formatted a.skill.md\n");
    assert_eq!(author.text("a.skill.md"), "# Skill: a\ngo:\n    ? x\ndefault: go\n");
    assert_eq!(author.prints(&["skill", "fmt", "a.skill.md"]).1, "unchanged: a.skill.md\n");
    assert_eq!(author.prints(&["skill", "fmt", "a.skill.md", "--check"]).0, 0);
    let refused = author.runs(&["skill", "fmt", "s.skill.md"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--force"));
    assert_eq!((refused.status.code(), author.text("s.skill.md")), (Some(1), signed.to_owned()));
    assert_eq!(author.prints(&["skill", "fmt", "s.skill.md", "--force"]).0, 0);
    assert!(author.text("s.skill.md").starts_with("# Skill: a\n"));
}

#[test]
fn test_plays_cases_and_shows_what_differs() {
    let cases = json!([
        { "id": "says-hello", "expect": { "run": { "transcript": ["tide at Bergen"] } } },
        { "id": "other-harbour", "options": { "inputs": { "HARBOUR": "Oslo" } },
          "expect": { "compile": { "ok": true, "resolved_variables": { "HARBOUR": "Oslo" } } } },
        { "id": "wrong", "expect": { "compile": { "target_order": ["stop"] } } },
    ]);
    let author = Author::new(&[("tide.skill.md", SKILL), ("cases.json", &cases.to_string())]);
    let words = ["skill", "test", "cases.json", "--skill", "tide.skill.md"];
    let (code, text) = author.prints(&words);
    assert!(code == 1 && text.contains("ok   other-harbour") && text.contains("FAIL wrong"), "{text}");
    assert!(text.contains("expected [\"stop\"]"), "{text}");
    let (code, found) =
        author.json(&[&words[..], &["--case", "other-harbour", "--json", "--found"]].concat());
    assert_eq!((code, &found["cases"][0]["found"]["run"]["transcript"]), (0, &json!(["tide at Oslo"])));
}

#[test]
fn vectors_recorded_cases_pass_in_skill_test() {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors"), Into::into);
    let author = Author::new(&[]);
    let file = folder.join("skills/07-set-append.json");
    let (code, found) = author.json(&["skill", "test", file.to_str().unwrap(), "--json"]);
    assert!(code == 0 && found["passed"].as_u64() > Some(0), "{found:#}");
}

#[test]
fn watch_checks_again_when_the_file_changes() {
    let author = Author::new(&[("tide.skill.md", WRONG)]);
    let mut command = author.command(&["skill", "lint", "tide.skill.md", "--watch"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "1 errors, 0 warnings, 0 notes"));
    author.write("tide.skill.md", SKILL);
    assert!(lines.any(|line| line == "no findings"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn skillfile_has_the_names_files_and_exit_codes_of_the_reference() {
    let author = Author::new(&[("home/skills/tide.skill.md", SKILL), ("bad.skill.md", WRONG)]);
    assert_eq!(author.prints(&["skillfile", "lint", "tide"]), (0, "OK: no findings.\n".to_owned()));
    let (code, found) = author.json(&["skillfile", "lint", "bad.skill.md", "--json"]);
    assert_eq!((code, &found["errorCount"]), (1, &json!(1)));
    assert_eq!(author.prints(&["skillfile", "compile", "tide"]).0, 0);
    let provenance: Value = serde_json::from_str(&author.text("tide.provenance.json")).unwrap();
    assert_eq!(provenance["source_skill"]["name"], "tide");
    assert_eq!(author.prints(&["skillfile", "audit", "tide.provenance.json"]).0, 0);
    assert_eq!(author.prints(&["skillfile", "list"]).1, "  tide [Draft]\n");
    assert!(author.prints(&["skillfile", "diagram", "tide"]).1.contains("start --> go"));
    let (_, signed) = author.json(&["skillfile", "sign", "tide"]);
    let hash = signed["content_hash"].as_str().unwrap();
    assert_eq!(author.prints(&["skillfile", "verify", "tide", hash]).0, 0);
    for (words, code) in [
        (&["skillfile", "lint", "ghost"][..], 1),
        (&["skillfile", "diagram", "ghost"], 66),
        (&["skillfile", "verify", "tide", "0"], 1),
        (&["skillfile", "verify", "tide"], 64),
    ] {
        assert_eq!(author.prints(words).0, code, "{words:?}");
    }
}
