//! Forms of the type `multipart/form-data`, read as a whole.

use bytes::Bytes;
use http::{HeaderMap, header};

/// One field of a form.
pub(super) struct FormPart {
    pub name: String,
    /// Set if the field is a file.
    pub file_name: Option<String>,
    pub content: Bytes,
}

/// The fields of a form. `None` if it cannot be read.
pub(super) fn parts(headers: &HeaderMap, body: &Bytes) -> Option<Vec<FormPart>> {
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
        assert_eq!(&found[1].content[..], b"\r\n--x");
        assert!(parts(&headers, &Bytes::from("--xYz\r\nbroken")).is_none());
        assert!(parts(&HeaderMap::new(), &Bytes::new()).is_none());
    }
}
