//! Values of skills: JSON values that behave as in JavaScript.
//!
//! A clone of a value is cheap, because texts, lists and objects are shared. Lists are shared in the sense of
//! JavaScript too: an append through one variable is seen through every other one that holds the same list. All other
//! values never change.

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Serialize, Serializer};

use super::json_text;
use super::number::{number_text, write_number};
use super::object::SkillObject;

/// A value costs this much beside what it holds.
pub(super) const VALUE_WEIGHT: usize = 16;
/// A text costs this much beside its bytes: two allocations, the counters of what shares it, and its length.
const TEXT_WEIGHT: usize = 72;
/// A list costs this much beside its items.
pub(super) const LIST_WEIGHT: usize = 80;

#[derive(Clone, Debug)]
pub enum SkillValue {
    Null,
    Bool(bool),
    Number(f64),
    Text(Arc<String>),
    List(SharedList),
    Object(Arc<SkillObject>),
    /// Placeholder for the result of a call in a mechanical run. Every field of it has a value.
    Placeholder(Arc<str>),
}

/// A list that several variables can hold.
#[derive(Clone, Debug, Default)]
pub struct SharedList(Arc<Mutex<ListItems>>);

#[derive(Debug, Default)]
struct ListItems {
    items: Vec<SkillValue>,
    weight: usize,
}

impl SharedList {
    pub fn len(&self) -> usize {
        self.0.lock().items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, index: usize) -> Option<SkillValue> {
        self.0.lock().items.get(index).cloned()
    }

    pub fn push(&self, value: SkillValue) {
        let mut list = self.0.lock();
        list.weight += value.weight();
        list.items.push(value);
    }

    /// Calls `look` with the items. `look` must not change the list.
    pub fn with<T>(&self, look: impl FnOnce(&[SkillValue]) -> T) -> T {
        look(&self.0.lock().items)
    }

    /// The memory it stands for, in bytes, roughly.
    pub fn weight(&self) -> usize {
        LIST_WEIGHT + self.0.lock().weight
    }
}

impl FromIterator<SkillValue> for SharedList {
    fn from_iter<I: IntoIterator<Item = SkillValue>>(items: I) -> Self {
        let items: Vec<SkillValue> = items.into_iter().collect();
        let weight = items.iter().map(SkillValue::weight).sum();
        Self(Arc::new(Mutex::new(ListItems { items, weight })))
    }
}

impl SkillValue {
    pub fn list(items: impl IntoIterator<Item = SkillValue>) -> Self {
        Self::List(items.into_iter().collect())
    }

    /// Reads JSON text.
    pub fn from_json(text: &str) -> Result<Self, json_text::JsonFault> {
        json_text::parse(text)
    }

    /// Reads JSON text whose value weighs at most so many bytes.
    pub fn from_json_within(text: &str, limit: usize) -> Result<Self, json_text::JsonFault> {
        json_text::parse_within(text, limit)
    }

    /// Writes compact JSON text.
    pub fn json(&self) -> String {
        let mut out = String::new();
        json_text::write(self, &mut out);
        out
    }

    /// Its approximate memory, in bytes.
    pub fn weight(&self) -> usize {
        VALUE_WEIGHT
            + match self {
                Self::Null | Self::Bool(_) | Self::Number(_) => 0,
                Self::Text(text) => TEXT_WEIGHT + text.len(),
                Self::List(list) => list.weight(),
                Self::Object(object) => object.weight(),
                Self::Placeholder(label) => label.len(),
            }
    }

