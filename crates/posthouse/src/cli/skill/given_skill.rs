//! The skill that a command line names: a file, standard input, or a stored skill of the server; and its neighbours.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use async_trait::async_trait;
use clap::Args;
use posthouse_agent::post::Fault;
use skill::{
    ApprovalMode, ApprovalVerdict, HostFault, LoadedSkill, SkillLibrary, VarRequirement, check_approval,
};

use workshop::ApprovalPolicy;

use crate::cli::program_client::{CredentialArgs, ProgramClient};
use crate::cli::server_address::ServerOptions;
use crate::cli::skill_home::{SECURED_MODE, SkillHome};

/// The end of the names of skill files.
const ENDING: &str = ".skill.md";

/// Options of commands that take a skill.
#[derive(Args)]
pub struct SkillArgs {
    /// A file, `-` for standard input, or the name of a stored skill
    #[arg(value_name = "FILE|NAME")]
    skill: String,
    /// Folder with the skills that this one uses, as NAME.skill.md; by default the folder of the file
    #[arg(long, value_name = "FOLDER")]
    skills: Option<PathBuf>,
    #[command(flatten)]
    credential: CredentialArgs,
}

/// A skill with the place where it finds others.
pub struct GivenSkill {
    /// The path, or the name of a stored skill.
    pub label: String,
    pub source: String,
    /// The version, if it is a stored skill.
    pub version: Option<String>,
    /// Whether it is a stored skill and not a file.
    pub is_stored: bool,
    pub library: GivenLibrary,
}

/// Stored skills.
pub enum GivenLibrary {
    /// Files `NAME.skill.md` of a folder. A text among them is used only if it passes this policy.
    Folder { folder: PathBuf, policy: ApprovalPolicy },
    /// The skills of a tenant.
    Server(ProgramClient),
}

impl SkillArgs {
    /// The file, unless the skill comes from standard input or from the server.
    pub fn file(&self) -> Option<PathBuf> {
        file_of(&self.skill)
    }

    /// Whether the skill is looked up on the server.
    pub fn is_stored(&self) -> bool {
        is_stored(&self.skill)
    }

    pub async fn read(self, server: &ServerOptions) -> anyhow::Result<GivenSkill> {
        if self.is_stored() {
            return self.fetch(server).await;
        }
        let file = Path::new(&self.skill);
        let source = read_file(file)?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let library = GivenLibrary::folder(self.skills.unwrap_or_else(|| folder.to_owned()))?;
        Ok(GivenSkill { label: label_of(&self.skill), source, version: None, is_stored: false, library })
    }

    async fn fetch(self, server: &ServerOptions) -> anyhow::Result<GivenSkill> {
        let name = self.skill;
        if !server.is_given() {
            bail!("there is no file {name}; to use a stored skill, name a server with --url or --dir");
        }
        // A mistyped file name gets here too, and must not be answered with an error about credentials alone.
        let why = || format!("there is no file {name}, so it is read as the name of a stored skill");
        let program = self.credential.connect(server).await.with_context(why)?;
        let stored = program.post.skill(&name, None).await;
        let stored = stored.map_err(|fault| program.error(fault)).with_context(why)?;
        let library = match self.skills {
            Some(folder) => GivenLibrary::folder(folder)?,
            None => GivenLibrary::Server(program),
        };
        let (source, version) = (stored.source, Some(stored.version));
        Ok(GivenSkill { label: name, source, version, is_stored: true, library })
    }
}

impl GivenLibrary {
    /// The skills of a folder, under the approval policy of the home folder.
    fn folder(folder: PathBuf) -> anyhow::Result<Self> {
        let is_secured = std::env::var_os(SECURED_MODE).is_some_and(|value| value == "true");
        let policy = match SkillHome::of_environment() {
            Ok(home) => home.policy()?,
            Err(error) if is_secured => return Err(error),
            Err(_) => ApprovalPolicy::Open,
        };
        Ok(Self::Folder { folder, policy })
    }
}

/// What messages call a skill.
pub fn label_of(skill: &str) -> String {
    if skill == "-" { "standard input".to_owned() } else { skill.to_owned() }
}

/// The file that a word names, unless it is standard input or the name of a stored skill.
pub fn file_of(skill: &str) -> Option<PathBuf> {
    is_path(skill).then(|| PathBuf::from(skill))
}

/// Whether a word is the name of a stored skill.
pub fn is_stored(skill: &str) -> bool {
    skill != "-" && !is_path(skill)
}

/// Whether a word is a path: it names an existing file, or it looks like one.
fn is_path(word: &str) -> bool {
    let looks_like_one = word.contains('/') || word.ends_with(".md") || word.ends_with(".skill");
    word != "-" && (looks_like_one || Path::new(word).is_file())
}

/// The text of a file, or of standard input for `-`.
pub fn read_file(file: &Path) -> anyhow::Result<String> {
    match file == Path::new("-") {
        true => std::io::read_to_string(std::io::stdin()).context("cannot read standard input"),
        false => std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display())),
    }
}

#[async_trait]
impl SkillLibrary for GivenLibrary {
    async fn stored_skill(&self, name: &str) -> Result<Option<LoadedSkill>, HostFault> {
        let source = match self {
            // A name with a slash would lead out of the folder.
            Self::Folder { .. } if !workshop::is_skill_name(name) => None,
            Self::Folder { folder, .. } => {
                std::fs::read_to_string(folder.join(format!("{name}{ENDING}"))).ok()
            }
            Self::Server(program) => match program.post.skill(name, None).await {
                Ok(stored) => Some(stored.source),
                Err(Fault::Refused { status: 404, .. }) => None,
                Err(fault) => return Err(HostFault::plain(fault.to_string())),
            },
        };
        Ok(source.map(|source| LoadedSkill { source: source.into(), author: None }))
    }

    fn approval_verdict(&self, source: &str) -> ApprovalVerdict {
        let mode = match self {
            Self::Folder { policy, .. } => policy.mode(),
            // The server decides about signatures when it runs a skill.
            Self::Server(_) => ApprovalMode::Open,
        };
        check_approval(source, mode)
    }

    /// The command line knows no values of users; `--input` gives them.
    async fn known_value(&self, _: &VarRequirement) -> Option<String> {
        None
    }
}
