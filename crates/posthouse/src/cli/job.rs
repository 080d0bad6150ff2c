//! `posthouse job`: armed cron jobs and their fires.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::admin_client::AdminClient;
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
    #[command(after_help = "Examples:\n  posthouse job list\n  posthouse job list heron --state dead")]
    List {
        /// Only jobs of this agent: its name, or its id (inst_…)
        agent: Option<String>,
        /// Only jobs of this tenant's agents
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// Only jobs in this state: armed, dispatching or dead
        #[arg(long)]
        state: Option<String>,
    },
    /// Shows one armed job
    #[command(after_help = "Example:\n  posthouse job show heron ab12cd34ef56")]
    Show(JobSelector),
    /// Lists the fires of an agent with their results, newest first
    #[command(
        after_help = "Examples:\n  posthouse job history heron\n  posthouse job history heron ab12cd34ef56"
    )]
    History {
        /// The agent's name, or its id (inst_…)
        agent: String,
        /// Only this job, by the id that its agent uses
        job: Option<String>,
        /// The tenant of the agent; not needed if only one agent has this name
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// Maximum number of entries
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Fires a job once now, without changing when it is due
    #[command(after_help = "Example:\n  posthouse job fire-now heron ab12cd34ef56")]
    FireNow(JobSelector),
    /// Retries a failed or dead job now
    #[command(after_help = "Example:\n  posthouse job redrive heron ab12cd34ef56")]
    Redrive(JobSelector),
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::List { agent, tenant, state } => {
                let query =
                    [("agent", agent.as_deref()), ("tenant", tenant.as_deref()), ("state", state.as_deref())];
                let columns = [
                    ("TENANT", "tenant"),
                    ("AGENT", "agent"),
                    ("JOB", "job_id"),
                    ("DUE", "fire_at"),
                    ("STATE", "state"),
                    ("FAILED", "attempts"),
                    ("LAST", "last_error"),
                ];
                output.list(client.list(&["jobs"], &query).await?, &columns, "there are no armed jobs")
            }
            Command::Show(which) => {
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
            Command::History { agent, job, tenant, limit } => {
                let limit = limit.to_string();
                let query = [
                    ("agent", Some(agent.as_str())),
                    ("tenant", tenant.as_deref()),
                    ("job", job.as_deref()),
                    ("limit", Some(limit.as_str())),
                ];
                // Only one page: the user asks for the newest fires.
                let page = client.get(&["jobs", "history"], &query).await?;
                let lines = page["items"].as_array().cloned().unwrap_or_default();
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
                output.list(lines, &columns, "there are no fires")
            }
            Command::FireNow(which) => {
                let path = ["jobs", &which.agent, &which.job, "fire"];
                let answer = client.post(&path, &which.query(), &json!({})).await?;
                let told = match (&answer["taken"], &answer["status"], &answer["error"]) {
                    (Value::Bool(true), status, _) => format!("accepted: the agent answered {status}"),
                    (_, Value::Number(status), _) => format!("not accepted: the agent answered {status}"),
                    (.., why) => format!("not accepted: {}", why.as_str().unwrap_or("no answer")),
                };
                output.done(&answer, &told)
            }
            Command::Redrive(which) => {
                let path = ["jobs", &which.agent, &which.job, "redrive"];
                let answer = client.post(&path, &which.query(), &json!({})).await?;
                output.done(&answer, &format!("{} is retried now", which.job))
            }
        }
    }
}

impl JobSelector {
    fn query(&self) -> [(&'static str, Option<&str>); 1] {
        [("tenant", self.tenant.as_deref())]
    }
}
