//! Splitting WebSocket messages into lines, and lines into messages.
//!
//! One message may contain several lines, and one line may span several messages.

/// A line is longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line longer than {limit} bytes")]
pub struct LineTooLong {
    pub limit: usize,
}

/// Assembles lines from messages. It uses no memory while no line is incomplete.
#[derive(Debug)]
pub struct LineAssembler {
    begun: Vec<u8>,
    limit: usize,
}

impl LineAssembler {
    pub fn new(limit: usize) -> Self {
        Self { begun: Vec::new(), limit }
    }

    /// Number of bytes of the incomplete line.
    pub fn begun(&self) -> usize {
        self.begun.len()
    }

    /// Passes every line that `message` completes to `take`, without blank lines.
    pub fn push(&mut self, message: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), LineTooLong> {
        let mut rest = message;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = (&rest[..end], &rest[end + 1..]);
            self.check(head.len())?;
            if self.begun.is_empty() {
                give(head, &mut take);
            } else {
                self.begun.extend_from_slice(head);
                let line = std::mem::take(&mut self.begun);
                give(&line, &mut take);
            }
            rest = tail;
        }
        self.check(rest.len())?;
        self.begun.extend_from_slice(rest);
        Ok(())
    }

    fn check(&self, more: usize) -> Result<(), LineTooLong> {
        if self.begun.len() + more > self.limit { Err(LineTooLong { limit: self.limit }) } else { Ok(()) }
    }
}

fn give(line: &[u8], take: &mut impl FnMut(&[u8])) {
    if !line.iter().all(u8::is_ascii_whitespace) {
        take(line);
    }
}

/// Splits a line into messages of at most `most` bytes. It splits only at character boundaries, because the peer
/// decodes each message separately.
pub fn in_messages(line: &str, most: usize) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut cut = most.max(4).min(rest.len());
        while !rest.is_char_boundary(cut) {
            cut -= 1;
        }
        let (message, tail) = rest.split_at(cut);
        rest = tail;
        Some(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(lines: &mut LineAssembler, message: &str) -> Vec<String> {
        let mut got = Vec::new();
        lines.push(message.as_bytes(), |line| got.push(String::from_utf8(line.to_vec()).unwrap())).unwrap();
        got
    }

    #[test]
    fn many_lines_in_one_message_and_one_line_over_many_messages() {
        let mut lines = LineAssembler::new(100);
        assert_eq!(taken(&mut lines, "a\n\n  \r\nb\nc"), ["a", "b"]);
        assert_eq!(taken(&mut lines, "d"), Vec::<String>::new());
        assert_eq!(taken(&mut lines, "e\n"), ["cde"]);
        assert_eq!(taken(&mut lines, "\n"), Vec::<String>::new());
    }

    #[test]
    fn a_line_past_the_limit_is_refused_whether_ended_or_not() {
        assert_eq!(LineAssembler::new(3).push(b"abcd", |_| ()), Err(LineTooLong { limit: 3 }));
        assert_eq!(LineAssembler::new(3).push(b"abcd\n", |_| ()), Err(LineTooLong { limit: 3 }));
        assert_eq!(LineAssembler::new(3).push(b"abc\nabc\n", |_| ()), Ok(()));
        let mut lines = LineAssembler::new(3);
        lines.push(b"ab", |_| ()).unwrap();
        assert!(lines.push(b"cd\n", |_| ()).is_err());
    }

    #[test]
    fn long_lines_are_cut_at_character_boundaries() {
        let line = "aé😀".repeat(10);
        let cut: Vec<&str> = in_messages(&line, 5).collect();
        assert!(cut.iter().all(|message| message.len() <= 5 && !message.is_empty()));
        assert_eq!(cut.concat(), line);
    }
}
