//! Cutting a catalogue so that it fits into one event.
//!
//! The catalogue groups skills by who gets their output. The cut keeps skills in the order of their names, whichever group
//! they are in, and keeps the groups.

use serde_json::{Map, Value};

/// The groups of a catalogue.
const GROUPS: [&str; 3] = ["receives", "skills", "headless"];

/// Keeps the first skills whose size is at most `largest` together, but at least one. If some are missing at the end,
/// `next` is the name of the last one that is there.
pub fn cut(mut catalogue: Map<String, Value>, largest: usize) -> Map<String, Value> {
    let mut skills: Vec<(&'static str, Value)> = Vec::new();
    for group in GROUPS {
        if let Some(Value::Array(listed)) = catalogue.get_mut(group) {
            skills.extend(std::mem::take(listed).into_iter().map(|skill| (group, skill)));
        }
    }
    skills.sort_by(|(_, one), (_, other)| name(one).cmp(name(other)));
    let mut size = 0;
    let fitting = skills.iter().take_while(|(_, skill)| {
        size += text_size(skill) + 1;
        size <= largest
    });
    let kept = fitting.count().max(1).min(skills.len());
    if kept < skills.len() {
        catalogue.insert("next".to_owned(), name(&skills[kept - 1].1).into());
    }
    for (group, skill) in skills.into_iter().take(kept) {
        if let Some(Value::Array(listed)) = catalogue.get_mut(group) {
            listed.push(skill);
        }
    }
    catalogue
}

fn name(skill: &Value) -> &str {
    skill["name"].as_str().unwrap_or_default()
}

/// The size of a value as a JSON text inside a JSON text, in bytes.
fn text_size(value: &Value) -> usize {
    value.to_string().bytes().map(|byte| if matches!(byte, b'"' | b'\\') { 2 } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn catalogue() -> Map<String, Value> {
        let named = |names: &[&str]| -> Value {
            names.iter().map(|name| json!({ "name": name, "description": "\"quoted\"" })).collect()
        };
        let value = json!({
            "receives": named(&["b", "d"]), "skills": named(&["a", "c"]), "headless": named(&["e"]),
            "catalog_version": "t",
        });
        let Value::Object(catalogue) = value else { panic!("an object") };
        catalogue
    }

    fn names(page: &Map<String, Value>) -> Vec<String> {
        GROUPS
            .iter()
            .map(|group| page[*group].as_array().unwrap().iter().map(name).collect::<Vec<_>>().join(""))
            .collect()
    }

    #[test]
    fn a_catalogue_is_cut_in_the_order_of_names_but_never_to_nothing() {
        let one = text_size(&json!({ "name": "a", "description": "\"quoted\"" })) + 1;
        let three = cut(catalogue(), 3 * one);
        assert_eq!(
            (names(&three), &three["next"]),
            (vec!["b".into(), "ac".into(), String::new()], &json!("c"))
        );
        assert_eq!(three["catalog_version"], "t");
        assert_eq!(names(&cut(catalogue(), 1)), ["", "a", ""]);
        let whole = cut(catalogue(), 5 * one);
        assert_eq!(names(&whole), ["bd", "ac", "e"]);
        assert!(!whole.contains_key("next"));
        // A `next` of a page that was cut before stays.
        let mut page = catalogue();
        page.insert("next".to_owned(), json!("e"));
        assert_eq!(cut(page, 5 * one)["next"], "e");
        assert!(!cut(Map::new(), 1).contains_key("next"));
    }

    #[test]
    fn the_size_of_a_text_in_a_text_counts_its_escapes() {
        let value = json!({ "a": "\"\n" });
        let inside = json!(value.to_string()).to_string();
        assert_eq!(text_size(&value), inside.len() - 2);
    }
}
