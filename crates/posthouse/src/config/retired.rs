//! Settings of earlier versions that are constants now. Setting one has no effect and is a warning, not an
//! error, so that the file of an earlier version still works.

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Config, ValueOrigin};

/// Paths of all retired settings. A path in this list is never used again for something else.
pub const RETIRED: &[&str] = &[
    "relay.standby",
    "relay.ping_every",
    "relay.silent_after",
    "relay.hello_within",
    "relay.answer_within",
    "relay.token_leeway",
    "clock.in_flight_per_host",
    "clock.attempt_timeout",
    "clock.lease",
    "errand.connect_timeout",
];

/// A retired setting that the file or the environment still sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetiredSetting {
    pub path: &'static str,
    pub origin: ValueOrigin,
}

impl fmt::Display for RetiredSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is no longer a setting and has no effect; remove it", self.origin, self.path)
    }
}

impl Config {
    /// One warning for each retired setting that is still set. Each names the setting and its place.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.retired.iter().map(ToString::to_string)
    }
}

pub fn find(path: &str) -> Option<&'static str> {
    RETIRED.iter().copied().find(|retired| *retired == path)
}

/// Removes all retired settings from a parsed file. `origin` tells the place of a key from its position.
pub fn remove(
    table: &mut DeTable<'_>,
    inside: &str,
    origin: &dyn Fn(usize) -> ValueOrigin,
    found: &mut Vec<RetiredSetting>,
) {
    for key in table.keys().cloned().collect::<Vec<_>>() {
        let path = super::reading::joined(inside, key.get_ref());
        if let Some(path) = find(&path) {
            found.push(RetiredSetting { path, origin: origin(key.span().start) });
            table.remove(&key);
        } else if let Some(DeValue::Table(section)) = table.get_mut(&key).map(Spanned::get_mut) {
            remove(section, &path, origin, found);
        }
    }
}
