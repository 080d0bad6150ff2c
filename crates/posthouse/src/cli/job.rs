//! `posthouse job`

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::Client;
use super::paper::Paper;

/// One armed job.
#[derive(Args)]
pub struct Which {
    /// The agent's name, or its id (inst_…)
    agent: String,
    /// The job as its agent calls it
    job: String,
    /// The tenant a name is meant in; not needed while only one agent has the name
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
}

#[derive(Subcommand)]
pub enum Command {
    /// Lists what agents have armed
    #[command(after_help = "Examples:\n  posthouse job list\n  posthouse job list heron --state dead")]
    List {
        /// Only those of this agent: its name, or its id (inst_…)
        agent: Option<String>,
        /// Only those of this tenant's agents
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// armed, dispatching or dead
        #[arg(long)]
        state: Option<String>,
    },
    /// Shows one armed job
    #[command(after_help = "Example:\n  posthouse job show heron ab12cd34ef56")]
    Show(Which),
    /// Tells what became of an agent's fires, newest first
    #[command(
        after_help = "Examples:\n  posthouse job history heron\n  posthouse job history heron ab12cd34ef56"
    )]
    History {
        /// The agent's name, or its id (inst_…)
        agent: String,
        /// Only those of this job, as its agent calls it
        job: Option<String>,
        /// The tenant a name is meant in; not needed while only one agent has the name
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// How many at most
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Fires a job now, once, and leaves its arm as it is
    #[command(after_help = "Example:\n  posthouse job fire-now heron ab12cd34ef56")]
    FireNow(Which),
    /// Tries a job that failed or was given up again now
    #[command(after_help = "Example:\n  posthouse job redrive heron ab12cd34ef56")]
    Redrive(Which),
}

impl Command {
    pub async fn act(self, paper: &Paper, client: &Client) -> anyhow::Result<()> {
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
                paper.list(client.list(&["jobs"], &query).await?, &columns, "nothing is armed")
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
                paper.card(&job, &parts)
            }
            Command::History { agent, job, tenant, limit } => {
                let limit = limit.to_string();
                let query = [
                    ("agent", Some(agent.as_str())),
                    ("tenant", tenant.as_deref()),
                    ("job", job.as_deref()),
                    ("limit", Some(limit.as_str())),
                ];
                // One page: the newest lines are what is asked for.
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
                paper.list(lines, &columns, "nothing was fired")
            }
            Command::FireNow(which) => {
                let path = ["jobs", &which.agent, &which.job, "fire"];
                let answer = client.post(&path, &which.query(), &json!({})).await?;
                let told = match (&answer["taken"], &answer["status"], &answer["error"]) {
                    (Value::Bool(true), status, _) => format!("taken: the agent answered {status}"),
                    (_, Value::Number(status), _) => format!("not taken: the agent answered {status}"),
                    (.., why) => format!("not taken: {}", why.as_str().unwrap_or("no answer")),
                };
                paper.done(&answer, &told)
            }
            Command::Redrive(which) => {
                let path = ["jobs", &which.agent, &which.job, "redrive"];
                let answer = client.post(&path, &which.query(), &json!({})).await?;
                paper.done(&answer, &format!("{} is tried again now", which.job))
            }
        }
    }
}

impl Which {
    fn query(&self) -> [(&'static str, Option<&str>); 1] {
        [("tenant", self.tenant.as_deref())]
    }
}
