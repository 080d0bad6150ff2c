//! Programs in the format of the recorded ones: a skill, its surroundings, and what is expected of it.
//!
//! `vectors/skills/README.md` describes the format. A case is played in the standard environment: lint, compile, run.
//! Every part that it expects is compared; the wording of messages is not.

mod case_options;
pub mod compare;
mod lint_facts;
pub mod parsed_form;
mod record;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parsed_form::parsed_form;
use serde_json::{Value, json};
use skill::check::{Severity, check};
use skill::tree::SkillTree;
use skill::{
    ApprovalPublicKey, ApprovalSigningKey, PreparedSkill, Provenance, RenderFormat, RunError, SkillObject,
    SkillValue, render_skill, resolved_outputs, run_skill,
};

use crate::hand_clock::drive;
use crate::standard_host::StandardHost;

/// The time at which every case begins, as `HandClock` has it.
const START: &str = "2026-01-01T00:00:00.000Z";

/// The keys of cases that sign skills.
pub struct TestKeys {
    pub public: ApprovalPublicKey,
    pub private: ApprovalSigningKey,
}

/// Why a case cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum CaseFault {
    #[error("the case has no text `{0}`")]
    NoText(&'static str),
    #[error("the option `{0}` does not have the form that vectors/skills/README.md describes")]
    BadOption(&'static str),
    #[error("the case signs skills, and there are no keys to sign with")]
    NoKeys,
    #[error("the file `{0}` leads out of the folder of the case")]
    OutsideFolder(String),
    #[error("cannot prepare the folder of the case: {0}")]
    Folder(#[from] std::io::Error),
    #[error("the run waits for something that never comes")]
    Stuck,
}

/// One case.
#[derive(Clone, Copy)]
pub struct ProgramCase<'v> {
    case: &'v Value,
    keys: Option<&'v TestKeys>,
}

/// What a case left: the parts of `expect` that it has.
pub struct PlayedProgram {
    /// The parsed skill.
    pub parse: Value,
    /// Findings as `{rule, severity, block?}`, with their messages and remedies.
    pub lint: Value,
    /// The result of compiling, or its error.
    pub compile: Value,
    /// The result of running, or null if the skill did not run.
    pub run: Value,
}

impl<'v> ProgramCase<'v> {
    pub fn new(case: &'v Value, keys: Option<&'v TestKeys>) -> Self {
        Self { case, keys }
    }

    pub fn id(&self) -> &'v str {
        self.case["id"].as_str().unwrap_or("(no id)")
    }

    /// Plays the case. The clock moves only when everything waits for it.
    pub fn play(&self) -> Result<PlayedProgram, CaseFault> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().canonicalize()?.join("root");
        fs::create_dir(&root)?;
        let case = placed(self.case, &root);
        write_files(&case, &root)?;
        let options = &case["options"];
        let source = self.source(&case)?;
        let host = case_options::host(&case, &root, self.keys)?;
        let tree = Arc::new(SkillTree::parse(&source));
        let parse = parsed_form(&tree);
        let lint = lint(&case, &tree)?;
        if options["parse_only"] == true {
            return Ok(PlayedProgram { parse, lint, compile: Value::Null, run: Value::Null });
        }
        // The command line and the tools compile without these facts.
        let unsure: &[&str] = match options["lint_facts"].is_object() {
            true => &[],
            false => &["shell-binary-not-allowed", "unsafe-shell-disabled"],
        };
        let errors = lint.as_array().into_iter().flatten().filter(|finding| {
            finding["severity"] == "error" && !unsure.iter().any(|rule| finding["rule"] == *rule)
        });
        let rules: Vec<&Value> = errors.map(|finding| &finding["rule"]).collect();
        if !rules.is_empty() && options["skip_lint"] != true {
            let compile = json!({"ok": false, "error": {"class": "LintFailureError", "rules": rules}});
            return Ok(PlayedProgram { parse, lint, compile, run: Value::Null });
        }
        let (compile, run) = run(&host, &tree, &case, &source, &root)?;
        Ok(PlayedProgram { parse, lint, compile, run })
    }

    fn source(&self, case: &Value) -> Result<String, CaseFault> {
        let options = &case["options"];
        let text = case["source"].as_str().ok_or(CaseFault::NoText("source"))?;
        let mut source = match (options["sign_main"] == true, case["signed_source"].as_str()) {
            (true, Some(signed)) => signed.to_owned(),
            (true, None) => skill::stamp(text, &self.keys.ok_or(CaseFault::NoKeys)?.private),
            (false, _) => text.to_owned(),
        };
        if let (Some(from), Some(to)) =
            (options["tamper_main"][0].as_str(), options["tamper_main"][1].as_str())
        {
            source = source.replace(from, to);
        }
        Ok(source)
    }
}

