//! Check context: facts from outside a skill that lint rules need. `None` means that the caller does not know.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

use crate::status::Status;

/// What the caller knows. The default knows nothing, so only rules about the text itself apply.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckContext {
    /// Stored skills. `None` if there is no store.
    #[serde(skip)]
    pub store: Option<StoreFacts>,
    /// Tool connectors by name.
    pub connectors: Option<BTreeMap<String, ConnectorFacts>>,
    /// Whether at least one connector to agents is there.
    pub has_agent_connectors: Option<bool>,
    /// Names of models that `$ llm model=…` may use.
    pub models: Option<BTreeSet<String>>,
    /// Features of connectors, as `type.flag`.
    pub capabilities: Option<BTreeSet<String>>,
    /// Programs that `shell` may run.
    pub shell_programs: Option<BTreeSet<String>>,
    /// Whether unsafe commands are allowed.
    pub allows_unsafe_shell: Option<bool>,
    /// Tools that return a list and not an object around one.
    pub list_tools: BTreeSet<String>,
    /// Configuration errors that name an unknown class of connector.
    pub unknown_connector_classes: Vec<String>,
    /// The text is only read and will not be stored.
    pub is_read_only: bool,
}

/// A tool connector.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectorFacts {
    /// The only tools that may be called.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that the class of the connector declares.
    pub declared_tools: Option<Vec<String>>,
    /// Schemas that the connector gave, by tool.
    pub schemas: HashMap<String, ToolSchema>,
}

/// The arguments of a tool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolSchema {
    /// Names of arguments. `None` if the schema does not list them.
    pub arguments: Option<Vec<String>>,
    pub required: Vec<String>,
    /// Whether other arguments are allowed too.
    pub is_open: bool,
}

/// Skills in the store.
#[derive(Clone, Debug, Default)]
pub struct StoreFacts {
    /// The stored skills among those that [`super::skills_to_look_up`] names.
    pub skills: HashMap<String, StoredSkillFacts>,
    /// How many stored skills have the name of the checked one.
    pub same_name: usize,
}

/// A stored skill.
#[derive(Clone, Debug, Default)]
pub struct StoredSkillFacts {
    pub status: Option<Status>,
    /// Names in its `# Returns:` line.
    pub returns: Vec<String>,
    /// Whether its text is the one that is checked.
    pub is_same_text: bool,
}
