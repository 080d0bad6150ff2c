//! Strict parser of JSON request bodies: every error names its field, and unknown fields are errors.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};

use crate::Problem;

/// The longest short descriptive text, in bytes.
pub const LONGEST_LABEL: usize = 128;
/// The largest number of names in a list.
const MOST_NAMED: usize = 100;

/// The fields of an object that have not been read yet.
#[derive(Debug)]
pub struct Fields {
    /// The prefix of field names in errors, e.g. `meta.`.
    within: &'static str,
    unread: Map<String, Value>,
}

impl Fields {
    /// The fields of an object that has been read already.
    pub fn of(object: Map<String, Value>) -> Self {
        Self { within: "", unread: object }
    }

    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        let mut from = serde_json::Deserializer::from_slice(body);
        let read = from.deserialize_map(EachOnce).and_then(|read| from.end().map(|()| read));
        match read {
            Ok((unread, None)) => Ok(Self { within: "", unread }),
            Ok((_, Some(twice))) => Err(Problem::invalid_field(&twice, "is given more than once")),
            Err(error) if error.classify() == Category::Data => {
                Err(Problem::invalid_field("body", "must be a JSON object"))
            }
            Err(error) => Err(Problem::malformed_json(error)),
        }
    }

    /// Takes a field. `None` if it is absent or null.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.unread.remove(name).filter(|value| !value.is_null())
    }

    pub fn has(&self, name: &str) -> bool {
        self.unread.get(name).is_some_and(|value| !value.is_null())
    }

    pub fn field_error(&self, name: &str, why: impl AsRef<str>) -> Problem {
        Problem::invalid_field(&format!("{}{name}", self.within), why)
    }

    /// A string of any length. The operation itself checks the length.
    pub fn optional_text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.field_error(name, "must be a string")),
        }
    }

    pub fn text(&mut self, name: &str) -> Result<String, Problem> {
        self.optional_text(name)?.ok_or_else(|| self.field_error(name, "is missing"))
    }

    /// A short string: not empty, of limited length, without control characters.
    pub fn optional_label(&mut self, name: &str, longest: usize) -> Result<Option<String>, Problem> {
        let label = self.optional_text(name)?;
        match label.as_deref().and_then(|label| unfit(label, longest)) {
            Some(why) => Err(self.field_error(name, why)),
            None => Ok(label),
        }
    }

    /// As [`Fields::optional_label`], but an empty string counts as absent, because some runtimes write it so.
    pub fn label_if_any(&mut self, name: &str, longest: usize) -> Result<Option<String>, Problem> {
        match self.unread.get(name) {
            Some(Value::String(text)) if text.is_empty() => {
                self.unread.remove(name);
                Ok(None)
            }
            _ => self.optional_label(name, longest),
        }
    }

    pub fn label(&mut self, name: &str, longest: usize) -> Result<String, Problem> {
        self.optional_label(name, longest)?.ok_or_else(|| self.field_error(name, "is missing"))
    }

    /// One word of a closed set.
    pub fn optional_word<T>(
        &mut self,
        name: &str,
        known: impl Fn(&str) -> Option<T>,
        are: &str,
    ) -> Result<Option<T>, Problem> {
        match self.optional_text(name)? {
            None => Ok(None),
            Some(word) => match known(&word) {
                Some(meant) => Ok(Some(meant)),
                None => Err(self.field_error(name, format!("must be one of {are}"))),
            },
        }
    }

    /// A number of seconds, cut to `most`.
    pub fn optional_seconds(&mut self, name: &str, most: Duration) -> Result<Option<Duration>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let seconds = value.as_f64().and_then(|seconds| clamped(seconds, most));
        seconds.map(Some).ok_or_else(|| self.field_error(name, NO_SECONDS))
    }

    pub fn optional_whole(&mut self, name: &str) -> Result<Option<i64>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| self.field_error(name, "must be a whole number"))
    }

    /// A time in ms. Peers write any JSON number.
    pub fn optional_millis(&mut self, name: &str) -> Result<Option<i64>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        // Fractions are dropped. The cast saturates.
        let millis = value.as_i64().or_else(|| value.as_f64().map(|millis| millis as i64));
        millis.map(Some).ok_or_else(|| self.field_error(name, "must be a number of milliseconds"))
    }

    pub fn is_text(&self, name: &str) -> bool {
        self.unread.get(name).is_some_and(Value::is_string)
    }

    pub fn optional_names(&mut self, name: &str) -> Result<Option<Vec<String>>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let Value::Array(items) = value else {
            return Err(self.field_error(name, "must be a list of strings"));
        };
        if items.len() > MOST_NAMED {
            return Err(self.field_error(name, format!("contains more than {MOST_NAMED} names")));
        }
        let names = items.into_iter().map(|item| match item {
            Value::String(text) if unfit(&text, LONGEST_LABEL).is_none() => Ok(text),
            Value::String(_) => Err(self.field_error(name, "contains an invalid name")),
            _ => Err(self.field_error(name, "must be a list of strings")),
        });
        names.collect::<Result<_, _>>().map(Some)
    }

    /// The fields of a nested object. `within` is their prefix in errors.
    pub fn object(&mut self, name: &str, within: &'static str) -> Result<Fields, Problem> {
        match self.take(name) {
            Some(Value::Object(unread)) => Ok(Fields { within, unread }),
            Some(_) => Err(self.field_error(name, "must be an object")),
            None => Err(self.field_error(name, "is missing")),
        }
    }

    pub fn optional_switch(&mut self, name: &str) -> Result<Option<bool>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.field_error(name, "must be true or false"))
    }

    /// An object of any content.
    pub fn optional_object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(self.field_error(name, "must be an object")),
        }
    }

    /// Refuses unknown fields, so that a misspelled field is not ignored.
    pub fn end(self) -> Result<(), Problem> {
        match self.unread.keys().next() {
            Some(unknown) => Err(self.field_error(unknown, "is unknown")),
            None => Ok(()),
        }
    }

    /// The largest measure of the unread values.
    pub fn deepest(&self, measure: impl Fn(&Value) -> usize) -> usize {
        self.unread.values().map(measure).max().unwrap_or(0)
    }

    /// The unread fields, to be passed on.
    pub fn rest(self) -> Map<String, Value> {
        self.unread
    }
}

