//! `posthouse job`: armed cron jobs and their fires.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::admin_client::AdminClient;
use super::filters::{AgentFilter, PageArgs, more};
use super::output::Output;

/// One armed job.
#[derive(Args)]
pub struct JobSelector {
    /// The agent's name, or its id (inst_…)
    agent: String,
    /// The job's id, as its agent calls it
    job: String,
    /// The tenant of the agent; not needed if only one agent has this name
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
}

#[derive(Subcommand)]
pub enum Command {
    /// Lists armed jobs
    #[command(
        after_help = "Examples:\n  posthouse job list\n  posthouse job list --agent heron --state dead"
    )]
    List {
        #[command(flatten)]
        filter: AgentFilter,
        /// Only jobs in this state: armed, dispatching or dead
        #[arg(long)]
        state: Option<String>,
    },
    /// Shows one armed job
    #[command(after_help = "Example:\n  posthouse job show heron ab12cd34ef56")]
    Show(JobSelector),
    /// Lists the fires of an agent with their results, newest first
    #[command(after_help = "Examples:\n  posthouse job history --agent heron\n  \
        posthouse job history --agent heron --job ab12cd34ef56")]
    History(HistoryArgs),
    /// Fires a job once now, without changing when it is due
    #[command(after_help = "Example:\n  posthouse job fire-now heron ab12cd34ef56")]
    FireNow(JobSelector),
    /// Retries a failed or dead job now
    #[command(after_help = "Example:\n  posthouse job redrive heron ab12cd34ef56")]
    Redrive(JobSelector),
}

/// Whose fires to list.
#[derive(Args)]
pub struct HistoryArgs {
    /// The agent's name, or its id (inst_…)
    #[arg(long, value_name = "AGENT", required_unless_present = "agent_word")]
    agent: Option<String>,
    /// Only this job, by the id that its agent uses
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// The agent, as an older spelling of --agent
    #[arg(value_name = "AGENT", hide = true, conflicts_with = "agent")]
    agent_word: Option<String>,
    /// The job, as an older spelling of --job
    #[arg(value_name = "JOB", hide = true, conflicts_with = "job")]
    job_word: Option<String>,
    /// The tenant of the agent; not needed if only one agent has this name
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    page: PageArgs<50, { u32::MAX }>,
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::List { filter, state } => list(output, client, &filter, state.as_deref()).await,
            Command::Show(which) => show(output, client, &which).await,
            Command::History(args) => history(output, client, &args).await,
            Command::FireNow(which) => fire_now(output, client, &which).await,
            Command::Redrive(which) => {
                let path = ["jobs", &which.agent, &which.job, "redrive"];
                let answer = client.post(&path, &which.query(), &json!({})).await?;
                output.done(&answer, &format!("{} is retried now", which.job))
            }
        }
    }
}

async fn list(
    output: &Output,
    client: &AdminClient,
    filter: &AgentFilter,
    state: Option<&str>,
) -> anyhow::Result<()> {
    let [agent, tenant] = filter.query();
    let columns = [
        ("TENANT", "tenant"),
        ("AGENT", "agent"),
        ("JOB", "job_id"),
        ("DUE", "fire_at"),
        ("STATE", "state"),
        ("FAILED", "attempts"),
        ("LAST", "last_error"),
    ];
    let jobs = client.list(&["jobs"], &[agent, tenant, ("state", state)]).await?;
    output.list(jobs, &columns, "there are no armed jobs")
}

async fn show(output: &Output, client: &AdminClient, which: &JobSelector) -> anyhow::Result<()> {
    let job = client.get(&["jobs", &which.agent, &which.job], &which.query()).await?;
    let parts = [
        ("agent", "agent"),
        ("tenant", "tenant"),
        ("job", "job_id"),
        ("due", "fire_at"),
        ("state", "state"),
        ("failed attempts", "attempts"),
        ("next attempt", "next_attempt"),
        ("last status", "last_status"),
        ("last error", "last_error"),
        ("called at", "callback"),
        ("armed", "armed_at"),
        ("schedule", "schedule_id"),
        ("agent wakes in (ms)", "waking_ms"),
    ];
    output.card(&job, &parts)
}

async fn history(output: &Output, client: &AdminClient, args: &HistoryArgs) -> anyhow::Result<()> {
    let limit = args.page.limit.to_string();
    let query = [
        ("agent", args.agent.as_deref().or(args.agent_word.as_deref())),
        ("tenant", args.tenant.as_deref()),
        ("job", args.job.as_deref().or(args.job_word.as_deref())),
        ("limit", Some(limit.as_str())),
        ("before", args.page.after.as_deref()),
    ];
    // Only one page: the user asks for the newest fires.
    let page = client.get(&["jobs", "history"], &query).await?;
    if output.json {
        return output.value(&page);
    }
    let columns = [
        ("AT", "at"),
        ("JOB", "job_id"),
        ("DUE", "fire_at"),
        ("WHAT", "what"),
        ("STATUS", "status"),
        ("LATE MS", "late_ms"),
        ("NEXT", "next_attempt"),
        ("WHY", "error"),
    ];
    output.list(page["items"].as_array().cloned().unwrap_or_default(), &columns, "there are no fires")?;
    more(&page);
    Ok(())
}

async fn fire_now(output: &Output, client: &AdminClient, which: &JobSelector) -> anyhow::Result<()> {
    let path = ["jobs", &which.agent, &which.job, "fire"];
    let answer = client.post(&path, &which.query(), &json!({})).await?;
    let outcome = match (&answer["taken"], &answer["status"], &answer["error"]) {
        (Value::Bool(true), status, _) => format!("accepted: the agent answered {status}"),
        (_, Value::Number(status), _) => format!("not accepted: the agent answered {status}"),
        (.., why) => format!("not accepted: {}", why.as_str().unwrap_or("no answer")),
    };
    output.done(&answer, &outcome)
}

impl JobSelector {
    fn query(&self) -> [(&'static str, Option<&str>); 1] {
        [("tenant", self.tenant.as_deref())]
    }
}