/// The case with the real folders in the place of their names.
fn placed(case: &Value, root: &Path) -> Value {
    let outside = root.parent().unwrap_or(root);
    let replaced = |text: &str| {
        text.replace("@FSROOT@", &root.to_string_lossy()).replace("@OUTSIDE@", &outside.to_string_lossy())
    };
    let mut case = case.clone();
    replace_texts(&mut case, &replaced);
    case
}

fn replace_texts(value: &mut Value, replaced: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = replaced(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_texts(item, replaced)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace_texts(field, replaced)),
        _ => {}
    }
}

fn write_files(case: &Value, root: &Path) -> Result<(), CaseFault> {
    for (name, content) in case["files"].as_object().into_iter().flatten() {
        let is_inside =
            Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !is_inside {
            return Err(CaseFault::OutsideFolder(name.clone()));
        }
        let content = content.as_str().ok_or(CaseFault::BadOption("files"))?;
        let bytes = match name.ends_with(".b64") {
            true => STANDARD.decode(content).map_err(|_| CaseFault::BadOption("files"))?,
            false => content.into(),
        };
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(path, bytes)?;
    }
    Ok(())
}

fn lint(case: &Value, tree: &SkillTree) -> Result<Value, CaseFault> {
    let findings = check(tree, &lint_facts::context(case, tree)?).into_iter();
    let findings = findings.map(|finding| {
        let mut form = json!({
            "rule": finding.rule, "severity": severity(finding.severity),
            "message": finding.message, "remedy": finding.remedy,
        });
        if let Some(block) = finding.block {
            form["block"] = block.into();
        }
        form
    });
    Ok(findings.collect())
}

fn severity(severity: Severity) -> String {
    severity.to_string()
}

/// Compiles and runs. Both parts are in the form of the recordings.
fn run(
    host: &StandardHost,
    tree: &Arc<SkillTree>,
    case: &Value,
    source: &str,
    root: &Path,
) -> Result<(Value, Value), CaseFault> {
    let options = &case["options"];
    let inputs = SkillValue::from_json(&options["inputs"].to_string());
    let inputs = inputs.ok().and_then(|inputs| inputs.as_object().cloned()).unwrap_or_default();
    let context = case_options::context(host, options, source)?;
    let format = if options["format"] == "prose" { RenderFormat::Prose } else { RenderFormat::Prompt };
    let played = drive(&host.clock, async {
        let skill = match PreparedSkill::new(host, Arc::clone(tree), &inputs).await {
            Ok(skill) => skill,
            Err(error) => return (failed(&error), Value::Null),
        };
        let compile = compiled(&skill, format, case).unwrap_or_else(|error| failed(&error));
        if options["compile_only"] == true {
            return (compile, Value::Null);
        }
        let run = match run_skill(host, &skill, &context).await {
            Ok(outcome) => record::displaced(&record::outcome(host, &outcome, root, options), root),
            Err(error) => json!({"threw": {"class": error.class.name(), "message": error.message}}),
        };
        (compile, run)
    });
    let (mut compile, run) = played.ok_or(CaseFault::Stuck)?;
    replace_texts(&mut compile, &|text| record::with_folder_names(text, root));
    Ok((compile, run))
}

fn failed(error: &RunError) -> Value {
    json!({"ok": false, "error": {"class": error.class.name(), "message": error.message}})
}

fn compiled(skill: &PreparedSkill, format: RenderFormat, case: &Value) -> Result<Value, RunError> {
    let variables = skill.variables.iter().map(|(name, value)| (&**name, value.clone()));
    let variables = SkillValue::from(variables.collect::<SkillObject>()).json();
    let inlined: Vec<&str> = skill.inlined.iter().map(|inlined| inlined.name.as_str()).collect();
    let stored = skill.tree.header.name.as_deref().and_then(|name| case["stored_skills"][name].as_str());
    let provenance = Provenance::of(skill, stored, START.to_owned());
    let mut rendered = render_skill(skill, format)?;
    if case["options"]["inline_provenance"] == true {
        rendered.push_str(&provenance.as_appendix());
    }
    Ok(json!({
        "ok": true,
        "prepared": parsed_form(&skill.tree),
        "provenance": provenance,
        "target_order": skill.target_names().collect::<Vec<_>>(),
        "resolved_variables": serde_json::from_str::<Value>(&variables).unwrap_or_default(),
        "outputs": resolved_outputs(skill)?,
        "rendered": rendered,
        "data_skills_inlined": inlined,
    }))
}
