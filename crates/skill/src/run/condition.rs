//! Conditions of `if` and `elif`: whether one holds.

use std::borrow::Cow;

use super::json_text;
use super::number::to_number;
use super::run_error::{ErrorClass, RunError};
use super::substitute::Scope;
use super::utf16::utf16_preview;
use super::value::SkillValue;
use crate::syntax::tree::{Comparison, Condition, FilterName, Operand, Reference};

/// The beginning of the text that an operation returns in a mechanical run. `in` treats such a text as a list of one
/// element.
const PREVIEW: &str = "[mechanical:";

impl Scope<'_> {
    pub fn holds(&self, condition: &Condition) -> Result<bool, RunError> {
        match condition {
            Condition::Or(left, right) => Ok(self.holds(left)? || self.holds(right)?),
            Condition::And(left, right) => Ok(self.holds(left)? && self.holds(right)?),
            Condition::Not(inner) => Ok(!self.holds(inner)?),
            Condition::Truthy(reference) => self.is_truthy(reference),
            Condition::Compare { left, comparison, right } => self.compare(left, *comparison, right),
            Condition::In { left, is_negated, right } => {
                Ok(self.is_member(left, right)?.is_some_and(|found| found != *is_negated))
            }
        }
    }

    /// Whether a value counts as true. Without filters its type decides, with filters whether their result is not
    /// empty.
    fn is_truthy(&self, reference: &Reference) -> Result<bool, RunError> {
        let Some(value) = self.variables.resolve(reference) else { return Ok(false) };
        if reference.filters.is_empty() {
            return Ok(value.is_truthy());
        }
        Ok(!self.filtered(reference, value)?.rendered().is_empty())
    }

    /// Applies the filters other than `fallback`.
    fn filtered<'v>(
        &self,
        reference: &Reference,
        value: Cow<'v, SkillValue>,
    ) -> Result<Cow<'v, SkillValue>, RunError> {
        self.check_filters(reference)?;
        let mut value = value;
        for call in reference.filters.iter().filter(|call| call.filter != FilterName::Fallback) {
            let argument = self.argument(call)?;
            value = Cow::Owned(self.filtered_by(call, argument.as_ref(), &value)?);
        }
        Ok(value)
    }

    /// One side of a comparison. Here `fallback` replaces only a missing value.
    fn operand(&self, reference: &Reference) -> Result<Cow<'_, SkillValue>, RunError> {
        self.check_filters(reference)?;
        let mut value = self.variables.resolve(reference);
        for call in &reference.filters {
            let argument = self.argument(call)?;
            if call.filter == FilterName::Fallback {
                value =
                    value.or_else(|| Some(Cow::Owned(argument.map_or_else(|| "".into(), SkillValue::Text))));
                continue;
            }
            let found = value.unwrap_or_else(|| Cow::Owned("".into()));
            value = Some(Cow::Owned(self.filtered_by(call, argument.as_ref(), &found)?));
        }
        let value = value.unwrap_or_else(|| Cow::Owned("".into()));
        self.read(value.weight())?;
        Ok(value)
    }

    fn compare(&self, left: &Reference, comparison: Comparison, right: &Operand) -> Result<bool, RunError> {
        let left_value = self.operand(left)?;
        let left_text = left_value.rendered();
        let right_value;
        let right_text = match right {
            Operand::Literal(text) => Cow::Borrowed(&**text),
            Operand::Reference(reference) => {
                right_value = self.operand(reference)?;
                right_value.rendered()
            }
        };
        match comparison {
            Comparison::Equal => return Ok(left_text == right_text),
            Comparison::NotEqual => return Ok(left_text != right_text),
            _ => {}
        }
        let (left_number, right_number) = (to_number(&left_text), to_number(&right_text));
        if !left_number.is_finite() || !right_number.is_finite() {
            return Err(not_numbers(left, comparison, &left_text, &right_text));
        }
        Ok(match comparison {
            Comparison::Less => left_number < right_number,
            Comparison::LessOrEqual => left_number <= right_number,
            Comparison::Greater => left_number > right_number,
            _ => left_number >= right_number,
        })
    }

    /// Whether the left value is in the list on the right. `None` if there is no left value.
    fn is_member(&self, left: &Reference, right: &Reference) -> Result<Option<bool>, RunError> {
        let Some(list) = self.variables.resolve(right) else {
            return Err(RunError::plain(format!("`in` needs a list: $({}) has no value", right.name)));
        };
        self.read(list.weight())?;
        let list = match &*list {
            SkillValue::Text(text) if text.starts_with(PREVIEW) => SkillValue::list([list.into_owned()]),
            SkillValue::Text(text) => json_text::parse_list(text).unwrap_or_else(|| list.into_owned()),
            SkillValue::Placeholder(_) => SkillValue::list([list.into_owned()]),
            _ => list.into_owned(),
        };
        let SkillValue::List(list) = list else {
            return Err(RunError::plain(format!(
                "`in` needs a list: $({}) is {}",
                right.name,
                list.type_name()
            )));
        };
        let Some(value) = self.variables.resolve(left) else { return Ok(None) };
        let value = self.filtered(left, value)?;
        let wanted = value.rendered();
        Ok(Some(list.with(|items| items.iter().any(|item| item.rendered() == wanted))))
    }
}

fn not_numbers(left: &Reference, comparison: Comparison, left_text: &str, right_text: &str) -> RunError {
    let message = format!(
        "Numeric comparison '{operator}' needs numbers, not '{}' {operator} '{}' (reference $({}))",
        utf16_preview(left_text, 40),
        utf16_preview(right_text, 40),
        left.name,
        operator = comparison.word(),
    );
    RunError::new(ErrorClass::TypeMismatch, message)
        .of("if")
        .with_remedy("Compare numbers, or use `|length` for the size of a list or a text")
}
