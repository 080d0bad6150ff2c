//! Lint rules about `exchange`: answers that nothing reads, and questions without a time limit.

use super::walk::every_op_with_errors;
use super::{Check, FindingPlace};
use crate::syntax::tree::OpKind;

pub fn check(check: &mut Check<'_>) {
    let tree = check.tree;
    let is_bounded = tree.header.timeout.is_some() || tree.header.deadline.is_some();
    let mut found = Vec::new();
    every_op_with_errors(tree, &mut |target, op, _| {
        let OpKind::Exchange(exchange) = &op.kind else { return };
        let place = FindingPlace::op(&target.name, op);
        if exchange.binding.variable.is_none() {
            found.push(("exchange-unbound", place, "the answer of the agent is not bound to a variable"));
        }
        if !is_bounded && exchange.timeout.is_none() {
            found.push(("exchange-unbounded", place, "this question has no time limit of its own"));
        }
    });
    for (rule, place, message) in found {
        check.report(rule, place, message.to_owned());
    }
}
