//! The text that a webhook becomes: filter by events and fields, mask of fields, template.

use serde_json::{Map, Value};

use super::strict_json;

/// Longest text of an event, in bytes.
const LONGEST_TEXT: usize = 32 * 1024;
/// The end of a text that was cut.
const CUT: &str = " […]";

/// How the bodies of one route become texts, from the settings of its bot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebhookRendering {
    template: Option<String>,
    /// Fields that are removed, as paths.
    mask: Vec<String>,
    /// For each path, the values that are accepted.
    only: Vec<(String, Vec<Value>)>,
    /// The names of events that are accepted. Empty: all.
    events: Vec<String>,
}

/// What becomes of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenderedWebhook {
    Text(String),
    /// The filter does not want it.
    Filtered,
    /// Nothing is left of it.
    Empty,
}

impl WebhookRendering {
    /// Reads the settings `template`, `mask`, `only` and `events`.
    pub fn read(settings: &Map<String, Value>) -> Result<Self, String> {
        let template = match settings.get("template") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
            Some(_) => return Err("the setting `template` must be a text".to_owned()),
        };
        let only = match settings.get("only") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(only)) => only.clone(),
            Some(_) => {
                let wanted = "the setting `only` must be an object of paths with lists of values, such as \
                              {\"action\": [\"opened\"]}";
                return Err(wanted.to_owned());
            }
        };
        let accepted = |(path, values): (String, Value)| match values {
            Value::Array(values) => (path, values),
            value => (path, vec![value]),
        };
        Ok(Self {
            template,
            mask: words(settings, "mask")?,
            only: only.into_iter().map(accepted).collect(),
            events: words(settings, "events")?,
        })
    }

    /// Renders a body. `event` is its name in the headers, if they have one. `None` for a body that cannot be read with
    /// these settings.
    pub fn render(&self, body: &[u8], event: Option<&str>) -> Option<RenderedWebhook> {
        let needs_fields = self.template.is_some() || !self.mask.is_empty() || !self.only.is_empty();
        let parsed = strict_json::read(body);
        let looks_like_json =
            body.trim_ascii_start().first().is_some_and(|first| matches!(first, b'{' | b'['));
        if parsed.is_none() && (needs_fields || looks_like_json) {
            return None;
        }
        let fields = parsed.unwrap_or_default();
        if !self.wants(&fields, event) {
            return Some(RenderedWebhook::Filtered);
        }
        let text = match (&self.template, self.mask.is_empty()) {
            (None, true) => std::str::from_utf8(body).ok()?.trim().to_owned(),
            (None, false) => masked(fields, &self.mask).to_string(),
            (Some(template), _) => filled(template, &masked(fields, &self.mask)),
        };
        Some(match text.trim().is_empty() {
            true => RenderedWebhook::Empty,
            false => RenderedWebhook::Text(cut(text)),
        })
    }

    fn wants(&self, fields: &Value, event: Option<&str>) -> bool {
        let named =
            event.or_else(|| ["type", "event"].into_iter().find_map(|name| fields.get(name)?.as_str()));
        let is_wanted = self.events.is_empty()
            || named.is_some_and(|named| self.events.iter().any(|wanted| wanted == named));
        is_wanted
            && self.only.iter().all(|(path, values)| {
                let found = at(fields, path).unwrap_or(&Value::Null);
                values.contains(found)
            })
    }
}

/// A setting that is a list of words, or a text with commas.
fn words(settings: &Map<String, Value>, name: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("the setting `{name}` must be a list of texts");
    let list: Vec<String> = match settings.get(name) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => text.split(',').map(|word| word.trim().to_owned()).collect(),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?,
        Some(_) => return Err(wrong()),
    };
    Ok(list.into_iter().filter(|word| !word.is_empty()).collect())
}

/// The value at a path such as `a.b.0`.
fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    })
}

/// Removes the masked fields. A path that leads into a list removes the field from every item.
fn masked(mut value: Value, mask: &[String]) -> Value {
    for path in mask {
        let steps: Vec<&str> = path.split('.').collect();
        remove(&mut value, &steps);
    }
    value
}

fn remove(value: &mut Value, steps: &[&str]) {
    match (value, steps) {
        (Value::Array(items), steps) => items.iter_mut().for_each(|item| remove(item, steps)),
        (Value::Object(fields), [last]) => {
            fields.remove(*last);
        }
        (Value::Object(fields), [step, rest @ ..]) => {
            if let Some(inner) = fields.get_mut(*step) {
                remove(inner, rest);
            }
        }
        _ => {}
    }
}

