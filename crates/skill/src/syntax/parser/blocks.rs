//! Open blocks of a target during parsing. A block collects its operations, and passes them to its parent when it
//! closes.

use super::super::tree::{MAX_BLOCKS, OpKind, SkillOp, SkillTarget};
use super::STEP;

/// The open blocks, the innermost last.
#[derive(Default)]
pub struct Blocks {
    open: Vec<Block>,
}

struct Block {
    kind: BlockKind,
    /// How far its lines are indented.
    depth: usize,
    ops: Vec<SkillOp>,
}

/// What opened a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    Body,
    ErrorBlock,
    Loop,
    /// `if` or `elif`.
    Branch,
    Otherwise,
    /// An `elif` whose condition is refused. Its operations are dropped, but `else` still belongs to the `if`.
    RefusedBranch,
    /// An `if` whose condition is refused, with all its branches.
    RefusedIf,
    /// A line that looks like the beginning of a block. Everything in it is dropped.
    Unknown,
}

impl Blocks {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// How far the lines of the innermost block are indented.
    pub fn depth(&self) -> Option<usize> {
        self.open.last().map(|block| block.depth)
    }

    pub fn is_in_error_block(&self) -> bool {
        self.open.last().is_some_and(|block| block.kind == BlockKind::ErrorBlock)
    }

    /// Whether the innermost block is the body of the target.
    pub fn is_body(&self) -> bool {
        self.open.last().is_some_and(|block| block.kind == BlockKind::Body)
    }

    /// Whether one more block may be opened.
    pub fn has_room(&self) -> bool {
        self.open.len() <= MAX_BLOCKS
    }

    pub fn open_body(&mut self) {
        self.open = vec![Block { kind: BlockKind::Body, depth: STEP, ops: Vec::new() }];
    }

    pub fn open_error_block(&mut self) {
        self.open = vec![Block { kind: BlockKind::ErrorBlock, depth: STEP, ops: Vec::new() }];
    }

    /// Opens a block below a line with this indentation.
    pub fn open(&mut self, kind: BlockKind, indent: usize) {
        // Most blocks hold one operation.
        self.open.push(Block { kind, depth: indent + STEP, ops: Vec::with_capacity(1) });
    }

    /// Adds an operation to the innermost block.
    pub fn add(&mut self, op: SkillOp) {
        if let Some(block) = self.open.last_mut() {
            block.ops.push(op);
        }
    }

    /// The last operation of the innermost block.
    pub fn last_op(&mut self) -> Option<&mut SkillOp> {
        self.open.last_mut().and_then(|block| block.ops.last_mut())
    }

    /// Finds the `if` that an `elif` or `else` with this indentation continues, and closes everything inside of it.
    /// Returns what opened the branch that ends there.
    pub fn continue_if(&mut self, indent: usize, target: &mut SkillTarget) -> Option<BlockKind> {
        let is_branch = |block: &Block| {
            let kinds = [BlockKind::Branch, BlockKind::RefusedBranch, BlockKind::RefusedIf];
            kinds.contains(&block.kind) && block.depth == indent + STEP
        };
        let index = self.open.iter().rposition(is_branch)?;
        let kind = self.open[index].kind;
        while self.open.len() > index {
            self.close_last(target);
        }
        Some(kind)
    }

    /// Closes the blocks that are deeper than an indentation.
    pub fn close(&mut self, indent: usize, target: &mut SkillTarget) {
        while self.open.last().is_some_and(|block| block.depth > indent) {
            self.close_last(target);
        }
    }

    fn close_last(&mut self, target: &mut SkillTarget) {
        let Some(Block { kind, ops, .. }) = self.open.pop() else { return };
        let opened_by = self.last_op().map(|op| &mut op.kind);
        match (kind, opened_by) {
            (BlockKind::Body, _) => target.ops = ops,
            (BlockKind::ErrorBlock, _) => target.error_block = Some(ops),
            (BlockKind::Loop, Some(OpKind::Foreach(foreach))) => foreach.body = ops,
            (BlockKind::Branch, Some(OpKind::If(op))) => {
                if let Some(branch) = op.branches.last_mut() {
                    branch.body = ops;
                }
            }
            (BlockKind::Otherwise, Some(OpKind::If(op))) => op.otherwise = Some(ops),
            // The operations of a refused block are dropped.
            _ => {}
        }
    }
}
