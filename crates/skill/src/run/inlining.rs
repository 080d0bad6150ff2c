//! Data skills: `inline(skill="X")` is replaced by the texts that the data skill X emits.
//!
//! Without a binding each text becomes an `emit`, with one they become the value of the variable. References in the
//! texts are resolved in the skill that inlines them. An `inline` of a missing skill, or of one that is not a data
//! skill, stays in the tree and fails when it runs.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::library::SkillLibrary;
use super::limits::{RunLimits, too_large};
use super::order::target_order;
use super::run_error::{ErrorClass, RunError};
use crate::approval::ApprovalVerdict;
use crate::content_hash::ContentHash;
use crate::syntax::SkillType;
use crate::syntax::tree::{EmitOp, InlineOp, OpKind, SetOp, SkillOp, SkillTree, SourceRange, TextTemplate};

/// How deep data skills may inline data skills.
const DEEPEST: usize = 64;

/// A text that is put in costs this much beside its bytes.
const TEXT_WEIGHT: usize = 128;

/// A data skill whose text was put into another skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlinedSkill {
    pub name: String,
    pub version: String,
    pub content_hash: String,
}

/// The data skills that were read. `None` stands for a skill that is no data skill.
type DataSkills = HashMap<String, Option<Arc<DataSkill>>>;

/// The texts that a data skill emits. Every place that inlines it shares them.
#[derive(Default)]
struct DataSkill {
    texts: Vec<TextTemplate>,
    weight: usize,
    /// The texts in one, for places that bind them to a variable.
    joined: OnceLock<TextTemplate>,
}

impl DataSkill {
    fn add(&mut self, text: TextTemplate) {
        self.weight += text_weight(&text);
        self.texts.push(text);
    }

    fn joined(&self) -> TextTemplate {
        let join = || {
            let texts: Vec<&str> = self.texts.iter().map(TextTemplate::text).collect();
            TextTemplate::parse(texts.join("\n"))
        };
        self.joined.get_or_init(join).clone()
    }
}

fn text_weight(text: &TextTemplate) -> usize {
    TEXT_WEIGHT + text.text().len()
}

/// Bytes of all texts that were put in, wherever that was. Data skills that inline each other several times multiply
/// their texts, so they are counted before they are put in.
#[derive(Default)]
struct InlinedBytes(usize);

impl InlinedBytes {
    fn take(&mut self, bytes: usize) -> Result<(), RunError> {
        let limit = RunLimits::default().value;
        self.0 = self.0.saturating_add(bytes);
        if self.0 > limit { Err(too_large("the text of all inlined data skills", limit)) } else { Ok(()) }
    }
}

/// Replaces the data skills of a tree, and returns what was put in.
pub async fn inline_data_skills<L: SkillLibrary + ?Sized>(
    library: &L,
    tree: Arc<SkillTree>,
) -> Result<(Arc<SkillTree>, Vec<InlinedSkill>), RunError> {
    if inlined_names(&tree).is_empty() {
        return Ok((tree, Vec::new()));
    }
    let mut reader = DataSkillReader {
        library,
        skills: DataSkills::new(),
        chain: Vec::new(),
        inlined: Vec::new(),
        bytes: InlinedBytes::default(),
    };
    reader.read_inlined(&tree).await?;
    if reader.inlined.is_empty() {
        return Ok((tree, Vec::new()));
    }
    let mut rewritten = Arc::unwrap_or_clone(tree);
    for target in &mut rewritten.targets {
        replace(&mut target.ops, &reader.skills, &mut reader.bytes)?;
        if let Some(block) = &mut target.error_block {
            replace(block, &reader.skills, &mut reader.bytes)?;
        }
    }
    Ok((Arc::new(rewritten), reader.inlined))
}

struct DataSkillReader<'h, L: ?Sized> {
    library: &'h L,
    skills: DataSkills,
    /// The skills that are being read, from the outermost one.
    chain: Vec<String>,
    inlined: Vec<InlinedSkill>,
    bytes: InlinedBytes,
}

