//! `posthouse skill`: skills of a tenant.

mod approve;
pub mod compile;
mod describe;
mod fmt;
pub mod given_skill;
pub mod key_files;
pub mod lint;
pub mod run;
pub mod run_result;
mod test;
mod watch;

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use posthouse_agent::post::{ListedSkill, NewSkill, SkillQuery};
use serde_json::{Value, json};

use self::approve::confirm;
use self::given_skill::read_file;
use super::output::{Output, without_control_characters};
use super::program_client::{CredentialArgs, ProgramClient};
use super::server_address::ServerOptions;

#[derive(Subcommand)]
pub enum Command {
    /// Checks a skill and shows every mistake with its line, its rule and a remedy
    #[command(after_help = "Exit code 1: there are errors.\n\nExamples:\n  \
        posthouse skill lint tide-watch.skill.md\n  posthouse skill lint tide-watch.skill.md --watch\n  \
        posthouse skill lint tide-watch --tenant acme")]
    Lint(lint::LintArgs),
    /// Renders a skill as steps that an agent or a person can follow
    #[command(after_help = "Warnings go to standard error.\n\nExamples:\n  \
        posthouse skill compile tide-watch.skill.md --input HARBOUR=Bergen\n  \
        posthouse skill compile tide-watch.skill.md --format prose")]
    Compile(compile::CompileArgs),
    /// Formats a skill in its place without a change of meaning
    #[command(after_help = "Exit code 1 with --check: the skill is not formatted.\n\nExamples:\n  \
        posthouse skill fmt tide-watch.skill.md\n  posthouse skill fmt - < tide-watch.skill.md\n  \
        posthouse skill fmt tide-watch.skill.md --check")]
    Fmt(fmt::FmtArgs),
    /// Runs a skill: a file or a stored skill on this machine, or a stored skill on the server
    #[command(
        after_help = "A file runs on this machine, without a server. A name is looked up on the server, if one is \
        named and neither --home nor --connectors is given, and otherwise in the home folder: SKILLSCRIPT_HOME, or \
        ~/.skillscript. Limits, secrets and secured mode are those of the environment and of the file .env in the home \
        folder. Ctrl-C cancels the run. Exit code 1: the skill did not run, or has failed.\n\nExamples:\n  \
        posthouse skill run tide-watch.skill.md --input HARBOUR=Bergen\n  \
        posthouse skill run tide-watch.skill.md --watch\n  \
        posthouse skill run tide-watch --home /srv/skills --connectors connectors.json --json\n  \
        posthouse skill run tide-watch --tenant acme"
    )]
    Run(run::RunArgs),
    /// Plays test cases for skills with test doubles for tools, agents, files and time
    #[command(
        after_help = "The format of cases is described in vectors/skills/README.md. Commands of a case are \
        real commands of this machine. Exit code 1: a case failed.\n\nExamples:\n  \
        posthouse skill test tide-watch.test.json --skill tide-watch.skill.md\n  \
        posthouse skill test cases.json --case high-tide --json"
    )]
    Test(test::TestArgs),
    /// Prints the language reference as Markdown: operations, filters, conditions and lint rules
    #[command(after_help = "Example:\n  posthouse skill reference > skill-language.md")]
    Reference,
    /// Lists skills by name
    #[command(after_help = "Examples:\n  posthouse skill list --tenant acme\n  \
        posthouse skill list --tenant acme --status Draft\n  posthouse skill list --tenant acme --deleted")]
    List {
        /// Only skills with this status
        #[arg(long, value_enum, value_name = "STATUS")]
        status: Option<StatusArg>,
        /// Only skills with this tag
        #[arg(long)]
        tag: Option<String>,
        /// Only skills of this author
        #[arg(long)]
        author: Option<String>,
        /// Only skills whose name matches this regular expression
        #[arg(long, value_name = "PATTERN")]
        name_pattern: Option<String>,
        /// List deleted skills that can be restored instead
        #[arg(long, conflicts_with_all = ["status", "tag", "author", "name_pattern"])]
        deleted: bool,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Prints the text of a skill
    #[command(after_help = "Examples:\n  posthouse skill show tide-watch --tenant acme\n  \
        posthouse skill show tide-watch --at 0a1b2c3d4e5f --tenant acme")]
    Show {
        /// The skill
        name: String,
        /// An earlier version, as `posthouse skill history` prints it
        #[arg(long, value_name = "VERSION")]
        at: Option<String>,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Writes a skill from a file
    #[command(
        after_help = "Examples:\n  posthouse skill write tide-watch tide-watch.skill.md --tenant acme\n  \
        posthouse skill write tide-watch - --new --tenant acme < tide-watch.skill.md"
    )]
    Write {
        /// The skill
        name: String,
        /// The file with its text; `-` reads standard input
        file: PathBuf,
        /// Its status, whatever the text says
        #[arg(long, value_enum, value_name = "STATUS")]
        status: Option<StatusArg>,
        /// Its author; only the first write sets it
        #[arg(long)]
        author: Option<String>,
        /// Fail unless the skill has this version
        #[arg(long, value_name = "VERSION")]
        if_version: Option<String>,
        /// Fail if the skill exists
        #[arg(long)]
        new: bool,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Shows what a skill touches, signs it on this machine, and approves it
    #[command(after_help = "The key is the file in SKILLSCRIPT_APPROVAL_KEY_FILE, or \
        ~/.config/skillscript/approval.key. It is not sent to the server. Without a key the skill is approved by its \
        status alone, which is enough unless the tenant demands signatures.\n\nExample:\n  \
        posthouse skill approve tide-watch --tenant acme")]
    Approve {
        /// The skill
        name: String,
        #[command(flatten)]
        approval: ApproveArgs,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Lists approved skills that do not pass any more; signs them with --apply
    #[command(after_help = "Examples:\n  posthouse skill reapprove --tenant acme\n  \
        posthouse skill reapprove --apply --tenant acme")]
    Reapprove {
        /// Sign them
        #[arg(long)]
        apply: bool,
        #[command(flatten)]
        approval: ApproveArgs,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Shows whether approved skills pass the approval gate; fails if one does not
    #[command(after_help = "Example:\n  posthouse skill verify --tenant acme")]
    Verify {
        /// The skill; all of them by default
        name: Option<String>,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Changes the status of a skill
    #[command(after_help = "Example:\n  posthouse skill status tide-watch Disabled --tenant acme")]
    Status {
        /// The skill
        name: String,
        /// The new status
        #[arg(value_enum)]
        status: StatusArg,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Deletes a skill with its history; it can be restored for 30 days if the server keeps it
    #[command(after_help = "Examples:\n  posthouse skill delete tide-watch --tenant acme\n  \
        posthouse skill delete tide-watch --force --yes --tenant acme")]
    Delete {
        /// The skill
        name: String,
        /// Delete it even if other skills use it
        #[arg(long)]
        force: bool,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Shows the history of a skill, oldest first
    #[command(after_help = "Example:\n  posthouse skill history tide-watch --tenant acme")]
    History {
        /// The skill
        name: String,
        #[command(flatten)]
        credential: CredentialArgs,
    },
    /// Restores a deleted skill with its history
    #[command(after_help = "Example:\n  posthouse skill restore tide-watch --tenant acme")]
    Restore {
        /// The skill
        name: String,
        #[command(flatten)]
        credential: CredentialArgs,
    },
}

/// Options of commands that sign.
#[derive(Args)]
pub struct ApproveArgs {
    /// File with the private key, instead of the usual one
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum StatusArg {
    Draft,
    Approved,
    Disabled,
}

impl StatusArg {
    fn word(self) -> &'static str {
        match self {
            StatusArg::Draft => "Draft",
            StatusArg::Approved => "Approved",
            StatusArg::Disabled => "Disabled",
        }
    }
}

impl Command {
    pub async fn act(self, output: &Output, server: &ServerOptions) -> anyhow::Result<()> {
        match self {
            Command::Lint(lint) => lint.act(output, server).await,
            Command::Compile(compile) => compile.act(output, server).await,
            Command::Fmt(fmt) => fmt.act(output, server).await,
            Command::Run(run) => run.act(output, server).await,
            Command::Test(test) => test.act(output),
            Command::Reference => output.text(&skill::language_reference()),
            Command::List { deleted: true, credential, .. } => {
                list_deleted(output, &credential.connect(server).await?).await
            }
            Command::List { status, tag, author, name_pattern, credential, .. } => {
                let status = status.map(|status| status.word().to_owned());
                let query = SkillQuery { status, tag, author, name_pattern, after: None, limit: Some(200) };
                list(output, &credential.connect(server).await?, query).await
            }
            Command::Show { name, at, credential } => {
                let program = credential.connect(server).await?;
                let found = program.post.skill(&name, at.as_deref()).await;
                let skill = found.map_err(|fault| program.error(fault))?;
                if output.json {
                    output.value(&json!(skill))
                } else {
                    output.text(&without_control_characters(&skill.source))
                }
            }
            Command::Write { name, file, status, author, if_version, new, credential } => {
                let source = read_file(&file)?;
                let program = credential.connect(server).await?;
                let skill = NewSkill {
                    source,
                    author,
                    status: status.map(|status| status.word().to_owned()),
                    if_version,
                    overwrite: new.then_some(false),
                    ..NewSkill::default()
                };
                let written = program.post.write_skill(&name, &skill).await;
                let written = written.map_err(|fault| program.error(fault))?;
                let sentence = format!("wrote {name}: version {}, {}", written.version, written.status);
                output.done(&json!(written), &sentence)
            }
            Command::Approve { name, approval, credential } => {
                approve::approve(output, &credential.connect(server).await?, &name, approval).await
            }
            Command::Reapprove { apply, approval, credential } => {
                approve::reapprove(output, &credential.connect(server).await?, apply, approval).await
            }
            Command::Verify { name, credential } => {
                approve::verify(output, &credential.connect(server).await?, name).await
            }
            Command::Status { name, status, credential } => {
                let program = credential.connect(server).await?;
                let changed = program.post.set_skill_status(&name, status.word()).await;
                let changed = changed.map_err(|fault| program.error(fault))?;
                output.done(&json!(changed), &format!("{name} is now {}", changed.status))
            }
            Command::Delete { name, force, yes, credential } => {
                delete(output, &credential.connect(server).await?, &name, force, yes).await
            }
            Command::History { name, credential } => {
                let program = credential.connect(server).await?;
                let lines = program.post.skill_versions(&name).await.map_err(|fault| program.error(fault))?;
                let columns = [
                    ("VERSION", "version"),
                    ("STATUS", "status"),
                    ("STATUS BEFORE", "previous_status"),
                    ("CHANGED", "changed_at"),
                    ("BY", "changed_by"),
                ];
                let lines = lines.iter().map(|line| shown(json!(line), output, "changed_at")).collect();
                output.list(lines, &columns, "there is no history")
            }
            Command::Restore { name, credential } => {
                let program = credential.connect(server).await?;
                let restored = program.post.restore_skill(&name).await;
                let restored = restored.map_err(|fault| program.error(fault))?;
                output.done(&json!(restored), &format!("restored {name}: version {}", restored.version))
            }
        }
    }
}

/// A line with its time as text, unless it is printed as JSON.
fn shown(mut line: Value, output: &Output, time: &str) -> Value {
    if let (false, Some(seconds)) = (output.json, line[time].as_i64()) {
        line[time] = posthouse_time::Moment::from_seconds(seconds).to_string().into();
    }
    line
}

async fn list(output: &Output, program: &ProgramClient, mut query: SkillQuery) -> anyhow::Result<()> {
    let mut skills: Vec<ListedSkill> = Vec::new();
    loop {
        let page = program.post.skills(&query).await.map_err(|fault| program.error(fault))?;
        skills.extend(page.items);
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let columns = [
        ("NAME", "name"),
        ("STATUS", "status"),
        ("VERSION", "version"),
        ("AUTHOR", "author"),
        ("UPDATED", "updated_at"),
        ("DESCRIPTION", "description"),
    ];
    let lines = skills.iter().map(|skill| shown(json!(skill), output, "updated_at")).collect();
    output.list(lines, &columns, "there are no skills")
}

async fn list_deleted(output: &Output, program: &ProgramClient) -> anyhow::Result<()> {
    let (mut lines, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = program.post.deleted_skills(after.as_deref()).await;
        let page = page.map_err(|fault| program.error(fault))?;
        lines.extend(page.items.into_iter().map(|line| shown(line, output, "updated_at")));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let columns = [("NAME", "name"), ("STATUS", "status"), ("UPDATED", "updated_at")];
    output.list(lines, &columns, "no deleted skill can be restored")
}

/// Deletes a skill after it was confirmed. The skills that use it are shown first.
async fn delete(
    output: &Output,
    program: &ProgramClient,
    name: &str,
    force: bool,
    yes: bool,
) -> anyhow::Result<()> {
    let dependents = program.post.skill_dependents(name).await.map_err(|fault| program.error(fault))?;
    let used = dependents.join(", ");
    if !dependents.is_empty() && !force {
        bail!("{name} is used by {used}; use --force to delete it anyway");
    }
    let question = match dependents.is_empty() {
        true => format!("Delete {name} with its history?"),
        false => format!("{name} is used by {used}. Delete it with its history?"),
    };
    confirm(yes, &question, &format!("{name} was not deleted"))?;
    program.post.delete_skill(name, force).await.map_err(|fault| program.error(fault))?;
    output.done(&json!({ "name": name, "deleted": true }), &format!("deleted {name}"))
}
