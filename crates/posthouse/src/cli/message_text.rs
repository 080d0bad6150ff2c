//! Message texts, from the command line or from standard input.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;

use anyhow::{Context, bail};

/// The longest text that the server accepts.
const LONGEST: usize = 256 * 1024;

/// Parses a text argument, which may begin with a hyphen. A single word that looks like an option is
/// refused: it is probably a misspelt option and must not be sent.
pub fn argument(text: &str) -> Result<String, String> {
    let option = |word: &str| word.starts_with(char::is_alphabetic) && !word.contains(char::is_whitespace);
    match text.strip_prefix("--").is_some_and(option) {
        true => {
            Err("there is no such option; to send a text that looks like one, pipe it in and use `-`"
                .to_owned())
        }
        false => Ok(text.to_owned()),
    }
}

/// An optional text; none if it is absent or empty. Only `-` reads standard input, because a script may
/// have a pipe there that never ends. A user who may have piped something without `-` gets a warning, so
/// that they do not think it was sent.
pub fn optional(given: Option<String>) -> anyhow::Result<Option<String>> {
    let text = match given.as_deref() {
        None => {
            if is_fed() {
                eprintln!("posthouse: standard input is ignored; use `-` as the text to read it");
            }
            return Ok(None);
        }
        Some("-") => piped(std::io::stdin().lock())?,
        Some(text) => text.to_owned(),
    };
    if text.len() > LONGEST {
        bail!("the text is longer than {LONGEST} bytes");
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// A required text. If it is absent, standard input is read when something is piped in.
pub fn needed(given: Option<String>) -> anyhow::Result<String> {
    let unasked = || (!std::io::stdin().is_terminal()).then(|| "-".to_owned());
    optional(given.or_else(unasked))?.context("no text: give one as an argument, or pipe it in")
}

/// Whether standard input is a pipe, or a file that is not empty. The content of a pipe is not known before
/// it is read.
fn is_fed() -> bool {
    let input = std::io::stdin().as_fd().try_clone_to_owned().and_then(|input| File::from(input).metadata());
    input.is_ok_and(|input| input.file_type().is_fifo() || (input.is_file() && input.len() > 0))
}

fn piped(from: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    // Reads more than the limit, so that a longer text is detected and not cut.
    let most = u64::try_from(LONGEST + 2).unwrap_or(u64::MAX);
    from.take(most).read_to_end(&mut bytes).context("cannot read standard input")?;
    let text = String::from_utf8(bytes).context("standard input is not UTF-8")?;
    // Removes the line break that `echo` and editors put at the end.
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
    fn a_text_may_begin_with_a_hyphen_and_a_misspelt_option_is_no_text() {
        for text in ["-5 degrees", "-", "--", "-l", "--dry run", "---", "--5"] {
            assert_eq!(argument(text).as_deref(), Ok(text));
        }
        for option in ["--tennant", "--tennant=acme"] {
            assert!(argument(option).is_err(), "{option}");
        }
    }

    #[test]
    fn what_the_server_would_refuse_for_its_length_is_refused_here() {
        assert!(optional(Some("x".repeat(LONGEST))).unwrap().is_some());
        assert!(optional(Some("x".repeat(LONGEST + 1))).is_err());
        assert_eq!(optional(None).unwrap(), None);
        assert_eq!(piped("x".repeat(LONGEST * 2).as_bytes()).unwrap().len(), LONGEST + 2);
        assert!(needed(Some(String::new())).is_err());
    }
}
