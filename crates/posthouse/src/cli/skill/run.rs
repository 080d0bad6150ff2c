//! `posthouse skill run`: runs a skill on this machine, or a stored skill on the server.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use posthouse_agent::post::{RunQuery, SkillExecution};
use serde_json::{Map, Value};
use skill::{ErrorClass, TraceMode};
use tokio::signal::unix::{SignalKind, signal};
use workshop::{RefusedName, RunRefusal, run_envelope};

use super::compile::InputArgs;
use super::given_skill::{self, GivenLibrary, GivenSkill, label_of, read_file};
use super::run_result::{self, PrintedText};
use super::{lint, watch};
use crate::cli::Exit;
use crate::cli::output::Output;
use crate::cli::program_client::{CredentialArgs, ProgramClient};
use crate::cli::server_address::ServerOptions;
use crate::cli::skill_home::{ConnectorSource, LocalEnd, LocalHost, LocalOrder, SkillHome};

#[derive(Args)]
pub struct RunArgs {
    /// A file, `-` for standard input, or the name of a stored skill
    #[arg(value_name = "FILE|NAME")]
    skill: String,
    #[command(flatten)]
    inputs: InputArgs,
    /// File with tool connectors, instead of connectors.json of the home folder
    #[arg(long, value_name = "FILE")]
    connectors: Option<PathBuf>,
    /// Home folder with skills, connectors.json, .env and data.db, instead of SKILLSCRIPT_HOME or ~/.skillscript
    #[arg(long, value_name = "FOLDER")]
    home: Option<PathBuf>,
    /// Only show what the skill would do
    #[arg(long)]
    mechanical: bool,
    /// Run the file again whenever it changes, until Ctrl-C
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    credential: CredentialArgs,
}

/// The exit codes of a command that a signal ended, as shells number them.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

impl RunArgs {
    pub async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        let is_local = self.home.is_some() || self.connectors.is_some() || self.watch;
        if given_skill::is_stored(&self.skill) && !is_local && server.is_given() {
            return self.run_on_server(output, server).await;
        }
        unless_interrupted(self.run_here(output)).await
    }

    async fn run_here(self, output: &Output) -> anyhow::Result<()> {
        let file = watch::watched_file(self.watch, given_skill::file_of(&self.skill))?;
        let home = match self.home {
            Some(folder) => SkillHome::at(folder),
            None => SkillHome::of_environment()?,
        };
        let connectors = self.connectors.map_or(ConnectorSource::Home, ConnectorSource::File);
        let host = LocalHost::open(&home, connectors).await?;
        let skill = read(&self.skill, &home, &host).await?;
        let order = LocalOrder {
            inputs: self.inputs.values(),
            is_mechanical: self.mechanical,
            gates_files: true,
            trace: TraceMode::Off,
        };
        let once = async |skill: &GivenSkill| report(output, skill, &order, host.run(skill, &order).await);
        match file {
            Some(file) => watch::repeat(&file, skill, once).await,
            None => once(&skill).await,
        }
    }

    async fn run_on_server(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        let why = || format!("there is no file {}, so it is read as the name of a stored skill", self.skill);
        let program = self.credential.connect(server).await.with_context(why)?;
        let inputs: Map<String, Value> = self.inputs.texts();
        let execution =
            SkillExecution { inputs, mechanical: self.mechanical, ..SkillExecution::new(&self.skill) };
        let envelope = tokio::select! {
            biased;
            exit = interrupted()? => {
                cancel_at_server(&program, &self.skill).await;
                return Err(exit.into());
            }
            envelope = program.post.execute_skill(&execution) => envelope,
        };
        let envelope = envelope.map_err(|fault| program.error(fault))?;
        run_result::print(output, &self.skill, &envelope, PrintedText::TextOutput)
    }
}

