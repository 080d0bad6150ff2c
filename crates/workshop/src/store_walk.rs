//! Store walk: reading a whole store page by page, with limits for stores outside of this server.

use std::time::Duration;

use posthouse_time::{Instant, Timepiece};

use crate::skill_store::{SkillStore, SkillText, StoreAnswer};
use crate::store_failure::StoreFailure;
use crate::store_refusal::{RefusalReason, StoreRefusal};

/// Limits of one walk. A store outside of this server could have endless pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkLimit {
    pub pages: usize,
    pub time: Duration,
}

/// One reading of a whole store.
pub struct StoreWalk(Option<LimitedWalk>);

struct LimitedWalk {
    pages_left: usize,
    deadline: Instant,
    timepiece: Timepiece,
}

impl StoreWalk {
    pub(crate) fn new(limit: Option<WalkLimit>, timepiece: &Timepiece) -> Self {
        Self(limit.map(|limit| LimitedWalk {
            pages_left: limit.pages,
            deadline: timepiece.instant() + limit.time,
            timepiece: timepiece.clone(),
        }))
    }

    /// Permits one more page, or refuses it.
    pub(crate) fn step(&mut self) -> Result<(), RefusalReason> {
        let Some(limits) = &mut self.0 else { return Ok(()) };
        if limits.timepiece.instant() > limits.deadline {
            return Err(RefusalReason::Remote(StoreFailure::TimedOut));
        }
        let left = limits.pages_left.checked_sub(1);
        let too_many = || RefusalReason::Remote(StoreFailure::bad_answer("it has too many pages"));
        limits.pages_left = left.ok_or_else(too_many)?;
        Ok(())
    }
}

/// Visits the texts of all skills of a store, in the order of names.
pub(crate) async fn each_text(
    store: &dyn SkillStore,
    mut visit: impl FnMut(SkillText) + Send,
) -> StoreAnswer<()> {
    let (mut walk, mut after) = (store.walk(), None::<String>);
    loop {
        if let Err(reason) = walk.step() {
            return Ok(Err(StoreRefusal { implementation: store.implementation(), reason }));
        }
        let page = match store.texts(after.as_deref()).await? {
            Ok(page) => page,
            Err(refusal) => return Ok(Err(refusal)),
        };
        page.items.into_iter().for_each(&mut visit);
        after = page.next;
        if after.is_none() {
            return Ok(Ok(()));
        }
    }
}
