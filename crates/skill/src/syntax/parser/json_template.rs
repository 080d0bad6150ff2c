//! JSON templates: JSON text whose strings hold references.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::super::tree::{JsonTemplate, TextTemplate};

/// Parses a text as a template, if it is JSON.
pub fn json_template(text: &str) -> Option<JsonTemplate> {
    serde_json::from_str(text).ok()
}

impl<'de> Deserialize<'de> for JsonTemplate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(JsonTemplateVisitor)
    }
}

struct JsonTemplateVisitor;

impl<'de> Visitor<'de> for JsonTemplateVisitor {
    type Value = JsonTemplate;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<JsonTemplate, E> {
        Ok(JsonTemplate::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<JsonTemplate, E> {
        Ok(JsonTemplate::Bool(value))
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of the language are doubles")]
    fn visit_i64<E>(self, value: i64) -> Result<JsonTemplate, E> {
        Ok(JsonTemplate::Number(value as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of the language are doubles")]
    fn visit_u64<E>(self, value: u64) -> Result<JsonTemplate, E> {
        Ok(JsonTemplate::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<JsonTemplate, E> {
        Ok(JsonTemplate::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<JsonTemplate, E> {
        Ok(JsonTemplate::Text(TextTemplate::parse(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<JsonTemplate, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = from.next_element()? {
            list.push(element);
        }
        Ok(JsonTemplate::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<JsonTemplate, A::Error> {
        let (mut members, mut places) = (Vec::new(), HashMap::new());
        while let Some((name, value)) = from.next_entry::<String, JsonTemplate>()? {
            match places.get(&name) {
                Some(index) => {
                    let member: &mut (Box<str>, JsonTemplate) = &mut members[*index];
                    member.1 = value;
                }
                None => {
                    members.push((name.as_str().into(), value));
                    places.insert(name, members.len() - 1);
                }
            }
        }
        Ok(JsonTemplate::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_doubles_as_in_javascript() {
        let number = |text| match json_template(text) {
            Some(JsonTemplate::Number(number)) => number,
            other => panic!("{other:?}"),
        };
        assert!(number("12345678901234567890") == 12_345_678_901_234_567_000.0);
        assert!(number("1.0") == number("1") && number("-0").is_sign_negative() && number("1e21") == 1e21);
    }

    #[test]
    fn members_keep_their_order_and_a_repeated_name_has_its_last_value() {
        let Some(JsonTemplate::Object(members)) = json_template("{\"b\":1,\"a\":2,\"b\":\"${X}\"}") else {
            panic!()
        };
        let names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["b", "a"]);
        assert!(matches!(&members[0].1, JsonTemplate::Text(text) if text.references().count() == 1));
    }

    #[test]
    fn text_that_is_no_json_is_no_template() {
        for text in ["[${X}]", "{a:1}", "[1] 2", "", &"[".repeat(100_000)] {
            assert_eq!(json_template(text), None);
        }
    }
}
