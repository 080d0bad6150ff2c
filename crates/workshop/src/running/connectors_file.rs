//! `connectors.json` of the reference runtime: tool connectors, and the kinds of store, model and agent connector.
//!
//! A mistake in one entry is reported and leaves out that entry. The rest of the file is used.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

/// Classes that a file can configure.
const CLASSES: &[(&str, ConnectorClass)] =
    &[("HttpMcpConnector", ConnectorClass::Http), ("RemoteMcpConnector", ConnectorClass::Stdio)];
/// Classes that exist, but are not configured by a file: the runtime itself makes these connectors.
const BUILT_IN: &[&str] =
    &["CallbackMcpConnector", "LocalModelMcpConnector", "DataStoreMcpConnector", "SkillStoreMcpConnector"];
/// The slots below `substrate`, and the types of each.
const SLOTS: &[(&str, &[&str])] = &[
    ("skill_store", &["filesystem", "sqlite", "custom"]),
    ("data_store", &["sqlite", "custom"]),
    ("local_model", &["ollama", "openai", "custom"]),
    ("agent_connector", &["noop", "custom"]),
];
const SUBSTRATE: &str = "substrate";

/// A variable in a text: `${NAME}`.
static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{([A-Z_][A-Z0-9_]*)\}").expect("the expression is constant"));

/// What a file says. It may hold secrets, so it cannot be printed.
#[derive(Default)]
pub struct ConnectorsFile {
    pub connectors: Vec<FileConnector>,
    /// The slots that the file names. A slot can be `null`.
    pub substrate: Option<Map<String, Value>>,
    /// Mistakes, each with the entry that it is in.
    pub errors: Vec<String>,
}

/// One entry of a file: a tool connector.
pub struct FileConnector {
    pub name: String,
    pub class: ConnectorClass,
    pub config: Map<String, Value>,
    /// The only tools that may be called. `None` allows all.
    pub allowed_tools: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectorClass {
    /// MCP over streamable HTTP.
    Http,
    /// MCP over standard input and output of a child process.
    Stdio,
}

impl ConnectorClass {
    pub fn word(self) -> &'static str {
        CLASSES.iter().find(|(_, class)| *class == self).map_or("", |(word, _)| word)
    }
}

impl ConnectorsFile {
    /// Reads a file. `variable` gives the values of `${NAME}`.
    pub fn read(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        match serde_json::from_str(text) {
            Ok(Value::Object(entries)) => Self::of(&entries, variable),
            Ok(_) => Self::mistaken("connectors.json: the file must be an object".to_owned()),
            // The error of the parser shows a place and no text.
            Err(error) => Self::mistaken(format!("connectors.json: the file is not JSON: {error}")),
        }
    }

    /// The same, for a file that was parsed.
    pub fn of(entries: &Map<String, Value>, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut file = Self::default();
        for (name, entry) in entries.iter().filter(|(name, _)| !name.starts_with('_')) {
            if name == SUBSTRATE {
                file.read_substrate(entry, variable);
                continue;
            }
            match read_entry(name, entry, variable) {
                Ok(connector) => file.connectors.push(connector),
                Err(why) => file.errors.push(format!("connectors.json: entry '{name}': {why}")),
            }
        }
        file
    }

    fn mistaken(error: String) -> Self {
        Self { errors: vec![error], ..Self::default() }
    }

    fn read_substrate(&mut self, slots: &Value, variable: &dyn Fn(&str) -> Option<String>) {
        let Value::Object(slots) = slots else {
            self.errors.push("connectors.json: substrate must be an object".to_owned());
            return;
        };
        let mut read = Map::new();
        for (slot, value) in slots.iter().filter(|(slot, _)| !slot.starts_with('_')) {
            match read_slot(slot, value, variable) {
                Ok(value) => drop(read.insert(slot.clone(), value)),
                Err(why) => self.errors.push(format!("connectors.json: substrate.{slot}: {why}")),
            }
        }
        self.substrate = Some(read);
    }

    /// A slot that is filled.
    pub fn slot(&self, name: &str) -> Option<&Map<String, Value>> {
        self.substrate.as_ref()?.get(name)?.as_object()
    }
}

