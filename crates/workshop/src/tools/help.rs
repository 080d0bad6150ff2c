//! The tool `help`: what agents can do here, by topic.

use serde_json::{Value, json};

/// All topics with their texts.
const TOPICS: &[(&str, &str)] = &[
    ("skills", include_str!("help/skills.md")),
    ("frontmatter", include_str!("help/frontmatter.md")),
    ("ops", include_str!("help/ops.md")),
    ("runs", include_str!("help/runs.md")),
    ("triggers", include_str!("help/triggers.md")),
    ("connectors", include_str!("help/connectors.md")),
    ("approval", include_str!("help/approval.md")),
    ("data", include_str!("help/data.md")),
    ("agents", include_str!("help/agents.md")),
];

const OVERVIEW: &str = include_str!("help/overview.md");

/// What `initialize` and `server/discover` tell every client.
pub const INSTRUCTIONS: &str = "Posthouse keeps skills and data for the agents of a tenant and carries messages between \
them. `skill_list` finds skills, `skill_read` and `skill_write` their texts; what you write becomes a Draft, which a \
person approves. `data_write` keeps a text that every agent of the tenant finds again with `data_read`. `agent_list` \
names the agents that `notify`, `wake` and `ask` reach. `help` explains each of these.";

/// The help on a topic, or the overview with the list of topics.
pub fn help(topic: Option<&str>) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let names: Vec<&str> = TOPICS.iter().map(|(name, _)| *name).collect();
    match topic {
        None => json!({ "topic": null, "version": version, "content": OVERVIEW, "available_topics": names }),
        Some(topic) => {
            let known = TOPICS.iter().find(|(name, _)| *name == topic).map(|(_, text)| (*text).to_owned());
            let content =
                known.unwrap_or_else(|| format!("There is no such topic. Topics: {}", names.join(", ")));
            json!({ "topic": topic, "version": version, "content": content })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_its_topics_and_explains_each() {
        let overview = help(None);
        let topics = overview["available_topics"].as_array().unwrap().clone();
        assert!(overview["topic"].is_null() && topics.len() > 3);
        for topic in topics {
            let on = help(topic.as_str());
            assert_eq!(on["topic"], topic);
            assert!(on["content"].as_str().unwrap().len() > 100, "{topic}");
            assert!(on.get("available_topics").is_none());
        }
        assert!(help(Some("nothing"))["content"].as_str().unwrap().contains("skills"));
    }
}
