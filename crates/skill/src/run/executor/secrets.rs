//! Secrets: `{{secret.NAME}}` in the text of a tool call or a command becomes a value at the last moment.
//!
//! Markers that the author wrote are masked before references are resolved, and the values are put in just before the
//! call. So a marker inside substituted data stays text, and a refused operation reads no secret.

use std::collections::HashSet;
use std::sync::Arc;

use super::Executor;
use crate::run::host::SecretText;
use crate::run::object::SkillObject;
use crate::run::run_error::RunError;
use crate::run::value::SkillValue;
use crate::syntax::tree::TextTemplate;

/// Encloses the number of a masked secret. Substituted data never contains it.
const MASK: char = '\0';

const REDACTED: &str = "{{secret.REDACTED}}";

/// The secrets that the text of one operation names.
#[derive(Default)]
pub struct Masks {
    names: Vec<Arc<str>>,
}

/// The values of the secrets of one operation.
#[derive(Default)]
pub struct Unmasked {
    values: Vec<SecretText>,
}

impl Masks {
    /// Appends the mask of a secret.
    fn mask(&mut self, name: &str, out: &mut String) {
        let index = self.names.iter().position(|known| **known == *name).unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        });
        out.push(MASK);
        out.push_str(&index.to_string());
        out.push(MASK);
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The text with its markers as they were, for previews.
    pub fn marked(&self, text: &str) -> String {
        replaced(text, |index| self.names.get(index).map(|name| format!("{{{{secret.{name}}}}}")))
    }

    pub fn marked_value(&self, value: &SkillValue) -> SkillValue {
        if self.is_empty() { value.clone() } else { map_texts(value, &|text| self.marked(text)) }
    }
}

impl Unmasked {
    pub fn fill(&self, text: &str) -> String {
        replaced(text, |index| self.values.get(index).map(|value| value.expose().to_owned()))
    }

    pub fn fill_object(&self, object: SkillObject) -> SkillObject {
        if self.values.is_empty() {
            return object;
        }
        object
            .iter()
            .map(|(name, value)| (Arc::clone(name), map_texts(value, &|text| self.fill(text))))
            .collect()
    }

    /// Removes the values from a text that will be kept.
    pub fn redacted(&self, text: String) -> String {
        let values = self.values.iter().map(SecretText::expose).filter(|value| !value.is_empty());
        values
            .fold(text, |text, value| if text.contains(value) { text.replace(value, REDACTED) } else { text })
    }

    pub fn redact(&self, mut error: RunError) -> RunError {
        error.message = self.redacted(error.message);
        error.remedy = error.remedy.map(|remedy| self.redacted(remedy.into_owned()).into());
        error
    }
}

/// Replaces every mask in a text. An unknown mask stays.
fn replaced(text: &str, with: impl Fn(usize) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(MASK) {
        out.push_str(before);
        let found =
            behind.split_once(MASK).and_then(|(index, behind)| Some((with(index.parse().ok()?)?, behind)));
        match found {
            Some((value, behind)) => {
                out.push_str(&value);
                rest = behind;
            }
            None => {
                out.push(MASK);
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    out
}

fn map_texts(value: &SkillValue, change: &dyn Fn(&str) -> String) -> SkillValue {
    match value {
        SkillValue::Text(text) if text.contains(MASK) => change(text).into(),
        SkillValue::List(list) => {
            list.with(|items| SkillValue::list(items.iter().map(|item| map_texts(item, change))))
        }
        SkillValue::Object(object) => {
            let fields = object.iter().map(|(name, value)| (Arc::clone(name), map_texts(value, change)));
            fields.collect::<SkillObject>().into()
        }
        other => other.clone(),
    }
}

impl Executor<'_> {
    /// Refuses secrets that the skill does not declare in `# Requires:`.
    pub(super) fn check_declared<'t>(
        &self,
        templates: impl IntoIterator<Item = &'t TextTemplate>,
    ) -> Result<(), RunError> {
        let markers = templates.into_iter().flat_map(TextTemplate::secrets);
        let mut names = markers.filter_map(|(marker, _)| marker.name.as_deref()).peekable();
        if names.peek().is_none() {
            return Ok(());
        }
        let declared: HashSet<&str> = self.tree.header.secret_requires.iter().map(String::as_str).collect();
        for name in names {
            if !declared.contains(name) {
                return Err(RunError::op_error(format!("the secret '{name}' is not declared"))
                    .with_remedy(format!("Add `# Requires: secret.{name}` to the header")));
            }
        }
        Ok(())
    }

    /// The text of a template with its secrets masked.
    pub(super) fn masked(&self, template: &TextTemplate, masks: &mut Masks) -> Result<Arc<String>, RunError> {
        if template.secrets().next().is_none() {
            return self.scope().text(template);
        }
        self.scope().masked_text(template, |name, out| masks.mask(name, out)).map(Arc::new)
    }

    pub(super) async fn unmask(&self, masks: &Masks) -> Result<Unmasked, RunError> {
        let mut unmasked = Unmasked::default();
        for name in &masks.names {
            unmasked.values.push(self.host.secret(name).await?);
        }
        Ok(unmasked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(names: &[&str]) -> (Masks, String) {
        let mut masks = Masks::default();
        let mut text = String::from("a ");
        for name in names {
            masks.mask(name, &mut text);
            text.push(' ');
        }
        (masks, text)
    }

    #[test]
    fn masks_become_values_or_markers_again() {
        let (masks, text) = masked(&["K", "L", "K"]);
        let secrets = ["one", "two"].map(|value| SecretText::new(value.to_owned()));
        let unmasked = Unmasked { values: secrets.into() };
        assert_eq!(unmasked.fill(&text), "a one two one ");
        assert_eq!(masks.marked(&text), "a {{secret.K}} {{secret.L}} {{secret.K}} ");
        assert_eq!(unmasked.fill("\09\0 \0x\0 \0"), "\09\0 \0x\0 \0");
    }

    #[test]
    fn values_of_secrets_are_removed_from_texts_that_are_kept() {
        let unmasked =
            Unmasked { values: vec![SecretText::new("s3".to_owned()), SecretText::new(String::new())] };
        assert_eq!(unmasked.redacted("x s3 s3y".to_owned()), "x {{secret.REDACTED}} {{secret.REDACTED}}y");
    }
}