fn read_entry(
    name: &str,
    entry: &Value,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<FileConnector, String> {
    let Value::Object(entry) = entry else {
        return Err("it must be an object with `class` and `config`".to_owned());
    };
    let class = match entry.get("class") {
        Some(Value::String(class)) => class,
        _ => return Err("`class` is missing".to_owned()),
    };
    let class = match CLASSES.iter().find(|(word, _)| word == class) {
        Some((_, class)) => *class,
        None if BUILT_IN.contains(&class.as_str()) => {
            return Err(format!("the class '{class}' is built in and cannot be configured in a file"));
        }
        None => {
            let known: Vec<&str> = CLASSES.iter().map(|(word, _)| *word).collect();
            return Err(format!("unknown connector class '{class}'; known are {}", known.join(", ")));
        }
    };
    let config = match entry.get("config") {
        None => Map::new(),
        Some(Value::Object(config)) => config.clone(),
        Some(_) => return Err("`config` must be an object".to_owned()),
    };
    // At that place it would be overlooked, and then every tool would be allowed.
    if config.contains_key("allowed_tools") {
        return Err("`allowed_tools` belongs beside `config`, not into it".to_owned());
    }
    let allowed_tools = match entry.get("allowed_tools") {
        None | Some(Value::Null) => None,
        Some(tools) => Some(texts(tools).ok_or("`allowed_tools` must be a list of names")?),
    };
    Ok(FileConnector {
        name: name.to_owned(),
        class,
        config: resolved_config(config, variable)?,
        allowed_tools,
    })
}

fn read_slot(slot: &str, value: &Value, variable: &dyn Fn(&str) -> Option<String>) -> Result<Value, String> {
    let Some((_, types)) = SLOTS.iter().find(|(name, _)| *name == slot) else {
        let known: Vec<&str> = SLOTS.iter().map(|(name, _)| *name).collect();
        return Err(format!("unknown slot; known are {}", known.join(", ")));
    };
    let mut filled = match value {
        Value::Null => return Ok(Value::Null),
        Value::String(kind) => Map::from_iter([("type".to_owned(), Value::String(kind.clone()))]),
        Value::Object(filled) => filled.clone(),
        _ => return Err("it must be a text, an object or null".to_owned()),
    };
    let kind = match filled.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        _ => return Err("`type` is missing".to_owned()),
    };
    if !types.contains(&kind.as_str()) {
        return Err(format!("unknown type '{kind}'; known are {}", types.join(", ")));
    }
    let has_module = filled.get("module").is_some_and(Value::is_string);
    match (kind == "custom", has_module) {
        (true, false) => return Err("the type 'custom' needs an object with `module`".to_owned()),
        (true, true) => drop(filled.entry("config").or_insert_with(|| Value::Object(Map::new()))),
        (false, _) => {}
    }
    if let Some(Value::Object(config)) = filled.remove("config") {
        filled.insert("config".to_owned(), Value::Object(resolved_config(config, variable)?));
    }
    Ok(Value::Object(filled))
}

/// Replaces the variables in a configuration. Those in its `env` come first; the other entries see them.
fn resolved_config(
    mut config: Map<String, Value>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Map<String, Value>, String> {
    let own = match config.remove("env") {
        Some(own) => Some(resolved(own, variable)?),
        None => None,
    };
    let value_of = |name: &str| {
        let own = own.as_ref().and_then(|own| own.get(name)?.as_str());
        own.map(str::to_owned).or_else(|| variable(name))
    };
    let Value::Object(mut config) = resolved(Value::Object(config), &value_of)? else {
        return Ok(Map::new());
    };
    if let Some(own) = own {
        config.insert("env".to_owned(), own);
    }
    Ok(config)
}

fn resolved(value: Value, variable: &dyn Fn(&str) -> Option<String>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(resolved_text(&text, variable)?),
        Value::Array(items) => {
            items.into_iter().map(|item| resolved(item, variable)).collect::<Result<_, _>>()?
        }
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| Ok((name, resolved(value, variable)?)));
            Value::Object(members.collect::<Result<_, String>>()?)
        }
        other => other,
    })
}

fn resolved_text(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(found) = VARIABLE.captures(rest) {
        let (whole, name) = (found.get(0), &found[1]);
        let Some(whole) = whole else { break };
        out.push_str(&rest[..whole.start()]);
        out.push_str(&variable(name).ok_or_else(|| format!("the variable '${{{name}}}' is not set"))?);
        rest = &rest[whole.end()..];
    }
    out.push_str(rest);
    Ok(out)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}
