//! Substitution: a template becomes text with the values of variables.
//!
//! It is one pass: references inside a substituted value are not expanded. The result is bounded before it is written.

use std::borrow::Cow;
use std::sync::Arc;

use super::executor::WorkMeter;
use super::filters;
use super::limits::{RunLimits, too_large, too_many_filters};
use super::run_error::RunError;
use super::value::SkillValue;
use super::variables::Variables;
use crate::syntax::tree::{FilterCall, FilterName, Reference, TextPart, TextTemplate};

/// What substitution needs to know: the variables, how long a text may become, and where its work is counted.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub variables: &'a Variables,
    pub limits: &'a RunLimits,
    pub work: &'a WorkMeter,
}

impl Scope<'_> {
    /// The text of a template. Markers of secrets stay as they were written.
    pub fn text(&self, template: &TextTemplate) -> Result<Arc<String>, RunError> {
        if let Some(text) = template.constant() {
            return Ok(Arc::new(text.to_owned()));
        }
        let mut parts = template.parts();
        // The value of a lone reference is shared and not copied.
        if let (Some(TextPart::Reference(reference)), None) = (parts.next(), parts.next()) {
            let text = self.value(reference)?.rendered_text();
            self.bounded(text.len())?;
            self.read(text.len())?;
            return Ok(if text.contains('\0') { Arc::new(text.replace('\0', "")) } else { text });
        }
        self.joined(template, |_, text, out| out.push_str(text)).map(Arc::new)
    }

    /// The text of a template in which each marker of a secret is replaced by what `mask` appends.
    pub fn masked_text(
        &self,
        template: &TextTemplate,
        mut mask: impl FnMut(&str, &mut String),
    ) -> Result<String, RunError> {
        self.joined(template, |name, text, out| match name {
            Some(name) => mask(name, out),
            None => out.push_str(text),
        })
    }

    fn joined(
        &self,
        template: &TextTemplate,
        mut marker: impl FnMut(Option<&str>, &str, &mut String),
    ) -> Result<String, RunError> {
        let mut out = String::with_capacity(template.text().len());
        for part in template.parts() {
            match part {
                TextPart::Literal(text) => self.append(text, &mut out)?,
                TextPart::Secret(secret, text) => marker(secret.name.as_deref(), text, &mut out),
                TextPart::Reference(reference) => {
                    let value = self.value(reference)?;
                    let text = value.rendered();
                    // The masks of secrets contain NUL, so data must not contain it.
                    if text.contains('\0') {
                        self.append(&text.replace('\0', ""), &mut out)?;
                    } else {
                        self.append(&text, &mut out)?;
                    }
                }
            }
        }
        Ok(out)
    }

    fn append(&self, text: &str, out: &mut String) -> Result<(), RunError> {
        self.bounded(out.len() + text.len())?;
        self.read(text.len())?;
        out.push_str(text);
        Ok(())
    }

    pub fn bounded(&self, length: usize) -> Result<(), RunError> {
        if length > self.limits.value { Err(too_large("a text", self.limits.value)) } else { Ok(()) }
    }

    /// Counts what is read. It is an error if one operation reads too much.
    pub fn read(&self, bytes: usize) -> Result<(), RunError> {
        self.work.read(bytes, self.limits.read)
    }

    /// Refuses a reference with too many filters.
    pub fn check_filters(&self, reference: &Reference) -> Result<(), RunError> {
        let limit = self.limits.filters;
        if reference.filters.len() > limit { Err(too_many_filters(&reference.name, limit)) } else { Ok(()) }
    }

    /// Applies a filter other than `fallback`.
    pub fn filtered_by(
        &self,
        call: &FilterCall,
        argument: Option<&Arc<String>>,
        value: &SkillValue,
    ) -> Result<SkillValue, RunError> {
        self.read(value.weight())?;
        filters::apply(&call.filter, argument.map(|text| text.as_str()), value, self.limits.value)
    }

    /// The value of a reference behind its filters.
    pub fn value(&self, reference: &Reference) -> Result<Cow<'_, SkillValue>, RunError> {
        self.check_filters(reference)?;
        let mut value = self.variables.resolve(reference);
        for (index, filter) in reference.filters.iter().enumerate() {
            let argument = self.argument(filter)?;
            if filter.filter == FilterName::Fallback {
                if value.as_deref().is_none_or(SkillValue::is_blank) {
                    value = Some(Cow::Owned(argument.map_or_else(|| "".into(), SkillValue::Text)));
                }
                continue;
            }
            match &value {
                Some(found) => {
                    value = Some(Cow::Owned(self.filtered_by(filter, argument.as_ref(), found)?));
                }
                // A missing value stays missing until a later fallback replaces it.
                None if reference.filters[index + 1..]
                    .iter()
                    .any(|later| later.filter == FilterName::Fallback) => {}
                None => break,
            }
        }
        value.ok_or_else(|| RunError::unresolved(&reference.name))
    }

    pub fn argument(&self, filter: &FilterCall) -> Result<Option<Arc<String>>, RunError> {
        filter.argument.as_ref().map(|argument| self.text(argument)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn substituted(
        template: &str,
        variables: &[(&str, &str)],
        limits: RunLimits,
    ) -> Result<String, RunError> {
        let mut set = Variables::default();
        for (name, json) in variables {
            set.set(name, Some(SkillValue::from_json(json).unwrap()));
        }
        let scope = Scope { variables: &set, limits: &limits, work: &WorkMeter::default() };
        scope.text(&TextTemplate::parse(template)).map(|text| text.to_string())
    }

    fn text(template: &str, variables: &[(&str, &str)]) -> String {
        substituted(template, variables, RunLimits::default()).unwrap()
    }

    #[test]
    fn values_are_rendered_and_not_expanded_again() {
        let variables = [("A", "\"${B}\""), ("B", "[1,{\"k\":null}]"), ("N", "1.0")];
        assert_eq!(text("${A} $(B) ${N} ${B.1.k} $A", &variables), "${B} [1,{\"k\":null}] 1 null $A");
    }

    #[test]
    fn a_missing_value_needs_a_fallback_somewhere_behind_it() {
        assert_eq!(text("${X|length|trim|fallback:\"none\"|length}", &[]), "4");
        assert_eq!(text("${X|fallback:\"${Y}\"}", &[("Y", "7")]), "7");
        assert_eq!(text("${X|fallback}", &[("X", "\" \"")]), "");
        for template in ["${X}", "${X|length}", "${X|fallback:\"${Y}\"}"] {
            let error = substituted(template, &[], RunLimits::default()).unwrap_err();
            assert_eq!(
                (error.class.name(), error.op_kind),
                ("UnresolvedVariableError", Some("?")),
                "{template}"
            );
        }
    }

    #[test]
    fn nul_characters_of_data_are_removed() {
        assert_eq!(text("${A}", &[("A", "\"a\\u0000b\"")]), "ab");
        assert_eq!(text("<${A}>", &[("A", "\"a\\u0000b\"")]), "<ab>");
    }

    #[test]
    fn a_text_that_would_become_too_long_is_refused_before_it_is_written() {
        let limits = RunLimits { value: 10, ..RunLimits::default() };
        assert!(substituted("${A}${A}", &[("A", "\"12345\"")], limits).is_ok());
        let error = substituted("${A}${A}x", &[("A", "\"12345\"")], limits).unwrap_err();
        assert_eq!((error.class.name(), error.message.contains("10 bytes")), ("OpError", true));
        assert!(substituted("${A}", &[("A", "\"12345678901\"")], limits).is_err());
    }
}
