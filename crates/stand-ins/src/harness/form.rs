//! Forms (multipart and URL-encoded) and percent-escaped paths.

use bytes::Bytes;
use http::{HeaderMap, header};

/// One field of a form of the type `multipart/form-data`.
pub(crate) struct FormPart {
    pub name: String,
    /// Set if the field is a file.
    pub file_name: Option<String>,
    /// The type that the sender claims.
    pub content_type: Option<String>,
    pub content: Bytes,
}

/// The fields of a form. `None` if it cannot be read.
pub(crate) fn parts(headers: &HeaderMap, body: &Bytes) -> Option<Vec<FormPart>> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let boundary = kind.split("boundary=").nth(1)?.split(';').next()?.trim().trim_matches('"');
    let delimiter = format!("\r\n--{boundary}");
    let mut at = find(body, delimiter.trim_start().as_bytes(), 0)? + delimiter.len() - 2;
    let mut found = Vec::new();
    while body.get(at..at + 2)? == b"\r\n" {
        let head_end = find(body, b"\r\n\r\n", at)?;
        let end = find(body, delimiter.as_bytes(), head_end + 2)?;
        let head = std::str::from_utf8(&body[at..head_end]).ok()?;
        found.push(FormPart {
            name: parameter(head, "name")?,
            file_name: parameter(head, "filename"),
            content_type: content_type(head),
            content: body.slice((head_end + 4).min(end)..end),
        });
        at = end + delimiter.len();
    }
    Some(found)
}

/// A parameter of the `Content-Disposition` in the head of a part.
fn parameter(head: &str, name: &str) -> Option<String> {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-disposition"))?;
    let parameters = line.split(';').skip(1).filter_map(|pair| pair.trim().split_once('='));
    let value = parameters.into_iter().find(|(found, _)| *found == name)?.1;
    Some(value.trim_matches('"').to_owned())
}

fn content_type(head: &str) -> Option<String> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let kind = lines.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("content-type"))?.1;
    Some(kind.trim().to_owned())
}

/// The fields of a form of the type `application/x-www-form-urlencoded`, in order. A field without a value is empty.
pub(crate) fn read_pairs(body: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(body);
    let plain = |part: &str| unescape(&part.replace('+', " "));
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (plain(name), plain(value)))
        .collect()
}

/// Writes such a form.
pub(crate) fn write_pairs(pairs: &[(String, String)]) -> String {
    let written = pairs.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value)));
    written.collect::<Vec<_>>().join("&")
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => escaped.push(byte.into()),
            b' ' => escaped.push('+'),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// Clients may escape any character of a path.
pub(crate) fn unescape(path: &str) -> String {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => (*high as char).to_digit(16).zip((*low as char).to_digit(16)),
            _ => None,
        };
        if let Some((high, low)) = escaped {
            plain.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
            rest = &rest[3..];
        } else {
            plain.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn find(body: &[u8], what: &[u8], from: usize) -> Option<usize> {
    let rest = body.get(from..)?;
    let first = *what.first()?;
    let mut at = 0;
    // Comparing at each place of a long file would be slow, so it looks for the first byte.
    while let Some(next) = rest.get(at..)?.iter().position(|byte| *byte == first) {
        at += next;
        if rest[at..].starts_with(what) {
            return Some(from + at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_files_are_told_apart() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "multipart/form-data; boundary=xYz".parse().unwrap());
        let body = "--xYz\r\nContent-Disposition: form-data; name=\"chat_id\"\r\n\r\n42\r\n\
                    --xYz\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"a.png\"\r\n\
                    Content-Type: image/png\r\n\r\n\r\n--x\r\n--xYz--\r\n";
        let found = parts(&headers, &Bytes::from(body)).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((&*found[0].name, &found[0].content[..]), ("chat_id", &b"42"[..]));
        assert_eq!(found[1].file_name.as_deref(), Some("a.png"));
        assert_eq!(found[1].content_type.as_deref(), Some("image/png"));
        assert_eq!(&found[1].content[..], b"\r\n--x");
        assert!(parts(&headers, &Bytes::from("--xYz\r\nbroken")).is_none());
        assert!(parts(&HeaderMap::new(), &Bytes::new()).is_none());
    }

    #[test]
    fn a_written_form_is_read_back() {
        let pairs = [("a b", "1+1=2&c"), ("empty", ""), ("owl", "🦉 é")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read_pairs(write_pairs(&pairs).as_bytes()), pairs);
        assert_eq!(read_pairs(b"alone&x=%2B"), [("alone".into(), String::new()), ("x".into(), "+".into())]);
    }
}
