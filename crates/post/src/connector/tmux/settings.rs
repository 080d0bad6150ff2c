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
    pub socket: Option<PathBuf>,
}

impl Settings {
    /// The program is the house's own to name. So are the servers besides the user's usual one: whoever may
    /// choose either could have anything run.
    pub fn read(settings: &Value, sockets: &[PathBuf]) -> Result<Self, BadSettings> {
        let known =
            ["sessions", "window", "pane", "header", "socket", "sessionMap", "windowIndex", "paneIndex"];
        let fields = Fields::read(settings, "", &known)?;
        let settings = Self {
            sessions: fields.agents(called(&fields, "sessions", "sessionMap")?, session)?,
            window: fields.number(called(&fields, "window", "windowIndex")?, 0..=9999)?.unwrap_or(0),
            pane: fields.number(called(&fields, "pane", "paneIndex")?, 0..=9999)?.unwrap_or(0),
            header: fields.flag("header")?.unwrap_or(true),
            socket: fields.path("socket")?,
        };
        match &settings.socket {
            Some(socket) if !sockets.contains(socket) => {
                let why = format!("{} is none of the house's post.tmux_sockets", socket.display());
                Err(BadSettings::NotAllowed(why))
            }
            _ => Ok(settings),
        }
    }
}

/// By which of two names a setting goes here: ours, or the reference's.
fn called<'n>(fields: &Fields<'_>, ours: &'n str, theirs: &'n str) -> Result<&'n str, BadSettings> {
    match (fields.given(ours), fields.given(theirs)) {
        (Some(_), Some(_)) => Err(fields.wrong(theirs, format!("is another name for `{ours}`: give one"))),
        (None, Some(_)) => Ok(theirs),
        _ => Ok(ours),
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
