//! JSON text as JavaScript reads and writes it.
//!
//! Numbers are read exactly and become doubles. Neither direction depends on the depth of the stack: the reader keeps
//! its own stack and refuses what is nested deeper than [`DEEPEST`].

use std::sync::Arc;

use super::number::write_number;
use super::object::{FIELD_WEIGHT, OBJECT_WEIGHT, ObjectBuilder, SkillObject};
use super::value::{LIST_WEIGHT, SkillValue, VALUE_WEIGHT};

/// Deepest nesting that is read.
pub const DEEPEST: usize = 1000;

/// Why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonFault {
    #[error("unexpected end of JSON text")]
    End,
    #[error("unexpected character at byte {0} of JSON text")]
    Unexpected(usize),
    #[error("JSON text is nested deeper than {DEEPEST}")]
    Depth,
    #[error("JSON text holds a value that is larger than {0} bytes")]
    TooLarge(usize),
}

pub fn parse(text: &str) -> Result<SkillValue, JsonFault> {
    parse_within(text, usize::MAX)
}

/// Reads a text whose value may weigh at most so many bytes. It stops as soon as the value is too large: a short text,
/// such as a list of zeros, can stand for a large value.
pub fn parse_within(text: &str, limit: usize) -> Result<SkillValue, JsonFault> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, limit, weight: 0 };
    let value = reader.document()?;
    reader.skip_blanks();
    if reader.at < reader.bytes.len() { Err(JsonFault::Unexpected(reader.at)) } else { Ok(value) }
}

/// The list in a text, if the text is a JSON list.
pub fn parse_list(text: &str) -> Option<SkillValue> {
    if !text.trim_start_matches(is_json_blank).starts_with('[') {
        return None;
    }
    parse(text).ok()
}

