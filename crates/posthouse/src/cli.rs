//! The command line: one binary for the house, its operator and whoever tries it out.

mod agent;
mod alias;
mod ask;
mod audit;
mod bot;
mod client;
mod connector;
mod credential;
mod exchange;
mod inbox;
mod invite;
mod job;
mod logging;
mod message;
mod notify;
mod paper;
mod questions;
mod reach;
mod receipt;
mod route;
mod settings;
mod signing;
mod speaker;
mod stand_in;
mod tenant;
#[cfg(test)]
mod tests;
mod text;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};

use client::Client;
use paper::Paper;
use reach::Reach;

use crate::{bench, house, up};

/// The command line as it was typed, for those who rewrite it.
type Words = Vec<OsString>;

/// The door of an agent: people, time and programs reach it through here, and it acts on the world
/// without holding a credential.
#[derive(Parser)]
#[command(
    name = "posthouse",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    after_help = "Examples:\n  \
        posthouse up                                   a house, a page and somebody to talk to\n  \
        posthouse init /srv/post && posthouse serve --dir /srv/post\n  \
        posthouse --dir /srv/post tenant create acme\n  \
        posthouse --dir /srv/post bot create telegram --token-file token\n  \
        posthouse --dir /srv/post agent create heron --tenant acme --bot telegram:7001"
)]
struct Cli {
    #[command(flatten)]
    reach: Reach,
    /// Answer in JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes a house if there is none, serves it with the web chat, and lets a sample agent dial in
    #[command(
        after_help = "Examples:\n  posthouse up\n  posthouse up --dir ~/post --listen 127.0.0.1:8000\n\n\
        The folder is --dir, or ./posthouse-data."
    )]
    Up {
        /// Where to listen, instead of what the configuration says
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
    },
    /// Makes a house: posthouse.toml, vault.key and admin.token in a new folder
    #[command(after_help = "Example:\n  posthouse init /srv/post")]
    Init {
        /// Its folder, which is made if it is not there
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Serves a house; prints one line with its URL when it is ready
    #[command(
        after_help = "Examples:\n  posthouse serve --config /srv/post/posthouse.toml\n  posthouse serve --dir /srv/post"
    )]
    Serve {
        #[command(flatten)]
        file: settings::File,
    },
    /// Shows or checks the settings of a house
    #[command(subcommand)]
    Config(settings::Command),
    /// Tenants: whose agents
    #[command(subcommand)]
    Tenant(tenant::Command),
    /// Agents and the credentials they dial in with
    #[command(subcommand)]
    Agent(agent::Command),
    /// Clients: what programs present for an agent or a tenant, and agents' logins
    #[command(subcommand)]
    Client(credential::Command),
    /// Bots: identities on chat platforms
    #[command(subcommand)]
    Bot(bot::Command),
    /// Routes: which agent a bot's events go to
    #[command(subcommand)]
    Route(route::Command),
    /// Tells an agent something, through every connector that knows it
    #[command(
        after_help = "Prints the dispatch id, and what every connector made of it. Exit code 4: nobody knows the \
        agent.\n\nExamples:\n  \
        posthouse notify heron \"the build is green\" --tenant acme\n  \
        make 2>&1 | tail -n 20 | posthouse notify heron --event-type build --client-id tenant:ten_… --client-secret-file secret\n  \
        posthouse notify heron@deploys \"look at this now\" --tenant acme"
    )]
    Notify(notify::Notify),
    /// Gets an agent's attention, now or at a time
    #[command(
        after_help = "Prints whether it was really woken. A text that is piped in is read only where `-` stands for it. Exit \
        code 4: nobody knows the agent.\n\nExamples:\n  \
        posthouse wake heron --tenant acme --wait 10\n  \
        tail -n 20 deploy.log | posthouse wake heron - --tenant acme\n  \
        posthouse wake heron@deploys \"the window opens\" --tenant acme --when +5m"
    )]
    Wake(notify::Wake),
    /// Asks an agent, waits, and prints its answer
    #[command(
        after_help = "Exit code 3: nobody answered in time. Exit code 4: nobody knows the agent.\n\nExamples:\n  \
        posthouse ask heron \"may I deploy?\" --tenant acme --timeout 60\n  \
        git diff | posthouse ask heron --tenant acme > review.md\n  \
        posthouse ask --attach release-7 --tenant acme"
    )]
    Ask(exchange::Ask),
    /// What became of what programs sent
    #[command(subcommand)]
    Receipt(receipt::Command),
    /// What became of what programs asked
    #[command(subcommand)]
    Exchange(questions::Command),
    /// Connectors: ways to agents that do not dial in
    #[command(subcommand)]
    Connector(connector::Command),
    /// Aliases: other names for agents
    #[command(subcommand)]
    Alias(alias::Command),
    /// What waits for agents, and what was given up on
    #[command(subcommand)]
    Inbox(inbox::Command),
    /// Jobs that agents have armed, and what became of their fires
    #[command(subcommand)]
    Job(job::Command),
    /// The keys that fire tokens are signed with
    #[command(subcommand)]
    SigningKey(signing::Keys),
    /// The secret that an outside scheduler signs its calls with
    #[command(subcommand)]
    SchedulerSecret(signing::Schedulers),
    /// The story of one message
    #[command(subcommand)]
    Message(message::Command),
    /// What the operator did: every change that was asked for with the admin token
    #[command(subcommand)]
    Audit(audit::Command),
    /// People who may use the web chat from elsewhere
    #[command(subcommand)]
    Invite(invite::Command),
    /// Writes a consistent copy of a running house's ledger; the vault key is not in it
    #[command(after_help = "Example:\n  posthouse --dir /srv/post backup /backups/post-monday.db")]
    Backup {
        /// A file on the house's machine that is not there yet
        file: PathBuf,
    },
    /// Plays a chat platform on loopback, for trying things out
    #[command(subcommand)]
    StandIn(stand_in::Command),
    /// Measures the house on this machine
    #[command(subcommand)]
    Bench(Bench),
    /// Prints completions for a shell
    #[command(after_help = "Example:\n  posthouse completions bash > /etc/bash_completion.d/posthouse")]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

