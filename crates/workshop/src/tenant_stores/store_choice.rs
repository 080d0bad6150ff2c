//! Which store a tenant uses, as text: `house`, `filesystem:DIR` or `sqlite:FILE`.

use std::fmt;
use std::path::{Component, Path, PathBuf};

/// A choice of a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StoreChoice {
    /// The ledger of the server.
    House,
    Filesystem(PathBuf),
    Sqlite(PathBuf),
}

impl StoreChoice {
    /// None if the text is no choice. Paths are absolute and have no `.` and `..`, so that each has one spelling.
    pub fn read(text: &str) -> Option<Self> {
        if text == "house" {
            return Some(Self::House);
        }
        let (kind, path) = text.split_once(':')?;
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

impl fmt::Display for StoreChoice {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::House => to.write_str("house"),
            Self::Filesystem(path) => write!(to, "filesystem:{}", path.display()),
            Self::Sqlite(path) => write!(to, "sqlite:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_has_one_spelling() {
        for text in ["house", "filesystem:/srv/skills/acme", "sqlite:/srv/skills/acme.db"] {
            assert_eq!(StoreChoice::read(text).unwrap().to_string(), text);
        }
        let doubled = StoreChoice::read("filesystem:/srv//skills/").unwrap();
        assert_eq!(doubled.to_string(), "filesystem:/srv/skills");
    }

    #[test]
    fn other_texts_and_paths_that_climb_are_no_choice() {
        for text in [
            "",
            "House",
            "filesystem",
            "filesystem:",
            "filesystem:skills",
            "filesystem:/",
            "filesystem:/srv/../etc",
            "postgres:/srv/x",
        ] {
            assert_eq!(StoreChoice::read(text), None, "{text}");
        }
    }
}
