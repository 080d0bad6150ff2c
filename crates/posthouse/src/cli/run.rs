//! `posthouse run`: runs of skills.

use clap::Subcommand;
use posthouse_agent::post::{RunQuery, SkillExecution};
use serde_json::{Value, json};

use super::Exit;
use super::filters::{PageArgs, more};
use super::output::{Output, at, cell};
use super::program_client::{CredentialArgs, ProgramClient};
use super::server_address::ServerOptions;
use super::skill::compile::InputArgs;

#[derive(Subcommand)]
pub enum Command {
    /// Lists runs, newest first
    #[command(after_help = "Examples:\n  posthouse run list --tenant acme\n  \
        posthouse run list --tenant acme --skill tide-watch --state failed")]
    List {
        /// Only runs of this skill
        #[arg(long)]
        skill: Option<String>,
        /// Only this state: queued, running, succeeded, failed, cancelled or interrupted
        #[arg(long)]
        state: Option<String>,
        #[command(flatten)]
        page: PageArgs<50, 200>,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Shows a run with its operations and the messages that it sent
    #[command(after_help = "Example:\n  posthouse run show run_019a… --tenant acme")]
    Show {
        /// The run, as `posthouse run list` prints it
        run: String,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Runs the skill of a run again as it is stored now, only to show what it would do
    #[command(
        after_help = "The variables have their defaults, unless --input gives them other values. Prints the result \
        and the version of the skill then and now. Exit code 1: there are errors.\n\nExample:\n  \
        posthouse run replay run_019a… --tenant acme"
    )]
    Replay {
        /// The run
        run: String,
        #[command(flatten)]
        inputs: InputArgs,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Cancels a run that waits or runs; its commands are killed
    #[command(after_help = "Example:\n  posthouse run cancel run_019a… --tenant acme")]
    Cancel {
        /// The run
        run: String,
        #[command(flatten)]
        credential: CredentialArgs,
    },
}

impl Command {
    pub async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        match self {
            Command::List { skill, state, page: PageArgs { limit, after }, credential } => {
                let program = credential.connect(server).await?;
                let query = RunQuery { skill, state, after, limit: Some(limit) };
                let page = program.post.runs(&query).await.map_err(|fault| program.error(fault))?;
                let page = json!(page);
                if output.json {
                    return output.value(&page);
                }
                let runs = page["items"].as_array().cloned().unwrap_or_default();
                let rows: Vec<Value> = runs.into_iter().map(row).collect();
                let columns = [
                    ("RUN", "id"),
                    ("SKILL", "skill"),
                    ("STATE", "state"),
                    ("TRIGGER", "started_by"),
                    ("FIRED", "fired"),
                    ("ERROR", "error"),
                ];
                output.list(rows, &columns, "no skill has run yet")?;
                more(&page);
                Ok(())
            }
            Command::Show { run, credential } => {
                let program = credential.connect(server).await?;
                let shown = program.post.run(&run).await.map_err(|fault| program.error(fault))?;
                if output.json {
                    return output.value(&shown);
                }
                output.text(&rendered(&shown))
            }
            Command::Replay { run, inputs, credential } => {
                replay(output, &credential.connect(server).await?, &run, &inputs).await
            }
            Command::Cancel { run, credential } => {
                let program = credential.connect(server).await?;
                let answer = program.post.cancel_run(&run).await.map_err(|fault| program.error(fault))?;
                let sentence = match answer["cancelled"] == Value::Bool(true) {
                    true => format!("cancelled {run}"),
                    false => format!("{run} had ended already"),
                };
                output.done(&answer, &sentence)
            }
        }
    }
}

async fn replay(
    output: &Output,
    program: &ProgramClient,
    run: &str,
    inputs: &InputArgs,
) -> anyhow::Result<()> {
    let recorded = program.post.run(run).await.map_err(|fault| program.error(fault))?;
    let name = recorded["skill"].as_str().unwrap_or_default();
    let stored = program.post.skill(name, None).await.map_err(|fault| program.error(fault))?;
    let execution = SkillExecution { inputs: inputs.texts(), mechanical: true, ..SkillExecution::new(name) };
    let result = program.post.execute_skill(&execution).await.map_err(|fault| program.error(fault))?;
    let errors = result["errors"].as_array().map_or(0, Vec::len);
    output.value(&json!({
        "replayed_trace_id": run,
        "replay_skill_version": stored.version,
        "original_skill_version": recorded["version"],
        "result": result,
    }))?;
    match errors {
        0 => Ok(()),
        _ => Err(Exit { code: 1, words: format!("{name} failed in the replay") }.into()),
    }
}

/// A run with what the list shows of it.
fn row(mut run: Value) -> Value {
    run["started_by"] = run["trigger"]["source"].clone();
    run["fired"] = at(&run["fired_at_ms"]).into();
    run
}

fn rendered(run: &Value) -> String {
    let mut lines = vec![format!("{}  {}  {}", cell(&run["id"]), cell(&run["skill"]), cell(&run["state"]))];
    let trigger = &run["trigger"];
    lines.push(format!("trigger: {} {}", cell(&trigger["source"]), cell(&trigger["name"])));
    if run["cause"].is_string() {
        lines.push(format!("cause: {}", cell(&run["cause"])));
    }
    for (what, field) in [("fired", "fired_at_ms"), ("started", "started_at_ms"), ("ended", "ended_at_ms")] {
        if run[field].is_number() {
            lines.push(format!("{what}: {}", at(&run[field])));
        }
    }
    if run["error"].is_string() {
        lines.push(format!("error: {}", cell(&run["error"])));
    }
    for op in run["record"]["ops"].as_array().into_iter().flatten() {
        let mark = if op["errored"] == Value::Bool(true) { "failed" } else { "ok" };
        let (target, millis, body) = (cell(&op["target"]), cell(&op["duration_ms"]), cell(&op["body"]));
        lines.push(format!("  {target}  {mark}  {millis} ms  {body}"));
    }
    for dispatch in run["dispatches"].as_array().into_iter().flatten() {
        lines.push(format!("sent: {}", cell(dispatch)));
    }
    lines.join("\n")
}
