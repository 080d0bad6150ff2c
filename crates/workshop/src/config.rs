//! Settings of the workshop (`[workshop]`).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[workshop]` in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Folders of this machine below which the stores of tenants may be. Default none.
    pub roots: Vec<PathBuf>,
}

impl Config {
    /// Checks conditions on the settings that their types do not express.
    pub fn check(&self) -> Result<(), String> {
        match self.roots.iter().find(|root| !root.is_absolute()) {
            Some(root) => Err(format!("workshop.roots: {} is not an absolute path", root.display())),
            None => Ok(()),
        }
    }
}
