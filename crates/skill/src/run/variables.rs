//! Variables of a running skill.
//!
//! Variables are kept in the order in which they were first set. A loop removes the variables that it added, and those
//! are always the last ones.

use std::borrow::Cow;
use std::sync::Arc;

use indexmap::IndexMap;

use super::limits::too_large;
use super::run_error::RunError;
use super::value::SkillValue;
use crate::syntax::tree::Reference;

/// Variables by name. A variable can exist without a value.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    values: IndexMap<Arc<str>, Option<SkillValue>, foldhash::fast::RandomState>,
    /// Bytes of all values, roughly.
    weight: usize,
}

impl Variables {
    pub fn set(&mut self, name: &str, value: Option<SkillValue>) {
        self.weight += value.as_ref().map_or(0, SkillValue::weight);
        let old = match self.values.get_mut(name) {
            Some(place) => std::mem::replace(place, value),
            None => {
                self.values.insert(name.into(), value);
                return;
            }
        };
        self.weight = self.weight.saturating_sub(old.map_or(0, |old| old.weight()));
    }

    /// Bytes of all values, roughly.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Refuses variables that together are too large.
    pub fn check(&self, limit: usize) -> Result<(), RunError> {
        if self.weight > limit { Err(too_large("the set of all variables", limit)) } else { Ok(()) }
    }

    /// The value under exactly this name.
    pub fn get(&self, name: &str) -> Option<&SkillValue> {
        self.values.get(name)?.as_ref()
    }

    /// Takes the value out, for a change that ends with `set`. The variable keeps its place.
    pub fn take(&mut self, name: &str) -> Option<SkillValue> {
        let value = self.values.get_mut(name)?.take();
        self.weight = self.weight.saturating_sub(value.as_ref().map_or(0, SkillValue::weight));
        value
    }

    /// Whether there is a variable of this name, even one that is set to nothing.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The value at a path: the variable of that whole name, or else a step by step search from its root.
    pub fn resolve(&self, reference: &Reference) -> Option<Cow<'_, SkillValue>> {
        if let Some(value) = self.values.get(&*reference.name) {
            return value.as_ref().map(Cow::Borrowed);
        }
        if reference.path.is_empty() {
            return None;
        }
        let mut value = Cow::Borrowed(self.get(reference.root())?);
        for step in reference.steps() {
            value = Cow::Owned(value.field(step)?);
        }
        Some(value)
    }

    /// Counts what was appended to a list that a variable holds.
    pub fn grow(&mut self, weight: usize) {
        self.weight += weight;
    }

    /// Counts values that a loop keeps beside the variables. They must be released.
    pub fn hold(&mut self, weight: usize, limit: usize) -> Result<(), RunError> {
        if self.weight.saturating_add(weight) > limit {
            return Err(too_large("the set of all variables and items of loops", limit));
        }
        self.weight += weight;
        Ok(())
    }

    /// Ends what [`Self::hold`] began.
    pub fn release(&mut self, weight: usize) {
        self.weight = self.weight.saturating_sub(weight);
    }

    /// How many variables there are. A loop hands this to [`Self::forget_newer_than`].
    pub fn mark(&self) -> usize {
        self.values.len()
    }

    pub fn forget_newer_than(&mut self, mark: usize) {
        for value in self.values.drain(mark.min(self.values.len())..).filter_map(|(_, value)| value) {
            self.weight = self.weight.saturating_sub(value.weight());
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Option<&SkillValue>)> {
        self.values.iter().map(|(name, value)| (name, value.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::tree::ReferenceForm;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        let mut variables = Variables::default();
        for (name, json) in pairs {
            variables.set(name, Some(SkillValue::from_json(json).unwrap()));
        }
        variables
    }

    fn resolved(variables: &Variables, path: &str) -> Option<String> {
        variables
            .resolve(&Reference::named(ReferenceForm::Braces, path))
            .map(|value| value.rendered().into_owned())
    }

    #[test]
    fn a_whole_name_is_found_before_a_path() {
        let variables = variables(&[("go", "{\"output\":1,\"x\":[{\"y\":\"deep\"}]}"), ("go.output", "2")]);
        assert_eq!(resolved(&variables, "go.output").as_deref(), Some("2"));
        assert_eq!(resolved(&variables, "go.x.0.y").as_deref(), Some("deep"));
        for absent in ["go.output.z", "go.none", "none", "go.x.1", "go.x.0.y.z"] {
            assert_eq!(resolved(&variables, absent), None, "{absent}");
        }
    }

    #[test]
    fn a_loop_forgets_what_it_added_and_keeps_what_it_changed() {
        let mut variables = variables(&[("a", "1")]);
        let mark = variables.mark();
        variables.set("b", Some("x".into()));
        variables.set("a", Some(2.0.into()));
        variables.forget_newer_than(mark);
        assert_eq!((resolved(&variables, "a").as_deref(), variables.has("b")), (Some("2"), false));
    }

    #[test]
    fn the_weight_follows_every_change() {
        let mut variables = variables(&[("a", "\"xxxx\"")]);
        let mark = variables.mark();
        variables.set("b", Some("y".repeat(1000).into()));
        assert!(variables.check(1000).is_err());
        variables.set("b", None);
        assert!(variables.check(1000).is_ok());
        variables.set("b", Some("y".repeat(1000).into()));
        variables.forget_newer_than(mark);
        variables.take("a");
        assert_eq!(variables.weight, 0);
    }
}
