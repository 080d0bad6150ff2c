//! Skills that name another skill: what breaks if it is deleted.

use skill::named_skills;

use super::answer;
use crate::skill_store::{SkillStore, StoreAnswer};

/// The other skills whose texts name this one, in the order of names.
pub(super) async fn of(store: &dyn SkillStore, name: &str) -> StoreAnswer<Vec<String>> {
    let (mut dependents, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = answer!(store.texts(after.as_deref()).await?);
        let names_it = |text: &str| text.contains(name) && named_skills(text).contains(name);
        let naming = page.items.into_iter().filter(|other| other.name != name && names_it(&other.text));
        dependents.extend(naming.map(|other| other.name));
        after = page.next;
        if after.is_none() {
            return Ok(Ok(dependents));
        }
    }
}
