//! Frames of Feishu's long connection: one protobuf message of nine fields, read and written by hand.

use bytes::Bytes;

/// Most headers of a frame that are read.
const MOST_HEADERS: usize = 64;
/// Wire types of protobuf.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED_32: u64 = 5;

/// `method` of a frame about the connection itself.
pub const CONTROL: i32 = 0;
/// `method` of a frame with an event.
pub const DATA: i32 = 1;

/// A frame. The first four fields are always there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeishuFrame {
    pub sequence: u64,
    pub log_id: u64,
    pub service: i32,
    pub method: i32,
    pub headers: Vec<(String, String)>,
    pub payload_encoding: Option<String>,
    pub payload_type: Option<String>,
    pub payload: Option<Bytes>,
    pub new_log_id: Option<String>,
}

impl FeishuFrame {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Reads a frame. `None` if it is not valid. Unknown fields are skipped; of a repeated field the last one counts,
    /// as protobuf has it.
    pub fn read(bytes: &[u8]) -> Option<FeishuFrame> {
        let mut frame = FeishuFrame::default();
        let mut seen = 0_u8;
        let mut reader = FieldReader(bytes);
        while let Some((number, field)) = reader.next()? {
            match (number, field) {
                (1, WireField::Number(value)) => frame.sequence = value,
                (2, WireField::Number(value)) => frame.log_id = value,
                // An int32 below zero is written with the 64 bits of an int64.
                (3, WireField::Number(value)) => frame.service = value as i32,
                (4, WireField::Number(value)) => frame.method = value as i32,
                (5, WireField::Bytes(header)) if frame.headers.len() < MOST_HEADERS => {
                    frame.headers.push(read_header(header)?);
                }
                (6, WireField::Bytes(text)) => frame.payload_encoding = Some(text_of(text)?),
                (7, WireField::Bytes(text)) => frame.payload_type = Some(text_of(text)?),
                (8, WireField::Bytes(payload)) => frame.payload = Some(Bytes::copy_from_slice(payload)),
                (9, WireField::Bytes(text)) => frame.new_log_id = Some(text_of(text)?),
                (1..=9, _) => return None,
                _ => {}
            }
            if (1..=4).contains(&number) {
                seen |= 1 << (number - 1);
            }
        }
        (seen == 0b1111).then_some(frame)
    }

    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.payload.as_ref().map_or(0, Bytes::len));
        write_number(&mut bytes, 1, self.sequence);
        write_number(&mut bytes, 2, self.log_id);
        write_number(&mut bytes, 3, i64::from(self.service) as u64);
        write_number(&mut bytes, 4, i64::from(self.method) as u64);
        for (name, value) in &self.headers {
            let mut header = Vec::with_capacity(name.len() + value.len() + 8);
            write_bytes(&mut header, 1, name.as_bytes());
            write_bytes(&mut header, 2, value.as_bytes());
            write_bytes(&mut bytes, 5, &header);
        }
        let texts = [(6, &self.payload_encoding), (7, &self.payload_type)];
        for (number, text) in texts {
            if let Some(text) = text {
                write_bytes(&mut bytes, number, text.as_bytes());
            }
        }
        if let Some(payload) = &self.payload {
            write_bytes(&mut bytes, 8, payload);
        }
        if let Some(text) = &self.new_log_id {
            write_bytes(&mut bytes, 9, text.as_bytes());
        }
        bytes
    }
}

/// A header has a key and a value, and both must be there.
fn read_header(bytes: &[u8]) -> Option<(String, String)> {
    let (mut name, mut value) = (None, None);
    let mut reader = FieldReader(bytes);
    while let Some((number, field)) = reader.next()? {
        match (number, field) {
            (1, WireField::Bytes(text)) => name = Some(text_of(text)?),
            (2, WireField::Bytes(text)) => value = Some(text_of(text)?),
            (1 | 2, _) => return None,
            _ => {}
        }
    }
    Some((name?, value?))
}

fn text_of(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

enum WireField<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a fixed size, which no field of ours has.
    Other,
}

struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    /// The next field with its number. `Some(None)` at the end, `None` if the bytes are not valid.
    #[allow(clippy::option_option)]
    fn next(&mut self) -> Option<Option<(u64, WireField<'a>)>> {
        if self.0.is_empty() {
            return Some(None);
        }
        let key = self.varint()?;
        let field = match key & 7 {
            VARINT => WireField::Number(self.varint()?),
            LENGTH => {
                let length = usize::try_from(self.varint()?).ok()?;
                WireField::Bytes(self.take(length)?)
            }
            FIXED_64 => self.take(8).map(|_| WireField::Other)?,
            FIXED_32 => self.take(4).map(|_| WireField::Other)?,
            _ => return None,
        };
        (key >> 3 != 0).then_some(Some((key >> 3, field)))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for place in 0..10 {
            let byte = *self.take(1)?.first()?;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

fn write_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn write_number(bytes: &mut Vec<u8>, field: u64, number: u64) {
    write_varint(bytes, field << 3 | VARINT);
    write_varint(bytes, number);
}

fn write_bytes(bytes: &mut Vec<u8>, field: u64, content: &[u8]) {
    write_varint(bytes, field << 3 | LENGTH);
    write_varint(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_without_a_required_field_or_with_a_cut_one_is_refused() {
        let whole = FeishuFrame { headers: vec![("type".into(), "event".into())], ..FeishuFrame::default() };
        let bytes = whole.write();
        assert_eq!(FeishuFrame::read(&bytes), Some(whole));
        for end in 0..bytes.len() {
            assert_eq!(FeishuFrame::read(&bytes[..end]).filter(|frame| !frame.headers.is_empty()), None);
        }
        assert_eq!(FeishuFrame::read(&[0xff; 11]), None, "a number of more than ten bytes");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(frame) = FeishuFrame::read(&bytes) {
                prop_assert_eq!(FeishuFrame::read(&frame.write()), Some(frame));
            }
        }
    }
}
