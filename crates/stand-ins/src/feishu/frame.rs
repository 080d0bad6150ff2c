//! Frames of the long connection: protobuf, of which only what Feishu itself writes and reads.

/// A frame.
#[derive(Clone, Debug, Default)]
pub(super) struct SentFrame {
    pub sequence: u64,
    pub service: u64,
    /// 0: about the connection, 1: an event.
    pub method: u64,
    pub headers: Vec<(String, String)>,
    pub payload: Vec<u8>,
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

fn block(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    varint(out, content.len() as u64);
    out.extend(content);
}

fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn read_block<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(read_varint(rest)?).ok()?;
    let (content, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(content)
}

fn read_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl SentFrame {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (tag, value) in [(0x08, self.sequence), (0x10, 0), (0x18, self.service), (0x20, self.method)] {
            out.push(tag);
            varint(&mut out, value);
        }
        for (key, value) in &self.headers {
            let mut pair = Vec::new();
            block(&mut pair, 0x0a, key.as_bytes());
            block(&mut pair, 0x12, value.as_bytes());
            block(&mut out, 0x2a, &pair);
        }
        block(&mut out, 0x42, &self.payload);
        out
    }

    /// A frame of a client. `None` if it lacks one of the first four fields, or cannot be read.
    pub fn decode(mut rest: &[u8]) -> Option<SentFrame> {
        let mut frame = SentFrame::default();
        let mut numbers = [None; 4];
        while let Some((tag, after)) = rest.split_first() {
            rest = after;
            match tag {
                0x08 | 0x10 | 0x18 | 0x20 => {
                    numbers[usize::from(tag >> 3) - 1] = Some(read_varint(&mut rest)?);
                }
                0x2a => {
                    let mut pair = read_block(&mut rest)?;
                    let (mut key, mut value) = (None, None);
                    while let Some((tag, after)) = pair.split_first() {
                        pair = after;
                        let text = read_text(read_block(&mut pair)?);
                        match tag {
                            0x0a => key = Some(text),
                            _ => value = Some(text),
                        }
                    }
                    frame.headers.push((key?, value?));
                }
                0x42 => frame.payload = read_block(&mut rest)?.to_vec(),
                _ => {
                    read_block(&mut rest)?;
                }
            }
        }
        let [Some(sequence), Some(_), Some(service), Some(method)] = numbers else { return None };
        Some(SentFrame { sequence, service, method, ..frame })
    }
}