/// Reads an object with its fields, and the first repeated name.
struct EachOnce;

impl<'de> Visitor<'de> for EachOnce {
    type Value = (Map<String, Value>, Option<String>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let (mut read, mut twice) = (Map::new(), None);
        while let Some((name, value)) = object.next_entry::<String, Value>()? {
            if read.contains_key(&name) {
                twice.get_or_insert(name);
            } else {
                read.insert(name, value);
            }
        }
        Ok((read, twice))
    }
}

/// Why this text is not a valid label. `None` if it is valid.
pub fn unfit(text: &str, longest: usize) -> Option<String> {
    match text {
        "" => Some("is empty".to_owned()),
        _ if text.len() > longest => Some(format!("is longer than {longest} bytes")),
        _ if text.chars().any(char::is_control) => Some("contains a control character".to_owned()),
        _ => None,
    }
}

pub const NO_SECONDS: &str = "must be a number of seconds, zero or more";

/// A duration of at most `most`. `None` if the number is negative or not finite.
pub fn clamped(seconds: f64, most: Duration) -> Option<Duration> {
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(most.as_secs_f64())))
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use http::StatusCode;

    use super::*;

    fn status(problem: Problem) -> StatusCode {
        problem.into_response().status()
    }

    #[test]
    fn invalid_json_and_an_invalid_request_have_different_errors() {
        for bad in [
            &b""[..],
            b"{",
            b"{} {}",
            br#"{"message":"\ud83d"}"#,
            br#"{"message":"\udc00x"}"#,
            b"{\"message\":\"\xff\"}",
            b"\xef\xbb\xbf{}",
            "[".repeat(5000).as_bytes(),
            format!("{{\"a\":{}", "[".repeat(5000)).as_bytes(),
        ] {
            let problem = Fields::read(bad).unwrap_err();
            let expected = match bad.first() {
                Some(b'[') => StatusCode::UNPROCESSABLE_ENTITY,
                _ => StatusCode::BAD_REQUEST,
            };
            assert_eq!(status(problem), expected, "{:?}", String::from_utf8_lossy(&bad[..bad.len().min(30)]));
        }
        for unfit in [&b"[]"[..], b"null", b"\"text\"", b"7"] {
            assert_eq!(status(Fields::read(unfit).unwrap_err()), StatusCode::UNPROCESSABLE_ENTITY);
        }
    }

    #[test]
    fn unknown_and_repeated_fields_are_refused_by_name() {
        let fields = Fields::read(br#"{"agnet":"desk"}"#).unwrap();
        assert_eq!(fields.end().unwrap_err(), Problem::invalid_field("agnet", "is unknown"));
        let twice = Fields::read(br#"{"agent":"desk","agent":"attic"}"#);
        assert_eq!(twice.unwrap_err(), Problem::invalid_field("agent", "is given more than once"));
    }

    #[test]
    fn a_wrong_type_says_in_which_field_it_stands() {
        let mut fields =
            Fields::read(br#"{"agent":7,"wait":"1","connectors":["a",1],"meta":[],"at":1.5}"#).unwrap();
        assert_eq!(fields.text("agent"), Err(Problem::invalid_field("agent", "must be a string")));
        assert_eq!(
            fields.optional_seconds("wait", Duration::from_secs(60)),
            Err(Problem::invalid_field("wait", NO_SECONDS))
        );
        assert_eq!(
            fields.optional_names("connectors"),
            Err(Problem::invalid_field("connectors", "must be a list of strings"))
        );
        assert_eq!(
            fields.object("meta", "meta.").unwrap_err(),
            Problem::invalid_field("meta", "must be an object")
        );
        assert_eq!(fields.optional_whole("at"), Err(Problem::invalid_field("at", "must be a whole number")));
        assert_eq!(fields.text("message"), Err(Problem::invalid_field("message", "is missing")));
    }

    #[test]
    fn seconds_may_be_fractions_and_are_cut_to_what_is_allowed() {
        let most = Duration::from_secs(60);
        assert_eq!(clamped(0.25, most), Some(Duration::from_millis(250)));
        assert_eq!(clamped(0.0, most), Some(Duration::ZERO));
        assert_eq!(clamped(1e300, most), Some(most));
        for bad in [-0.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(clamped(bad, most), None);
        }
    }

    #[test]
    fn a_label_is_one_short_line() {
        assert_eq!(unfit("cron at seven", 128), None);
        for bad in ["", "a\nb", "a\u{7f}", &"x".repeat(129)] {
            assert!(unfit(bad, 128).is_some(), "{bad:?}");
        }
    }
}
