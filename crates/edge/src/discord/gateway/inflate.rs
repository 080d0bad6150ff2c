//! Decompression of the gateway's stream: one zlib context per connection, with a limit for each message.

use flate2::{Decompress, FlushDecompress, Status};

/// Largest message that is read, in bytes after decompression.
pub(super) const LARGEST_MESSAGE: usize = 8 << 20;
/// Largest message that is skipped, in bytes after decompression. It is decompressed all the same, because the messages
/// after it refer to it. A still larger one ends the stream.
const LARGEST_SKIPPED: usize = 64 << 20;
/// Largest message in bytes before decompression.
const LARGEST_COMPRESSED: usize = 16 << 20;
/// The bytes at which a compressed message ends.
const END: [u8; 4] = [0x00, 0x00, 0xff, 0xff];
const PIECE: usize = 32 << 10;

/// The stream cannot be read any further: it is malformed, or a message is too large even to be skipped.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BrokenStream;

/// The state of the stream after a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InflatedFrame {
    /// The message goes on in the next frame.
    Part,
    Message(Vec<u8>),
    /// The message was too large and is discarded. The stream goes on.
    TooLarge,
}

pub(super) struct Inflater {
    context: Decompress,
    /// The current message so far. Empty once it is too large.
    message: Vec<u8>,
    /// Size of the current message, compressed and not.
    compressed: usize,
    inflated: usize,
    /// The last bytes of the current message, compressed.
    tail: [u8; END.len()],
}

impl Inflater {
    pub fn new() -> Self {
        Self {
            context: Decompress::new(true),
            message: Vec::new(),
            compressed: 0,
            inflated: 0,
            tail: [0xff; END.len()],
        }
    }

    /// Adds the bytes of one frame.
    pub fn push(&mut self, frame: &[u8]) -> Result<InflatedFrame, BrokenStream> {
        self.compressed += frame.len();
        if self.compressed > LARGEST_COMPRESSED {
            return Err(BrokenStream);
        }
        self.inflate(frame)?;
        for byte in &frame[frame.len().saturating_sub(END.len())..] {
            self.tail.rotate_left(1);
            self.tail[END.len() - 1] = *byte;
        }
        if self.tail != END {
            return Ok(InflatedFrame::Part);
        }
        let (message, inflated) = (std::mem::take(&mut self.message), self.inflated);
        (self.compressed, self.inflated, self.tail) = (0, 0, [0xff; END.len()]);
        Ok(match inflated > LARGEST_MESSAGE {
            true => InflatedFrame::TooLarge,
            false => InflatedFrame::Message(message),
        })
    }

    fn inflate(&mut self, compressed: &[u8]) -> Result<(), BrokenStream> {
        let mut rest = compressed;
        let mut piece = Vec::with_capacity(PIECE);
        loop {
            piece.clear();
            let before = self.context.total_in();
            let status = self
                .context
                .decompress_vec(rest, &mut piece, FlushDecompress::Sync)
                .map_err(|_| BrokenStream)?;
            let read = (self.context.total_in() - before) as usize;
            rest = &rest[read..];
            self.inflated += piece.len();
            if self.inflated > LARGEST_SKIPPED || status == Status::StreamEnd {
                return Err(BrokenStream);
            }
            match self.inflated > LARGEST_MESSAGE {
                true => self.message = Vec::new(),
                false => self.message.extend_from_slice(&piece),
            }
            // If the buffer is not full, the context holds no further output.
            if rest.is_empty() && piece.len() < piece.capacity() {
                return Ok(());
            }
            if read == 0 && piece.is_empty() {
                return Err(BrokenStream);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compress, Compression, FlushCompress};

    use super::*;

    fn compressed(context: &mut Compress, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + 1024);
        context.compress_vec(text, &mut out, FlushCompress::Sync).unwrap();
        assert!(out.ends_with(&END));
        out
    }

    fn read(receiver: &mut Inflater, frame: &[u8]) -> Vec<u8> {
        match receiver.push(frame) {
            Ok(InflatedFrame::Message(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_share_one_context_and_may_come_in_pieces() {
        let (mut sender, mut receiver) = (Compress::new(Compression::default(), true), Inflater::new());
        for text in ["{\"op\":10}", "{\"op\":11}", "{\"op\":10}"] {
            let frame = compressed(&mut sender, text.as_bytes());
            // Also the bytes that mark the end may be in two frames.
            let (first, second) = frame.split_at(frame.len() - 2);
            assert_eq!(receiver.push(first), Ok(InflatedFrame::Part));
            assert_eq!(read(&mut receiver, second), text.as_bytes());
        }
        let long = "word ".repeat(100_000);
        let frame = compressed(&mut sender, long.as_bytes());
        assert_eq!(read(&mut receiver, &frame), long.as_bytes());
    }

    #[test]
    fn a_message_that_is_too_large_is_skipped_and_the_next_one_is_read() {
        let (mut sender, mut receiver) = (Compress::new(Compression::fast(), true), Inflater::new());
        let before = compressed(&mut sender, b"{\"op\":10}");
        assert_eq!(read(&mut receiver, &before), b"{\"op\":10}");
        let large = compressed(&mut sender, &vec![b'0'; LARGEST_MESSAGE + 1]);
        assert_eq!(receiver.push(&large), Ok(InflatedFrame::TooLarge));
        let after = compressed(&mut sender, b"{\"op\":10}");
        assert_eq!(read(&mut receiver, &after), b"{\"op\":10}");
    }

    #[test]
    fn a_bomb_ends_the_stream_and_never_fills_the_memory() {
        let mut sender = Compress::new(Compression::fast(), true);
        let bomb = compressed(&mut sender, &vec![b'0'; LARGEST_SKIPPED + 1]);
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        let mut receiver = Inflater::new();
        assert_eq!(receiver.push(&bomb), Err(BrokenStream));
        assert!(receiver.message.capacity() <= 2 * LARGEST_MESSAGE, "{}", receiver.message.capacity());
    }

    #[test]
    fn a_message_of_the_largest_size_is_read() {
        let mut sender = Compress::new(Compression::best(), true);
        let text = vec![b'0'; LARGEST_MESSAGE];
        let frame = compressed(&mut sender, &text);
        assert_eq!(read(&mut Inflater::new(), &frame).len(), LARGEST_MESSAGE);
    }

    #[test]
    fn noise_and_endless_messages_end_the_stream() {
        assert_eq!(Inflater::new().push(b"noise\x00\x00\xff\xff"), Err(BrokenStream));
        // Blocks without content, so that only the compressed size grows. No frame ends with the bytes of the end.
        let mut receiver = Inflater::new();
        assert_eq!(receiver.push(&[0x78, 0x01, 0x00]), Ok(InflatedFrame::Part));
        let frame = [0x00, 0x00, 0xff, 0xff, 0x00].repeat(1 << 18);
        assert_eq!(receiver.push(&frame), Ok(InflatedFrame::Part));
        assert!((0..64).any(|_| receiver.push(&frame) == Err(BrokenStream)));
        assert!(receiver.compressed > LARGEST_COMPRESSED, "the size ended it");
    }
}
