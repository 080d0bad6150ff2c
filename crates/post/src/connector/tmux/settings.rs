//! Settings of the tmux connector.

use std::path::PathBuf;

use serde_json::Value;

use super::super::configured_agents::ConfiguredAgents;
use super::super::settings::{BadSettings, SettingFields};

/// The longest name of a session, in bytes.
const LONGEST_SESSION: usize = 64;

pub(super) struct TmuxSettings {
    /// Session names by agent.
    pub sessions: ConfiguredAgents<String>,
    pub window: u64,
    pub pane: u64,
    /// Whether each text begins with a header line that names its origin.
    pub header: bool,
    pub socket: Option<PathBuf>,
}

impl TmuxSettings {
    /// The program and additional server sockets come from the configuration of the server only, because either choice
    /// would let a connector run any program.
    pub fn read(settings: &Value, sockets: &[PathBuf]) -> Result<Self, BadSettings> {
        let known =
            ["sessions", "window", "pane", "header", "socket", "sessionMap", "windowIndex", "paneIndex"];
        let fields = SettingFields::read(settings, "", &known)?;
        let settings = Self {
            sessions: fields.agents(called(&fields, "sessions", "sessionMap")?, session)?,
            window: fields.number(called(&fields, "window", "windowIndex")?, 0..=9999)?.unwrap_or(0),
            pane: fields.number(called(&fields, "pane", "paneIndex")?, 0..=9999)?.unwrap_or(0),
            header: fields.flag("header")?.unwrap_or(true),
            socket: fields.path("socket")?,
        };
        match &settings.socket {
            Some(socket) if !sockets.contains(socket) => {
                let why = format!("{} is not listed in post.tmux_sockets", socket.display());
                Err(BadSettings::NotAllowed(why))
            }
            _ => Ok(settings),
        }
    }
}

/// The name used for a setting: ours, or that of the reference implementation.
fn called<'n>(fields: &SettingFields<'_>, ours: &'n str, theirs: &'n str) -> Result<&'n str, BadSettings> {
    match (fields.given(ours), fields.given(theirs)) {
        (Some(_), Some(_)) => {
            Err(fields.wrong(theirs, format!("is another name for `{ours}`: set only one")))
        }
        (None, Some(_)) => Ok(theirs),
        _ => Ok(ours),
    }
}

/// A session name that tmux cannot read as a pattern, an id or a target.
fn session(value: &Value, path: String) -> Result<String, BadSettings> {
    let usable = |name: &&str| {
        (1..=LONGEST_SESSION).contains(&name.len())
            && name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-'))
            && !name.starts_with('-')
    };
    let why = "must be the name of a session: letters, digits, `_` and `-`";
    value.as_str().filter(usable).map(str::to_owned).ok_or_else(|| BadSettings::malformed(path, why))
}
