//! `posthouse skill test`: plays cases in the format of the recorded programs, in an environment of test doubles.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};
use skill_doubles::{PlayedProgram, ProgramCase, TestKeys};

use super::given_skill::read_file;
use crate::cli::Exit;
use crate::cli::output::{Output, without_control_characters};

#[derive(Args)]
pub struct TestArgs {
    /// File with a list of cases; `-` reads standard input
    #[arg(value_name = "FILE")]
    cases: PathBuf,
    /// The skill of cases that have no `source`
    #[arg(long, value_name = "FILE")]
    skill: Option<PathBuf>,
    /// Only the case with this id
    #[arg(long, value_name = "ID")]
    case: Option<String>,
    /// Folder with approval.key and approval.pub, for cases that sign skills
    #[arg(long, value_name = "FOLDER")]
    keys: Option<PathBuf>,
    /// With --json, also print the actual result of every case, in the form of `expect`
    #[arg(long)]
    found: bool,
}

/// The result of one case.
struct CaseResult {
    id: String,
    differences: Vec<String>,
    played: Option<PlayedProgram>,
}

impl TestArgs {
    pub fn act(self, output: &Output) -> anyhow::Result<()> {
        let cases = self.cases()?;
        let keys = self.keys.as_deref().map(read_keys).transpose()?;
        let results: Vec<CaseResult> = cases.iter().map(|case| play(case, keys.as_ref())).collect();
        let failed = results.iter().filter(|result| !result.differences.is_empty()).count();
        if output.json {
            let shown: Vec<Value> = results.iter().map(|result| result.to_json(self.found)).collect();
            output.value(&json!({ "cases": shown, "passed": results.len() - failed, "failed": failed }))?;
        } else {
            output.text(&shown(&results, failed))?;
        }
        match failed {
            0 => Ok(()),
            _ => Err(Exit { code: 1, words: format!("{failed} of {} cases failed", results.len()) }.into()),
        }
    }

    fn cases(&self) -> anyhow::Result<Vec<Value>> {
        let shown = self.cases.display();
        let cases: Value =
            serde_json::from_str(&read_file(&self.cases)?).with_context(|| format!("{shown} is not JSON"))?;
        let Value::Array(mut cases) = cases else { bail!("{shown} is not a list of cases") };
        if let Some(id) = &self.case {
            cases.retain(|case| case["id"] == id.as_str());
        }
        if cases.is_empty() {
            bail!("{shown} has no such case");
        }
        if let Some(skill) = &self.skill {
            let source = read_file(skill)?;
            for case in cases.iter_mut().filter_map(Value::as_object_mut) {
                case.entry("source").or_insert_with(|| source.clone().into());
            }
        }
        Ok(cases)
    }
}

fn read_keys(folder: &Path) -> anyhow::Result<TestKeys> {
    let read = |name: &str| read_file(&folder.join(name));
    let shown = folder.display();
    let public = skill::ApprovalPublicKey::from_pem(&read("approval.pub")?);
    let private = skill::ApprovalSigningKey::from_pem(&read("approval.key")?);
    Ok(TestKeys {
        public: public.with_context(|| format!("{shown}/approval.pub is not a public key"))?,
        private: private.with_context(|| format!("{shown}/approval.key is not a private key"))?,
    })
}

fn play(case: &Value, keys: Option<&TestKeys>) -> CaseResult {
    let case = ProgramCase::new(case, keys);
    let id = case.id().to_owned();
    match case.play() {
        Ok(played) => CaseResult { id, differences: played.differences(&case), played: Some(played) },
        Err(fault) => CaseResult { id, differences: vec![fault.to_string()], played: None },
    }
}

impl CaseResult {
    fn to_json(&self, with_found: bool) -> Value {
        let mut value =
            json!({ "id": self.id, "ok": self.differences.is_empty(), "differences": self.differences });
        if let (true, Some(played)) = (with_found, &self.played) {
            value["found"] = json!({
                "parse": played.parse, "lint": played.lint, "compile": played.compile, "run": played.run,
            });
        }
        value
    }
}

fn shown(results: &[CaseResult], failed: usize) -> String {
    let mut text = String::new();
    for result in results {
        let word = if result.differences.is_empty() { "ok  " } else { "FAIL" };
        text.push_str(&format!("{word} {}\n", without_control_characters(&result.id)));
        for difference in &result.differences {
            text.push_str(&format!("  {}\n", without_control_characters(difference)));
        }
    }
    text.push_str(&format!("\n{} passed, {failed} failed\n", results.len() - failed));
    text
}
