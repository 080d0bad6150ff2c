//! XML envelopes of WeCom: the texts of the elements directly below `<xml>`.
//!
//! A document type, an entity other than the five of XML, a processing instruction, deep nesting or a very long text
//! makes the whole document unreadable.

use quick_xml::Reader;
use quick_xml::events::Event as XmlEvent;

const MOST_DEPTH: usize = 8;
const MOST_ELEMENTS: usize = 256;
/// Longest text of an element, in bytes. An encrypted message of the longest text needs about 4 KiB.
const LONGEST_TEXT: usize = 256 << 10;

/// The elements directly below the root, by name.
pub(super) struct XmlFields(Vec<(String, String)>);

impl XmlFields {
    /// Reads a document. `None` if it is not exactly one `<xml>` element, or uses more of XML than WeCom does.
    pub fn read(text: &str) -> Option<Self> {
        let mut reader = Reader::from_str(text);
        let mut fields: Vec<(String, String)> = Vec::new();
        let (mut depth, mut elements, mut has_root) = (0_usize, 0_usize, false);
        loop {
            let event = reader.read_event().ok()?;
            match &event {
                XmlEvent::Start(start) | XmlEvent::Empty(start) => {
                    elements += 1;
                    let name = start.name().0;
                    match depth {
                        0 if has_root || name != "xml" => return None,
                        0 => has_root = true,
                        // Which of two would count depends on the reader.
                        1 if fields.iter().any(|(known, _)| known == name) => return None,
                        1 => fields.push((name.to_owned(), String::new())),
                        _ => {}
                    }
                    if matches!(event, XmlEvent::Start(_)) {
                        depth += 1;
                    }
                    if depth > MOST_DEPTH || elements > MOST_ELEMENTS {
                        return None;
                    }
                }
                XmlEvent::End(_) => depth = depth.checked_sub(1)?,
                XmlEvent::Text(text) => add(&mut fields, depth, &text.xml10_content())?,
                XmlEvent::CData(text) => add(&mut fields, depth, &text.xml10_content())?,
                XmlEvent::GeneralRef(reference) => {
                    let letter = match &**reference {
                        "lt" => '<',
                        "gt" => '>',
                        "amp" => '&',
                        "apos" => '\'',
                        "quot" => '"',
                        _ => reference.resolve_char_ref().ok()??,
                    };
                    add(&mut fields, depth, letter.encode_utf8(&mut [0; 4]))?;
                }
                XmlEvent::Decl(_) if !has_root => {}
                XmlEvent::Comment(_) => {}
                XmlEvent::Eof => return (has_root && depth == 0).then_some(Self(fields)),
                XmlEvent::Decl(_) | XmlEvent::PI(_) | XmlEvent::DocType(_) => return None,
            }
        }
    }

    /// The text of an element. An empty one counts as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.as_str()).filter(|text| !text.is_empty())
    }
}

/// Adds to the text of the element that is being read. Only white space may be elsewhere.
fn add(fields: &mut [(String, String)], depth: usize, text: &str) -> Option<()> {
    match depth {
        0 => text.trim().is_empty().then_some(()),
        2 => {
            let (_, so_far) = fields.last_mut()?;
            so_far.push_str(text);
            (so_far.len() <= LONGEST_TEXT).then_some(())
        }
        // Nested elements hold nothing that an event needs.
        _ => Some(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_elements_are_read() {
        let text = "<?xml version=\"1.0\"?><xml>\n<A><![CDATA[a <b> ]]></A><B>1 &lt; 2 &amp;&#x4f60;</B><C/>\
                    <D><E>nested</E></D></xml>\n";
        let fields = XmlFields::read(text).unwrap();
        assert_eq!(fields.get("A"), Some("a <b> "));
        assert_eq!(fields.get("B"), Some("1 < 2 &你"));
        assert_eq!((fields.get("C"), fields.get("D"), fields.get("E")), (None, None, None));
        let whole = "<xml><A><![CDATA[x ]]]]><![CDATA[> y]]></A></xml>";
        assert_eq!(XmlFields::read(whole).unwrap().get("A"), Some("x ]]> y"));
    }

    #[test]
    fn tricks_with_xml_are_refused() {
        let deep = format!("<xml>{}{}</xml>", "<a>".repeat(20), "</a>".repeat(20));
        let wide = format!("<xml>{}</xml>", (0..300).map(|at| format!("<a{at}/>")).collect::<String>());
        let long = format!("<xml><A>{}</A></xml>", "x".repeat(LONGEST_TEXT + 1));
        for trick in [
            "<!DOCTYPE x [<!ENTITY a \"b\">]><xml><A>&a;</A></xml>",
            "<!DOCTYPE xml SYSTEM \"file:///etc/passwd\"><xml><A>x</A></xml>",
            "<xml><A>&unknown;</A></xml>",
            "<xml><?php x ?><A>x</A></xml>",
            "<xml><A>1</A><A>2</A></xml>",
            "<xml><A>1</A></xml><xml><A>2</A></xml>",
            "<xml><A>1</A></xml>more",
            "<xml><A>1</B></xml>",
            "<xml><A>1</A>",
            "<other><A>1</A></other>",
            "<xml><A>&#x110000;</A></xml>",
            "",
            "text",
            &deep,
            &wide,
            &long,
        ] {
            assert!(XmlFields::read(trick).is_none(), "{}", &trick[..trick.len().min(80)]);
        }
    }
}
