//! `posthouse skill compile`: a skill as steps that an agent or a person can follow.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use posthouse_time::Timepiece;
use serde_json::{Map, Value, json};
use skill::check::Severity;
use skill::tree::SkillTree;
use skill::{
    PreparedSkill, Provenance, RenderFormat, SkillLibrary, SkillObject, SkillValue, render_skill,
    resolved_outputs,
};

use super::given_skill::{GivenSkill, SkillArgs};
use super::lint;
use super::watch;
use crate::cli::output::{Output, without_control_characters};
use crate::cli::server_address::ServerOptions;

#[derive(Args)]
pub struct CompileArgs {
    #[command(flatten)]
    skill: SkillArgs,
    #[command(flatten)]
    rendering: RenderingArgs,
    /// Also write the provenance to this file: the data skills whose text was put in, with their hashes
    #[arg(long, value_name = "FILE")]
    provenance: Option<PathBuf>,
    /// Compile the file again whenever it changes, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

/// Values of variables.
#[derive(Args)]
pub struct InputArgs {
    /// Value of a variable of the skill; can be repeated
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = name_and_value)]
    inputs: Vec<(String, String)>,
}

impl InputArgs {
    /// The values as JSON.
    pub fn texts(&self) -> Map<String, Value> {
        self.inputs.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect()
    }

    pub fn values(&self) -> SkillObject {
        self.inputs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

/// Options that change the rendered text.
#[derive(Args)]
pub struct RenderingArgs {
    #[command(flatten)]
    inputs: InputArgs,
    /// Form of the text
    #[arg(long, value_enum, value_name = "FORM", default_value = "prompt")]
    format: FormatArg,
    /// Put the provenance at the end of the text
    #[arg(long)]
    pub inline_provenance: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum FormatArg {
    Prompt,
    Prose,
}

/// A compiled skill.
pub struct Compilation {
    pub skill: PreparedSkill,
    pub rendered: String,
    pub provenance: Provenance,
}

fn name_and_value(word: &str) -> Result<(String, String), String> {
    match word.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

impl CompileArgs {
    pub async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        let file = watch::watched_file(self.watch, self.skill.file())?;
        let text = self.skill.read(server).await?;
        let (rendering, provenance) = (self.rendering, self.provenance);
        let once = async |text: &GivenSkill| print(output, text, &rendering, provenance.as_ref()).await;
        match file {
            Some(file) => watch::repeat(&file, text, once).await,
            None => once(&text).await,
        }
    }
}

async fn print(
    output: &Output,
    text: &GivenSkill,
    rendering: &RenderingArgs,
    file: Option<&PathBuf>,
) -> anyhow::Result<()> {
    let tree = SkillTree::parse(&text.source);
    let findings = lint::findings(text, &tree).await;
    let errors = lint::count(&findings, Severity::Error);
    let serious: Vec<_> =
        findings.iter().filter(|finding| finding.severity != Severity::Info).cloned().collect();
    if !output.json || errors > 0 {
        eprint!("{}", lint::shown(text, &serious, std::io::stderr().is_terminal()));
    }
    if errors > 0 {
        return Err(lint::failed(&text.label, errors));
    }
    let compiled = rendering.compile(text, tree).await?;
    if let Some(file) = file {
        let json = compiled.provenance.as_json() + "\n";
        std::fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if output.json {
        let warnings = lint::as_json(&text.source, &serious)["findings"].take();
        return output.value(&compiled.to_json(warnings)?);
    }
    output.text(&(without_control_characters(&compiled.rendered) + "\n"))
}

impl RenderingArgs {
    /// Compiles a skill without lint.
    pub async fn compile(&self, text: &GivenSkill, tree: SkillTree) -> anyhow::Result<Compilation> {
        let inputs = self.inputs.values();
        let failed = |error: skill::RunError| anyhow!("cannot compile {}: {}", text.label, error.message);
        let skill = PreparedSkill::new(&text.library, Arc::new(tree), &inputs).await.map_err(failed)?;
        let format = match self.format {
            FormatArg::Prompt => RenderFormat::Prompt,
            FormatArg::Prose => RenderFormat::Prose,
        };
        let mut rendered = render_skill(&skill, format).map_err(failed)?;
        let stored = match &skill.tree.header.name {
            Some(name) => text.library.stored_skill(name).await.ok().flatten(),
            None => None,
        };
        let now = Timepiece::wall().now().to_string();
        let provenance = Provenance::of(&skill, stored.as_ref().map(|stored| &*stored.source), now);
        if self.inline_provenance {
            rendered.push_str(&provenance.as_appendix());
        }
        Ok(Compilation { skill, rendered, provenance })
    }
}

impl Compilation {
    fn to_json(&self, warnings: Value) -> anyhow::Result<Value> {
        let skill = &self.skill;
        let variables = skill.variables.iter().map(|(name, value)| (&**name, value.clone()));
        let variables = SkillValue::from(variables.collect::<SkillObject>()).json();
        let outputs = resolved_outputs(skill).map_err(|error| anyhow!(error.message))?;
        Ok(json!({
            "skill_name": skill.tree.header.name,
            "rendered": self.rendered,
            "resolved_variables": serde_json::from_str::<Value>(&variables)?,
            "target_order": skill.target_names().collect::<Vec<_>>(),
            "triggers": skill.tree.header.triggers,
            "outputs": outputs,
            "warnings": warnings,
            "provenance": self.provenance,
        }))
    }
}
