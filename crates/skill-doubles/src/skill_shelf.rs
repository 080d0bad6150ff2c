//! Stored skills in memory, and the tools with which a skill reads and writes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use skill::{
    ContentHash, ErrorClass, HostFault, LoadedSkill, SkillObject, SkillValue, force_draft, status_of,
};

/// Skills by name.
#[derive(Default)]
pub struct SkillShelf {
    skills: Mutex<BTreeMap<String, LoadedSkill>>,
}

impl SkillShelf {
    pub fn put(&self, name: &str, source: &str, author: Option<&str>) {
        let stored = LoadedSkill { source: source.into(), author: author.map(Into::into) };
        self.skills.lock().insert(name.to_owned(), stored);
    }

    pub fn get(&self, name: &str) -> Option<LoadedSkill> {
        self.skills.lock().get(name).cloned()
    }

    /// Names and texts of all skills.
    pub fn sources(&self) -> Vec<(String, Arc<str>)> {
        self.skills.lock().iter().map(|(name, stored)| (name.clone(), Arc::clone(&stored.source))).collect()
    }

    /// The tool `skill_read`.
    pub fn read_tool(&self, arguments: &SkillObject) -> Result<SkillValue, HostFault> {
        let name = text(arguments, "name")?;
        let Some(stored) = self.get(name) else {
            let class = ErrorClass::Other("SkillNotFoundError".into());
            return Err(HostFault::new(class, format!("Skill not found: '{name}'")));
        };
        let mut record = described(name, &stored.source);
        let status = record.remove("status");
        record.set("source", &*stored.source);
        record.set_some("status", status);
        Ok(record.into())
    }

    /// The tool `skill_write`. What a skill writes is a Draft, whatever its text says.
    pub fn write_tool(&self, arguments: &SkillObject) -> Result<SkillValue, HostFault> {
        let (name, source) = (text(arguments, "name")?, text(arguments, "source")?);
        let overwrites = matches!(arguments.get("overwrite"), Some(SkillValue::Bool(true)));
        let previous = self.get(name);
        if previous.is_some() && !overwrites {
            return Err(HostFault::plain(format!("skill '{name}' already exists; pass overwrite=true")));
        }
        let source = force_draft(source);
        self.put(name, &source, previous.and_then(|previous| previous.author).as_deref());
        Ok(described(name, &source).into())
    }
}

fn text<'a>(arguments: &'a SkillObject, name: &str) -> Result<&'a str, HostFault> {
    let text = arguments.get(name).and_then(SkillValue::as_text).filter(|text| !text.is_empty());
    text.ok_or_else(|| HostFault::plain(format!("`{name}` is required")))
}

fn described(name: &str, source: &str) -> SkillObject {
    let hash = ContentHash::of(source);
    let mut record = SkillObject::default();
    record.set("name", name);
    record.set("version", hash.version());
    record.set("content_hash", hash.as_str());
    record.set("status", status_of(source).status().as_str());
    record
}
