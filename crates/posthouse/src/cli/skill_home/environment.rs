//! Variables of a skill home: the environment of this process, then the file `.env` of the home.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use posthouse_wire::Secret;

/// Prefix of the variables that hold secrets of skills.
const SECRET: &str = "SKILLSCRIPT_SECRET_";

/// Environment variables. They may hold secrets, so they cannot be printed.
pub struct HomeEnvironment {
    variables: BTreeMap<OsString, OsString>,
    /// Lines of `.env` that could not be read, without their text.
    pub warnings: Vec<String>,
}

impl HomeEnvironment {
    /// A variable that this process has already wins over the file, even if it is empty. A missing file is an empty one.
    pub fn read(home: &Path) -> Self {
        let mut read = Self { variables: std::env::vars_os().collect(), warnings: Vec::new() };
        let file = home.join(".env");
        match std::fs::read_to_string(&file) {
            Ok(text) => read.add(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => read.warnings.push(format!("cannot read {}: {error}", file.display())),
        }
        read
    }

    fn add(&mut self, text: &str) {
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
                Some((name, value)) if is_name(name) => {
                    self.variables.entry(name.into()).or_insert_with(|| unquoted(value).into());
                }
                _ => self.warnings.push(format!(".env line {}: expected NAME=value", number + 1)),
            }
        }
    }

    /// The value of a variable, if it is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.variables.get(OsStr::new(name))?.to_str()
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// A whole number above zero. Anything else counts as not set.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.trim().parse().ok().filter(|number| *number > 0)
    }

    /// A list with commas. A variable that is set and empty is an empty list.
    pub fn list(&self, name: &str) -> Option<Vec<String>> {
        let items = self.text(name)?.split(',').map(str::trim).filter(|item| !item.is_empty());
        Some(items.map(str::to_owned).collect())
    }

    /// A path. An empty one counts as not set.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// The secrets of skills by name.
    pub fn secrets(&self) -> HashMap<String, Secret> {
        let texts = self.variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
        texts
            .filter_map(|(name, value)| Some((name.strip_prefix(SECRET)?.to_owned(), Secret::new(value))))
            .collect()
    }

    /// What commands and child processes of skills get: everything except the secrets.
    pub fn for_children(&self) -> Vec<(OsString, OsString)> {
        let is_secret = |name: &OsStr| name.as_encoded_bytes().starts_with(SECRET.as_bytes());
        let shared = self.variables.iter().filter(|(name, _)| !is_secret(name));
        shared.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// The text without one pair of quotes around it.
fn unquoted(text: &str) -> &str {
    let inner = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(file: &str) -> HomeEnvironment {
        let set = [("SET".into(), "".into()), ("SKILLSCRIPT_SECRET_KEY".into(), "s3cret".into())];
        let mut read = HomeEnvironment { variables: set.into(), warnings: Vec::new() };
        read.add(file);
        read
    }

    #[test]
    fn the_file_adds_what_is_not_set_and_its_mistakes_are_named_without_their_text() {
        let read = environment(
            "# a note\n\nSET=other\n A = 'one' \nB=\"two\"\r\nQ=\"\nSKILLSCRIPT_SECRET_B=x=y\nno value s3cret\n1A=x\n",
        );
        let values = ["SET", "A", "B", "Q", "C"].map(|name| read.text(name));
        assert_eq!(values, [Some(""), Some("one"), Some("two"), Some("\""), None]);
        assert_eq!(read.warnings, [".env line 8: expected NAME=value", ".env line 9: expected NAME=value"]);
        let secrets = read.secrets();
        assert_eq!((secrets["KEY"].expose(), secrets["B"].expose()), ("s3cret", "x=y"));
        let shared: Vec<_> = read.for_children().into_iter().map(|(name, _)| name).collect();
        assert_eq!(shared, ["A", "B", "Q", "SET"]);
    }

    #[test]
    fn switches_numbers_and_lists_are_read_as_the_reference_reads_them() {
        let read = environment("ON=true\nYES=1\nN=60\nZERO=0\nLIST= git, ls ,\nNONE=\n");
        assert!(read.is_on("ON") && !read.is_on("YES") && !read.is_on("ABSENT"));
        assert_eq!((read.number("N"), read.number("ZERO"), read.number("ON")), (Some(60), None, None));
        assert_eq!(read.list("LIST"), Some(vec!["git".to_owned(), "ls".to_owned()]));
        assert_eq!((read.list("NONE"), read.list("ABSENT")), (Some(Vec::new()), None));
        assert_eq!((read.path("NONE"), read.path("ON")), (None, Some("true".into())));
    }
}
