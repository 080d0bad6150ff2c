//! Form bodies (`application/x-www-form-urlencoded`) of slash commands and interactions.

/// The fields of a form, each decoded once.
pub(super) struct SlackForm(Vec<(String, String)>);

/// Most fields that are read. A slash command has about fifteen.
const MOST_FIELDS: usize = 200;

impl SlackForm {
    /// `None` if it is not a form: an escape is broken, a text is not UTF-8, a name is repeated, or there are too many
    /// fields. Of a repeated name each reader would take another value, so such a form proves nothing.
    pub fn read(body: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        let mut fields: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decoded(name)?;
            if fields.len() == MOST_FIELDS || fields.iter().any(|(known, _)| *known == name) {
                return None;
            }
            fields.push((name, decoded(value)?));
        }
        Some(Self(fields))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                high << 4 | low
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_once() {
        let form = SlackForm::read(b"command=%2Fask&text=a%2Bb+%26+c%3Dd%2541&empty=&bare").unwrap();
        assert_eq!((form.get("command"), form.get("text")), (Some("/ask"), Some("a+b & c=d%41")));
        assert_eq!((form.get("empty"), form.get("bare"), form.get("none")), (Some(""), Some(""), None));
    }

    #[test]
    fn broken_escapes_repeated_names_and_other_bytes_are_no_form() {
        for wrong in [&b"a=%4"[..], b"a=%zz", b"a=%", b"a=%ff", b"a=1&a=2", b"a=1&%61=2", b"\xff=1"] {
            assert!(SlackForm::read(wrong).is_none(), "{}", wrong.escape_ascii());
        }
        let many = vec!["x=1"; 300].iter().enumerate().map(|(n, _)| format!("{n}=1")).collect::<Vec<_>>();
        assert!(SlackForm::read(many.join("&").as_bytes()).is_none());
    }
}
