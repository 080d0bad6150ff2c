//! `posthouse run`: runs of skills.

use clap::Subcommand;
use posthouse_agent::post::RunQuery;
use serde_json::{Value, json};

use super::filters::{PageArgs, more};
use super::output::{Output, at, cell};
use super::program_client::CredentialArgs;
use super::server_address::ServerOptions;

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
