//! Reader of connector settings. Every error names the setting.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::BadSettings;
use crate::connector::configured_agents::ConfiguredAgents;

/// The longest name of an agent in the settings, in characters.
const LONGEST_NAME: usize = 128;

/// An object of the settings without unknown names.
pub(in crate::connector) struct SettingFields<'v> {
    at: String,
    object: &'v Map<String, Value>,
}

impl<'v> SettingFields<'v> {
    /// `at` is the path to this object, empty for the settings themselves.
    pub fn read(value: &'v Value, at: impl Into<String>, known: &[&str]) -> Result<Self, BadSettings> {
        let at = at.into();
        let Some(object) = value.as_object() else {
            let field = if at.is_empty() { "settings".to_owned() } else { at };
            return Err(BadSettings::malformed(field, "must be an object"));
        };
        let fields = Self { at, object };
        match object.keys().find(|name| !known.contains(&name.as_str())) {
            Some(stranger) => Err(fields.wrong(stranger, stranger_why(stranger, known))),
            None => Ok(fields),
        }
    }

    /// A string that is not empty.
    pub fn text(&self, name: &str) -> Result<Option<&'v str>, BadSettings> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "must be a string that is not empty")),
        }
    }

    /// An absolute path.
    pub fn path(&self, name: &str) -> Result<Option<PathBuf>, BadSettings> {
        let Some(path) = self.text(name)?.map(PathBuf::from) else { return Ok(None) };
        if path.is_absolute() { Ok(Some(path)) } else { Err(self.wrong(name, "must be an absolute path")) }
    }

    pub fn flag(&self, name: &str) -> Result<Option<bool>, BadSettings> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.wrong(name, "must be true or false")),
        }
    }

    pub fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, BadSettings> {
        let Some(value) = self.given(name) else { return Ok(None) };
        let number = value.as_u64().filter(|number| range.contains(number));
        let wrong =
            || self.wrong(name, format!("must be a whole number from {} to {}", range.start(), range.end()));
        number.map(Some).ok_or_else(wrong)
    }

    /// The map from agent names to their settings. `read` gets each value and its path.
    pub fn agents<T>(
        &self,
        name: &str,
        read: impl Fn(&'v Value, String) -> Result<T, BadSettings>,
    ) -> Result<ConfiguredAgents<T>, BadSettings> {
        let map = self.given(name).ok_or_else(|| self.wrong(name, "is missing"))?;
        configured_agents(map, &self.path_of(name), read)
    }

    pub fn wrong(&self, name: &str, why: impl Into<String>) -> BadSettings {
        BadSettings::malformed(self.path_of(name), why)
    }

    /// The value of a setting. Null counts as absent.
    pub fn given(&self, name: &str) -> Option<&'v Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// The dotted path of a setting.
    pub fn path_of(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }
}

/// Reads a map from agent names at the path `at`.
pub(in crate::connector) fn configured_agents<'v, T>(
    map: &'v Value,
    at: &str,
    read: impl Fn(&'v Value, String) -> Result<T, BadSettings>,
) -> Result<ConfiguredAgents<T>, BadSettings> {
    let map = map.as_object().ok_or_else(|| BadSettings::malformed(at, "must be an object"))?;
    let mut agents = BTreeMap::new();
    for (agent, value) in map {
        let usable = (1..=LONGEST_NAME).contains(&agent.chars().count()) && !agent.contains(char::is_control);
        if !usable {
            return Err(BadSettings::malformed(
                at,
                "contains a name that is empty, too long or not printable",
            ));
        }
        let path = if at.is_empty() { agent.clone() } else { format!("{at}.{agent}") };
        agents.insert(agent.clone(), read(value, path)?);
    }
    Ok(ConfiguredAgents(agents))
}

fn stranger_why(stranger: &str, known: &[&str]) -> String {
    match stranger {
        "authorization" | "hmac_secret" => {
            "is a secret, which must be given apart from the settings".to_owned()
        }
        _ if known.is_empty() => "is unknown: there are no settings".to_owned(),
        _ => format!("is unknown: the settings are {}", known.join(", ")),
    }
}
