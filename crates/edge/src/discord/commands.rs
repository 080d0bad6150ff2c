//! Commands of agents in the form of Discord. Whatever Discord would refuse is left out, because it refuses all commands
//! of an application because of one.

use std::collections::HashSet;

use posthouse_wire::frame::{CommandEntry, CommandManifest};
use serde_json::{Map, Value, json};

/// Discord's limits.
const MOST_COMMANDS: usize = 100;
const MOST_OPTIONS: usize = 25;
const LONGEST_NAME: usize = 32;
/// Of a description, and of the name and value of a choice, in UTF-16 units.
const LONGEST_TEXT: usize = 100;
/// Of all names, descriptions and values of one command together.
const LONGEST_COMMAND: usize = 8000;
/// Largest whole number that Discord takes.
const LARGEST: u64 = 1 << 53;

const SUBCOMMAND: u64 = 1;
const SUBCOMMAND_GROUP: u64 = 2;
const TEXT: u64 = 3;
const INTEGER: u64 = 4;
const NUMBER: u64 = 10;
const ATTACHMENT: u64 = 11;

/// The commands that Discord takes, at most as many as it takes.
pub(super) fn written(commands: &CommandManifest) -> Vec<Value> {
    let mut names = HashSet::new();
    let taken = commands.0.iter().filter(|entry| is_name(&entry.name) && names.insert(entry.name.as_str()));
    taken.take(MOST_COMMANDS).map(command).collect()
}

fn command(entry: &CommandEntry) -> Value {
    let bare =
        json!({"type": 1, "name": entry.name, "description": description(&entry.description, &entry.name)});
    // A command without its options is still of use.
    let Some(options) = entry.options.as_ref().and_then(|given| options(given, Level::Command)) else {
        return bare;
    };
    let mut full = bare.clone();
    full["options"] = options;
    if text_length(&full) > LONGEST_COMMAND { bare } else { full }
}

/// Place of a list of options. It decides which kinds of options may be in it.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Command,
    Group,
    Subcommand,
}

/// A list of options as Discord takes it. `None` if one of them is unfit.
fn options(given: &Value, level: Level) -> Option<Value> {
    let given = given.as_array().filter(|given| given.len() <= MOST_OPTIONS)?;
    let mut options: Vec<Value> = given.iter().map(|one| option(one, level)).collect::<Option<_>>()?;
    let unique: HashSet<&str> = options.iter().filter_map(|one| one["name"].as_str()).collect();
    let nested = options.iter().filter(|one| is_nested(one)).count();
    if unique.len() != options.len() || (nested != 0 && nested != options.len()) {
        return None;
    }
    // Those that a person must fill in come first.
    options.sort_by_key(|one| one["required"] != true);
    Some(options.into())
}

fn is_nested(option: &Value) -> bool {
    matches!(option["type"].as_u64(), Some(SUBCOMMAND | SUBCOMMAND_GROUP))
}

fn option(given: &Value, level: Level) -> Option<Value> {
    let kind = given["type"].as_u64()?;
    let name = given["name"].as_str().filter(|name| is_name(name))?;
    let about = description(given["description"].as_str().unwrap_or_default(), name);
    let mut written = Map::from_iter([
        ("type".to_owned(), json!(kind)),
        ("name".to_owned(), json!(name)),
        ("description".to_owned(), json!(about)),
    ]);
    let below = match (kind, level) {
        (SUBCOMMAND, Level::Command | Level::Group) => Some(Level::Subcommand),
        (SUBCOMMAND_GROUP, Level::Command) => Some(Level::Group),
        (TEXT..=ATTACHMENT, Level::Command | Level::Subcommand) => None,
        _ => return None,
    };
    match below {
        Some(below) => {
            if let Some(given) = given.get("options").filter(|given| !given.is_null()) {
                written.insert("options".to_owned(), options(given, below)?);
            } else if below == Level::Group {
                return None;
            }
        }
        None => {
            written.insert("required".to_owned(), json!(given["required"] == true));
            if let Some(given) = given.get("choices").filter(|given| !given.is_null()) {
                written.insert("choices".to_owned(), choices(given, kind)?);
            }
        }
    }
    Some(written.into())
}

/// The values among which a person chooses.
fn choices(given: &Value, kind: u64) -> Option<Value> {
    let given = given.as_array().filter(|given| given.len() <= MOST_OPTIONS)?;
    let mut names = HashSet::new();
    let written = given.iter().map(|choice| {
        let name = choice["name"].as_str().filter(|name| is_text(name) && names.insert(*name))?;
        let value = &choice["value"];
        let fits = match kind {
            TEXT => value.as_str().is_some_and(is_text),
            INTEGER => value.as_i64().is_some_and(|value| value.unsigned_abs() <= LARGEST),
            NUMBER => value.as_f64().is_some_and(|value| value.abs() <= LARGEST as f64),
            _ => false,
        };
        fits.then(|| json!({"name": name, "value": value}))
    });
    written.collect::<Option<Vec<Value>>>().map(Value::from)
}