/// The skill that a command line names, for a run on this machine.
async fn read(word: &str, home: &SkillHome, host: &LocalHost) -> anyhow::Result<GivenSkill> {
    let is_stored = given_skill::is_stored(word);
    let source = match is_stored {
        false => read_file(word.as_ref())?,
        true => host.find(word).await?.ok_or_else(|| {
            let folder = home.folder().display();
            let words = format!("there is no file {word} and no skill of this name in {folder}");
            Exit { code: 1, words }
        })?,
    };
    let library = GivenLibrary::Folder { folder: home.skills(), policy: home.policy()? };
    Ok(GivenSkill { label: label_of(word), source, version: None, is_stored, library })
}

fn report(output: &Output, skill: &GivenSkill, order: &LocalOrder, end: LocalEnd) -> anyhow::Result<()> {
    let (envelope, text) = match end {
        LocalEnd::Ended { tree, outcome, .. } => {
            let text =
                if tree.template.is_some() { PrintedText::TextOutput } else { PrintedText::Transcript };
            (run_envelope(&outcome, &tree, order.is_mechanical), text)
        }
        LocalEnd::Refused(refusal) => (refusal.envelope(order.is_mechanical), PrintedText::Transcript),
        LocalEnd::LintErrors(findings) if output.json => {
            let errors: Vec<String> =
                findings.iter().map(|finding| format!("[{}] {}", finding.rule, finding.message)).collect();
            let message = format!("lint found errors: {}", errors.join("; "));
            let name = match skill.is_stored {
                true => RefusedName::Known(skill.label.clone()),
                false => RefusedName::Absent,
            };
            let refusal = RunRefusal::new(&ErrorClass::LintFailure, message, name);
            (refusal.envelope(order.is_mechanical), PrintedText::Transcript)
        }
        LocalEnd::LintErrors(findings) => {
            eprint!("{}", lint::shown(skill, &findings, std::io::stderr().is_terminal()));
            return Err(lint::failed(&skill.label, findings.len()));
        }
    };
    run_result::print(output, &skill.label, &envelope, text)
}

/// Does work until it ends, or until this process is asked to end. Then the work is dropped, which kills the commands of
/// a run.
pub async fn unless_interrupted(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::select! {
        biased;
        exit = interrupted()? => Err(exit.into()),
        ended = work => ended,
    }
}

/// Waits for Ctrl-C or a termination signal.
fn interrupted() -> anyhow::Result<impl Future<Output = Exit>> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    Ok(async move {
        let code = tokio::select! {
            _ = interrupt.recv() => INTERRUPTED,
            _ = terminate.recv() => TERMINATED,
        };
        Exit { code, words: "the run was cancelled".to_owned() }
    })
}

/// Cancels the run that this command waits for. The id of the run is not known before its end. So it is cancelled only if
/// no other run of the skill is under way that somebody waits for; runs of triggers are left alone.
async fn cancel_at_server(program: &ProgramClient, skill: &str) {
    let query =
        RunQuery { skill: Some(skill.to_owned()), state: Some("running".to_owned()), ..RunQuery::default() };
    let running: Vec<Value> = match program.post.runs(&query).await {
        Ok(page) => page.items,
        Err(fault) => {
            eprintln!("posthouse: {:#}", program.error(fault));
            return;
        }
    };
    let awaited = running.iter().filter(|run| run["trigger_id"].is_null());
    let ids: Vec<&str> = awaited.filter_map(|run| run["id"].as_str()).collect();
    match ids[..] {
        [] => eprintln!(
            "posthouse: the run of {skill} has not begun yet, or has ended; see `posthouse run list --skill {skill}`"
        ),
        [id] => match program.post.cancel_run(id).await {
            Ok(_) => eprintln!("posthouse: cancelled {id}"),
            Err(fault) => eprintln!("posthouse: {:#}", program.error(fault)),
        },
        _ => eprintln!(
            "posthouse: several runs of {skill} are under way ({}); end one with `posthouse run cancel RUN`",
            ids.join(", ")
        ),
    }
}
