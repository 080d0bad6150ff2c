//! Substitution of declared variables in a compiled skill.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::run::{PreparedSkill, RunError, RunLimits, SkillValue, apply_filter, too_large};
use crate::syntax::tree::FilterName;

/// A reference with at most one filter, in both forms. The classes are JavaScript's `\s` and `\w`.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let blank = r"[\t-\r \u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}]";
    let inside = |bracket: &str| {
        let class = format!(
            r"[^|{bracket}\t-\r \u{{a0}}\u{{1680}}\u{{2000}}-\u{{200a}}\u{{2028}}\u{{2029}}\u{{202f}}\u{{205f}}\u{{3000}}\u{{feff}}]"
        );
        format!(
            r#"({class}+){blank}*(?:\|{blank}*([A-Za-z_][A-Za-z0-9_]*)(?:{blank}*:{blank}*"([^"]*)")?)?{blank}*"#
        )
    };
    let pattern = format!(r"\$(?:\({}\)|\{{{}\}})", inside(")"), inside("}"));
    Regex::new(&pattern).expect("the pattern is valid, as every rendering shows")
});

/// The values of declared variables.
pub struct DeclaredValues<'s> {
    skill: &'s PreparedSkill,
    limit: usize,
}

impl<'s> DeclaredValues<'s> {
    pub fn of(skill: &'s PreparedSkill) -> Self {
        Self { skill, limit: RunLimits::default().value }
    }

    pub fn all(&self) -> impl Iterator<Item = (&'s str, &'s SkillValue)> {
        self.skill.variables.iter().map(|(name, value)| (&**name, value))
    }

    /// The text with the values of declared variables. A reference with several filters stays, and so does one whose
    /// argument holds a reference, because only a run can resolve it.
    pub fn text(&self, text: &str) -> Result<String, RunError> {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for found in REFERENCE.captures_iter(text) {
            let whole = found.get_match();
            out.push_str(&text[at..whole.start()]);
            at = whole.end();
            match self.value(&found)? {
                Some(value) => out.push_str(&value),
                None => out.push_str(whole.as_str()),
            }
            if out.len() > self.limit {
                return Err(too_large("the rendered skill", self.limit));
            }
        }
        out.push_str(&text[at..]);
        Ok(out)
    }

    fn value(&self, found: &Captures<'_>) -> Result<Option<String>, RunError> {
        let group =
            |index: usize| found.get(index).or_else(|| found.get(index + 3)).map(|group| group.as_str());
        let name = group(1).unwrap_or_default();
        let Some((_, value)) = self.all().find(|(known, _)| *known == name) else { return Ok(None) };
        match (group(2).map(FilterName::named), group(3)) {
            (None | Some(FilterName::Fallback), _) => Ok(Some(value.to_js_string().into_owned())),
            (Some(_), Some(argument)) if argument.contains('$') => Ok(None),
            (Some(filter), argument) => {
                let filtered = apply_filter(&filter, argument, value, self.limit)?;
                Ok(Some(filtered.rendered().into_owned()))
            }
        }
    }
}
