//! What is to be said: from the command line, or from whoever pipes into us.

use std::io::{IsTerminal, Read};

use anyhow::{Context, bail};

/// The longest text that the house takes.
const LONGEST: usize = 256 * 1024;

/// The text that was given; nothing when there is none, or an empty one. `-`, or none at all where
/// somebody pipes into us, reads what is piped.
pub fn read(given: Option<String>) -> anyhow::Result<Option<String>> {
    let text = match given {
        Some(text) if text != "-" => text,
        None if std::io::stdin().is_terminal() => return Ok(None),
        Some(_) | None => piped(std::io::stdin().lock())?,
    };
    if text.len() > LONGEST {
        bail!("the text is longer than {LONGEST} bytes");
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// The same where something has to be said.
pub fn needed(given: Option<String>) -> anyhow::Result<String> {
    read(given)?.context("there is nothing to say: give a text, or pipe one in")
}

fn piped(from: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    // One more than may be, so that a longer text is noticed and not cut.
    let most = u64::try_from(LONGEST + 2).unwrap_or(u64::MAX);
    from.take(most).read_to_end(&mut bytes).context("cannot read what is piped in")?;
    let text = String::from_utf8(bytes).context("what is piped in is no UTF-8 text")?;
    // The line break that `echo` and editors put at the end is not part of it.
    Ok(text
        .strip_suffix('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .unwrap_or(&text)
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piped_text_loses_one_line_break_and_nothing_else() {
        for (typed, meant) in
            [("hello\n", "hello"), ("a\n\nb\n\n", "a\n\nb\n"), ("x", "x"), ("x\r\n", "x"), ("", "")]
        {
            assert_eq!(piped(typed.as_bytes()).unwrap(), meant);
        }
        assert!(piped([0xff, 0xfe].as_slice()).is_err());
    }

    #[test]
    fn what_the_house_would_refuse_for_its_length_is_refused_here() {
        assert!(read(Some("x".repeat(LONGEST))).unwrap().is_some());
        assert!(read(Some("x".repeat(LONGEST + 1))).is_err());
        assert_eq!(piped("x".repeat(LONGEST * 2).as_bytes()).unwrap().len(), LONGEST + 2);
        assert!(needed(Some(String::new())).is_err());
    }
}
