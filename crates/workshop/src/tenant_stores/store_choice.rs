//! Choice of a tenant's store, as text: `ledger`, `filesystem:DIR`, `sqlite:FILE`, `custom:NAME` or a URL.

use std::fmt;
use std::path::{Component, Path, PathBuf};

/// A choice of a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StoreChoice {
    /// The ledger of the server.
    Ledger,
    Filesystem(PathBuf),
    Sqlite(PathBuf),
    /// A custom store, by the name under which this build registers it.
    Custom(String),
    /// The URL of a remote store.
    Remote(String),
}

impl StoreChoice {
    /// None if the text is not a choice. Paths are absolute and have no `.` and `..`, so that each has one spelling.
    pub fn read(text: &str) -> Option<Self> {
        // `house` is the name in earlier versions, and in rows that were stored by them.
        if matches!(text, "ledger" | "house") {
            return Some(Self::Ledger);
        }
        let (kind, path) = text.split_once(':')?;
        match kind {
            "http" | "https" => return Some(Self::Remote(text.to_owned())),
            "custom" => return is_custom_name(path).then(|| Self::Custom(path.to_owned())),
            _ => {}
        }
        let path = Path::new(path);
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        if !path.is_absolute() || !path.components().all(plain) || path.file_name().is_none() {
            return None;
        }
        let path = path.components().collect();
        match kind {
            "filesystem" => Some(Self::Filesystem(path)),
            "sqlite" => Some(Self::Sqlite(path)),
            _ => None,
        }
    }
}

fn is_custom_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(allowed)
}

impl fmt::Display for StoreChoice {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger => to.write_str("ledger"),
            Self::Filesystem(path) => write!(to, "filesystem:{}", path.display()),
            Self::Sqlite(path) => write!(to, "sqlite:{}", path.display()),
            Self::Custom(name) => write!(to, "custom:{name}"),
            Self::Remote(url) => to.write_str(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_has_one_spelling() {
        for text in [
            "ledger",
            "filesystem:/srv/skills/acme",
            "sqlite:/srv/skills/acme.db",
            "custom:in-memory",
            "https://stores.example.com/acme",
        ] {
            assert_eq!(StoreChoice::read(text).unwrap().to_string(), text);
        }
        assert_eq!(StoreChoice::read("house").unwrap().to_string(), "ledger", "the name of earlier versions");
        let doubled = StoreChoice::read("filesystem:/srv//skills/").unwrap();
        assert_eq!(doubled.to_string(), "filesystem:/srv/skills");
    }

    #[test]
    fn other_texts_and_paths_that_climb_are_no_choice() {
        for text in [
            "",
            "Ledger",
            "filesystem",
            "filesystem:",
            "filesystem:skills",
            "filesystem:/",
            "filesystem:/srv/../etc",
            "postgres:/srv/x",
            "custom:",
            "custom:../x",
            "ftp://stores.example.com",
        ] {
            assert_eq!(StoreChoice::read(text), None, "{text}");
        }
    }
}