    /// The text that stands for the value in a substitution.
    pub fn rendered(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Number(number) => Cow::Owned(number_text(*number)),
            Self::Bool(true) => Cow::Borrowed("true"),
            Self::Bool(false) => Cow::Borrowed("false"),
            Self::Null => Cow::Borrowed("null"),
            Self::Placeholder(label) => Cow::Borrowed(label),
            Self::List(_) | Self::Object(_) => Cow::Owned(self.json()),
        }
    }

    /// Like [`Self::rendered`], as a text that can be shared.
    pub fn rendered_text(&self) -> Arc<String> {
        match self {
            Self::Text(text) => Arc::clone(text),
            other => Arc::new(other.rendered().into_owned()),
        }
    }

    /// The text that JavaScript's `String()` gives. A list is joined with commas, and an object is `[object Object]`.
    pub fn to_js_string(&self) -> Cow<'_, str> {
        match self {
            Self::List(_) => {
                let mut out = String::new();
                self.write_joined(&mut out);
                Cow::Owned(out)
            }
            Self::Object(_) => Cow::Borrowed("[object Object]"),
            other => other.rendered(),
        }
    }

    fn write_joined(&self, out: &mut String) {
        match self {
            Self::List(list) => list.with(|items| {
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    if !matches!(item, Self::Null) {
                        item.write_joined(out);
                    }
                }
            }),
            Self::Number(number) => write_number(*number, out),
            other => out.push_str(&other.to_js_string()),
        }
    }

    /// Whether a condition that names only this value holds.
    pub fn is_truthy(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(value) => *value,
            Self::Number(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Object(_) | Self::Placeholder(_) => true,
        }
    }

    /// Whether a fallback replaces the value: null, blank text or an empty list.
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Text(text) => crate::syntax::blanks::trim(text).is_empty(),
            Self::List(list) => list.is_empty(),
            _ => false,
        }
    }

    /// One step of a path: a field of an object, an index or the length of a list.
    pub fn field(&self, name: &str) -> Option<SkillValue> {
        match self {
            Self::Object(object) => object.get(name).cloned(),
            Self::List(list) if name == "length" => {
                #[expect(clippy::cast_precision_loss, reason = "memory ends long before 2^53 items")]
                let length = list.len() as f64;
                Some(Self::Number(length))
            }
            Self::List(list) => list.get(usize::try_from(super::object::array_index(name)?).ok()?),
            Self::Placeholder(label) => Some(Self::Placeholder(format!("{label}.{name}").into())),
            _ => None,
        }
    }

    /// A copy whose lists are not shared with this value.
    pub fn detached(&self) -> SkillValue {
        match self {
            Self::List(list) => list.with(|items| Self::list(items.iter().map(Self::detached))),
            Self::Object(object) if object.iter().any(|(_, value)| value.holds_list()) => object
                .iter()
                .map(|(name, value)| (Arc::clone(name), value.detached()))
                .collect::<SkillObject>()
                .into(),
            other => other.clone(),
        }
    }

    fn holds_list(&self) -> bool {
        match self {
            Self::List(_) => true,
            Self::Object(object) => object.iter().any(|(_, value)| value.holds_list()),
            _ => false,
        }
    }

    /// What JavaScript's `typeof` says, with `null` for null.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::List(_) | Self::Object(_) | Self::Placeholder(_) => "object",
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_object(&self) -> Option<&SkillObject> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }
}

impl From<&str> for SkillValue {
    fn from(text: &str) -> Self {
        Self::Text(Arc::new(text.to_owned()))
    }
}

impl From<String> for SkillValue {
    fn from(text: String) -> Self {
        Self::Text(Arc::new(text))
    }
}

impl From<Arc<String>> for SkillValue {
    fn from(text: Arc<String>) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for SkillValue {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for SkillValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<SkillObject> for SkillValue {
    fn from(object: SkillObject) -> Self {
        Self::Object(Arc::new(object))
    }
}

/// Values are equal if their JSON is equal, even if they are different lists.
impl PartialEq for SkillValue {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Serialize for SkillValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::{SerializeMap as _, SerializeSeq as _};
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53 fits")]
            Self::Number(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                serializer.serialize_i64(*number as i64)
            }
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(list) => {
                let items = list.with(<[SkillValue]>::to_vec);
                let mut sequence = serializer.serialize_seq(Some(items.len()))?;
                for item in &items {
                    sequence.serialize_element(item)?;
                }
                sequence.end()
            }
            Self::Object(object) => {
                let mut map = serializer.serialize_map(Some(object.len()))?;
                for (name, value) in object.iter() {
                    map.serialize_entry(&**name, value)?;
                }
                map.end()
            }
            Self::Placeholder(_) => serializer.serialize_map(Some(0))?.end(),
        }
    }
}

#[cfg(test)]
mod tests;