/// A name of a command or option. Discord takes letters of other scripts too.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(plain)
}

fn is_text(text: &str) -> bool {
    !text.trim().is_empty() && text.encode_utf16().count() <= LONGEST_TEXT
}

/// A description that is neither empty nor too long. Discord wants one.
fn description(given: &str, name: &str) -> String {
    let mut units = 0;
    let fits = |letter: &char| {
        units += letter.len_utf16();
        units <= LONGEST_TEXT
    };
    let short: String = given.trim().chars().take_while(fits).collect();
    if short.is_empty() { name.to_owned() } else { short }
}

/// The texts in a command that Discord counts together.
fn text_length(of: &Value) -> usize {
    match of {
        Value::String(text) => text.encode_utf16().count(),
        Value::Array(items) => items.iter().map(text_length).sum(),
        Value::Object(fields) => fields.values().map(text_length).sum(),
        Value::Number(number) => number.to_string().len(),
        Value::Null | Value::Bool(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, options: Value) -> CommandEntry {
        CommandEntry { name: name.to_owned(), description: "Ask".to_owned(), options: Some(options) }
    }

    fn one(options: Value) -> Value {
        written(&CommandManifest(vec![entry("ask", options)])).remove(0)
    }

    #[test]
    fn options_that_discord_takes_stay_and_required_ones_come_first() {
        let about = json!({"type": 3, "name": "about", "description": "What", "min_length": "x"});
        let size = json!({"type": 4, "name": "size", "description": "", "required": true,
            "choices": [{"name": "small", "value": 1}]});
        let written = json!([
            {"type": 4, "name": "size", "description": "size", "required": true,
             "choices": [{"name": "small", "value": 1}]},
            {"type": 3, "name": "about", "description": "What", "required": false},
        ]);
        assert_eq!(one(json!([about, size]))["options"], written);
        let nested = json!([{"type": 2, "name": "group", "description": "g", "options": [
            {"type": 1, "name": "sub", "description": "s", "options": [
                {"type": 6, "name": "user", "description": "u", "required": false}]}]}]);
        assert_eq!(one(nested.clone())["options"], nested);
    }

    #[test]
    fn a_command_loses_options_that_discord_would_refuse() {
        let text = |name: &str| json!({"type": 3, "name": name, "description": "x"});
        let subcommand = json!({"type": 1, "name": "s", "description": "x"});
        let long = "x".repeat(100);
        let choices: Vec<Value> = (0..25).map(|n| json!({"name": format!("{n}"), "value": long})).collect();
        let large: Vec<Value> = (0..25)
            .map(|n| json!({"type": 3, "name": format!("o{n}"), "description": long, "choices": choices}))
            .collect();
        for refused in [
            json!([5]),
            json!([{"type": 12, "name": "x", "description": "x"}]),
            json!([{"name": "x", "description": "x"}]),
            json!([text("Upper")]),
            json!([text("")]),
            json!([text("twice"), text("twice")]),
            json!([text("mixed"), subcommand]),
            json!([{"type": 1, "name": "s", "description": "x", "options": [subcommand]}]),
            json!([{"type": 2, "name": "g", "description": "x"}]),
            json!([{"type": 3, "name": "x", "choices": [{"name": "", "value": "v"}]}]),
            json!([{"type": 4, "name": "x", "choices": [{"name": "n", "value": "v"}]}]),
            json!([{"type": 4, "name": "x", "choices": [{"name": "n", "value": 1_u64 << 60}]}]),
            json!([{"type": 5, "name": "x", "choices": [{"name": "n", "value": true}]}]),
            json!((0..26).map(|n| text(&format!("o{n}"))).collect::<Vec<_>>()),
            json!(large),
        ] {
            let kept = one(refused.clone());
            assert_eq!(kept, json!({"type": 1, "name": "ask", "description": "Ask"}), "{refused}");
        }
    }

    #[test]
    fn names_and_descriptions_are_made_fit_and_the_number_is_limited() {
        let mut commands: Vec<CommandEntry> =
            (0..120).map(|number| entry(&format!("c{number}"), Value::Null)).collect();
        commands[0].name = "No Name".to_owned();
        commands[1].description = "  ".to_owned();
        commands[2].description = "👋".repeat(100);
        commands[4].name = "c3".to_owned();
        let written = written(&CommandManifest(commands));
        assert_eq!(written.len(), 100);
        assert_eq!((&written[0]["name"], &written[0]["description"]), (&json!("c1"), &json!("c1")));
        assert_eq!(written[1]["description"], "👋".repeat(50));
        assert_eq!((&written[2]["name"], &written[3]["name"]), (&json!("c3"), &json!("c5")));
    }
}
