//! Lint rules about `$append`: its variable must be set before, in a visible block, and to a list or a text.

use foldhash::HashMap;

use super::results::VarOrigin;
use super::walk::{every_op, has_dollar_bracket};
use super::{Check, FindingPlace};
use crate::syntax::blanks::trim;
use crate::syntax::tree::{FilterName, OpKind, SkillOp, SkillTarget, SkillTree, TextPart};

/// Number of the block that is the body of a target itself.
const BODY: usize = 0;

pub fn check(check: &mut Check<'_>) {
    let tree = check.tree;
    let defaults: HashMap<&str, &str> = var_defaults(tree).collect();
    let mut literals = defaults.clone();
    let origins = check.origins();
    for target in &tree.targets {
        visibility(check, target);
        let own = set_literals(target);
        // Variables that earlier targets set are known in this one too.
        literals.extend(&own);
        every_op(&target.ops, &mut |op| {
            let OpKind::Append(append) = &op.kind else { return };
            let place = FindingPlace::op(&target.name, op);
            let variable = &*append.variable;
            if literals.get(variable).is_some_and(|literal| is_not_text(literal)) {
                let message = format!("'{variable}' is set to a value that is neither a list nor a text");
                check.report("append-to-non-list", place, message);
            }
            let literal = own.get(variable).or_else(|| defaults.get(variable));
            let is_text = literal.is_some_and(|literal| !is_list(literal) && !is_not_text(literal));
            if is_text && appends_tool_result(op, &origins) {
                let message = format!("the result of a tool is appended to the text '{variable}'");
                check.report("append-structured-to-string", place, message);
            }
        });
    }
}

fn var_defaults(tree: &SkillTree) -> impl Iterator<Item = (&str, &str)> {
    tree.header.vars.iter().filter_map(|var| Some((var.name.as_str(), var.default.as_deref()?)))
}

/// The variables that a target sets to a value without references.
fn set_literals(target: &SkillTarget) -> HashMap<&str, &str> {
    let mut found = HashMap::default();
    every_op(&target.ops, &mut |op| {
        if let OpKind::Set(set) = &op.kind
            && !has_dollar_bracket(set.value.text())
        {
            found.insert(&*set.variable, set.value.text());
        }
    });
    found
}

fn is_list(literal: &str) -> bool {
    let literal = trim(literal);
    literal.starts_with('[') && literal.ends_with(']')
}

/// Whether a literal is a number, a boolean, null or an object.
fn is_not_text(literal: &str) -> bool {
    let literal = trim(literal);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = literal.strip_prefix('-').unwrap_or(literal);
    let is_number = match unsigned.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(unsigned),
    };
    is_number
        || matches!(literal, "true" | "false" | "null")
        || (literal.starts_with('{') && literal.ends_with('}'))
}

/// Whether the value is one reference to the result of a tool, without a field and without the filter `json`.
fn appends_tool_result(op: &SkillOp, origins: &HashMap<&str, VarOrigin<'_>>) -> bool {
    let OpKind::Append(append) = &op.kind else { return false };
    let blank = |part: &TextPart<'_>| matches!(part, TextPart::Literal(text) if trim(text).is_empty());
    let mut parts = append.value.parts().filter(|part| !blank(part));
    let (Some(TextPart::Reference(reference)), None) = (parts.next(), parts.next()) else { return false };
    let is_whole = !reference.name.contains('.');
    let is_json = reference.filters.iter().any(|call| call.filter == FilterName::Json);
    is_whole && !is_json && matches!(origins.get(&*reference.name), Some(VarOrigin::Tool(_)))
}

/// Whether a `$set` of the variable is visible at each `$append`.
fn visibility(check: &mut Check<'_>, target: &SkillTarget) {
    let mut walk = Scopes::default();
    walk.read(&target.ops, &mut vec![(BODY, false)]);
    walk.sets.values_mut().for_each(|blocks| blocks.sort_unstable());
    for AppendUse { op, variable, path } in walk.appends {
        let places = walk.sets.get(variable);
        let is_set_in =
            |block: &(usize, bool)| places.is_some_and(|places| places.binary_search(&block.0).is_ok());
        let Some((own, outer)) = path.split_last() else { continue };
        let is_set_outside = outer.iter().any(is_set_in);
        let is_set_here = is_set_in(own);
        let place = FindingPlace::op(&target.name, op);
        if !is_set_outside && !is_set_here && !check.names.inputs.contains(variable) {
            let message = match places {
                None => format!("'{variable}' is not set before `$append`"),
                Some(_) => format!("'{variable}' is set in another block only, which is not visible here"),
            };
            check.report("uninitialized-append", place, message);
        }
        if is_set_here && !is_set_outside && path.iter().any(|(_, is_loop)| *is_loop) {
            let message =
                format!("'{variable}' is set again in each round of the loop, so earlier values are lost");
            check.report("foreach-local-accumulator-target", place, message);
        }
    }
}

/// The blocks of a target in which variables are set and appended to.
#[derive(Default)]
struct Scopes<'t> {
    blocks: usize,
    /// The blocks that set each variable.
    sets: HashMap<&'t str, Vec<usize>>,
    appends: Vec<AppendUse<'t>>,
}

struct AppendUse<'t> {
    op: &'t SkillOp,
    variable: &'t str,
    /// The blocks around it, the innermost last, and whether each is a loop.
    path: Vec<(usize, bool)>,
}

impl<'t> Scopes<'t> {
    fn read(&mut self, ops: &'t [SkillOp], path: &mut Vec<(usize, bool)>) {
        for op in ops {
            match &op.kind {
                OpKind::Set(set) => {
                    let block = path.last().map_or(BODY, |(block, _)| *block);
                    self.sets.entry(&set.variable).or_default().push(block);
                }
                OpKind::Append(append) => {
                    self.appends.push(AppendUse { op, variable: &append.variable, path: path.clone() });
                }
                _ => {}
            }
            let is_loop = matches!(op.kind, OpKind::Foreach(_));
            for block in op.blocks() {
                self.blocks += 1;
                path.push((self.blocks, is_loop));
                self.read(block, path);
                path.pop();
            }
        }
    }
}
