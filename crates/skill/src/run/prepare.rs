//! Preparation of a run: inputs become variables, data skills are inlined, targets are ordered.

use std::sync::Arc;

use indexmap::IndexSet;

use super::inlining::{self, InlinedSkill};
use super::library::SkillLibrary;
use super::object::SkillObject;
use super::order::target_order;
use super::run_error::RunError;
use super::value::SkillValue;
use crate::syntax::tree::SkillTree;

/// A skill that can run.
#[derive(Clone, Debug)]
pub struct PreparedSkill {
    pub tree: Arc<SkillTree>,
    /// Indexes of the targets that run, in order.
    pub order: Vec<usize>,
    /// Inputs and defaults of the declared variables.
    pub variables: Vec<(Arc<str>, SkillValue)>,
    /// The data skills whose text was put in, each once.
    pub inlined: Vec<InlinedSkill>,
}

impl PreparedSkill {
    /// Makes a skill ready to run. The caller has checked its approval and its lint errors.
    pub async fn new<L: SkillLibrary + ?Sized>(
        library: &L,
        tree: Arc<SkillTree>,
        inputs: &SkillObject,
    ) -> Result<Self, RunError> {
        check_shape(&tree)?;
        let variables = resolve_variables(library, &tree, inputs).await?;
        let (tree, inlined) = inlining::inline_data_skills(library, tree).await?;
        let order = if tree.targets.is_empty() { Vec::new() } else { target_order(&tree)? };
        Ok(Self { tree, order, variables, inlined })
    }

    pub fn target_names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(|index| self.tree.targets[*index].name.as_str())
    }
}

fn check_shape(tree: &SkillTree) -> Result<(), RunError> {
    if !tree.errors.is_empty() {
        let errors: Vec<String> = tree.errors.iter().map(ToString::to_string).collect();
        return Err(RunError::plain(format!("Skill parse errors:\n- {}", errors.join("\n- "))));
    }
    if tree.targets.is_empty() && tree.template.is_none() {
        return Err(RunError::plain("the skill has no target and no template"));
    }
    if !tree.targets.is_empty() && tree.entry.is_none() {
        return Err(RunError::plain("the skill has no entry target (`default:` is missing)"));
    }
    Ok(())
}

/// An input of the caller comes first, then what the library knows, then the fallback, then the default. Inputs that the
/// skill does not declare are dropped.
async fn resolve_variables<L: SkillLibrary + ?Sized>(
    library: &L,
    tree: &SkillTree,
    inputs: &SkillObject,
) -> Result<Vec<(Arc<str>, SkillValue)>, RunError> {
    let header = &tree.header;
    let mut resolved = SkillObject::default();
    let required = header.requires.iter().map(|requirement| &requirement.target);
    for name in header.vars.iter().map(|var| &var.name).chain(required) {
        if let Some(value) = inputs.get(name) {
            resolved.set(name.as_str(), value.clone());
        }
    }
    for requirement in &header.requires {
        if resolved.get(&requirement.target).is_none() {
            let known = library.known_value(requirement).await;
            if let Some(text) = known.or_else(|| requirement.fallback.clone()) {
                resolved.set(requirement.target.as_str(), text);
            }
        }
    }
    let mut missing: IndexSet<&str> = IndexSet::new();
    for var in &header.vars {
        if resolved.get(&var.name).is_none() {
            match &var.default {
                Some(default) => resolved.set(var.name.as_str(), default.as_str()),
                None => drop(missing.insert(&var.name)),
            }
        }
    }
    for requirement in &header.requires {
        let target = requirement.target.as_str();
        if resolved.get(target).is_none() {
            missing.insert(target);
        }
    }
    if missing.is_empty() {
        Ok(resolved.iter().map(|(name, value)| (Arc::clone(name), value.clone())).collect())
    } else {
        Err(RunError::plain(format!(
            "Missing required variables: {}",
            missing.into_iter().collect::<Vec<_>>().join(", ")
        )))
    }
}
