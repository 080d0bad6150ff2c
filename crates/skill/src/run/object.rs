//! Objects of skills: fields in the order of JavaScript.
//!
//! Fields whose names are array indexes come first, in ascending order. The others follow in the order in which they
//! were set. Setting a field again keeps its place.

use std::sync::Arc;

use indexmap::IndexMap;

use super::value::SkillValue;

/// A field costs this much beside its name and its value.
pub(super) const FIELD_WEIGHT: usize = 80;
/// An object costs this much beside its fields.
pub(super) const OBJECT_WEIGHT: usize = 112;

#[derive(Clone, Debug, Default)]
pub struct SkillObject {
    fields: IndexMap<Arc<str>, SkillValue, foldhash::fast::RandomState>,
    /// How many fields at the front have an array index for a name.
    indexes: usize,
    /// Bytes of names and values.
    weight: usize,
}

impl SkillObject {
    pub fn get(&self, name: &str) -> Option<&SkillValue> {
        self.fields.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &SkillValue)> {
        self.fields.iter()
    }

    pub fn len(&self) -> usize {
        self.fields.len()
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Its approximate memory, in bytes.
    pub fn weight(&self) -> usize {
        OBJECT_WEIGHT + self.weight
    }

    pub fn set(&mut self, name: impl Into<Arc<str>>, value: impl Into<SkillValue>) {
        let name = name.into();
        let index = array_index(&name);
        if !self.append(Arc::clone(&name), value.into()) {
            return;
        }
        if let Some(index) = index {
            let front = &self.fields.as_slice()[..self.indexes];
            let place =
                front.partition_point(|other, _| array_index(other).is_some_and(|other| other < index));
            self.fields.move_index(self.fields.len() - 1, place);
            self.indexes += 1;
        }
    }

    /// Sets a field, and says whether it is new. A new field is the last one, so [`Self::order`] must follow.
    fn append(&mut self, name: Arc<str>, value: SkillValue) -> bool {
        self.weight += value.weight();
        if let Some(old) = self.fields.get_mut(&name) {
            self.weight = self.weight.saturating_sub(old.weight());
            *old = value;
            return false;
        }
        self.weight += name.len() + FIELD_WEIGHT;
        self.fields.insert(name, value);
        true
    }

    /// Brings the fields in order after appends: array indexes first, in ascending order.
    fn order(&mut self) {
        let indexes = self.fields.keys().filter(|name| array_index(name).is_some()).count();
        if indexes > 0 {
            // The sort is stable, so the other fields keep their order.
            self.fields.sort_by_cached_key(|name, _| array_index(name).unwrap_or(u32::MAX));
        }
        self.indexes = indexes;
    }

    /// Adds a field of a record that is sometimes absent.
    pub fn set_some(&mut self, name: &'static str, value: Option<impl Into<SkillValue>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<SkillValue> {
        let (at, _, value) = self.fields.shift_remove_full(name)?;
        self.indexes -= usize::from(at < self.indexes);
        self.weight = self.weight.saturating_sub(value.weight() + name.len() + FIELD_WEIGHT);
        Some(value)
    }
}

impl<N: Into<Arc<str>>, V: Into<SkillValue>> FromIterator<(N, V)> for SkillObject {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> Self {
        let mut object = ObjectBuilder::default();
        fields.into_iter().for_each(|(name, value)| object.set(name.into(), value.into()));
        object.finish()
    }
}

/// An object that is being read. Its fields are ordered once, at its end: one by one, many array indexes would take
/// time that grows with the square of their number.
#[derive(Debug, Default)]
pub struct ObjectBuilder(SkillObject);

impl ObjectBuilder {
    pub fn set(&mut self, name: Arc<str>, value: SkillValue) {
        self.0.append(name, value);
    }

    /// The memory it stands for, in bytes, roughly.
    pub fn weight(&self) -> usize {
        self.0.weight()
    }

    pub fn finish(mut self) -> SkillObject {
        self.0.order();
        self.0
    }
}

/// An array index is a decimal number below 2^32 - 1 without leading zeros.
pub fn array_index(name: &str) -> Option<u32> {
    let is_plain = name == "0" || !name.starts_with('0');
    let digits = is_plain && name.bytes().all(|b| b.is_ascii_digit());
    name.parse().ok().filter(|index| digits && *index != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_indexes_come_first_and_ascend() {
        let object: SkillObject =
            [("b", 1.0), ("10", 2.0), ("a", 3.0), ("2", 4.0), ("01", 5.0), ("4294967295", 6.0)]
                .into_iter()
                .collect();
        let names: Vec<&str> = object.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["2", "10", "b", "a", "01", "4294967295"]);
    }

    #[test]
    fn single_fields_find_the_same_places_as_many_at_once() {
        let names = ["b", "7", "a", "3", "12", "7", "0", "c", "b", "5"];
        let mut one_by_one = SkillObject::default();
        names.into_iter().for_each(|name| one_by_one.set(name, name));
        let at_once: SkillObject = names.map(|name| (name, name)).into_iter().collect();
        let order =
            |object: &SkillObject| object.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
        assert_eq!(order(&one_by_one), ["0", "3", "5", "7", "12", "b", "a", "c"]);
        assert_eq!(order(&at_once), order(&one_by_one));
        assert_eq!((at_once.indexes, at_once.weight()), (one_by_one.indexes, one_by_one.weight()));
    }

    #[test]
    fn many_array_indexes_in_descending_order_are_read() {
        // With time that grows with the square this takes hours.
        let count = 1_000_000;
        let fields: Vec<String> = (0..count).rev().map(|index| format!("\"{index}\":0")).collect();
        let object = SkillValue::from_json(&format!("{{{}}}", fields.join(","))).unwrap();
        let object = object.as_object().unwrap();
        let first: Vec<&str> = object.iter().take(3).map(|(name, _)| &**name).collect();
        assert_eq!((first, object.len()), (vec!["0", "1", "2"], count));
        assert_eq!(
            object.iter().map(|(name, _)| (Arc::clone(name), 1.0)).collect::<SkillObject>().len(),
            count
        );
    }

    #[test]
    fn a_field_that_is_set_again_keeps_its_place() {
        let mut object: SkillObject = [("a", "x"), ("b", "y")].into_iter().collect();
        let weight = object.weight();
        object.set("a", "z");
        assert_eq!(SkillValue::from(object.clone()).json(), r#"{"a":"z","b":"y"}"#);
        assert_eq!(object.weight(), weight);
        object.remove("a");
        object.remove("b");
        assert_eq!(object.weight(), OBJECT_WEIGHT);
    }
}
