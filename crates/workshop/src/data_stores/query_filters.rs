//! Queries of data stores: the text, the number of entries, and filters.

use serde_json::{Map, Value};

use super::data_refusal::DataRefusalReason;

/// The most entries that one query returns.
pub const LARGEST_LIMIT: u32 = 1000;

const DEFAULT_LIMIT: u32 = 10;

/// The keys that are not filters.
const ARGUMENTS: [&str; 4] = ["query", "limit", "mode", "permissive_filters"];

/// The filter that both stores enforce.
pub(super) const DOMAIN_TAGS: &str = "domain_tags";

/// A query of a data store.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryFilters {
    pub query: String,
    /// 1 to [`LARGEST_LIMIT`].
    pub limit: u32,
    pub mode: String,
    /// Whether filters that the store does not declare may be ignored.
    pub permissive: bool,
    /// Everything else.
    pub filters: Map<String, Value>,
}

impl QueryFilters {
    /// A full-text query without filters.
    pub fn text(query: &str) -> Self {
        Self {
            query: query.to_owned(),
            limit: DEFAULT_LIMIT,
            mode: "fts".to_owned(),
            permissive: false,
            filters: Map::new(),
        }
    }

    /// Reads the arguments of the store contract. A value of the wrong shape is refused by name.
    pub fn read(mut arguments: Map<String, Value>) -> Result<Self, DataRefusalReason> {
        let text = |name: &str, default: &str| match arguments.get(name) {
            None => Ok(default.to_owned()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(DataRefusalReason::invalid(name, "must be a string")),
        };
        let (query, mode) = (text("query", "")?, text("mode", "fts")?);
        let limit = match arguments.get("limit") {
            None => DEFAULT_LIMIT,
            Some(limit) => whole_limit(limit)?,
        };
        // The text "true" does not switch the check off.
        let permissive = arguments.get("permissive_filters") == Some(&Value::Bool(true));
        arguments.retain(|key, _| !ARGUMENTS.contains(&key.as_str()));
        Ok(Self { query, limit, mode, permissive, filters: arguments })
    }

    /// Reads the arguments of the tool `data_read`. It is as lenient about the limit as the reference: text counts as
    /// the number at its beginning, and what is no positive number as the default.
    pub fn read_tool(mut arguments: Map<String, Value>) -> Result<Self, DataRefusalReason> {
        if !matches!(arguments.get("query"), Some(Value::String(query)) if !query.is_empty()) {
            return Err(DataRefusalReason::QueryMissing);
        }
        if !matches!(arguments.get("mode"), Some(Value::String(mode)) if !mode.is_empty()) {
            arguments.remove("mode");
        }
        let limit = match arguments.remove("limit") {
            Some(Value::Number(limit)) if limit.as_f64().is_some_and(|limit| limit > 0.0) => {
                whole_limit(&Value::Number(limit))?
            }
            Some(Value::String(text)) => match leading_number(&text) {
                Some(limit) if limit > 0 => whole_limit(&Value::from(limit))?,
                _ => DEFAULT_LIMIT,
            },
            _ => DEFAULT_LIMIT,
        };
        Ok(Self { limit, ..Self::read(arguments)? })
    }

    /// Refuses if a filter is not among those that the store declares, and names all that are not.
    pub fn check(&self, supported: &[String], substrate: &'static str) -> Result<(), DataRefusalReason> {
        let unsupported: Vec<String> =
            self.filters.keys().filter(|key| !supported.contains(key)).cloned().collect();
        if self.permissive || unsupported.is_empty() {
            return Ok(());
        }
        let supported = supported.to_vec();
        Err(DataRefusalReason::UnsupportedFilter { unsupported, supported, substrate })
    }

    /// The filter `domain_tags`: one tag, or a list of which an entry must have any.
    pub(super) fn any_tag(&self) -> Result<Option<Vec<String>>, DataRefusalReason> {
        let wrong =
            || DataRefusalReason::invalid(DOMAIN_TAGS, "must be a tag or a list of tags, none of them empty");
        let tags = match self.filters.get(DOMAIN_TAGS) {
            None => return Ok(None),
            Some(Value::String(tag)) => vec![tag.clone()],
            Some(Value::Array(tags)) => {
                let tags = tags.iter().map(|tag| tag.as_str().map(str::to_owned));
                tags.collect::<Option<Vec<_>>>().ok_or_else(wrong)?
            }
            Some(_) => return Err(wrong()),
        };
        if tags.is_empty() || tags.iter().any(String::is_empty) { Err(wrong()) } else { Ok(Some(tags)) }
    }
}

fn whole_limit(limit: &Value) -> Result<u32, DataRefusalReason> {
    let wrong =
        || DataRefusalReason::invalid("limit", format!("must be a whole number from 1 to {LARGEST_LIMIT}"));
    let limit = limit.as_f64().filter(|limit| limit.fract() == 0.0).ok_or_else(wrong)?;
    if (1.0..=f64::from(LARGEST_LIMIT)).contains(&limit) { Ok(limit as u32) } else { Err(wrong()) }
}

/// The whole number at the beginning of a text.
fn leading_number(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    let number: i64 = digits[..end].parse().ok()?;
    Some(if text.starts_with('-') { -number } else { number })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn arguments(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_limit_is_a_whole_number_from_1_to_1000() {
        for (limit, read) in [(json!(1), 1), (json!(1000), 1000), (json!(2.0), 2)] {
            assert_eq!(QueryFilters::read(arguments(json!({"limit": limit}))).unwrap().limit, read);
        }
        for limit in [json!(0), json!(1001), json!(1.5), json!(-4), json!("1"), json!(null), json!([1])] {
            let refused = QueryFilters::read(arguments(json!({"limit": limit}))).unwrap_err();
            assert!(refused.to_string().starts_with("`limit` must be a whole number"), "{refused}");
        }
        for (limit, read) in
            [(json!("12abc"), 12), (json!(-4), 10), (json!("x"), 10), (json!(null), 10), (json!(""), 10)]
        {
            let read_tool =
                QueryFilters::read_tool(arguments(json!({"query": "a", "limit": limit}))).unwrap();
            assert_eq!(read_tool.limit, read);
        }
        for limit in [json!(1.5), json!(0.5), json!(1001), json!("1001"), json!("99999999999999")] {
            assert!(QueryFilters::read_tool(arguments(json!({"query": "a", "limit": limit}))).is_err());
        }
    }

    #[test]
    fn only_the_boolean_true_switches_the_check_off() {
        for (value, passes) in
            [(json!(true), true), (json!("true"), false), (json!(1), false), (json!(false), false)]
        {
            let filters =
                QueryFilters::read(arguments(json!({"permissive_filters": value, "b": 1, "a": 2}))).unwrap();
            assert_eq!(filters.check(&["domain_tags".to_owned()], "X").is_ok(), passes);
        }
        let filters = QueryFilters::read(arguments(json!({"b": 1, "a": 2, "domain_tags": "x"}))).unwrap();
        let DataRefusalReason::UnsupportedFilter { unsupported, .. } =
            filters.check(&[DOMAIN_TAGS.to_owned()], "X").unwrap_err()
        else {
            panic!()
        };
        assert_eq!(unsupported, ["a", "b"]);
    }

    #[test]
    fn a_filter_of_the_wrong_shape_is_refused_by_name() {
        for wrong in [json!([]), json!(""), json!([""]), json!(["a", 1]), json!(5), json!(null), json!({})] {
            let filters = QueryFilters::read(arguments(json!({"domain_tags": wrong}))).unwrap();
            assert!(filters.any_tag().unwrap_err().to_string().contains("`domain_tags`"), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_arguments_are_worse_than_refused(query in ".*", limit in any::<f64>(), text in ".*") {
            let _ = QueryFilters::read(arguments(json!({"query": query, "limit": limit})));
            let _ = QueryFilters::read_tool(arguments(json!({"query": query, "limit": text})));
        }
    }
}
