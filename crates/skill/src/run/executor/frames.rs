//! Open blocks of operations: the frames of a running skill.

use std::sync::Arc;

use crate::run::value::{SharedList, SkillValue};
use crate::run::variables::Variables;
use crate::syntax::tree::SkillOp;

/// The variable that an operation set.
#[derive(Clone, Debug)]
pub enum BoundVariable<'r> {
    Variable(&'r str),
    /// The variable that shows the result of a target.
    Output(Arc<str>),
}

impl BoundVariable<'_> {
    pub fn name(&self) -> &str {
        match self {
            Self::Variable(name) => name,
            Self::Output(name) => name,
        }
    }
}

/// The result of starting an operation: it has ended, or it opens a block.
pub enum Step<'r> {
    Done(Option<BoundVariable<'r>>),
    /// A block whose operations come next.
    Enter(Frame<'r>),
}

/// An open block.
pub struct Frame<'r> {
    pub ops: &'r [SkillOp],
    pub next: usize,
    pub last: Option<BoundVariable<'r>>,
    /// The operation to which the block belongs, and when it began.
    pub opened_by: Option<(&'r SkillOp, i64)>,
    pub looping: Option<Loop<'r>>,
}

/// The state of a `foreach`.
pub struct Loop<'r> {
    pub variable: &'r str,
    pub items: LoopItems,
    pub next: usize,
    /// How many variables there were before the loop.
    pub mark: usize,
    /// Bytes of the items. The loop keeps them, whatever becomes of the variable that they came from.
    pub weight: usize,
}

pub enum LoopItems {
    /// A list, and its length when the loop began. Later appends do not add rounds.
    Shared(SharedList, usize),
    Owned(Vec<SkillValue>),
}

impl LoopItems {
    /// The memory they stand for, in bytes, roughly.
    pub fn weight(&self) -> usize {
        match self {
            Self::Shared(list, _) => list.weight(),
            Self::Owned(items) => items.iter().map(SkillValue::weight).sum(),
        }
    }

    pub fn get(&self, index: usize) -> Option<SkillValue> {
        match self {
            Self::Shared(list, length) => (index < *length).then(|| list.get(index)).flatten(),
            Self::Owned(items) => items.get(index).cloned(),
        }
    }
}

impl<'r> Frame<'r> {
    pub fn new(ops: &'r [SkillOp]) -> Self {
        Self { ops, next: 0, last: None, opened_by: None, looping: None }
    }

    /// Begins the next round of a loop. `false` if there is none.
    pub fn begin_round(&mut self, variables: &mut Variables) -> bool {
        let Some(looping) = &mut self.looping else { return false };
        let Some(item) = looping.items.get(looping.next) else { return false };
        looping.next += 1;
        variables.set(looping.variable, Some(item));
        (self.next, self.last) = (0, None);
        true
    }
}
