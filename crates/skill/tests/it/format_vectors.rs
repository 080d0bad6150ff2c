//! Formatting of every recorded program.

use skill::tree::SkillTree;
use skill::{format_skill, status_of};
use skill_doubles::tree_form;

use crate::recorded::{programs, text};

#[test]
fn vectors_formatting_keeps_the_tree_and_the_status_of_every_program_and_is_stable() {
    let mut changed = 0;
    for program in programs() {
        let source = text(&program, "source");
        let formatted = format_skill(source);
        let (before, after) = (SkillTree::parse(source), SkillTree::parse(&formatted));
        let id = text(&program, "id");
        if before.errors.is_empty() {
            assert_eq!(tree_form(&after), tree_form(&before), "{id}");
            assert_eq!(after.header, before.header, "{id}");
        }
        assert_eq!(status_of(&formatted), status_of(source), "{id}");
        assert_eq!(format_skill(&formatted), formatted, "{id}");
        changed += usize::from(formatted != source);
    }
    assert!(changed > 0);
}
