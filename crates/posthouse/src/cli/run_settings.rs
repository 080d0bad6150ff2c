//! `posthouse run-settings`: tool connectors and permissions of the skills of a tenant.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::admin_client::AdminClient;
use super::output::Output;

#[derive(Subcommand)]
pub enum Command {
    /// Shows the run settings of a tenant, without secrets
    #[command(after_help = "Example:\n  posthouse run-settings show --tenant acme")]
    Show {
        /// The tenant
        #[arg(long, value_name = "TENANT")]
        tenant: String,
    },
    /// Changes run settings; options that are not given stay as they are
    #[command(
        after_help = "Commands and child processes need `workshop.run_commands = true` in the configuration of the \
        server, and folders must be below `workshop.file_roots`.\n\nExamples:\n  \
        posthouse run-settings change --tenant acme --connectors connectors.json\n  \
        posthouse run-settings change --tenant acme --program git --program jq --folder /srv/skills/acme\n  \
        posthouse run-settings change --tenant acme --no-programs --max-run 600"
    )]
    Change {
        /// The tenant
        #[arg(long, value_name = "TENANT")]
        tenant: String,
        #[command(flatten)]
        change: RunSettingsArgs,
    },
}

#[derive(Args)]
pub struct RunSettingsArgs {
    /// File with the tool connectors and the model: connectors.json of the reference runtime
    #[arg(long, value_name = "FILE")]
    connectors: Option<PathBuf>,
    /// A program that `shell` may start; can be repeated, and replaces the earlier list
    #[arg(long, value_name = "PROGRAM")]
    program: Vec<String>,
    /// Allow no program
    #[arg(long, conflicts_with = "program")]
    no_programs: bool,
    /// A folder in which files may be read and written; can be repeated, and replaces the earlier list
    #[arg(long, value_name = "FOLDER")]
    folder: Vec<PathBuf>,
    /// Allow no folder
    #[arg(long, conflicts_with = "folder")]
    no_folders: bool,
    /// Whether tool connectors may be child processes
    #[arg(long, value_name = "BOOL")]
    child_processes: Option<bool>,
    /// Whether commands may be handed to `bash -c`
    #[arg(long, value_name = "BOOL")]
    unsafe_shell: Option<bool>,
    /// The longest time of one run, in seconds
    #[arg(long, value_name = "SECONDS")]
    max_run: Option<u64>,
    /// Runs of the tenant at once
    #[arg(long, value_name = "NUMBER")]
    runs_at_once: Option<u32>,
    /// Which runs record their operations: on, off, or a share such as 10%
    #[arg(long, value_name = "MODE")]
    trace: Option<String>,
    /// Scheduled runs that were missed: run_once or skip
    #[arg(long, value_name = "POLICY")]
    missed_runs: Option<String>,
    /// Scheduled runs begin up to this many seconds after their time
    #[arg(long, value_name = "SECONDS")]
    jitter: Option<u64>,
}

impl Command {
    pub async fn act(self, output: &Output, client: &AdminClient) -> anyhow::Result<()> {
        match self {
            Command::Show { tenant } => {
                let shown = client.get(&["run-settings", &tenant], &[]).await?;
                output.value(&shown)
            }
            Command::Change { tenant, change } => {
                let body = Value::Object(change.body()?);
                let changed = client.patch(&["run-settings", &tenant], &[], &body).await?;
                output.done(&changed, &format!("changed the run settings of tenant {tenant}"))
            }
        }
    }
}

impl RunSettingsArgs {
    fn body(self) -> anyhow::Result<Map<String, Value>> {
        let mut body = Map::new();
        if let Some(file) = &self.connectors {
            let text =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            let connectors: Value =
                serde_json::from_str(&text).with_context(|| format!("{} is not JSON", file.display()))?;
            body.insert("connectors".to_owned(), connectors);
        }
        if !self.program.is_empty() || self.no_programs {
            body.insert("shell_programs".to_owned(), self.program.into());
        }
        if !self.folder.is_empty() || self.no_folders {
            let folders = self.folder.iter().map(|folder| folder.display().to_string());
            body.insert("file_roots".to_owned(), folders.collect::<Vec<_>>().into());
        }
        let given = [
            ("child_processes", self.child_processes.map(Value::from)),
            ("unsafe_shell", self.unsafe_shell.map(Value::from)),
            ("max_run_seconds", self.max_run.map(Value::from)),
            ("runs_at_once", self.runs_at_once.map(Value::from)),
            ("trace", self.trace.map(Value::from)),
            ("missed_runs", self.missed_runs.map(Value::from)),
            ("jitter_seconds", self.jitter.map(Value::from)),
        ];
        body.extend(given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        if body.is_empty() {
            bail!("nothing to change: give at least one option");
        }
        Ok(body)
    }
}
