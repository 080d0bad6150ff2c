//! Command line of the `posthouse` binary: the server, its administration, and commands to try it out.

mod access;
mod admin_client;
mod agent;
mod alias;
mod approval_key;
mod ask;
mod audit;
mod backup;
mod bench;
mod binding;
mod bot;
mod capability;
mod claim;
mod client;
mod config;
mod connector;
mod enroll_token;
mod exchange;
mod filters;
mod inbox;
mod invite;
mod job;
mod logging;
mod mcp;
mod message;
mod message_text;
mod notify;
mod output;
mod program_client;
mod prompt;
mod receipt;
mod route;
mod run;
mod run_settings;
mod scheduler_secret;
mod secret;
mod server_address;
mod signing_key;
mod skill;
mod skill_home;
mod skillfile;
mod staleness;
mod stand_in;
mod tenant;
#[cfg(test)]
mod tests;
mod wake;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use rustix::fs::Mode;

use admin_client::AdminClient;
use output::Output;
use server_address::ServerOptions;

use crate::{doors, up, wiring};

/// The command line as it was typed, for functions that rewrite it.
type RawArguments = Vec<OsString>;

/// A durable gateway between AI agents and the people, schedules and programs that talk to them.
#[derive(Parser)]
#[command(
    name = "posthouse",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    after_help = "Examples:\n  \
        posthouse up                                   a server with a chat page and a sample agent\n  \
        posthouse init /srv/post && posthouse serve --dir /srv/post\n  \
        posthouse --dir /srv/post tenant create acme\n  \
        posthouse --dir /srv/post bot create telegram --token-file token\n  \
        posthouse --dir /srv/post agent create heron --tenant acme --bot telegram:7001"
)]
struct Cli {
    #[command(flatten)]
    server: ServerOptions,
    /// Print JSON
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Creates a server folder if there is none, serves it with the chat page, and connects a sample agent
    #[command(
        after_help = "Examples:\n  posthouse up\n  posthouse up --dir ~/post --listen 127.0.0.1:8000\n\n\
        The server folder is --dir, by default ./posthouse-data."
    )]
    Up {
        /// Address to listen on, instead of the one in the configuration
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
    },
    /// Creates a server folder with posthouse.toml, vault.key and admin.token
    #[command(after_help = "Example:\n  posthouse init /srv/post")]
    Init {
        /// The server folder; created if it does not exist
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Runs the server; prints one line with its URL when it is ready
    #[command(
        after_help = "Examples:\n  posthouse serve --config /srv/post/posthouse.toml\n  posthouse serve --dir /srv/post"
    )]
    Serve {
        #[command(flatten)]
        file: config::ConfigFile,
        /// Address to listen on, instead of the one in the configuration
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
    },
    /// Shows or checks the settings of the server
    #[command(subcommand)]
    Config(config::Command),
    /// Tenants: the owners of agents
    #[command(subcommand)]
    Tenant(tenant::Command),
    /// Agents and the credentials they connect with
    #[command(subcommand)]
    Agent(agent::Command),
    /// Capabilities: what agents did with short-lived credentials and with their bots' credentials
    #[command(subcommand)]
    Capability(capability::Command),
    /// Clients: credentials of programs, for one agent or a whole tenant, and logins of agents
    #[command(subcommand)]
    Client(client::Command),
    /// Enrolment tokens: single-use tokens with which gateways get their credential
    #[command(subcommand)]
    EnrollToken(enroll_token::Command),
    /// Bots: accounts on chat platforms
    #[command(subcommand)]
    Bot(bot::Command),
    /// Access: who may write to a bot
    #[command(subcommand)]
    Access(access::Command),
    /// Routes: which agent gets the events of a bot
    #[command(subcommand)]
    Route(route::Command),
    /// Bindings: people on chat platforms who linked themselves to agents
    #[command(subcommand)]
    Binding(binding::Command),
    /// Claims: chats and scopes of shared bots that agents ask for
    #[command(subcommand)]
    Claim(claim::Command),
    /// Sends a message to an agent, through every connector that knows it
    #[command(
        after_help = "Prints the dispatch id, and the result of every connector. Exit code 4: unknown \
        agent.\n\nExamples:\n  \
        posthouse notify heron \"the build is green\" --tenant acme\n  \
        make 2>&1 | tail -n 20 | posthouse notify heron --event-type build --client-id tenant:ten_… --client-secret-file secret\n  \
        posthouse notify heron@deploys \"look at this now\" --tenant acme"
    )]
    Notify(notify::NotifyArgs),
    /// Wakes an agent, now or at a given time
    #[command(
        after_help = "Prints whether the agent was woken. Piped text is read only if TEXT is `-`. Exit \
        code 4: unknown agent.\n\nExamples:\n  \
        posthouse wake heron --tenant acme --wait 10\n  \
        tail -n 20 deploy.log | posthouse wake heron - --tenant acme\n  \
        posthouse wake heron@deploys \"the window opens\" --tenant acme --when +5m"
    )]
    Wake(wake::WakeArgs),
    /// Asks an agent a question, waits, and prints its answer
    #[command(after_help = "Exit code 3: no answer in time. Exit code 4: unknown agent.\n\nExamples:\n  \
        posthouse ask heron \"may I deploy?\" --tenant acme --timeout 60\n  \
        git diff | posthouse ask heron --tenant acme > review.md\n  \
        posthouse ask --attach release-7 --tenant acme")]
    Ask(ask::AskArgs),
    /// Offers the tools of the server to an MCP client that starts this command
    #[command(
        after_help = "The client sets POSTHOUSE_URL, POSTHOUSE_CLIENT_ID and POSTHOUSE_CLIENT_SECRET or \
        POSTHOUSE_CLIENT_SECRET_FILE.\n\nExample:\n  \
        posthouse mcp --stdio --url http://127.0.0.1:7678 --client-id tenant:ten_… --client-secret-file secret"
    )]
    Mcp(mcp::McpArgs),
    /// Receipts: how far the messages of programs have come
    #[command(subcommand)]
    Receipt(receipt::Command),
    /// Exchanges: questions of programs and their state
    #[command(subcommand)]
    Exchange(exchange::Command),
    /// Connectors: ways to agents that do not connect by WebSocket
    #[command(subcommand)]
    Connector(connector::Command),
    /// Aliases: other names for agents
    #[command(subcommand)]
    Alias(alias::Command),
    /// Skills: programs that the server and agents run, and their approval
    #[command(subcommand)]
    Skill(skill::Command),
    /// Runs of skills: what they did, and cancelling them
    #[command(subcommand)]
    Run(run::Command),
    /// Run settings: tool connectors of a tenant's skills, and what they may do
    #[command(subcommand)]
    RunSettings(run_settings::Command),
    /// Secrets that the skills of a tenant use
    #[command(subcommand)]
    Secret(secret::Command),
    /// Commands of the skillscript runtime (`skillfile`), for skills in its home folder
    #[command(subcommand)]
    Skillfile(skillfile::Command),
    /// Approval keys: public keys that check the signatures of skills
    #[command(subcommand)]
    ApprovalKey(approval_key::Command),
    /// Inboxes: unread entries of agents, and dead letters
    #[command(subcommand)]
    Inbox(inbox::Command),
    /// Cron jobs that agents have armed, and the history of their fires
    #[command(subcommand)]
    Job(job::Command),
    /// The keys that sign fire tokens
    #[command(subcommand)]
    SigningKey(signing_key::Command),
    /// The secret with which an external scheduler signs its calls
    #[command(subcommand)]
    SchedulerSecret(scheduler_secret::Command),
    /// Traces of messages: every step of one message
    #[command(subcommand)]
    Message(message::Command),
    /// Audit log: every change that was requested with the admin token
    #[command(subcommand)]
    Audit(audit::Command),
    /// Invitations to the chat page
    #[command(subcommand)]
    Invite(invite::Command),
    /// Writes a consistent copy of the ledger of a running server; it does not contain the vault key
    #[command(after_help = "Example:\n  posthouse --dir /srv/post backup /backups/post-monday.db")]
    Backup {
        /// A file on the machine of the server; it must not exist yet
        file: PathBuf,
    },
    /// Plays a chat platform on loopback, for tests and for trying things out
    #[command(subcommand)]
    StandIn(stand_in::Command),
    /// Measures the performance of the server on this machine
    #[command(subcommand)]
    Bench(bench::Command),
    /// Prints the OpenAPI document of the HTTP API; a server has its own at /openapi.json
    #[command(after_help = "Example:\n  posthouse openapi > posthouse.openapi.json")]
    Openapi,
    /// Prints a completion script for a shell
    #[command(after_help = "Example:\n  posthouse completions bash > /etc/bash_completion.d/posthouse")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// A failure with its own exit code, for scripts.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
