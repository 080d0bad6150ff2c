//! The tools of each surface: names, descriptions and input schemas, as `tools/list` shows them.

use serde_json::{Map, Value};

/// Where a tool is called. The same name can mean different things there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolSurface {
    /// `/rpc`: the tools of the reference runtime, with its arguments and its rules.
    Rpc,
    /// `/mcp`: skills of foreign runtimes and other MCP clients, which cannot be told apart. The stricter rule holds.
    Mcp,
}

impl ToolSurface {
    /// The descriptions of all tools, in the order in which they are listed.
    pub fn descriptions(self) -> Vec<Map<String, Value>> {
        let text = match self {
            Self::Rpc => include_str!("rpc_tools.json"),
            Self::Mcp => include_str!("mcp_tools.json"),
        };
        serde_json::from_str(text).expect("the descriptions are a JSON array of objects, as a test checks")
    }
}

/// The tools of one surface.
#[derive(Clone, Debug)]
pub struct ToolList {
    descriptions: Vec<Map<String, Value>>,
}

impl ToolList {
    pub fn new(descriptions: Vec<Map<String, Value>>) -> Self {
        Self { descriptions }
    }

    pub fn of(surface: ToolSurface) -> Self {
        Self::new(surface.descriptions())
    }

    /// The list as it is sent.
    pub fn to_value(&self) -> Value {
        self.descriptions.iter().cloned().map(Value::Object).collect()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    pub fn input_schema(&self, name: &str) -> Option<&Value> {
        self.find(name)?.get("inputSchema")
    }

    /// The names of all tools.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.descriptions.iter().filter_map(|tool| tool.get("name")?.as_str())
    }

    fn find(&self, name: &str) -> Option<&Map<String, Value>> {
        self.descriptions.iter().find(|tool| tool.get("name").and_then(Value::as_str) == Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_name_of_its_own_a_description_and_a_schema_of_an_object() {
        for surface in [ToolSurface::Rpc, ToolSurface::Mcp] {
            let list = ToolList::of(surface);
            let mut names: Vec<&str> = list.names().collect();
            assert_eq!(names.len(), list.descriptions.len());
            for tool in &list.descriptions {
                assert!(tool["description"].as_str().is_some_and(|text| text.len() > 20), "{tool:?}");
                let schema = &tool["inputSchema"];
                assert_eq!(schema["type"], "object");
                let required = schema["required"].as_array().into_iter().flatten();
                for name in required {
                    assert!(schema["properties"].get(name.as_str().unwrap()).is_some(), "{tool:?}");
                }
            }
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), list.descriptions.len());
        }
    }

    #[test]
    fn nothing_can_be_deleted_by_a_tool() {
        let (rpc, mcp) = (ToolList::of(ToolSurface::Rpc), ToolList::of(ToolSurface::Mcp));
        assert!(rpc.names().chain(mcp.names()).all(|name| !name.contains("delete")));
    }
}