/// Whether a text is JSON.
pub fn is_json(text: &str) -> bool {
    // Most texts are refused by their first character.
    let first = text.trim_start_matches(is_json_blank).bytes().next();
    first.is_some_and(|b| matches!(b, b'[' | b'{' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n'))
        && parse(text).is_ok()
}

fn is_json_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    limit: usize,
    /// Of everything so far.
    weight: usize,
}

/// A list or an object whose end has not been read.
enum OpenValue {
    List(Vec<SkillValue>),
    Object(ObjectBuilder, Arc<str>),
}

impl Reader<'_> {
    fn document(&mut self) -> Result<SkillValue, JsonFault> {
        let mut open: Vec<OpenValue> = Vec::new();
        loop {
            self.skip_blanks();
            let mut value = match self.peek()? {
                b'[' => {
                    self.at += 1;
                    self.skip_blanks();
                    if self.peek()? != b']' {
                        self.weigh(VALUE_WEIGHT + LIST_WEIGHT)?;
                        open.push(OpenValue::List(Vec::new()));
                        deep_enough(&open)?;
                        continue;
                    }
                    self.at += 1;
                    SkillValue::list([])
                }
                b'{' => {
                    self.at += 1;
                    self.skip_blanks();
                    if self.peek()? != b'}' {
                        self.weigh(VALUE_WEIGHT + OBJECT_WEIGHT)?;
                        let name = self.field_name()?;
                        open.push(OpenValue::Object(ObjectBuilder::default(), name));
                        deep_enough(&open)?;
                        continue;
                    }
                    self.at += 1;
                    SkillObject::default().into()
                }
                _ => self.scalar()?,
            };
            self.weigh(value.weight())?;
            // The value ends every list and object of which it is the last part.
            loop {
                let Some(container) = open.last_mut() else { return Ok(value) };
                self.skip_blanks();
                let byte = self.peek()?;
                match container {
                    OpenValue::List(items) => items.push(value),
                    OpenValue::Object(object, name) => object.set(Arc::clone(name), value),
                }
                match (byte, &mut *container) {
                    (b',', OpenValue::List(_)) => {
                        self.at += 1;
                        break;
                    }
                    (b',', OpenValue::Object(_, name)) => {
                        self.at += 1;
                        self.skip_blanks();
                        *name = self.field_name()?;
                        break;
                    }
                    (b']', OpenValue::List(_)) | (b'}', OpenValue::Object(..)) => self.at += 1,
                    _ => return Err(JsonFault::Unexpected(self.at)),
                }
                value = match open.pop() {
                    Some(OpenValue::List(items)) => SkillValue::list(items),
                    Some(OpenValue::Object(object, _)) => object.finish().into(),
                    None => return Err(JsonFault::Unexpected(self.at)),
                };
            }
        }
    }

    fn weigh(&mut self, bytes: usize) -> Result<(), JsonFault> {
        self.weight += bytes;
        if self.weight > self.limit { Err(JsonFault::TooLarge(self.limit)) } else { Ok(()) }
    }

    fn field_name(&mut self) -> Result<Arc<str>, JsonFault> {
        if self.peek()? != b'"' {
            return Err(JsonFault::Unexpected(self.at));
        }
        let name = self.string()?;
        self.skip_blanks();
        if self.peek()? != b':' {
            return Err(JsonFault::Unexpected(self.at));
        }
        self.at += 1;
        self.weigh(FIELD_WEIGHT + name.len())?;
        Ok(name.into())
    }

    fn scalar(&mut self) -> Result<SkillValue, JsonFault> {
        match self.peek()? {
            b'"' => Ok(self.string()?.into()),
            b't' => self.word("true", SkillValue::Bool(true)),
            b'f' => self.word("false", SkillValue::Bool(false)),
            b'n' => self.word("null", SkillValue::Null),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(JsonFault::Unexpected(self.at)),
        }
    }

    fn word(&mut self, word: &str, value: SkillValue) -> Result<SkillValue, JsonFault> {
        if !self.text[self.at..].starts_with(word) {
            return Err(JsonFault::Unexpected(self.at));
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<SkillValue, JsonFault> {
        let start = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        if self.peek()? == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        self.text[start..self.at].parse().map(SkillValue::Number).map_err(|_| JsonFault::Unexpected(start))
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start {
            Err(self.peek().map_or(JsonFault::End, |_| JsonFault::Unexpected(start)))
        } else {
            Ok(())
        }
    }

    /// Reads a string. Half of a surrogate pair becomes U+FFFD, because a text cannot hold it.
    fn string(&mut self) -> Result<String, JsonFault> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            while self.bytes.get(self.at).is_some_and(|b| *b >= 0x20 && *b != b'"' && *b != b'\\') {
                self.at += 1;
            }
            out.push_str(&self.text[start..self.at]);
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => {
                    self.at += 1;
                    let c = self.escape()?;
                    out.push(c);
                }
                _ => return Err(JsonFault::Unexpected(self.at)),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonFault> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.hex_unit()?;
                if !(0xD800..0xDC00).contains(&unit) {
                    return Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                let behind = self.at;
                if self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    let low = self.hex_unit()?;
                    if (0xDC00..0xE000).contains(&low) {
                        let code = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                        return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    self.at = behind;
                }
                char::REPLACEMENT_CHARACTER
            }
            _ => return Err(JsonFault::Unexpected(self.at - 1)),
        })
    }

    fn hex_unit(&mut self) -> Result<u32, JsonFault> {
        let digits = self.bytes.get(self.at..self.at + 4).ok_or(JsonFault::End)?;
        let unit = digits.iter().try_fold(0, |unit, byte| Some(unit * 16 + char::from(*byte).to_digit(16)?));
        let unit = unit.ok_or(JsonFault::Unexpected(self.at))?;
        self.at += 4;
        Ok(unit)
    }

    fn skip_blanks(&mut self) {
        while self.bytes.get(self.at).is_some_and(|b| is_json_blank(char::from(*b))) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Result<u8, JsonFault> {
        self.bytes.get(self.at).copied().ok_or(JsonFault::End)
    }
}

fn deep_enough(open: &[OpenValue]) -> Result<(), JsonFault> {
    if open.len() > DEEPEST { Err(JsonFault::Depth) } else { Ok(()) }
}

/// Appends the compact JSON of a value.
pub fn write(value: &SkillValue, out: &mut String) {
    match value {
        SkillValue::Null => out.push_str("null"),
        SkillValue::Bool(true) => out.push_str("true"),
        SkillValue::Bool(false) => out.push_str("false"),
        SkillValue::Number(number) if number.is_finite() => write_number(*number, out),
        SkillValue::Number(_) => out.push_str("null"),
        SkillValue::Text(text) => write_string(text, out),
        SkillValue::Placeholder(_) => out.push_str("{}"),
        SkillValue::List(list) => {
            out.push('[');
            list.with(|items| {
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write(item, out);
                }
            });
            out.push(']');
        }
        SkillValue::Object(object) => {
            out.push('{');
            for (index, (name, value)) in object.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(name, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut written = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0C => "\\f",
            0x00..=0x1F => "\\u00",
            _ => continue,
        };
        out.push_str(&text[written..at]);
        out.push_str(escape);
        if escape == "\\u00" {
            out.push(if byte < 0x10 { '0' } else { '1' });
            out.push(char::from_digit(u32::from(byte & 0xF), 16).unwrap_or('0'));
        }
        written = at + 1;
    }
    out.push_str(&text[written..]);
    out.push('"');
}

#[cfg(test)]
mod tests;
