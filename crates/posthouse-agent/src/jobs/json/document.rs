//! Text of the job file: parsing and writing. Unchanged jobs, and fields of the document that this code
//! does not know, are written back byte for byte.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use posthouse_wire::id::JobId;
use serde_json::value::RawValue;

use crate::jobs::rules::RecordChange;
use crate::jobs::{Fault, Job};

#[derive(Clone, Default)]
pub(super) struct Document {
    entries: Vec<Arc<JobItem>>,
    /// The other fields of the document.
    rest: BTreeMap<String, Box<RawValue>>,
    unsaved: Unsaved,
}

/// Kind of change since the document was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unsaved {
    #[default]
    Nothing,
    /// A change that may be lost in a machine crash without harm.
    Passing,
    Lasting,
}

struct JobItem {
    text: Box<str>,
    /// `None` if the item is not a job. It is kept and otherwise ignored.
    job: Option<Job>,
}

impl JobItem {
    fn read(text: &str) -> Self {
        Self { text: text.into(), job: serde_json::from_str(text).ok().map(|fields| Job { fields }) }
    }

    fn of(job: Job) -> Arc<Self> {
        let text = serde_json::to_string(&job.fields).expect("a map of JSON values can be written as JSON");
        Arc::new(Self { text: text.into(), job: Some(job) })
    }
}

impl Document {
    /// Parses the file. Jobs that have not changed since `before` are not parsed again.
    pub(super) fn read(bytes: &[u8], before: Option<&Document>) -> Result<Self, Fault> {
        let text = std::str::from_utf8(bytes).map_err(|error| Fault::Unreadable(error.to_string()))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self::parse(text, before).or_else(|fault| match escaped(text) {
            Cow::Borrowed(_) => Err(fault),
            Cow::Owned(text) => Self::parse(&text, before),
        })
    }

    fn parse(text: &str, before: Option<&Document>) -> Result<Self, Fault> {
        let unreadable = |error: serde_json::Error| Fault::Unreadable(error.to_string());
        let (jobs, rest) = if text.trim_start().starts_with('[') {
            (text, BTreeMap::new())
        } else {
            let mut rest: BTreeMap<String, &RawValue> = serde_json::from_str(text).map_err(unreadable)?;
            rest.remove("updated_at");
            (rest.remove("jobs").map_or("[]", RawValue::get), rest)
        };
        let jobs: Vec<&RawValue> = serde_json::from_str(jobs).map_err(unreadable)?;
        let known = before.map_or(&[][..], |before| &before.entries);
        let entries = jobs.into_iter().enumerate().map(|(place, raw)| {
            let same = known.get(place).filter(|entry| *entry.text == *raw.get());
            same.map_or_else(|| Arc::new(JobItem::read(raw.get())), Arc::clone)
        });
        let rest = rest.into_iter().map(|(name, raw)| (name, raw.to_owned())).collect();
        Ok(Self { entries: entries.collect(), rest, unsaved: Unsaved::Nothing })
    }

    pub(super) fn jobs(&self) -> impl DoubleEndedIterator<Item = (usize, &Job)> {
        self.entries.iter().enumerate().filter_map(|(place, entry)| Some((place, entry.job.as_ref()?)))
    }

    pub(super) fn find(&self, id: &JobId) -> Option<(usize, &Job)> {
        self.jobs().find(|(_, job)| job.text("id") == Some(id.as_str()))
    }

    pub(super) fn add(&mut self, job: &Job) {
        self.entries.push(JobItem::of(job.clone()));
        self.unsaved = Unsaved::Lasting;
    }

    pub(super) fn apply(&mut self, place: usize, change: RecordChange) {
        let unsaved = match change {
            RecordChange::Same => Unsaved::Nothing,
            RecordChange::Touch(job) => {
                self.entries[place] = JobItem::of(job);
                Unsaved::Passing
            }
            RecordChange::Keep(job) => {
                self.entries[place] = JobItem::of(job);
                Unsaved::Lasting
            }
            RecordChange::Remove => {
                self.entries.remove(place);
                Unsaved::Lasting
            }
        };
        self.unsaved = self.unsaved.max(unsaved);
    }

    pub(super) fn unsaved(&self) -> Unsaved {
        self.unsaved
    }

    /// The text for the file, one job per line. Afterwards nothing counts as changed.
    pub(super) fn write(&mut self, updated_at: &str) -> String {
        self.unsaved = Unsaved::Nothing;
        let mut text = String::from("{\"jobs\":[");
        for (place, entry) in self.entries.iter().enumerate() {
            text.push_str(if place == 0 { "\n" } else { ",\n" });
            text.push_str(&entry.text);
        }
        text.push_str("\n]");
        for (name, value) in &self.rest {
            let _ = write!(text, ",\n{}:{value}", serde_json::Value::from(name.as_str()));
        }
        let _ = write!(text, ",\n\"updated_at\":{}\n}}\n", serde_json::Value::from(updated_at));
        text
    }
}

/// Escapes raw control characters inside strings. An editor or a shell may have put them there.
fn escaped(text: &str) -> Cow<'_, str> {
    let mut repaired = String::new();
    let (mut inside, mut after_backslash) = (false, false);
    for c in text.chars() {
        if inside && c < ' ' {
            let _ = write!(repaired, "\\u{:04x}", u32::from(c));
        } else {
            repaired.push(c);
        }
        (inside, after_backslash) = match (c, after_backslash) {
            ('"', false) => (!inside, false),
            ('\\', false) => (inside, inside),
            _ => (inside, false),
        };
    }
    if repaired.len() == text.len() { Cow::Borrowed(text) } else { Cow::Owned(repaired) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let document = Document::read(text.as_bytes(), None).unwrap();
        document.jobs().map(|(_, job)| job.name().to_owned()).collect()
    }

    #[test]
    fn a_mark_a_bare_list_and_control_characters_are_read() {
        assert_eq!(names("\u{feff}{\"jobs\":[{\"name\":\"a\"}]}"), ["a"]);
        assert_eq!(names(" [{\"name\":\"a\"}, 7, {\"name\":\"b\"}]"), ["a", "b"]);
        assert_eq!(names("{\"jobs\":[{\"name\":\"a\nb\\\"\tc\"}]}"), ["a\nb\"\tc"]);
        assert_eq!(names("{}"), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_job_list_is_a_fault_and_not_an_empty_one() {
        for text in ["", "null", "7", "\"jobs\"", "{\"jobs\":{}}", "{\"jobs\":null}", "{\"jobs\":[", "\u{0}"]
        {
            assert!(matches!(Document::read(text.as_bytes(), None), Err(Fault::Unreadable(_))), "{text}");
        }
        assert!(matches!(Document::read(b"\xff", None), Err(Fault::Unreadable(_))));
    }

    #[test]
    fn what_nobody_touched_is_written_back_to_the_letter() {
        let text = r#"{"note": {"b":1,"a":1.50},"jobs":[{"z":1e3,  "id":"x"},"odd"],"updated_at":"then"}"#;
        let mut document = Document::read(text.as_bytes(), None).unwrap();
        let written = document.write("now");
        for kept in
            [r#""note":{"b":1,"a":1.50}"#, r#"{"z":1e3,  "id":"x"}"#, r#""odd""#, r#""updated_at":"now""#]
        {
            assert!(written.contains(kept), "{kept} in {written}");
        }
        assert!(!written.contains("then"));
    }
}