struct Exit {
    code: u8,
    words: String,
}

/// Parses the command line and runs the command. `users_umask` is the mask of the user, for the files of skills; the mask
/// of the process is stricter.
pub fn run(users_umask: Mode) -> ExitCode {
    let cli = match Cli::try_parse_from(bot::with_secrets_named(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => {
            // Clap reports help and version as errors too; both have exit code 0.
            let _ = error.print();
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            let is_skillfile = std::env::args_os().nth(1).is_some_and(|word| word == "skillfile");
            return ExitCode::from(if is_skillfile && code != 0 { skillfile::USAGE } else { code });
        }
    };
    if matches!(cli.command, Command::Skill(_) | Command::Skillfile(_)) {
        rustix::process::umask(users_umask);
    }
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
        let output = Output { json: self.json };
        match self.command {
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "posthouse", &mut script);
                output.text(&String::from_utf8_lossy(&script))
            }
            Command::Config(command) => command.act(&output, &self.server),
            Command::Openapi => output.value(&doors::description::document("/", true)),
            command => {
                let mut threads = tokio::runtime::Builder::new_multi_thread();
                threads
                    .enable_all()
                    .build()
                    .context("cannot start the async runtime")?
                    .block_on(command.act(&output, &self.server))
            }
        }
    }
}

