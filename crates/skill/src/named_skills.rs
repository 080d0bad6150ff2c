//! Names of other skills in a skill: what it calls, inlines or follows up with. Only names that are written out count.

use std::collections::BTreeSet;

use crate::check::{called_skills, calls_computed_skill};
use crate::syntax::tree::SkillTree;

/// The skills that a text names.
pub fn named_skills(body: &str) -> BTreeSet<String> {
    let tree = SkillTree::parse(body);
    let mut named = called_skills(&tree);
    named.retain(|name| !name.is_empty());
    named.extend(tree.header.templates);
    named
}

/// Whether a text calls a skill whose name is known only when it runs, so that [`named_skills`] lacks it.
pub fn names_skill_by_value(body: &str) -> bool {
    calls_computed_skill(&SkillTree::parse(body))
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
    fn a_name_that_is_not_written_out_is_told_apart() {
        for (call, is_computed) in [
            ("$ execute_skill skill_name=${WHICH}", true),
            ("$ execute_skill skill_name=\"${WHICH}\"", true),
            ("$ execute_skill skill_name=a${WHICH}", true),
            ("$ execute_skill skill_name=a.b", true),
            ("$ execute_skill name=\"a\" skill_name=$(WHICH)", true),
            ("$ execute_skill skill_name=[\"a\"]", true),
            ("$ execute_skill k=\"v\"", true),
            ("execute_skill(name=\"${WHICH}\")", true),
            ("emit(text=\"x\")\nelse:\n    execute_skill(name=\"${WHICH}\")", true),
            ("$ execute_skill skill_name=my-child k=${V}", false),
            ("execute_skill(name=\"child\", k=\"${V}\")", false),
            ("$ svc.execute_skill skill_name=\"child\"", false),
            ("emit(text=\"${WHICH}\")", false),
        ] {
            let body = format!("go:\n    {call}\n");
            assert_eq!(names_skill_by_value(&body), is_computed, "{body}");
        }
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
