//! What is stored about panes.

use std::path::PathBuf;

use serde_json::Value;

use super::super::settings::{BadSettings, Fields};
use super::super::wired::Wired;

/// The longest name of a session, in bytes.
const LONGEST_SESSION: usize = 64;

pub(super) struct Settings {
    /// Agents to sessions.
    pub sessions: Wired<String>,
    pub window: u64,
    pub pane: u64,
    /// Whether each text begins with a line that tells where it comes from.
    pub header: bool,
    pub program: PathBuf,
    pub socket: Option<PathBuf>,
}

impl Settings {
    pub fn read(settings: &Value) -> Result<Self, BadSettings> {
        let known = ["sessions", "window", "pane", "header", "tmux", "socket"];
        let fields = Fields::read(settings, "", &known)?;
        Ok(Self {
            sessions: fields.agents("sessions", session)?,
            window: fields.number("window", 0..=9999)?.unwrap_or(0),
            pane: fields.number("pane", 0..=9999)?.unwrap_or(0),
            header: fields.flag("header")?.unwrap_or(true),
            program: fields.path("tmux")?.unwrap_or_else(|| PathBuf::from("tmux")),
            socket: fields.path("socket")?,
        })
    }
}

/// A name that tmux takes for nothing else: no pattern, no id, no part of a target.
fn session(value: &Value, path: String) -> Result<String, BadSettings> {
    let usable = |name: &&str| {
        (1..=LONGEST_SESSION).contains(&name.len())
            && name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-'))
            && !name.starts_with('-')
    };
    let why = "must be the name of a session: letters, digits, `_` and `-`";
    value.as_str().filter(usable).map(str::to_owned).ok_or_else(|| BadSettings::malformed(path, why))
}
