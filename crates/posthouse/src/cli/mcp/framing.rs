//! Framing of messages on standard input and output: one per line, or each behind a header with its length.
//!
//! Both are in use: official clients write lines, and the reference runtime writes headers by default. The first bytes of
//! the input tell which one it is, and the output follows the input.

use std::io::{self, BufRead, Read, Write};

/// The largest message: one entry of data with every byte escaped, and room for the rest.
const LARGEST: u64 = 8 * 1024 * 1024;
/// The longest line of a header.
const LONGEST_HEADER: u64 = 1024;

/// How messages are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One message per line.
    Lines,
    /// `Content-Length: N`, an empty line, and N bytes.
    Headers,
}

impl Framing {
    /// The framing of an input, by its first bytes. None if it ends before there are any.
    pub fn detect(input: &mut impl BufRead) -> io::Result<Option<Self>> {
        loop {
            let ahead = input.fill_buf()?;
            let Some(first) = ahead.first().copied() else { return Ok(None) };
            if !first.is_ascii_whitespace() {
                // A header begins with a letter, and JSON that is a message with a brace.
                return Ok(Some(if first.is_ascii_alphabetic() { Self::Headers } else { Self::Lines }));
            }
            input.consume(1);
        }
    }

    /// The next message. None at the end of the input.
    pub fn read(self, input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::Lines => loop {
                let Some(line) = read_line(input, LARGEST)? else { return Ok(None) };
                if !line.trim_ascii().is_empty() {
                    return Ok(Some(line.trim_ascii().to_vec()));
                }
            },
            Self::Headers => {
                let Some(length) = read_length(input)? else { return Ok(None) };
                let mut message = Vec::new();
                input.take(length).read_to_end(&mut message)?;
                if message.len() as u64 == length { Ok(Some(message)) } else { Ok(None) }
            }
        }
    }

    /// Writes a message, and makes sure that it leaves.
    pub fn write(self, output: &mut impl Write, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Lines => {
                output.write_all(message)?;
                output.write_all(b"\n")?;
            }
            Self::Headers => {
                write!(output, "Content-Length: {}\r\n\r\n", message.len())?;
                output.write_all(message)?;
            }
        }
        output.flush()
    }
}

/// The length that a header names. None at the end of the input.
fn read_length(input: &mut impl BufRead) -> io::Result<Option<u64>> {
    let mut length = None;
    loop {
        let Some(line) = read_line(input, LONGEST_HEADER)? else { return Ok(None) };
        let line = line.trim_ascii();
        if line.is_empty() {
            match length {
                Some(length) => return Ok(Some(length)),
                // Empty lines between two messages do no harm.
                None => continue,
            }
        }
        let line = String::from_utf8_lossy(line);
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            let named = value.trim().parse().ok().filter(|length| *length <= LARGEST);
            length =
                Some(named.ok_or_else(|| invalid("the length of a message is not a number up to 8 MiB"))?);
        }
    }
}

/// A line without its end. None at the end of the input.
fn read_line(input: &mut impl BufRead, longest: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.take(longest + 1).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') && line.len() as u64 > longest {
        return Err(invalid("a line of the input is too long"));
    }
    Ok(Some(line))
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(input: &str) -> io::Result<Vec<String>> {
        let mut input = io::BufReader::with_capacity(3, input.as_bytes());
        let Some(framing) = Framing::detect(&mut input)? else { return Ok(Vec::new()) };
        let mut read = Vec::new();
        while let Some(message) = framing.read(&mut input)? {
            read.push(String::from_utf8(message).unwrap());
        }
        Ok(read)
    }

    #[test]
    fn lines_are_messages_and_empty_ones_are_not() {
        assert_eq!(
            messages("{\"a\":1}\n\n  \r\n{\"b\":2}\r\n{\"c\":3}").unwrap(),
            ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"]
        );
        assert!(messages("").unwrap().is_empty() && messages(" \n\n").unwrap().is_empty());
        // Junk is a message too: its sender hears that it is no JSON.
        assert_eq!(messages("[junk\n").unwrap(), ["[junk"]);
    }

    #[test]
    fn a_header_names_the_length_of_the_message_behind_it() {
        let input = "content-length: 5\r\nContent-Type: x\r\n\r\n{\n\n1}Content-Length: 2\n\n{}";
        assert_eq!(messages(input).unwrap(), ["{\n\n1}", "{}"]);
        // A message that breaks off is none.
        assert!(messages("Content-Length: 9\r\n\r\n{}").unwrap().is_empty());
        assert!(messages("Content-Length: 2\r\n").unwrap().is_empty());
    }

    #[test]
    fn a_length_that_is_none_and_one_without_bounds_are_errors() {
        for bad in ["x", "-1", "8388609", "99999999999999999999"] {
            assert!(messages(&format!("Content-Length: {bad}\r\n\r\n{{}}")).is_err(), "{bad}");
        }
        assert!(messages(&format!("Content-Length: 2{}", " ".repeat(2000))).is_err());
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        for framing in [Framing::Lines, Framing::Headers] {
            let mut output = Vec::new();
            for message in ["{\"a\":\"ü\"}", "{}"] {
                framing.write(&mut output, message.as_bytes()).unwrap();
            }
            let output = String::from_utf8(output).unwrap();
            assert_eq!(messages(&output).unwrap(), ["{\"a\":\"ü\"}", "{}"]);
        }
    }
}