impl Command {
    async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        match self {
            Command::Up { listen } => {
                let dir = server.dir_or_default();
                logging::start_for_up(&dir)?;
                up::up(dir, listen).await
            }
            Command::Init { folder } => {
                wiring::init(&folder).await?;
                made(output, &folder)
            }
            Command::Serve { file, listen } => {
                let mut config = file.load(server)?;
                config.server.listen = listen.unwrap_or(config.server.listen);
                logging::start(&config.log)?;
                wiring::serve(config, wiring::ServeOptions { announce: true }).await
            }
            Command::Tenant(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Agent(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Client(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Capability(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::EnrollToken(command) => command.act(output, &AdminClient::new(server)?).await,
            // A server is needed only for the settings of an existing bot.
            Command::Bot(bot::Command::Try(args)) if !args.needs_server() => args.act(output, None).await,
            Command::Bot(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Access(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Route(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Binding(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Claim(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Notify(notify) => notify.act(output, server).await,
            Command::Wake(wake) => wake.act(output, server).await,
            Command::Ask(ask) => ask.act(output, server).await,
            Command::Mcp(mcp) => mcp.act(server).await,
            Command::Receipt(command) => command.act(output, server).await,
            Command::Exchange(command) => command.act(output, server).await,
            Command::Connector(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Alias(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Skill(command) => command.act(output, server).await,
            Command::Run(command) => command.act(output, server).await,
            Command::RunSettings(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Secret(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Skillfile(command) => command.act(output).await,
            Command::ApprovalKey(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Inbox(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Job(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::SigningKey(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::SchedulerSecret(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Message(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Audit(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Invite(command) => command.act(output, &AdminClient::new(server)?).await,
            Command::Backup { file } => backup::backup(output, &AdminClient::new(server)?, &file).await,
            Command::StandIn(command) => command.act(output).await,
            Command::Bench(command) => command.act().await,
            Command::Config(_) | Command::Openapi | Command::Completions { .. } => Ok(()),
        }
    }
}

fn made(output: &Output, folder: &Path) -> anyhow::Result<()> {
    if output.json {
        return output.value(&serde_json::json!({ "dir": folder }));
    }
    let shown = folder.display();
    output.text(&format!(
        "created a server folder in {shown}\n\n\
         \x20 {shown}/posthouse.toml   settings\n\
         \x20 {shown}/vault.key        decrypts the stored secrets: keep a copy apart from the backups\n\
         \x20 {shown}/admin.token      credential of the operator\n\n\
         Start it with `posthouse serve --dir {shown}`.\n"
    ))
}