#[derive(Subcommand)]
enum Bench {
    /// Messages in, durable, pushed, acknowledged; printed as ratios to what this machine can do bare
    Relay(bench::RelayArgs),
    /// Jobs armed, held and fired on time; printed as ratios to what this machine can do bare
    Clock(bench::ClockArgs),
    /// Programs telling agents something, with a receipt; printed as ratios to messages from a platform
    Post(bench::PostArgs),
}

/// A failure that scripts tell from others by its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
struct Exit {
    code: u8,
    words: String,
}

/// Reads the command line and does as it says.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse_from(bot::with_secrets_named(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too, and are no errors.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match cli.act() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("posthouse: {error:#}");
            error.downcast_ref::<Exit>().map_or(ExitCode::FAILURE, |exit| ExitCode::from(exit.code))
        }
    }
}

impl Cli {
    fn act(self) -> anyhow::Result<()> {
        let paper = Paper { json: self.json };
        match self.command {
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "posthouse", &mut script);
                paper.text(&String::from_utf8_lossy(&script))
            }
            Command::Config(command) => command.act(&paper, &self.reach),
            command => {
                let mut threads = tokio::runtime::Builder::new_multi_thread();
                threads
                    .enable_all()
                    .build()
                    .context("cannot start")?
                    .block_on(command.act(&paper, &self.reach))
            }
        }
    }
}

impl Command {
    async fn act(self, paper: &Paper, reach: &Reach) -> anyhow::Result<()> {
        match self {
            Command::Up { listen } => {
                let dir = reach.dir_or_default();
                logging::start_for_up(&dir)?;
                up::up(dir, listen).await
            }
            Command::Init { folder } => {
                house::init(&folder).await?;
                made(paper, &folder)
            }
            Command::Serve { file } => {
                let config = file.load(reach)?;
                logging::start(&config.log)?;
                house::serve(config, house::Options { announce: true }).await
            }
            Command::Tenant(command) => command.act(paper, &Client::new(reach)?).await,
            Command::Agent(command) => command.act(paper, &Client::new(reach)?).await,
            Command::Client(command) => command.act(paper, &Client::new(reach)?).await,
            Command::Bot(command) => command.act(paper, &Client::new(reach)?).await,
            Command::Route(command) => command.act(paper, &Client::new(reach)?).await,
            Command::Notify(notify) => notify.act(paper, reach).await,
            Command::Wake(wake) => wake.act(paper, reach).await,
            Command::Ask(ask) => ask.act(paper, reach).await,
            Command::Receipt(command) => command.act(paper, reach).await,
            Command::Exchange(command) => command.act(paper, reach).await,
            Command::Connector(command) => command.act(paper, &Client::new(reach)?).await,
            Command::Alias(command) => command.act(paper, &Client::new(reach)?).await,
            Command::Inbox(command) => command.act(paper, &Client::new(reach)?).await,
            Command::Job(command) => command.act(paper, &Client::new(reach)?).await,
            Command::SigningKey(command) => command.act(paper, &Client::new(reach)?).await,
            Command::SchedulerSecret(command) => command.act(paper, &Client::new(reach)?).await,
            Command::Message(command) => command.act(paper, &Client::new(reach)?).await,
            Command::Audit(command) => command.act(paper, &Client::new(reach)?).await,
            Command::Invite(command) => command.act(paper, &Client::new(reach)?).await,
            Command::Backup { file } => backup(paper, &Client::new(reach)?, &file).await,
            Command::StandIn(command) => command.act(paper).await,
            Command::Bench(Bench::Relay(args)) => bench::relay(args).await,
            Command::Bench(Bench::Clock(args)) => bench::clock(args).await,
            Command::Bench(Bench::Post(args)) => bench::post(args).await,
            Command::Config(_) | Command::Completions { .. } => Ok(()),
        }
    }
}

fn made(paper: &Paper, folder: &Path) -> anyhow::Result<()> {
    if paper.json {
        return paper.value(&serde_json::json!({ "dir": folder }));
    }
    let shown = folder.display();
    paper.text(&format!(
        "made a house in {shown}\n\n\
         \x20 {shown}/posthouse.toml   its settings\n\
         \x20 {shown}/vault.key        opens what is sealed: keep a copy apart from the backups\n\
         \x20 {shown}/admin.token      lets you in as its operator\n\n\
         Start it with `posthouse serve --dir {shown}`.\n"
    ))
}

async fn backup(paper: &Paper, client: &Client, file: &Path) -> anyhow::Result<()> {
    // Meant from here; the house may stand elsewhere.
    let path = std::path::absolute(file).with_context(|| format!("cannot find {}", file.display()))?;
    let body = serde_json::json!({ "path": path });
    let answer = client.post(&["backup"], &[], &body).await?;
    paper.done(&answer, &format!("wrote {}", path.display()))
}
