//! Names in headers: words of the language that no name may be, and the names that a skill returns.

use super::Mistakes;
use crate::syntax::blanks::trim;
use crate::syntax::parse_error::ParseErrorKind;

/// Words of the language. They are case-sensitive.
const RESERVED: &[&str] = &["default", "needs", "if", "elif", "else", "foreach", "in", "not", "unsafe"];

/// Words that a later version of the language may use.
const RESERVED_FOR_LATER: &[&str] = &["while", "for", "match", "try", "catch", "return"];

/// Fields that every result of a skill has. A returned variable of that name would hide the field.
const RESULT_FIELDS: &[&str] = &[
    "skill_name",
    "outputs",
    "transcript",
    "errors",
    "target_order",
    "fallbacks",
    "agent_delivery_receipts",
    "final_vars",
];

/// What a name is for.
#[derive(Clone, Copy)]
pub enum NameUse {
    Skill,
    Variable,
    Return,
    Target,
    Iterator,
}

/// Reports a name that is a reserved word. The caller keeps the name, so that the rest of the skill still makes sense.
pub fn refuse_reserved(name: &str, used_as: NameUse, wrong: &mut Mistakes<'_>) {
    if let Some(message) = reserved_word(name, used_as) {
        wrong.add(ParseErrorKind::ReservedWord, message);
    }
}

/// The message for a name that is a reserved word.
pub fn reserved_word(name: &str, used_as: NameUse) -> Option<String> {
    let when = if RESERVED.contains(&name) {
        ""
    } else if RESERVED_FOR_LATER.contains(&name) {
        " for a later version"
    } else {
        return None;
    };
    let (used_as, instead) = match used_as {
        NameUse::Skill => ("a skill name", "-task"),
        NameUse::Variable => ("a variable name", "_value"),
        NameUse::Return => ("a return name", "_value"),
        NameUse::Target => ("a target name", "_target"),
        NameUse::Iterator => ("the name of a loop variable", "_item"),
    };
    Some(format!("'{name}' is a reserved word{when} and cannot be {used_as}; try '{name}{instead}'"))
}

/// The names of a `# Returns:` line.
pub fn returns<'a>(entries: impl Iterator<Item = &'a str>, wrong: &mut Mistakes<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for entry in entries {
        if let Some((name, _)) = entry.split_once('=') {
            let name = trim(name);
            wrong.invalid(format!(
                "`# Returns: {entry}` has a default; use `# Returns: {name}`, or `# Vars: {entry}` for an input"
            ));
        } else if RESULT_FIELDS.contains(&entry) {
            wrong.invalid(format!(
                "`# Returns: {entry}` would hide the field '{entry}' of the result; rename the variable"
            ));
        } else {
            refuse_reserved(entry, NameUse::Return, wrong);
            names.push(entry.to_owned());
        }
    }
    names
}