/// Replaces every `{path}` by its value, or by nothing if there is none. Braces around anything else stay.
fn filled(template: &str, fields: &Value) -> String {
    let mut written = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        written.push_str(&rest[..open]);
        let after = &rest[open + 1..];
        let is_path = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let length = after.bytes().take_while(|byte| is_path(*byte)).count();
        match after.as_bytes().get(length) {
            Some(b'}') if length > 0 => {
                written.push_str(&shown(at(fields, &after[..length])));
                rest = &after[length + 1..];
            }
            _ => {
                written.push('{');
                rest = after;
            }
        }
        // Values may be long, and a template may name one many times.
        if written.len() > LONGEST_TEXT {
            return written;
        }
    }
    written.push_str(rest);
    written
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

fn cut(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        text.truncate(text.floor_char_boundary(LONGEST_TEXT - CUT.len()));
        text.push_str(CUT);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(settings: Value, body: &Value, event: Option<&str>) -> Option<RenderedWebhook> {
        let rendering = WebhookRendering::read(settings.as_object().unwrap()).unwrap();
        rendering.render(body.to_string().as_bytes(), event)
    }

    fn text(settings: Value, body: &Value) -> String {
        match render(settings, body, None) {
            Some(RenderedWebhook::Text(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_template_shows_values_of_all_kinds_and_leaves_other_braces() {
        let body = json!({ "a": { "b": [1, "two"] }, "n": 1.5, "t": true, "z": null, "s": "x" });
        let template = "{a.b.1} {a.b.9}{z} {n} {t} {a} {s} { s } {} {s";
        assert_eq!(
            text(json!({ "template": template }), &body),
            r#"two  1.5 true {"b":[1,"two"]} x { s } {} {s"#
        );
    }

    #[test]
    fn masked_fields_are_in_no_value_that_is_shown() {
        let body = json!({ "user": { "name": "Zoë", "email": "z@x" }, "list": [{ "token": "t1" }, { "token": "t2" }] });
        let settings = json!({ "mask": "user.email, list.token", "template": "{user} {list} {user.email}" });
        assert_eq!(text(settings, &body), r#"{"name":"Zoë"} [{},{}] "#);
        let whole = text(json!({ "mask": ["user", "list"] }), &json!({ "user": 1, "list": 2, "rest": 3 }));
        assert_eq!(whole, r#"{"rest":3}"#);
    }

    #[test]
    fn events_and_fields_filter() {
        let body = json!({ "action": "opened", "n": 5 });
        let filtered =
            |settings: Value, event| render(settings, &body, event) == Some(RenderedWebhook::Filtered);
        assert!(!filtered(json!({ "only": { "action": ["opened", "closed"] } }), None));
        assert!(!filtered(json!({ "only": { "n": 5 } }), None));
        assert!(filtered(json!({ "only": { "action": ["closed"] } }), None));
        assert!(filtered(json!({ "only": { "absent": ["x"] } }), None));
        assert!(!filtered(json!({ "events": "push,issues" }), Some("issues")));
        assert!(filtered(json!({ "events": ["push"] }), Some("issues")));
        assert!(filtered(json!({ "events": ["push"] }), None), "an event without a name is none of them");
    }

    #[test]
    fn what_cannot_be_read_is_told_apart_from_what_is_empty() {
        let rendering = WebhookRendering::default();
        assert_eq!(rendering.render(b"plain text", None), Some(RenderedWebhook::Text("plain text".into())));
        assert_eq!(rendering.render(b" ", None), Some(RenderedWebhook::Empty));
        for unreadable in [&b"{"[..], br#"{"a":1,"a":2}"#, b"\xff\xfe"] {
            assert_eq!(rendering.render(unreadable, None), None);
        }
        assert_eq!(render(json!({ "template": "{x}" }), &json!({}), None), Some(RenderedWebhook::Empty));
        for wrong in
            [json!({ "mask": 5 }), json!({ "only": [] }), json!({ "template": {} }), json!({ "events": [1] })]
        {
            assert!(WebhookRendering::read(wrong.as_object().unwrap()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_long_text_is_cut_and_a_template_cannot_multiply_it() {
        let body = json!({ "long": "é".repeat(20_000) });
        let rendered = text(json!({ "template": "{long}".repeat(50) }), &body);
        assert!(rendered.len() <= LONGEST_TEXT && rendered.ends_with(CUT));
    }
}
