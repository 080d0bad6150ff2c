//! Names and types of files, made safe for headers and for the disks of peers.

/// The longest name, in bytes.
const LONGEST: usize = 255;
/// The longest extension that counts as one, in bytes with its dot.
const LONGEST_EXTENSION: usize = 16;
/// Type of a file of which nothing is known.
pub(crate) const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Extensions of common types. A stock gateway tells the model the type by the extension alone.
const EXTENSIONS: &[(&str, &str)] = &[
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/heic", "heic"),
    ("audio/ogg", "ogg"),
    ("audio/opus", "opus"),
    ("audio/mpeg", "mp3"),
    ("audio/mp4", "m4a"),
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("audio/flac", "flac"),
    ("video/mp4", "mp4"),
    ("video/webm", "webm"),
    ("video/quicktime", "mov"),
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
    ("application/json", "json"),
    ("application/x-tgsticker", "tgs"),
    ("text/plain", "txt"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/markdown", "md"),
];

/// Reads a file name from a header. Python sends names outside ASCII as Latin-1, other clients as UTF-8.
pub(crate) fn name_in_header(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// The name without folders and without characters that could end a quoted header value. It always has an extension:
/// its own, or the one of the type.
pub fn safe_filename(proposed: &str, mime: &str) -> String {
    let base = proposed.rsplit(['/', '\\']).next().unwrap_or_default();
    let safe = |c: char| {
        if c.is_ascii_graphic() && !matches!(c, '"' | '\\' | ';' | '%') || c == ' ' { c } else { '_' }
    };
    let clean: String = base.chars().map(safe).collect();
    // A name that begins with a dot would be hidden, and `..` names a folder.
    let clean = clean.trim().trim_start_matches('.').trim_end_matches([' ', '.']);
    let (stem, extension) = match clean.rfind('.') {
        Some(at) if at > 0 && clean.len() - at <= LONGEST_EXTENSION => clean.split_at(at),
        _ => (clean, ""),
    };
    let extension = match extension {
        "" => extension_of(mime).map_or_else(String::new, |extension| format!(".{extension}")),
        own => own.to_owned(),
    };
    let stem = if stem.is_empty() { "file" } else { stem };
    // Everything is ASCII by now.
    format!("{}{extension}", &stem[..stem.len().min(LONGEST - extension.len())])
}

/// The name with the extension of this type, for a file that is not what its name says.
pub(super) fn filename_of_type(proposed: &str, mime: &str) -> String {
    let safe = safe_filename(proposed, mime);
    let stem = safe.rsplit_once('.').map_or(&*safe, |(stem, _)| stem);
    safe_filename(&format!("{stem}.{}", extension_of(mime).unwrap_or("bin")), mime)
}

/// The type without parameters, or the unknown type if it is not one.
pub fn safe_type(proposed: Option<&str>) -> String {
    let essence = proposed.and_then(|text| text.split(';').next()).unwrap_or_default().trim();
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
    };
    let is_type = essence.len() <= 127
        && essence.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub));
    if is_type { essence.to_ascii_lowercase() } else { UNKNOWN_TYPE.to_owned() }
}

/// The type that a file name suggests.
pub fn type_of_name(name: &str) -> Option<&'static str> {
    let extension = name.rsplit_once('.')?.1.to_ascii_lowercase();
    let extension = if extension == "jpeg" { "jpg" } else { &extension };
    EXTENSIONS.iter().find(|(_, known)| *known == extension).map(|(mime, _)| *mime)
}

fn extension_of(mime: &str) -> Option<&'static str> {
    EXTENSIONS.iter().find(|(known, _)| *known == mime).map(|(_, extension)| *extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_extension_or_gets_the_one_of_its_type() {
        for (proposed, mime, expected) in [
            ("a.png", "image/png", "a.png"),
            ("photo", "image/jpeg", "photo.jpg"),
            ("", "audio/ogg", "file.ogg"),
            ("archive.tar.gz", UNKNOWN_TYPE, "archive.tar.gz"),
            ("notes", UNKNOWN_TYPE, "notes"),
            ("résumé.pdf", "application/pdf", "r_sum_.pdf"),
            ("../../etc/passwd", UNKNOWN_TYPE, "passwd"),
            ("C:\\temp\\x.txt", "text/plain", "x.txt"),
            ("..", "text/plain", "file.txt"),
            (".bashrc", UNKNOWN_TYPE, "bashrc"),
            ("a\"; filename=\"b.exe", UNKNOWN_TYPE, "a__ filename=_b.exe"),
            ("a\r\nX-Evil: 1.png", "image/png", "a__X-Evil: 1.png"),
        ] {
            assert_eq!(safe_filename(proposed, mime), expected, "{proposed}");
        }
        let long = safe_filename(&format!("{}.png", "x".repeat(400)), "image/png");
        assert_eq!((long.len(), &long[251..]), (255, ".png"));
    }

    #[test]
    fn a_name_in_a_header_is_read_as_utf_8_or_latin_1() {
        assert_eq!(name_in_header("é.pdf".as_bytes()), "é.pdf");
        assert_eq!(name_in_header(b"r\xe9sum\xe9.pdf"), "résumé.pdf");
    }

    #[test]
    fn a_type_has_two_words_and_nothing_else() {
        assert_eq!(safe_type(Some("Image/PNG; charset=x")), "image/png");
        for odd in ["", "png", "a/b/c", "text/\u{e9}", "text/x\r\ny", "/", "a/"] {
            assert_eq!(safe_type(Some(odd)), UNKNOWN_TYPE, "{odd:?}");
        }
        assert_eq!(safe_type(None), UNKNOWN_TYPE);
        assert_eq!(type_of_name("A.JPEG"), Some("image/jpeg"));
    }
}
