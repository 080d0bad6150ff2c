//! JSON that is read in one way only: an object with the same key twice is refused.
//!
//! Readers differ in which of two equal keys counts. A filter could then judge one value and the agent be shown another.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A value without repeated keys.
struct StrictJson(Value);

/// Reads a body. `None` if it is no JSON, or if an object has a key twice.
pub(super) fn read(body: &[u8]) -> Option<Value> {
    serde_json::from_slice::<StrictJson>(body).ok().map(|StrictJson(value)| value)
}

impl<'de> Deserialize<'de> for StrictJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(StrictVisitor).map(StrictJson)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON without repeated keys")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(StrictJson(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, StrictJson(value))) = fields.next_entry::<String, StrictJson>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a key is repeated"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read;

    #[test]
    fn a_repeated_key_at_any_depth_is_refused() {
        assert_eq!(
            read(br#"{"a":[1,-2,1.5,null,"x"],"b":{"a":true}}"#),
            Some(json!({
            "a": [1, -2, 1.5, null, "x"], "b": { "a": true } }))
        );
        for wrong in [&br#"{"a":1,"a":1}"#[..], br#"[{"b":{"c":1,"c":2}}]"#, b"{", b"", b"{} x"] {
            assert_eq!(read(wrong), None);
        }
    }
}
