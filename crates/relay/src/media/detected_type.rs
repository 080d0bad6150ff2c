//! Types of files by their first bytes, for files that are not what their sender declared.
//!
//! A stock gateway passes a picture on to the model by its declared type alone, and a page that is declared as a picture
//! would fail there with every later message of the session.

/// Number of first bytes by which a type is detected. A page may begin with white space.
pub(super) const FIRST_BYTES: usize = 512;

/// The beginning of files, with their type.
const SIGNATURES: [(&[u8], &str); 9] = [
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ\x90\x00", "application/x-executable"),
    (b"OggS", "audio/ogg"),
];
const PAGE: [&[u8]; 2] = [b"<!doctype html", b"<html"];

/// The type that the first bytes of a file prove, if it was declared as a picture, recording or video and is something
/// else. Containers of both sound and pictures are what they are declared as.
pub(super) fn contradicting(declared: &str, start: &[u8]) -> Option<&'static str> {
    let (kind, _) = declared.split_once('/')?;
    let detected = detected(start)?;
    let is_same = match kind {
        "image" => detected == declared || declared == "image/jpg" && detected == "image/jpeg",
        "audio" | "video" => detected == "audio/ogg",
        // A document may well be a page or a picture.
        _ => true,
    };
    (!is_same).then_some(detected)
}

fn detected(start: &[u8]) -> Option<&'static str> {
    if let Some((_, found)) = SIGNATURES.iter().find(|(signature, _)| start.starts_with(signature)) {
        return Some(found);
    }
    if start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    let begins = |with: &&[u8]| text.get(..with.len()).is_some_and(|text| text.eq_ignore_ascii_case(with));
    PAGE.iter().any(begins).then_some("text/html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_what_was_declared_gets_its_own_type() {
        for (declared, start, expected) in [
            ("image/png", &b"\x89PNG\r\n\x1a\n..."[..], None),
            ("image/png", b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            ("image/jpg", b"\xff\xd8\xff\xe0", None),
            ("image/png", b" \n<!DOCTYPE HTML><html>", Some("text/html")),
            ("video/mp4", b"\xef\xbb\xbf<html lang=en>", Some("text/html")),
            ("audio/opus", b"OggS\0", None),
            ("video/ogg", b"OggS\0", None),
            ("image/png", b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp")),
            ("image/heic", b"something else", None),
            ("image/svg+xml", b"<svg xmlns=", None),
            ("text/plain", b"<html>", None),
            ("application/octet-stream", b"%PDF-1.7", None),
            ("image/png", b"%PDF-1.7", Some("application/pdf")),
            ("image/png", b"", None),
        ] {
            assert_eq!(contradicting(declared, start), expected, "{declared} {start:?}");
        }
    }
}
