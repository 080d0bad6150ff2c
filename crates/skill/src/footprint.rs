//! The footprint of a skill: connectors, tools, programs and files that it touches, error blocks included.
//!
//! It is for people who approve a skill and for the catalogue. Where a text has mistakes it names what the parser could
//! read; such a skill does not run.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::syntax::blanks::first_word;
use crate::syntax::tree::{OpKind, ShellCommand, SkillOp, SkillTree, TextTemplate};

/// The program that runs unsafe commands.
const UNSAFE_PROGRAM: &str = "bash";

/// What a skill touches. Numbers count the operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// Connectors whose tools it calls.
    pub connectors: BTreeSet<String>,
    /// Tools that it calls without a connector.
    pub builtins: BTreeSet<String>,
    /// Programs that it runs, as they are written.
    pub shell_binaries: BTreeSet<String>,
    pub unsafe_shell: u32,
    pub file_writes: u32,
    pub file_reads: u32,
    pub notifies: u32,
}

/// The footprint of a text.
pub fn footprint(body: &str) -> Footprint {
    Footprint::of(&SkillTree::parse(body))
}

impl Footprint {
    /// The footprint of a parsed skill.
    pub fn of(tree: &SkillTree) -> Self {
        let mut footprint = Self::default();
        for target in &tree.targets {
            footprint.add_all(&target.ops);
            footprint.add_all(target.error_block.as_deref().unwrap_or_default());
        }
        footprint
    }

    fn add_all(&mut self, ops: &[SkillOp]) {
        for op in ops {
            self.add(&op.kind);
            op.blocks().for_each(|block| self.add_all(block));
        }
    }

    fn add(&mut self, op: &OpKind) {
        match op {
            OpKind::Dispatch(dispatch) => match &dispatch.connector {
                Some(connector) => drop(self.connectors.insert(connector.to_string())),
                None => insert(&mut self.builtins, first_word(&dispatch.body).0),
            },
            OpKind::Shell(shell) => match &shell.command {
                ShellCommand::Unsafe(_) => {
                    self.shell_binaries.insert(UNSAFE_PROGRAM.to_owned());
                    self.unsafe_shell += 1;
                }
                ShellCommand::Argv(words) => {
                    insert(&mut self.shell_binaries, words.first().map_or("", TextTemplate::text));
                }
                ShellCommand::Words(command) => {
                    insert(&mut self.shell_binaries, first_word(command.text()).0)
                }
            },
            OpKind::FileWrite(_) => self.file_writes += 1,
            OpKind::FileRead(_) => self.file_reads += 1,
            OpKind::Notify(_) | OpKind::Exchange(_) => self.notifies += 1,
            _ => {}
        }
    }
}

fn insert(names: &mut BTreeSet<String>, name: &str) {
    if !name.is_empty() {
        names.insert(name.to_owned());
    }
}

#[cfg(test)]
mod tests;
