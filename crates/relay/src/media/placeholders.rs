//! Short texts for attachments that could not be fetched, so that no agent gets an empty message.

use posthouse_wire::event::Media;

/// The text for one attachment.
pub(super) fn placeholder(media: &Media) -> String {
    let name = media.filename.as_deref().map(str::trim).filter(|name| !name.is_empty());
    match (media.kind.as_str(), name) {
        ("photo" | "image", _) => "[photo]".to_owned(),
        ("voice", _) => "[voice message]".to_owned(),
        ("video", _) => "[video]".to_owned(),
        ("audio", _) => "[audio]".to_owned(),
        ("sticker", _) => match media.caption.as_deref() {
            Some(emoji) if !emoji.is_empty() => format!("[sticker: {emoji}]"),
            _ => "[sticker]".to_owned(),
        },
        (_, Some(name)) => format!("[file: {name}]"),
        (_, None) => "[file]".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_text() {
        let text = |kind: &str, name: Option<&str>| {
            let filename = name.map(str::to_owned);
            placeholder(&Media { kind: kind.to_owned(), filename, ..Media::default() })
        };
        assert_eq!(text("photo", None), "[photo]");
        assert_eq!(text("voice", None), "[voice message]");
        assert_eq!(text("document", Some("a.pdf")), "[file: a.pdf]");
        assert_eq!(text("unheard of", Some(" ")), "[file]");
        let sticker =
            Media { kind: "sticker".to_owned(), caption: Some("🦆".to_owned()), ..Media::default() };
        assert_eq!(placeholder(&sticker), "[sticker: 🦆]");
    }
}
