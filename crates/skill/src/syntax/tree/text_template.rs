//! Texts with references: `Dear ${NAME|trim}, …` with every reference found, and its name and filters split.
//!
//! A reference is `$(REF|filters)` or `${REF|filters}`. Text that only resembles one stays text. `{{secret.NAME}}` is a
//! secret marker, and nothing inside it is a reference.

mod scan;

use std::sync::Arc;

use crate::syntax::source_range::SourceRange;

/// A text with its references. A clone shares both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextTemplate {
    text: Arc<str>,
    /// Where the text is interrupted, from left to right.
    breaks: Arc<[TextBreak]>,
    /// Where the text begins in the source, if it stands there as it is: without escapes, and not dedented.
    origin: Option<usize>,
}

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPart<'t> {
    Literal(&'t str),
    Reference(&'t Reference),
    /// A secret marker. Outside of tool calls and commands it is ordinary text.
    Secret(&'t SecretMarker, &'t str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TextBreak {
    start: usize,
    end: usize,
    what: BreakKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum BreakKind {
    Reference(Reference),
    Secret(SecretMarker),
    /// A dollar sign that escapes the next one, in unsafe commands.
    Escape,
}

/// A reference to a variable or a part of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub form: ReferenceForm,
    /// The whole name. A variable with exactly this name comes first, dots included.
    pub name: Box<str>,
    /// The parts of the name between dots, if it has any: the variable, then the steps into its value.
    pub path: Vec<Box<str>>,
    pub filters: Vec<FilterCall>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceForm {
    /// `$(NAME)`, deprecated.
    Parentheses,
    /// `${NAME}`
    Braces,
}

/// One filter of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterCall {
    pub filter: FilterName,
    /// The text in quotes after the colon. References in it are resolved first.
    pub argument: Option<TextTemplate>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterName {
    Url,
    Shell,
    Json,
    Trim,
    Length,
    Fallback,
    Isodate,
    Contains,
    Head,
    Tail,
    Lines,
    Pluck,
    /// An unknown name. Using it is an error.
    Unknown(Box<str>),
}

/// A marker `{{secret.NAME}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretMarker {
    /// `None` if the part after `secret.` is not a plain name.
    pub name: Option<Box<str>>,
}

impl Reference {
    /// A reference without filters.
    pub fn named(form: ReferenceForm, name: &str) -> Self {
        let path = if name.contains('.') { name.split('.').map(Box::from).collect() } else { Vec::new() };
        Self { form, name: name.into(), path, filters: Vec::new() }
    }

    /// The variable at the beginning of the name.
    pub fn root(&self) -> &str {
        self.path.first().unwrap_or(&self.name)
    }

    /// The steps into the value of the variable.
    pub fn steps(&self) -> &[Box<str>] {
        self.path.get(1..).unwrap_or_default()
    }

    pub fn has_fallback(&self) -> bool {
        self.filters.iter().any(|call| call.filter == FilterName::Fallback)
    }
}

impl SecretMarker {
    /// Every marker of a text with its text, also those that stand inside something that looks like a reference.
    pub fn in_text(text: &str) -> Vec<(Self, &str)> {
        scan::secret_markers(text)
    }
}

impl FilterName {
    /// Every filter with its name.
    pub const KNOWN: [(&'static str, Self); 12] = [
        ("url", Self::Url),
        ("shell", Self::Shell),
        ("json", Self::Json),
        ("trim", Self::Trim),
        ("length", Self::Length),
        ("fallback", Self::Fallback),
        ("isodate", Self::Isodate),
        ("contains", Self::Contains),
        ("head", Self::Head),
        ("tail", Self::Tail),
        ("lines", Self::Lines),
        ("pluck", Self::Pluck),
    ];

    pub fn named(word: &str) -> Self {
        let known = Self::KNOWN.iter().find(|(name, _)| *name == word);
        known.map_or_else(|| Self::Unknown(word.into()), |(_, filter)| filter.clone())
    }

    /// The name as it is written.
    pub fn word(&self) -> &str {
        match self {
            Self::Unknown(word) => word,
            known => Self::KNOWN.iter().find(|(_, filter)| filter == known).map_or("", |(name, _)| name),
        }
    }
}

impl TextTemplate {
    /// Finds the references and secret markers of a text.
    pub fn parse(text: impl Into<Arc<str>>) -> Self {
        Self::scanned(text.into(), false)
    }

    /// The same for an unsafe command, in which `$$(` and `$${` are the literal texts `$(` and `${`.
    pub fn parse_unsafe(text: impl Into<Arc<str>>) -> Self {
        Self::scanned(text.into(), true)
    }

    fn scanned(text: Arc<str>, is_unsafe: bool) -> Self {
        let breaks = scan::breaks(&text, is_unsafe);
        // Most texts have no break, and an empty slice needs no memory.
        let breaks = if breaks.is_empty() { Arc::default() } else { breaks.into() };
        Self { text, breaks, origin: None }
    }

    /// A text that stands at this place of the source as it is.
    pub fn at(mut self, origin: Option<usize>) -> Self {
        self.origin = origin;
        self
    }

    /// The text as written, with its references.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text, if it holds neither references nor secret markers nor escapes. Its value is always the same.
    pub fn constant(&self) -> Option<&str> {
        self.breaks.is_empty().then_some(&*self.text)
    }

    /// The pieces from left to right. No literal is empty.
    pub fn parts(&self) -> impl Iterator<Item = TextPart<'_>> {
        let mut breaks = self.breaks.iter();
        let (mut at, mut pending, mut ended) = (0, None, false);
        std::iter::from_fn(move || {
            loop {
                if let Some(part) = pending.take() {
                    return Some(part);
                }
                if ended {
                    return None;
                }
                let literal = match breaks.next() {
                    Some(found) => {
                        let before = &self.text[at..found.start];
                        at = found.end;
                        pending = match &found.what {
                            BreakKind::Reference(reference) => Some(TextPart::Reference(reference)),
                            BreakKind::Secret(secret) => {
                                Some(TextPart::Secret(secret, &self.text[found.start..found.end]))
                            }
                            BreakKind::Escape => None,
                        };
                        before
                    }
                    None => {
                        ended = true;
                        &self.text[at..]
                    }
                };
                if !literal.is_empty() {
                    return Some(TextPart::Literal(literal));
                }
            }
        })
    }

    /// The references, without those in arguments of filters.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.located_references().map(|(reference, _)| reference)
    }

    /// The references with their places in the source, where those are known.
    pub fn located_references(&self) -> impl Iterator<Item = (&Reference, Option<SourceRange>)> {
        self.breaks.iter().filter_map(|found| match &found.what {
            BreakKind::Reference(reference) => Some((reference, self.place(found))),
            _ => None,
        })
    }

    /// The secret markers with their places in the source, where those are known.
    pub fn secrets(&self) -> impl Iterator<Item = (&SecretMarker, Option<SourceRange>)> {
        self.breaks.iter().filter_map(|found| match &found.what {
            BreakKind::Secret(secret) => Some((secret, self.place(found))),
            _ => None,
        })
    }

    fn place(&self, found: &TextBreak) -> Option<SourceRange> {
        self.origin.map(|origin| SourceRange::new(origin + found.start, origin + found.end))
    }
}

#[cfg(test)]
mod tests;