impl<L: SkillLibrary + ?Sized> DataSkillReader<'_, L> {
    /// Reads every data skill that a tree names, and those that these name.
    fn read_inlined<'a>(
        &'a mut self,
        tree: &'a SkillTree,
    ) -> Pin<Box<dyn Future<Output = Result<(), RunError>> + Send + 'a>> {
        Box::pin(async move {
            self.chain.push(tree.header.name.clone().unwrap_or_else(|| "(unnamed)".to_owned()));
            if self.chain.len() > DEEPEST {
                return Err(RunError::plain(format!("data skills inline each other deeper than {DEEPEST}")));
            }
            for name in inlined_names(tree) {
                if self.chain.contains(&name) {
                    self.chain.push(name);
                    return Err(RunError::plain(format!(
                        "cycle detected: skills inline each other: {}",
                        self.chain.join(" → ")
                    )));
                }
                if !self.skills.contains_key(&name) {
                    let skill = self.read(&name).await?;
                    self.skills.insert(name, skill);
                }
            }
            self.chain.pop();
            Ok(())
        })
    }

    async fn read(&mut self, name: &str) -> Result<Option<Arc<DataSkill>>, RunError> {
        let Some(stored) = self.library.stored_skill(name).await? else { return Ok(None) };
        let tree = SkillTree::parse(&stored.source);
        if tree.header.skill_type != SkillType::Data {
            return Ok(None);
        }
        if let ApprovalVerdict::Refused(refusal) = self.library.approval_verdict(&stored.source) {
            return Err(rejected(name, &refusal.to_string()));
        }
        let hash = ContentHash::of(&stored.source);
        self.inlined.push(InlinedSkill {
            name: name.to_owned(),
            version: hash.version().to_owned(),
            content_hash: hash.to_string(),
        });
        self.read_inlined(&tree).await?;
        let mut skill = DataSkill::default();
        for index in target_order(&tree)? {
            for op in &tree.targets[index].ops {
                match &op.kind {
                    OpKind::Emit(emit) => {
                        self.bytes.take(text_weight(&emit.text))?;
                        skill.add(emit.text.clone().at(None));
                    }
                    OpKind::Inline(op) if op.binding.variable.is_none() => {
                        let Some(Some(inner)) = self.skills.get(&*op.skill) else { continue };
                        self.bytes.take(inner.weight)?;
                        inner.texts.iter().for_each(|text| skill.add(text.clone()));
                    }
                    _ => {}
                }
            }
        }
        Ok(Some(Arc::new(skill)))
    }
}

/// The error for a skill that the approval gate refuses.
pub fn rejected(name: &str, reason: &str) -> RunError {
    RunError::new(ErrorClass::ApprovalRejected, format!("Approval rejected for skill '{name}': {reason}"))
}

/// The names in `inline` operations, in their order, each once.
fn inlined_names(tree: &SkillTree) -> Vec<String> {
    let (mut names, mut seen) = (Vec::new(), HashSet::new());
    for target in &tree.targets {
        collect(&target.ops, &mut names, &mut seen);
        collect(target.error_block.as_deref().unwrap_or_default(), &mut names, &mut seen);
    }
    names
}

fn collect<'t>(ops: &'t [SkillOp], names: &mut Vec<String>, seen: &mut HashSet<&'t str>) {
    for op in ops {
        if let OpKind::Inline(inline) = &op.kind
            && seen.insert(&inline.skill)
        {
            names.push(inline.skill.to_string());
        }
        op.blocks().for_each(|block| collect(block, names, seen));
    }
}

fn replace(ops: &mut Vec<SkillOp>, skills: &DataSkills, bytes: &mut InlinedBytes) -> Result<(), RunError> {
    let old = std::mem::take(ops);
    for mut op in old {
        match &mut op.kind {
            OpKind::Inline(inline) => {
                if let Some(Some(skill)) = skills.get(&*inline.skill) {
                    bytes.take(skill.weight)?;
                    put_in(ops, inline, op.line, skill);
                    continue;
                }
            }
            OpKind::Foreach(foreach) => replace(&mut foreach.body, skills, bytes)?,
            OpKind::If(choice) => {
                for branch in &mut choice.branches {
                    replace(&mut branch.body, skills, bytes)?;
                }
                if let Some(otherwise) = &mut choice.otherwise {
                    replace(otherwise, skills, bytes)?;
                }
            }
            _ => {}
        }
        ops.push(op);
    }
    Ok(())
}

/// Adds the operations that stand for a data skill. They have no text in the source.
fn put_in(ops: &mut Vec<SkillOp>, inline: &InlineOp, line: usize, skill: &DataSkill) {
    let op = |kind| SkillOp { kind, line, range: SourceRange::default() };
    match &inline.binding.variable {
        Some(variable) => {
            ops.push(op(OpKind::Set(SetOp { variable: variable.clone(), value: skill.joined() })));
        }
        None => {
            let emit = |text: &TextTemplate| EmitOp { text: text.clone(), approved: None };
            ops.extend(skill.texts.iter().map(|text| op(OpKind::Emit(emit(text)))));
        }
    }
}
