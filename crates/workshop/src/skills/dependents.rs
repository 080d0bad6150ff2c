//! Skills that name another skill: what breaks if it is deleted.

use skill::named_skills;

use crate::skill_store::{SkillStore, StoreAnswer};
use crate::store_walk::each_text;

/// The other skills whose texts name this one, in the order of names.
pub(super) async fn of(store: &dyn SkillStore, name: &str) -> StoreAnswer<Vec<String>> {
    let mut dependents = Vec::new();
    let names_it = |text: &str| text.contains(name) && named_skills(text).contains(name);
    let read = each_text(store, |other| {
        if other.name != name && names_it(&other.text) {
            dependents.push(other.name);
        }
    });
    let read = read.await?;
    Ok(read.map(|()| dependents))
}
