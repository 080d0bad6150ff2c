//! Lint before a run, with the stored skills that a skill names.

use crate::check::{CheckContext, Severity, StoreFacts, StoredSkillFacts, check, skills_to_look_up};
use crate::status::status_of;
use crate::syntax::SkillHeader;
use crate::syntax::tree::SkillTree;

use super::library::SkillLibrary;

/// What lint reports as errors. A skill with errors does not run.
///
/// Only the store is asked. What the connectors offer is decided when the skill runs.
pub async fn lint_errors<L: SkillLibrary + ?Sized>(library: &L, tree: &SkillTree) -> Vec<String> {
    let store = Some(store_facts(library, tree).await);
    let context = CheckContext { store, is_read_only: true, ..CheckContext::default() };
    let findings = check(tree, &context).into_iter();
    let errors = findings.filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| format!("[{}] {}", finding.rule, finding.message)).collect()
}

/// What lint needs to know about the stored skills that a skill names.
pub async fn store_facts<L: SkillLibrary + ?Sized>(library: &L, tree: &SkillTree) -> StoreFacts {
    let mut store = StoreFacts::default();
    for name in skills_to_look_up(tree) {
        // A store that cannot answer is reported when the skill is run.
        let Ok(Some(stored)) = library.stored_skill(&name).await else { continue };
        let facts = StoredSkillFacts {
            status: Some(status_of(&stored.source).status()),
            returns: SkillHeader::parse(&stored.source).returns,
            is_same_text: *stored.source == *tree.source(),
        };
        store.same_name += usize::from(tree.header.name.as_deref() == Some(&name));
        store.skills.insert(name, facts);
    }
    store
}
