//! Filters of references: the part after a bar in `${NAME|filter:"argument"}`.

use std::sync::Arc;

use super::json_text;
use super::limits::too_large;
use super::number::to_number;
use super::run_error::RunError;
use super::timestamp::{iso_text, parse_timestamp};
use super::utf16::{utf16_length, utf16_preview};
use super::value::SkillValue;
use crate::syntax::blanks::trim;
use crate::syntax::tree::FilterName;

/// Timestamps of at least this value are in milliseconds, smaller ones in seconds.
const SMALLEST_MILLIS: f64 = 1e12;

/// Applies a filter other than `fallback` to a value. `limit` bounds the result.
pub fn apply(
    filter: &FilterName,
    argument: Option<&str>,
    value: &SkillValue,
    limit: usize,
) -> Result<SkillValue, RunError> {
    let result = match (filter, value) {
        // A list is counted and searched without turning it into text.
        (FilterName::Length, SkillValue::List(list)) => list.len().to_string(),
        (FilterName::Contains, SkillValue::List(list)) => {
            let argument = needed(argument, "contains", "a text")?;
            truth(list.with(|items| items.iter().any(|item| item.to_js_string() == argument)))
        }
        (FilterName::Trim, SkillValue::Text(text)) if trim(text).len() == text.len() => {
            return Ok(value.clone());
        }
        _ => apply_to_text(filter, argument, &value.rendered_text(), limit)?,
    };
    if result.len() > limit {
        return Err(too_large(&format!("the result of the filter '{}'", filter.word()), limit));
    }
    Ok(result.into())
}

fn apply_to_text(
    filter: &FilterName,
    argument: Option<&str>,
    text: &Arc<String>,
    limit: usize,
) -> Result<String, RunError> {
    Ok(match filter {
        FilterName::Url => percent_encoded(text, limit),
        FilterName::Shell => format!("'{}'", text.replace('\'', r"'\''")),
        FilterName::Json if json_text::is_json(text) => text.to_string(),
        FilterName::Json => {
            let mut out = String::with_capacity(text.len() + 2);
            json_text::write_string(text, &mut out);
            out
        }
        FilterName::Trim => trim(text).to_owned(),
        FilterName::Length => match json_text::parse_list(text) {
            Some(SkillValue::List(list)) => list.len().to_string(),
            _ => utf16_length(text).to_string(),
        },
        FilterName::Isodate => isodate(text)?,
        FilterName::Contains => contains(text, needed(argument, "contains", "a text")?),
        FilterName::Head => {
            selected(text, |lines| count(argument).map(|count| &lines[..count.min(lines.len())]))
        }
        FilterName::Tail => {
            selected(text, |lines| count(argument).map(|count| &lines[lines.len().saturating_sub(count)..]))
        }
        FilterName::Lines => selected(text, |lines| line_range(argument?, lines)),
        FilterName::Pluck => pluck(text, needed(argument, "pluck", "the name of a field")?)?,
        // The caller has handled fallbacks. Here there is a value, so the filter changes nothing.
        FilterName::Fallback => text.to_string(),
        FilterName::Unknown(name) => {
            let known: Vec<&str> = FilterName::KNOWN.iter().map(|(name, _)| *name).collect();
            return Err(RunError::plain(format!("Unknown filter '{name}', supported: {}", known.join(", "))));
        }
    })
}

fn needed<'a>(argument: Option<&'a str>, filter: &str, what: &str) -> Result<&'a str, RunError> {
    argument
        .ok_or_else(|| RunError::plain(format!("filter '{filter}' needs {what} in quotes: |{filter}:\"…\"")))
}

fn truth(value: bool) -> String {
    if value { "true".to_owned() } else { String::new() }
}

/// Encodes as `encodeURIComponent` does. It stops after the limit.
fn percent_encoded(text: &str, limit: usize) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 0xF)]));
        }
        if out.len() > limit {
            break;
        }
    }
    out
}

fn isodate(text: &str) -> Result<String, RunError> {
    let number = to_number(text);
    let millis = if number.is_finite() {
        Some(if number >= SMALLEST_MILLIS { number } else { number * 1000.0 })
    } else {
        parse_timestamp(text)
    };
    let Some(millis) = millis else {
        return Err(RunError::plain(format!(
            "filter 'isodate': '{}' is not a timestamp",
            utf16_preview(text, 40)
        )));
    };
    iso_text(millis).ok_or_else(|| {
        RunError::new(
            super::run_error::ErrorClass::Other("RangeError".into()),
            "filter 'isodate': the time is out of range",
        )
    })
}

fn contains(text: &str, wanted: &str) -> String {
    truth(match json_text::parse_list(text) {
        Some(SkillValue::List(list)) => {
            list.with(|items| items.iter().any(|item| item.to_js_string() == wanted))
        }
        _ => text.contains(wanted),
    })
}

fn pluck(text: &str, field: &str) -> Result<String, RunError> {
    let parsed = json_text::parse(text).map_err(|_| {
        RunError::plain(format!(
            "filter 'pluck': '{}' is not a JSON list of objects",
            utf16_preview(text, 40)
        ))
    })?;
    let SkillValue::List(list) = parsed else {
        return Err(RunError::plain(format!("filter 'pluck' needs a list, not {}", parsed.type_name())));
    };
    let found = list.with(|items| {
        let fields = items.iter().filter_map(|item| item.as_object()?.get(field).cloned());
        SkillValue::list(fields.filter(|value| !matches!(value, SkillValue::Null)))
    });
    Ok(found.json())
}

/// Joins some of the lines of a text. `None` selects nothing.
fn selected(text: &str, select: impl for<'a> FnOnce(&'a [&'a str]) -> Option<&'a [&'a str]>) -> String {
    let mut lines: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    select(&lines).map(|lines| lines.join("\n")).unwrap_or_default()
}

fn count(argument: Option<&str>) -> Option<usize> {
    integer(argument?).filter(|count| *count >= 1).and_then(|count| usize::try_from(count).ok())
}

/// The lines `m-n`, from 1 and with both ends. A first line below 1 counts as 1.
fn line_range<'a>(argument: &str, lines: &'a [&'a str]) -> Option<&'a [&'a str]> {
    let (first, last) = argument.split_once('-')?;
    let first = usize::try_from(integer(first)?.max(1) - 1).ok()?;
    let last = usize::try_from(integer(last)?).ok()?;
    if last <= first {
        return None;
    }
    lines.get(first..last.min(lines.len()))
}

/// `-?\d+`, blanks around it allowed. A number that is too large counts as the largest.
fn integer(text: &str) -> Option<i64> {
    let text = trim(text);
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX }))
}

#[cfg(test)]
mod tests;
