//! Command manifest: the commands of a gateway, as its hello carries them (relay contract section 7).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::lenient::field;

/// The most commands that are kept.
const MOST: usize = 100;
/// The longest manifest, in bytes. Of a longer one nothing is kept.
const LONGEST: usize = 64 * 1024;
/// The longest description of a command, in characters.
const LONGEST_DESCRIPTION: usize = 100;

/// The commands that a gateway announced. Entries that cannot be registered are left out.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct CommandManifest(pub Vec<CommandEntry>);

/// One command.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommandEntry {
    /// 1 to 32 of `a-z 0-9 _ -`.
    pub name: String,
    pub description: String,
    /// Its parameters, in the platform's own form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct EntryAsRead<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    options: Option<&'a RawValue>,
}

impl CommandManifest {
    /// Reads the field of a hello. `None` if the hello has none. Anything unusable in it is dropped silently, because a
    /// manifest must never affect the handshake.
    pub fn read(raw: Option<&RawValue>) -> Option<Self> {
        let raw = raw.filter(|raw| raw.get() != "null")?;
        let items: Option<Vec<&RawValue>> = Some(raw.get())
            .filter(|text| text.len() <= LONGEST)
            .and_then(|text| serde_json::from_str(text).ok());
        let mut kept: Vec<CommandEntry> = Vec::new();
        for entry in items.unwrap_or_default().into_iter().filter_map(entry) {
            if kept.len() < MOST && !kept.iter().any(|known| known.name == entry.name) {
                kept.push(entry);
            }
        }
        Some(Self(kept))
    }
}

fn entry(raw: &RawValue) -> Option<CommandEntry> {
    let text = Some(raw.get()).filter(|text| text.starts_with('{'))?;
    let read: EntryAsRead<'_> = serde_json::from_str(text).ok()?;
    let name = field::<String>(read.name).filter(|name| is_command_name(name))?;
    let description: String = field(read.description).unwrap_or_default();
    let options = read.options.filter(|options| options.get().starts_with('['));
    Some(CommandEntry {
        name,
        description: description.chars().take(LONGEST_DESCRIPTION).collect(),
        options: options.and_then(|options| serde_json::from_str(options.get()).ok()),
    })
}

fn is_command_name(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
}
