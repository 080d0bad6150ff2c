//! The home folder of the reference runtime: `SKILLSCRIPT_HOME`, or `.skillscript` in the user's home.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cli::Exit;
use crate::cli::skill::given_skill::{GivenLibrary, GivenSkill};

const ENDING: &str = ".skill.md";

pub struct SkillHome {
    folder: PathBuf,
}

impl SkillHome {
    pub fn of_environment() -> anyhow::Result<Self> {
        let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder =
            given("SKILLSCRIPT_HOME").or_else(|| given("HOME").map(|home| home.join(".skillscript")));
        Ok(Self { folder: folder.context("no home folder: set SKILLSCRIPT_HOME")? })
    }

    /// The folder of the stored skills.
    pub fn skills(&self) -> PathBuf {
        self.folder.join("skills")
    }

    /// A file, a file below the examples of the home, or a stored skill. `missing` is the exit code if there is none.
    pub fn read(&self, skill: &str, missing: u8) -> anyhow::Result<GivenSkill> {
        let mut places = vec![PathBuf::from(skill)];
        if skill.starts_with("examples/") {
            places.push(self.folder.join(skill));
        }
        if workshop::is_skill_name(skill) && !skill.ends_with(".skill") && !skill.ends_with(ENDING) {
            places.push(self.skills().join(format!("{skill}{ENDING}")));
        }
        let source = places.iter().find_map(|place| std::fs::read_to_string(place).ok());
        let words = format!("skill '{skill}' not found");
        let source = source.ok_or(Exit { code: missing, words })?;
        let library = GivenLibrary::Folder(self.skills());
        Ok(GivenSkill { label: skill.to_owned(), source, version: None, library })
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
