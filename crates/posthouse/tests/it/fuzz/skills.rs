//! Fuzzing of the parser and lint of skills, whose texts agents write.

use std::collections::BTreeSet;

use skill::check::{CheckContext, check, render_findings};
use skill::tree::SkillTree;
use skill::{SkillHeader, footprint, named_skills};

use super::Target;

pub fn skills() -> Target {
    let read = |input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        let tree = SkillTree::parse(&text);
        // The catalogue and the gate read the header alone, so both readings must agree.
        let header = SkillHeader::parse(&text);
        assert_eq!((&tree.header.status, &tree.header.vars), (&header.status, &header.vars));
        for error in &tree.errors {
            assert!(text.get(error.range.start..error.range.end).is_some(), "{error:?}");
        }
        let findings = check(&tree, &CheckContext::default());
        for finding in &findings {
            assert!(
                finding.range.is_none_or(|range| text.get(range.start..range.end).is_some()),
                "{finding:?}"
            );
        }
        render_findings(&text, "fuzz", &findings, false);
        let _ = (footprint(&text), named_skills(&text));
        let rules: BTreeSet<&str> = findings.iter().map(|finding| finding.rule).collect();
        rules.into_iter().collect::<Vec<_>>().join(" ")
    };
    Target {
        corpus: "skills",
        vectors: &[
            "skills/02-targets.json",
            "skills/05-conditions.json",
            "skills/08-dispatch.json",
            "skills/15-lint.json",
        ],
        read: Box::new(read),
    }
}
