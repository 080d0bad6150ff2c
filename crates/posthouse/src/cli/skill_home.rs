//! The home folder of the reference runtime: `SKILLSCRIPT_HOME`, or `.skillscript` in the user's home. A skill runs over
//! it without a server.

mod environment;
mod local_host;
mod trace_files;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use posthouse_time::Timepiece;
use skill::{ApprovalMode, ApprovalPublicKey, ApprovalVerdict, check_approval};
use workshop::{ApprovalPolicy, FilesystemSettings, FilesystemSkillStore};

use super::Exit;
use super::skill::given_skill::{GivenLibrary, GivenSkill};
use super::skill::key_files;
pub use environment::HomeEnvironment;
pub use local_host::{ConnectorSource, LocalEnd, LocalHost, LocalOrder, NewTrace};
pub use trace_files::TraceFiles;

const ENDING: &str = ".skill.md";
const HOME_VARIABLE: &str = "SKILLSCRIPT_HOME";
/// The variable that demands a signature of every skill.
pub const SECURED_MODE: &str = "SKILLSCRIPT_SECURED_MODE";

pub struct SkillHome {
    folder: PathBuf,
    pub environment: HomeEnvironment,
}

impl SkillHome {
    pub fn of_environment() -> anyhow::Result<Self> {
        let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = given(HOME_VARIABLE).or_else(|| given("HOME").map(|home| home.join(".skillscript")));
        Ok(Self::at(folder.with_context(|| format!("no home folder: set {HOME_VARIABLE}"))?))
    }

    pub fn at(folder: PathBuf) -> Self {
        let environment = HomeEnvironment::read(&folder);
        for warning in &environment.warnings {
            eprintln!("posthouse: {warning}");
        }
        Self { folder, environment }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of the stored skills.
    pub fn skills(&self) -> PathBuf {
        self.folder.join("skills")
    }

    pub fn traces(&self) -> TraceFiles {
        TraceFiles::in_folder(self.folder.join("traces"))
    }

    /// The stored skills, with the rules of a store of the server.
    pub fn store(&self) -> anyhow::Result<FilesystemSkillStore> {
        let settings = FilesystemSettings {
            default_author: self.environment.text("USER").map(str::to_owned),
            ..FilesystemSettings::new(self.skills())
        };
        Ok(FilesystemSkillStore::open(settings, Timepiece::wall()).under(self.policy()?))
    }

    /// Whether every skill needs a signature.
    pub fn is_secured(&self) -> bool {
        self.environment.is_on(SECURED_MODE)
    }

    /// What lets a skill run. In secured mode without a public key, no skill runs.
    pub fn policy(&self) -> anyhow::Result<ApprovalPolicy> {
        if !self.is_secured() {
            return Ok(ApprovalPolicy::Open);
        }
        Ok(ApprovalPolicy::Signed(self.public_key()?.into_iter().collect()))
    }

    pub fn private_key_file(&self) -> anyhow::Result<PathBuf> {
        key_files::in_environment(key_files::KEY_VARIABLE, &self.environment)
    }

    pub fn public_key_file(&self) -> anyhow::Result<PathBuf> {
        key_files::in_environment(key_files::PUBLIC_KEY_VARIABLE, &self.environment)
    }

    /// The key that checks approvals. `None` if there is no such file.
    pub fn public_key(&self) -> anyhow::Result<Option<ApprovalPublicKey>> {
        let file = self.public_key_file()?;
        let shown = file.display();
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => bail!("cannot read {shown}: {error}"),
        };
        let key = ApprovalPublicKey::from_pem(&text);
        Ok(Some(key.with_context(|| format!("{shown} cannot be used as a public approval key"))?))
    }

    /// A file, a file below the examples of the home, or a stored skill. `missing` is the exit code if there is none.
    pub fn read(&self, skill: &str, missing: u8) -> anyhow::Result<GivenSkill> {
        let library = GivenLibrary::Folder { folder: self.skills(), policy: self.policy()? };
        let given = |source, is_stored| GivenSkill {
            label: skill.to_owned(),
            source,
            version: None,
            is_stored,
            library,
        };
        let mut files = vec![PathBuf::from(skill)];
        if skill.starts_with("examples/") {
            files.push(self.folder.join(skill));
        }
        if let Some(source) = files.iter().find_map(|file| std::fs::read_to_string(file).ok()) {
            return Ok(given(source, false));
        }
        match self.stored_text(skill) {
            Some(source) => Ok(given(source, true)),
            None => Err(Exit { code: missing, words: format!("skill '{skill}' not found") }.into()),
        }
    }

    /// The text of a stored skill.
    pub fn stored_text(&self, name: &str) -> Option<String> {
        let is_name = workshop::is_skill_name(name) && !name.ends_with(".skill") && !name.ends_with(ENDING);
        is_name.then(|| std::fs::read_to_string(self.skills().join(format!("{name}{ENDING}"))).ok())?
    }

    /// Every stored skill by name. A home without skills has none.
    pub fn stored(&self) -> anyhow::Result<HashMap<String, String>> {
        let Ok(entries) = std::fs::read_dir(self.skills()) else { return Ok(HashMap::new()) };
        let mut stored = HashMap::new();
        for path in entries.flatten().map(|entry| entry.path()) {
            if let Some(name) = skill_name(&path) {
                let text = std::fs::read_to_string(&path);
                stored.insert(name, text.with_context(|| format!("cannot read {}", path.display()))?);
            }
        }
        Ok(stored)
    }
}

fn skill_name(path: &Path) -> Option<String> {
    path.file_name()?.to_str()?.strip_suffix(ENDING).map(str::to_owned)
}

/// Why a text may not run with this key in secured mode. `None` if it may.
pub fn signature_refusal(key: &ApprovalPublicKey, source: &str) -> Option<String> {
    match check_approval(source, ApprovalMode::Signed(std::slice::from_ref(key))) {
        ApprovalVerdict::Approved { .. } => None,
        ApprovalVerdict::Refused(refusal) => Some(refusal.to_string()),
    }
}
