//! Names of other skills in a skill: what it calls, inlines or follows up with. Only names that are written out count.
//!
//! This looks at the text and not at operations, so that a skill with a mistake in it still protects what it names.

use std::collections::BTreeSet;

use crate::syntax::SkillHeader;

/// Operations that name a skill, with the arguments that hold the name.
const CALLS: [(&str, &[&str]); 2] = [("execute_skill", &["name", "skill_name"]), ("inline", &["skill"])];

/// The skills that a text names.
pub fn named_skills(body: &str) -> BTreeSet<String> {
    let mut named: BTreeSet<String> = SkillHeader::parse(body).templates.into_iter().collect();
    for (call, arguments) in CALLS {
        for (at, _) in body.match_indices(call) {
            let (before, after) = (&body[..at], &body[at + call.len()..]);
            if before.ends_with(is_word) || after.starts_with(is_word) {
                continue;
            }
            let written = arguments_of(after);
            named.extend(arguments.iter().flat_map(|argument| values_of(written, argument)));
        }
    }
    named
}

/// The arguments of a call in parentheses, or the rest of the line of a `$` operation.
fn arguments_of(after: &str) -> &str {
    let line = after.lines().next().unwrap_or_default();
    if !after.trim_start_matches([' ', '\t']).starts_with('(') {
        return line;
    }
    let (mut depth, mut quote) = (0_u32, None);
    for (at, c) in after.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            // A quote ends with its line at the latest; triple quotes are three quotes here.
            (Some(_), '\n') => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') if depth == 1 => return &after[..at],
            (None, ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    after
}

/// The written values of an argument.
fn values_of<'t>(text: &'t str, argument: &'t str) -> impl Iterator<Item = String> + 't {
    text.match_indices(argument).filter_map(move |(at, _)| {
        if text[..at].ends_with(is_word) {
            return None;
        }
        let value = text[at + argument.len()..].trim_start().strip_prefix('=')?.trim_start();
        let name = match value.chars().next()? {
            quote @ ('"' | '\'') => value.trim_start_matches(quote).split(quote).next()?,
            _ => value.split(|c: char| !is_word(c) && c != '.').next()?,
        };
        Some(name.to_owned()).filter(|name| !name.is_empty())
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(body: &str) -> Vec<String> {
        named_skills(body).into_iter().collect()
    }

    #[test]
    fn every_way_to_name_a_skill_is_found() {
        for body in [
            "go:\n    execute_skill(name=\"child\") -> R\n",
            "go:\n    execute_skill( skill_name = 'child', a=\"b\")\n",
            "go:\n    execute_skill(a=\"(\", name=\"child\")\n",
            "go:\n    execute_skill(\n        name=\"child\"\n    )\n",
            "go:\n    $ execute_skill skill_name=\"child\" k=\"v\" -> R\n",
            "go:\n    $ execute_skill skill_name=child\n",
            "go:\n    $ execute_skill name='child'\n",
            "go:\n    inline(skill=\"child\")\n",
            "go:\n    inline(skill=\"\"\"child\"\"\")\n",
            "go:\n    emit(\"x\")\nelse:\n    execute_skill(name=\"child\")\n",
            "# Templates: child\n",
        ] {
            assert_eq!(named(body), ["child"], "{body}");
        }
        assert_eq!(named("# Templates: a, b\ngo:\n    inline(skill=\"c\")\n"), ["a", "b", "c"]);
    }

    #[test]
    fn other_words_and_other_arguments_name_nothing() {
        for body in [
            "",
            "go:\n    my_inline(skill=\"child\")\n",
            "go:\n    inline(other_skill=\"child\")\n",
            "go:\n    execute_skill(name=\"\")\n",
            "go:\n    emit(\"name=child\")\n",
            "execute_skill",
            "execute_skill(",
        ] {
            assert_eq!(named(body), Vec::<String>::new(), "{body}");
        }
    }
}
