//! Settings read name by name, so that whoever wrote them hears which one is wrong.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::BadSettings;
use crate::connector::wired::Wired;

/// The longest name of an agent that a connector may claim, in characters.
const LONGEST_NAME: usize = 128;

/// One object of the settings, all of whose names are known.
pub(in crate::connector) struct Fields<'v> {
    at: String,
    object: &'v Map<String, Value>,
}

impl<'v> Fields<'v> {
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

    /// A text with something in it.
    pub fn text(&self, name: &str) -> Result<Option<&'v str>, BadSettings> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "must be a text that is not empty")),
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

    /// The map from agents' names to what stands behind them, each read by `read` from its value and path.
    pub fn agents<T>(
        &self,
        name: &str,
        read: impl Fn(&'v Value, String) -> Result<T, BadSettings>,
    ) -> Result<Wired<T>, BadSettings> {
        let map = self.given(name).ok_or_else(|| self.wrong(name, "is missing"))?;
        wired(map, &self.path_of(name), read)
    }

    pub fn wrong(&self, name: &str, why: impl Into<String>) -> BadSettings {
        BadSettings::malformed(self.path_of(name), why)
    }

    /// Null is as good as absent.
    pub fn given(&self, name: &str) -> Option<&'v Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// The name of a setting as whoever wrote it finds it.
    pub fn path_of(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }
}

/// A map from agents' names, at the path `at`.
pub(in crate::connector) fn wired<'v, T>(
    map: &'v Value,
    at: &str,
    read: impl Fn(&'v Value, String) -> Result<T, BadSettings>,
) -> Result<Wired<T>, BadSettings> {
    let map = map.as_object().ok_or_else(|| BadSettings::malformed(at, "must be an object"))?;
    let mut wired = BTreeMap::new();
    for (agent, value) in map {
        let usable = (1..=LONGEST_NAME).contains(&agent.chars().count()) && !agent.contains(char::is_control);
        if !usable {
            return Err(BadSettings::malformed(at, "holds a name that is empty, too long or not printable"));
        }
        let path = if at.is_empty() { agent.clone() } else { format!("{at}.{agent}") };
        wired.insert(agent.clone(), read(value, path)?);
    }
    Ok(Wired(wired))
}

fn stranger_why(stranger: &str, known: &[&str]) -> String {
    match stranger {
        "authorization" | "hmac_secret" => {
            "is a secret, which is handed over apart from the settings".to_owned()
        }
        _ if known.is_empty() => "is not a setting: there are none".to_owned(),
        _ => format!("is not a setting: known are {}", known.join(", ")),
    }
}
