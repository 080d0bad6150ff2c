//! The footprint of a skill: connectors, tools, programs and files that it touches, error blocks included.
//!
//! A light scan of the text, for people who approve a skill and for the catalogue. It follows targets, blocks and calls as
//! the parser does, but it does not check conditions and values. Where a text has mistakes it may name more than the parser
//! would run, and never less.

mod call;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use self::call::SkillCall;
use crate::syntax::blanks::{first_word, is_blank, is_word};
use crate::syntax::lines::logical_lines;

/// Each step of a block is indented by this many more spaces.
const STEP: usize = 4;
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

/// An operation that touches something.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Effect {
    Connector(String),
    Tool(String),
    Program(String),
    UnsafeCommand,
    FileWrite,
    FileRead,
    Notification,
}

/// The footprint of a text.
pub fn footprint(body: &str) -> Footprint {
    let lines: Vec<&str> = logical_lines(body).map(|line| line.text.trim_end_matches(is_blank)).collect();
    let mut footprint = Footprint::default();
    for effect in Scan::over(&lines).into_values().flatten() {
        footprint.add(effect);
    }
    footprint
}

impl Footprint {
    fn add(&mut self, effect: Effect) {
        match effect {
            Effect::Connector(name) => drop(self.connectors.insert(name)),
            Effect::Tool(name) => drop(self.builtins.insert(name)),
            Effect::Program(name) => drop(self.shell_binaries.insert(name)),
            Effect::UnsafeCommand => {
                self.shell_binaries.insert(UNSAFE_PROGRAM.to_owned());
                self.unsafe_shell += 1;
            }
            Effect::FileWrite => self.file_writes += 1,
            Effect::FileRead => self.file_reads += 1,
            Effect::Notification => self.notifies += 1,
        }
    }
}

/// A walk over the lines. A target that is declared again replaces the earlier one.
#[derive(Default)]
struct Scan {
    targets: BTreeMap<String, Vec<Effect>>,
    current: Option<String>,
    /// Open blocks, the innermost last.
    blocks: Vec<Block>,
}

/// An open block: how far its lines are indented, and whether the parser drops them.
#[derive(Clone, Copy)]
struct Block {
    depth: usize,
    dropped: bool,
}

impl Scan {
    fn over(lines: &[&str]) -> BTreeMap<String, Vec<Effect>> {
        let mut scan = Self::default();
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            at += 1;
            let indent = line.len() - line.trim_start_matches(' ').len();
            match indent {
                _ if line.is_empty() || line.starts_with('#') => {}
                0 => scan.column_zero(line, &lines[at..]),
                _ => at += scan.indented(line, indent, &lines[at..]),
            }
        }
        scan.targets
    }

    fn column_zero(&mut self, line: &str, below: &[&str]) {
        if *line == *"else:" {
            // The error block of the target above.
            self.blocks = vec![Block { depth: STEP, dropped: false }];
            return;
        }
        self.current =
            target_name(line).filter(|name| *name != "default" && is_body(below)).map(str::to_owned);
        if let Some(name) = &self.current {
            self.targets.insert(name.clone(), Vec::new());
            self.blocks = vec![Block { depth: STEP, dropped: false }];
        }
    }

    /// Reads a line of a target. Returns how many of the lines below belong to it.
    fn indented(&mut self, line: &str, indent: usize, below: &[&str]) -> usize {
        let Some(target) = self.current.clone() else { return 0 };
        if indent < STEP {
            self.current = None;
            return 0;
        }
        while self.blocks.last().is_some_and(|block| block.depth > indent) {
            self.blocks.pop();
        }
        let Some(block) = self.blocks.last().copied().filter(|block| block.depth == indent) else { return 0 };
        let text = line.trim_start_matches(' ');
        if let Some((call, joined)) = SkillCall::read(text, below) {
            if !block.dropped {
                self.targets.entry(target).or_default().extend(call.effect());
            }
            return joined;
        }
        if let Some(body) = text.strip_prefix("$ ") {
            if !block.dropped {
                self.targets.entry(target).or_default().extend(dispatch(body));
            }
        } else if text.ends_with(':') && text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let known = ["if", "elif", "else", "foreach"];
            let word: String = text.chars().take_while(|c| is_word(*c)).collect();
            let dropped = block.dropped || !known.contains(&word.as_str());
            self.blocks.push(Block { depth: indent + STEP, dropped });
        }
        0
    }
}

/// The name in a line `name: dependencies`.
fn target_name(line: &str) -> Option<&str> {
    let (name, _) = line.split_once(':')?;
    let name = name.trim_end_matches(is_blank);
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (begins && name.chars().all(|c| is_word(c) || c == '-')).then_some(name)
}

/// Whether the next line that is not blank is indented.
fn is_body(below: &[&str]) -> bool {
    below.iter().find(|line| !line.is_empty()).is_some_and(|line| line.starts_with(is_blank))
}

/// The connector or the tool of a `$` operation.
fn dispatch(body: &str) -> Option<Effect> {
    let (word, _) = first_word(body);
    if let Some((connector, tool)) = word.split_once('.') {
        let begins = connector.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        if begins
            && connector.chars().all(rest)
            && tool.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        {
            return Some(Effect::Connector(connector.to_owned()));
        }
    }
    (!word.is_empty()).then(|| Effect::Tool(word.to_owned()))
}

#[cfg(test)]
mod tests;
